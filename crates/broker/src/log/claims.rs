//! Claims to what consumers hold, which come to a node that begins to lead a log, before it hands out anything.
//!
//! Every other node is called, and says what its connections hold. One that says nothing for long is not waited for: what is
//! held there is ready, and what it claims later it gets as far as nobody else has it.

use super::guests::Guests;
use crate::limits::Limits;
use crate::post::Post;
use crate::word::Claim;
use base::Now;
use base::id::NodeNo;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// When others are waited for no longer, monotonic nanoseconds; none: nobody is waited for.
    until: Option<u64>,
    /// When they are called again, monotonic nanoseconds.
    call_at: u64,
    /// The connections as they are known here.
    list: Vec<Claim>,
}

impl Claims {
    /// A node begins to lead.
    pub(crate) fn begin(&mut self, now: Now, limits: &Limits) {
        self.list.clear();
        (self.until, self.call_at) = (Some(now.after_ms(limits.claims_ms_max)), now.mono_ns);
    }

    /// It leads no more, or takes up what it was told.
    pub(crate) fn end(&mut self) -> Vec<Claim> {
        self.until = None;
        std::mem::take(&mut self.list)
    }

    /// Others are waited for.
    pub(crate) fn waits(&self, now: Now, guests: &Guests, others: &[NodeNo]) -> bool {
        let is_in_time = self.until.is_some_and(|until| now.mono_ns < until);
        is_in_time && !others.iter().all(|node| guests.has_claimed(*node))
    }

    /// Somebody claims something before anything is handed out.
    pub(crate) fn add(&mut self, claim: Claim) {
        self.list.push(claim);
    }

    /// Calls those that have said nothing.
    pub(crate) fn call(
        &mut self,
        now: Now,
        guests: &Guests,
        others: &[NodeNo],
        limits: &Limits,
        post: &mut Post,
    ) {
        if self.until.is_some() && now.mono_ns >= self.call_at {
            self.call_at = now.after_ms(limits.visit_again_ms / 2);
            guests.call(others, post);
        }
    }

    /// When there is something to be done though nothing comes, monotonic nanoseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.until.map(|until| until.min(self.call_at))
    }
}

/// Those of active consumers come first, so that these are active again; else in the order of queues and connections.
pub(crate) fn sort(claims: &mut [Claim]) {
    claims.sort_by_key(|claim| (claim.queue, !claim.is_active, claim.port, claim.handle));
}
