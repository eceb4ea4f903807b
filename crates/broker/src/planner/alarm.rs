//! The memory alarm: while it holds, what clients ask for is refused where it would be kept.
//!
//! Publishers are blocked meanwhile, but bindings, queues and exchanges take memory too, and an ordinary user can make
//! any number. What is there already may be declared again, and what gives memory back goes on. An administrator who uses
//! the tools is not refused: that may be what ends the alarm.

use super::Planner;
use crate::catalog::{Actor, Change, Reason, Refusal};
use crate::limits::Limits;
use base::id::PortId;

/// The refusal of something that would be kept.
#[cold]
pub(crate) fn low_on_memory(what: &str) -> Refusal {
    let text = format!(
        "no memory for {what} while the memory alarm holds: consume, purge or delete, or ask again once it is over \
         (leveret.alarm_refuses_growth)"
    );
    Refusal::precondition(Reason::NoMemory, text)
}

/// Whether it is a connection's, and not the node's own, by which the tools ask.
pub(crate) fn is_client(port: PortId) -> bool {
    port.slot != u32::MAX
}

impl Planner {
    /// Whether the memory alarm holds.
    pub(crate) fn set_low_on_memory(&mut self, is_low: bool) {
        self.is_low_on_memory = is_low;
    }

    /// Refuses changes by which something new is kept while the memory alarm holds.
    pub(super) fn check_memory(
        &self,
        actor: &Actor,
        changes: &[Change],
        limits: &Limits,
    ) -> Result<(), Refusal> {
        if !self.is_low_on_memory || !limits.alarm_refuses_growth || self.is_administration(actor) {
            return Ok(());
        }
        changes
            .iter()
            .find_map(|change| self.kept_anew(change))
            .map_or(Ok(()), |what| Err(low_on_memory(what)))
    }

    /// The node itself, or an administrator over HTTP or the administration socket.
    fn is_administration(&self, actor: &Actor) -> bool {
        let is_administrator =
            || self.catalog.user(&actor.user).is_some_and(|user| user.has_tag("administrator"));
        actor.is_internal || ((actor.is_tool || !is_client(actor.port)) && is_administrator())
    }

    /// The thing that a change makes, where there is none yet.
    fn kept_anew(&self, change: &Change) -> Option<&'static str> {
        match change {
            Change::AddVhost(_) => Some("a new virtual host"),
            Change::AddExchange(_) => Some("a new exchange"),
            Change::AddQueue(_) => Some("a new queue"),
            Change::Bind(_) => Some("a new binding"),
            Change::SetUser(user) if self.catalog.user(&user.name).is_none() => Some("a new user"),
            Change::SetPolicy(policy) => {
                let mut there = self.catalog.policies(policy.vhost, policy.kind);
                there.all(|other| other.name != policy.name).then_some("a new policy")
            }
            Change::SetVhostParameter { value: Some(_), .. } => Some("a new parameter"),
            _ => None,
        }
    }
}
