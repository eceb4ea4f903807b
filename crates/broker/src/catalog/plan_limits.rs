//! Limits of virtual hosts and users: asking, setting, clearing.

use super::{Actor, Catalog, Change, Object, Plan, Reason, Refusal, UserLimits, VhostId, VhostLimits};
use std::sync::Arc;

impl Catalog {
    /// The limits of a virtual host.
    pub fn vhost_limits(&self, vhost: VhostId) -> VhostLimits {
        self.vhost_limits.get(&vhost).copied().unwrap_or_default()
    }

    /// The limits of a user.
    pub fn user_limits(&self, user: &str) -> UserLimits {
        self.user_limits.get(user).copied().unwrap_or_default()
    }

    pub(super) fn set_vhost_limits(
        &self,
        by: &Actor,
        vhost: &str,
        limits: VhostLimits,
    ) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        let vhost = self.known_vhost(vhost)?;
        Ok(Plan::one(Change::SetVhostLimits { vhost, limits }))
    }

    pub(super) fn set_user_limits(
        &self,
        by: &Actor,
        user: &str,
        limits: UserLimits,
    ) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        let user = self.known_user(user)?.name.clone();
        Ok(Plan::one(Change::SetUserLimits { user, limits }))
    }

    pub(super) fn apply_vhost_limits(&mut self, vhost: VhostId, limits: VhostLimits) {
        if limits == VhostLimits::default() || self.vhost_definition(vhost).is_none() {
            self.vhost_limits.remove(&vhost);
        } else {
            self.vhost_limits.insert(vhost, limits);
        }
    }

    pub(super) fn apply_user_limits(&mut self, user: &Arc<str>, limits: UserLimits) {
        if limits == UserLimits::default() || self.user(user).is_none() {
            self.user_limits.remove(user);
        } else {
            self.user_limits.insert(user.clone(), limits);
        }
    }

    /// Whether the virtual host may have one queue more, `name`, beside so many that come with it.
    pub(super) fn check_queue_limit(&self, vhost: VhostId, name: &str, beside: usize) -> Result<(), Refusal> {
        let Some(most) = self.vhost_limits(vhost).queues_max else { return Ok(()) };
        if self.vhost_queue_count(vhost) + beside < most as usize {
            return Ok(());
        }
        let vhost = self.vhost_name(vhost);
        Err(Refusal::precondition(
            Reason::LimitReached(Object::Queue),
            format!("cannot declare queue '{name}': queue limit in vhost '{vhost}' ({most}) is reached"),
        ))
    }
}
