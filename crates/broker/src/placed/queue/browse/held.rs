//! The messages that consumers hold, for browsers that are shown those too.
//!
//! They are found a share at a time: while a browser is shown its share nobody takes or settles anything. What the node
//! itself holds, on its way to another queue, is passed over.

use super::Browser;
use crate::placed::queue::owned::OwnedQueue;
use base::id::QueueSeq;
use std::collections::VecDeque;

/// Holders of messages that are looked through at the price of one message.
const HOLDERS_A_MESSAGE: usize = 50;

/// The next message for a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Ready(QueueSeq),
    Held(QueueSeq),
    /// The node holds it.
    Passed(QueueSeq),
    /// There may be more, and as many held ones were found as were looked for.
    Later,
    /// Nothing is left.
    None,
}

/// Held messages from a browser's position on, lowest first, and whether the node holds each.
#[derive(Debug, Default)]
pub(super) struct Held {
    list: VecDeque<(QueueSeq, bool)>,
    /// There may be others behind the last one.
    is_cut: bool,
    /// Messages that finding them costs as much as.
    pub(super) price: u32,
}

impl Held {
    /// Up to `count_max` of them; none for a browser that is not shown any.
    #[inline]
    pub(super) fn of(queue: &OwnedQueue, browser: &Browser, count_max: u32) -> Held {
        if browser.held { Held::find(queue, browser, count_max) } else { Held::default() }
    }

    #[cold]
    fn find(queue: &OwnedQueue, browser: &Browser, count_max: u32) -> Held {
        let found = queue.fifo.held_list(browser.next, count_max as usize);
        let is_cut = found.len() == count_max as usize;
        let list = found.into_iter().map(|held| (held.seq, queue.is_own(held.consumer))).collect();
        let price = (queue.fifo.slots() / HOLDERS_A_MESSAGE) as u32;
        Held { list, is_cut, price }
    }

    /// The next message from `from` on, the next ready one being `ready`.
    #[inline]
    pub(super) fn next(&mut self, from: QueueSeq, ready: Option<QueueSeq>) -> Next {
        while self.list.pop_front_if(|(seq, _)| *seq < from).is_some() {}
        match (self.list.front(), ready) {
            (Some((held, is_own)), ready) if ready.is_none_or(|ready| *held < ready) => {
                if *is_own {
                    Next::Passed(*held)
                } else {
                    Next::Held(*held)
                }
            }
            (None, _) if self.is_cut => Next::Later,
            (_, Some(ready)) => Next::Ready(ready),
            (_, None) => Next::None,
        }
    }
}

impl OwnedQueue {
    /// The position behind the last message that a consumer holds; 0: none does.
    pub(crate) fn held_end(&self) -> u64 {
        self.fifo.last_held(|id| !self.is_own(id)).map_or(0, |last| last.0 + 1)
    }
}
