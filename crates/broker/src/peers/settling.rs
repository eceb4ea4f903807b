//! Answers to wishes whose outcomes are known, until the nodes have applied what they rest on.
//!
//! A client that is told that a queue is there uses it at any node: so all nodes that live have it first, or have had time
//! to. One that is told that something is not there is told so by a catalog that is no older than its question.

use super::{Peer, Wished};
use crate::catalog::Refusal;
use crate::limits::Limits;
use crate::request::Reply;
use base::Now;
use base::id::{LogIndex, PortId, QueueId};
use base::time::NS_PER_MS;

/// The content of such an answer.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Reply(Result<Reply, Refusal>),
    /// The queue was there. Where it is not any more, it is asked for again.
    There(QueueId, Box<Wished>),
}

impl Content {
    /// Others are to have seen what it rests on.
    fn is_for_all(&self) -> bool {
        !matches!(self, Content::Reply(Err(_)))
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Settling {
    /// Everything before this is to be applied.
    pub(crate) at: LogIndex,
    /// The connection and the token of the answer.
    pub(crate) to: (PortId, u32),
    pub(crate) content: Content,
    /// When its outcome was known here, monotonic nanoseconds.
    pub(crate) since: u64,
    /// When others were asked for it last.
    pub(crate) asked: Option<u64>,
}

impl Settling {
    /// It is to be given now, as this node has applied everything before `seen`, and the others what they say. Those that had
    /// time and did not say so are silent.
    pub(crate) fn is_due(&self, now: Now, seen: LogIndex, others: &mut [Peer], limits: &Limits) -> bool {
        if seen < self.at {
            return false;
        }
        let has_seen = |peer: &Peer| peer.is_silent || peer.seen >= self.at;
        if !self.content.is_for_all() || others.iter().all(has_seen) {
            return true;
        }
        let is_over = self.since + limits.seen_wait_ms_max * NS_PER_MS <= now.mono_ns;
        if is_over {
            others.iter_mut().filter(|peer| !has_seen(peer)).for_each(|peer| peer.is_silent = true);
        }
        is_over
    }

    /// Others are to be asked for what they have seen.
    pub(crate) fn asks(&mut self, now: Now, limits: &Limits) -> bool {
        let again_ns = limits.wish_again_ms * NS_PER_MS;
        let asks =
            self.content.is_for_all() && self.asked.is_none_or(|asked| asked + again_ns <= now.mono_ns);
        if asks {
            self.asked = Some(now.mono_ns);
        }
        asks
    }

    /// When something is to be done about it though nothing comes.
    pub(crate) fn deadline(&self, limits: &Limits) -> u64 {
        let again = self.asked.unwrap_or(self.since) + limits.wish_again_ms * NS_PER_MS;
        again.min(self.since + limits.seen_wait_ms_max * NS_PER_MS).max(self.since + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Object;
    use base::id::NodeNo;

    #[test]
    fn an_answer_waits_for_the_nodes_that_live() {
        let limits = Limits { seen_wait_ms_max: 500, ..Limits::default() };
        let check = |content: &Content, (ms, seen): (u64, u64), others: &str, expected: (bool, &str)| {
            let settling = Settling {
                at: LogIndex(8),
                to: (PortId::default(), 1),
                content: content.clone(),
                since: NS_PER_MS,
                asked: None,
            };
            let peer = |letter| {
                let seen = LogIndex(if letter == 's' { 8 } else { 7 });
                Peer { seen, is_silent: letter == '-', ..Peer::new(NodeNo(2)) }
            };
            let mut peers: Vec<Peer> = others.chars().map(peer).collect();
            let is_due = settling.is_due(Now::at_ms(1 + ms), LogIndex(seen), &mut peers, &limits);
            let silent: String = peers.iter().map(|peer| if peer.is_silent { '-' } else { '+' }).collect();
            assert_eq!((is_due, &*silent), expected, "{content:?} {ms} {seen} {others}");
        };
        let yes = Content::Reply(Ok(Reply::Done));
        let no = Content::Reply(Err(Refusal::missing(Object::Queue, "q", "/")));
        check(&yes, (0, 8), "ss", (true, "++"));
        check(&yes, (0, 8), "sn", (false, "++"));
        check(&yes, (499, 8), "sn", (false, "++"));
        check(&yes, (500, 8), "sn", (true, "+-"));
        check(&yes, (0, 8), "s-", (true, "+-"));
        check(&yes, (0, 8), "n-", (false, "+-"));
        // Its own copy comes first.
        check(&yes, (500, 7), "ss", (false, "++"));
        check(&no, (0, 8), "nn", (true, "++"));
        check(&no, (500, 7), "ss", (false, "++"));
    }
}
