//! Permissions of users on single topics: setting, clearing, asking.

use super::{
    Actor, Catalog, Change, ExchangeDefinition, Object, Plan, Reason, Refusal, TopicPermissionDefinition,
    VhostId,
};
use crate::access::{Access, TopicPermissions, topic_refused};
use routing::Kind;
use std::sync::Arc;

impl Catalog {
    /// Sets what `user` may publish to and bind from an exchange, by patterns over keys.
    ///
    /// # Errors
    /// No administrator; no such user, virtual host or exchange; no patterns.
    pub(super) fn set_topic_permissions(
        &self,
        by: &Actor,
        user: &str,
        vhost: &str,
        exchange: &str,
        [write, read]: [&str; 2],
    ) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        let user = self.known_user(user)?.name.clone();
        TopicPermissions::new(write, read, &user, vhost).map_err(|bad| {
            let text = format!("regular expression '{}' is invalid: {}", bad.pattern, bad.why);
            Refusal::precondition(Reason::Invalid(Object::Permission), text)
        })?;
        let vhost = self.known_vhost(vhost)?;
        if self.exchange(vhost, exchange.as_bytes()).is_none() {
            return Err(Refusal::not_found(Object::Exchange, format!("Exchange {exchange} does not exist")));
        }
        let (exchange, write, read) = (exchange.into(), write.into(), read.into());
        let definition = TopicPermissionDefinition { vhost, user, exchange, write, read };
        Ok(Plan::one(Change::SetTopicPermissions(Arc::new(definition))))
    }

    /// Clears them, on one exchange or on all. Where there are none there is nothing to clear.
    ///
    /// # Errors
    /// No administrator.
    pub(super) fn clear_topic_permissions(
        &self,
        by: &Actor,
        user: &str,
        vhost: &str,
        exchange: Option<&str>,
    ) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        let own = self.vhost(vhost).into_iter().flat_map(|vhost| self.topic_permissions(vhost));
        let own = own.filter(|own| *own.user == *user && exchange.is_none_or(|name| *own.exchange == *name));
        Ok(Plan { changes: own.map(cleared).collect(), ..Plan::default() })
    }

    /// The changes that go with an exchange.
    pub(super) fn clear_topic_permissions_on(&self, exchange: &ExchangeDefinition) -> Vec<Change> {
        let on = self.topic_permissions(exchange.vhost).filter(|own| own.exchange == exchange.name);
        on.map(cleared).collect()
    }

    /// The topic permissions of all users in a virtual host, by user and exchange.
    pub fn topic_permissions(&self, vhost: VhostId) -> impl Iterator<Item = &Arc<TopicPermissionDefinition>> {
        let users = self.host(vhost).into_iter().flat_map(|host| host.topic_permissions.values());
        users.flat_map(|exchanges| exchanges.values().map(|entry| &entry.definition))
    }

    /// Whether the actor may publish to (write) or bind from (read) an exchange with this key, its permissions over
    /// names aside. Exchanges of other types than topic are not asked, nor are users without topic permissions on it.
    ///
    /// # Errors
    /// Access refused.
    pub fn check_topic_access(
        &self,
        actor: &Actor,
        access: Access,
        exchange: &ExchangeDefinition,
        key: &[u8],
    ) -> Result<(), Refusal> {
        if exchange.kind != Kind::Topic || actor.is_internal {
            return Ok(());
        }
        let Some(host) = self.host(exchange.vhost) else { return Ok(()) };
        let own = host.topic_permissions.get(&actor.user).and_then(|own| own.get(&exchange.name));
        match own {
            Some(entry) if !entry.permissions.allow(access, key) => {
                Err(topic_refused(access, key, &exchange.name, &host.definition.name, &actor.user))
            }
            _ => Ok(()),
        }
    }
}

fn cleared(definition: &Arc<TopicPermissionDefinition>) -> Change {
    let TopicPermissionDefinition { vhost, user, exchange, .. } = &**definition;
    Change::ClearTopicPermissions { vhost: *vhost, user: user.clone(), exchange: exchange.clone() }
}
