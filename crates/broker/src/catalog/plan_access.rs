//! Virtual hosts, users and permissions; and what a new node begins with.

use super::plan::check_length;
use super::plan_exchange::event_exchange;
use super::plan_policy::default_policy;
use super::removal::Removal;
use super::{
    Actor, Catalog, Change, DefaultUser, Object, Op, PermissionDefinition, Plan, Reason, Refusal,
    UserDefinition, VhostAbout, VhostDefaults, VhostDefinition, VhostId, VhostLimits,
};
use crate::access::{PasswordHash, Permissions};
use std::sync::Arc;

impl Catalog {
    /// Checks that the actor is the broker itself or an administrator.
    pub(super) fn check_administrator(&self, by: &Actor) -> Result<(), Refusal> {
        let is_administrator = || self.user(&by.user).is_some_and(|user| user.has_tag("administrator"));
        if by.is_internal || is_administrator() {
            return Ok(());
        }
        Err(Refusal::access(Reason::Role, format!("user '{}' is not an administrator", by.user)))
    }

    pub(super) fn known_user(&self, name: &str) -> Result<&Arc<UserDefinition>, Refusal> {
        self.user(name).ok_or_else(|| Refusal::not_found(Object::User, format!("no user '{name}'")))
    }

    pub(super) fn known_vhost(&self, name: &str) -> Result<VhostId, Refusal> {
        self.vhost(name).ok_or_else(|| Refusal::not_found(Object::VirtualHost, format!("no vhost '{name}'")))
    }

    pub(super) fn new_vhost(
        &self,
        by: &Actor,
        name: &str,
        defaults: &VhostDefaults,
    ) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        check_length("virtual host name", name)?;
        if name.is_empty() {
            return Err(Refusal::precondition(
                Reason::Invalid(Object::VirtualHost),
                "a virtual host needs a name",
            ));
        }
        if self.vhost(name).is_some() {
            return Ok(Plan::nothing());
        }
        let id = VhostId(self.next_vhost);
        let VhostDefaults { queue_type, limits, operator_policies, users, about, tells_events } = defaults;
        check_about(about)?;
        let about = about.clone().boxed();
        let definition = VhostDefinition { id, name: name.into(), default_queue_type: *queue_type, about };
        let mut changes = vec![Change::AddVhost(Arc::new(definition))];
        changes.extend(self.predeclared(id));
        if *tells_events && self.event_exchange().is_none() {
            changes.push(event_exchange(id, self.exchange_after_predeclared()));
        }
        if *limits != VhostLimits::default() {
            changes.push(Change::SetVhostLimits { vhost: id, limits: *limits });
        }
        for policy in operator_policies {
            changes.push(default_policy(id, policy)?);
        }
        for user in users {
            changes.extend(self.default_user(id, user)?);
        }
        if !by.is_internal {
            // As with RabbitMQ, the user that makes a virtual host can use it.
            changes.push(permit(id, &by.user, all_permissions()));
        }
        Ok(Plan { changes, ..Plan::default() })
    }

    /// As with RabbitMQ, a user that is there already keeps password and tags, and may use the virtual host as well.
    fn default_user(&self, vhost: VhostId, user: &DefaultUser) -> Result<Vec<Change>, Refusal> {
        let DefaultUser { name, password, tags, configure, write, read } = user;
        let permissions = permissions([configure, write, read])?;
        if let Some(known) = self.user(name) {
            return Ok(vec![permit(vhost, &known.name, permissions)]);
        }
        check_length("user name", name)?;
        check_tags(tags)?;
        let name: Arc<str> = (&**name).into();
        let definition =
            UserDefinition { name: name.clone(), password: password.clone(), tags: tags.clone() };
        Ok(vec![Change::SetUser(Arc::new(definition)), permit(vhost, &name, permissions)])
    }

    pub(super) fn update_vhost(&self, by: &Actor, op: &Op) -> Result<Plan, Refusal> {
        let Op::UpdateVhost { name, description, tags, queue_type, is_protected } = op else {
            unreachable!("called for updates of virtual hosts alone");
        };
        self.check_administrator(by)?;
        let id = self.known_vhost(name)?;
        let Some(old) = self.vhost_definition(id) else { return Ok(Plan::nothing()) };
        let mut about = old.about();
        if let Some(description) = description {
            about.description = description.clone();
        }
        if let Some(tags) = tags {
            about.tags = tags.clone();
        }
        if let Some(is_protected) = is_protected {
            about.is_protected = *is_protected;
        }
        check_about(&about)?;
        let default_queue_type = queue_type.unwrap_or(old.default_queue_type);
        let new = VhostDefinition { id, name: old.name.clone(), default_queue_type, about: about.boxed() };
        if new == **old { Ok(Plan::nothing()) } else { Ok(Plan::one(Change::SetVhost(Arc::new(new)))) }
    }

    pub(super) fn remove_vhost(&self, by: &Actor, name: &str, most: usize) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        let id = self.known_vhost(name)?;
        if self.vhost_definition(id).is_some_and(|vhost| vhost.about().is_protected) {
            return Err(Refusal::precondition(Reason::Protected, PROTECTED));
        }
        let mut removal = Removal::new(self, most);
        removal.vhost(id);
        Ok(removal.finish())
    }

    pub(super) fn new_user(
        &self,
        by: &Actor,
        name: &str,
        password: &Option<PasswordHash>,
        tags: &[Box<str>],
    ) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        check_length("user name", name)?;
        if name.is_empty() {
            return Err(Refusal::precondition(Reason::Invalid(Object::User), "a user needs a name"));
        }
        if self.user(name).is_some() {
            return Err(Refusal::precondition(
                Reason::Exists(Object::User),
                format!("user '{name}' already exists"),
            ));
        }
        check_tags(tags)?;
        let (name, password, tags) = (name.into(), password.clone(), tags.to_vec());
        Ok(Plan::one(Change::SetUser(Arc::new(UserDefinition { name, password, tags }))))
    }

    pub(super) fn remove_user(&self, by: &Actor, name: &str) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        Ok(Plan::one(Change::DeleteUser(self.known_user(name)?.name.clone())))
    }

    pub(super) fn change_password(
        &self,
        by: &Actor,
        name: &str,
        password: &Option<PasswordHash>,
    ) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        let UserDefinition { name, tags, .. } = &**self.known_user(name)?;
        let (name, password, tags) = (name.clone(), password.clone(), tags.clone());
        Ok(Plan::one(Change::SetUser(Arc::new(UserDefinition { name, password, tags }))))
    }

    pub(super) fn set_tags(&self, by: &Actor, name: &str, tags: &[Box<str>]) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        check_tags(tags)?;
        let UserDefinition { name, password, .. } = &**self.known_user(name)?;
        let (name, password, tags) = (name.clone(), password.clone(), tags.to_vec());
        Ok(Plan::one(Change::SetUser(Arc::new(UserDefinition { name, password, tags }))))
    }

    /// `patterns`: configure, write, read.
    pub(super) fn set_permissions(
        &self,
        by: &Actor,
        user: &str,
        vhost: &str,
        patterns: [&str; 3],
    ) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        let vhost = self.known_vhost(vhost)?;
        let user = &self.known_user(user)?.name;
        Ok(Plan::one(permit(vhost, user, permissions(patterns)?)))
    }

    pub(super) fn clear_permissions(&self, by: &Actor, user: &str, vhost: &str) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        let vhost = self.known_vhost(vhost)?;
        let user = self.known_user(user)?.name.clone();
        Ok(Plan::one(Change::ClearPermissions { vhost, user }))
    }
}

/// Text of the refusal to delete a protected virtual host.
const PROTECTED: &str = "Cannot delete this virtual host: it is protected from deletion. To lift the protection, inspect \
                         and update its metadata";

/// Bytes of a virtual host's description.
const DESCRIPTION_BYTES_MAX: usize = 4096;

fn check_about(about: &VhostAbout) -> Result<(), Refusal> {
    if about.description.len() > DESCRIPTION_BYTES_MAX {
        return Err(Refusal::precondition(
            Reason::TooLong,
            format!("description is longer than {DESCRIPTION_BYTES_MAX} bytes"),
        ));
    }
    check_tags(&about.tags)
}

/// Tags a user or a virtual host may carry.
const TAGS_MAX: usize = 64;

fn check_tags(tags: &[Box<str>]) -> Result<(), Refusal> {
    if tags.len() > TAGS_MAX {
        return Err(Refusal::precondition(
            Reason::LimitReached(Object::Tag),
            format!("more than {TAGS_MAX} tags"),
        ));
    }
    tags.iter().try_for_each(|tag| check_length("tag", tag))
}

fn permit(vhost: VhostId, user: &Arc<str>, permissions: Permissions) -> Change {
    Change::SetPermissions(Arc::new(PermissionDefinition { vhost, user: user.clone(), permissions }))
}

fn permissions([configure, write, read]: [&str; 3]) -> Result<Permissions, Refusal> {
    Permissions::new(configure, write, read).map_err(|bad| {
        let text = format!("regular expression '{}' is invalid: {}", bad.pattern, bad.why);
        Refusal::precondition(Reason::Invalid(Object::Permission), text)
    })
}

fn all_permissions() -> Permissions {
    Permissions::new(".*", ".*", ".*").expect("this is a pattern")
}
