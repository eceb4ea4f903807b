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
    base::brief::sort_by_key(claims, |claim| (claim.queue, !claim.is_active, claim.port, claim.handle));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Placement;
    use crate::word::{LogWord, Said, Tenure};
    use base::id::{LogId, PortId, QueueId, ShardId};

    const OTHERS: [NodeNo; 2] = [NodeNo(2), NodeNo(5)];

    #[test]
    fn others_are_waited_for_until_they_have_claimed_or_the_time_is_over() {
        let limits = Limits::default();
        let begun = Now::at_ms(1_000);
        let at = |ms: u64| Now::at_ms(1_000 + ms);
        let check = |claimed: &[u16], at: Now, expected: bool| {
            let (mut claims, mut guests) = (Claims::default(), Guests::new(LogId(3)));
            let mut post = Post::new(ShardId(0), Placement { shards: 1, logs: 4 });
            assert!(!claims.waits(begun, &guests, &OTHERS), "nothing has begun");
            claims.begin(begun, &limits);
            for node in claimed.iter().map(|node| NodeNo(*node)) {
                let tenure = Tenure::default();
                let come = LogWord { log: LogId(3), life: 1, visit: 1, tenure, said: Said::Come };
                guests.hear(begun, (node, &come), (0, 0), (&limits, &mut post), &mut Vec::new());
                assert!(!guests.has_claimed(node), "it has come, and claimed nothing");
                guests.claimed(node);
            }
            assert_eq!(claims.waits(at, &guests, &OTHERS), expected, "{claimed:?}");
            claims.end();
            assert!(!claims.waits(at, &guests, &OTHERS) && claims.deadline().is_none());
        };
        check(&[], at(0), true);
        check(&[2], at(limits.claims_ms_max - 1), true);
        check(&[5, 9], at(1), true);
        check(&[5, 2], at(0), false);
        check(&[], at(limits.claims_ms_max), false);
        check(&[2], at(limits.claims_ms_max), false);
    }

    #[test]
    fn the_active_consumer_of_a_queue_comes_first() {
        let claim = |queue, handle, is_active| Claim {
            queue: QueueId(queue),
            port: PortId::here(ShardId(0), 1, 1),
            handle,
            consumer: None,
            selector: None,
            limit: None,
            delivered: 0,
            is_paused: false,
            is_active,
            held: Box::default(),
        };
        let mut claims = [claim(2, 1, false), claim(1, 2, false), claim(1, 3, true), claim(1, 1, false)];
        sort(&mut claims);
        let order: Vec<_> = claims.iter().map(|claim| (claim.queue.0, claim.handle)).collect();
        assert_eq!(order, [(1, 3), (1, 1), (1, 2), (2, 1)]);
    }
}
