//! Virtual hosts of which is told what happens to their messages.
//!
//! Asked for by an operator, known to every shard, and over with a restart, as in RabbitMQ: nothing of it is recorded.

use super::{Actor, Applied, Catalog, Change, Plan, Refusal, VhostId};

impl Catalog {
    /// Whether it is told what happens to the messages of a virtual host.
    #[inline]
    pub fn is_traced(&self, vhost: VhostId) -> bool {
        !self.traced.is_empty() && self.traced.contains(&vhost)
    }

    pub(super) fn trace(&self, by: &Actor, name: &str, on: bool) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        let vhost = self.known_vhost(name)?;
        if self.is_traced(vhost) == on {
            return Ok(Plan::nothing());
        }
        Ok(Plan::one(Change::Trace { vhost, on }))
    }

    pub(super) fn apply_trace(&mut self, vhost: VhostId, on: bool) -> Vec<Applied> {
        let has_changed = match on {
            true => self.vhosts.contains_key(&vhost) && self.traced.insert(vhost),
            false => self.traced.remove(&vhost),
        };
        if !has_changed {
            return Vec::new();
        }
        // Routes are worked out anew: those of a traced virtual host hold for one message.
        self.version += 1;
        vec![Applied::Traced(vhost)]
    }
}
