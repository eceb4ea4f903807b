//! Rules of browsing: a browser is shown the messages of the queue, in the order in which they came, each once; and all
//! of them, where nobody takes any of them meanwhile.

use super::{Check, Copy, Oracle, Presence, Stage, Stream};
use crate::client::{Delivery, read_body};
use std::collections::{BTreeMap, BTreeSet};

/// A consumer that browses.
#[derive(Clone, Debug)]
pub(super) struct Browser {
    queue: usize,
    /// Nobody has taken, or could have, since it began.
    is_alone: bool,
    seen: BTreeSet<u64>,
    /// The last message of each publisher.
    last: BTreeMap<Stream, u64>,
}

impl Oracle {
    /// Somebody is to be given messages of this queue, and may lose them or give them back without having said so.
    pub fn taking(&mut self, client: u64, queue: usize) {
        self.queues[queue].takers.insert(client);
        let browsers = self.browsers.values_mut().filter(|browser| browser.queue == queue);
        browsers.for_each(|browser| browser.is_alone = false);
    }

    /// Somebody begins to browse.
    pub fn browsing(&mut self, client: u64, handle: u32, queue: usize) {
        let is_alone = self.queues[queue].takers.is_empty();
        let browser = Browser { queue, is_alone, seen: BTreeSet::new(), last: BTreeMap::new() };
        self.browsers.insert((client, handle), browser);
    }

    /// A consumer is cancelled, by either end, which perhaps browses.
    pub fn browsing_ended(&mut self, client: u64, handle: u32) {
        self.browsers.remove(&(client, handle));
    }

    /// A browser was shown a message: its number.
    pub fn shown(&mut self, client: u64, delivery: &Delivery) -> Result<u64, String> {
        let number = delivery.queue;
        let Some((id, len)) = read_body(&delivery.body) else {
            return Err(format!("queue {number}: a browser is shown a body nobody sent"));
        };
        let what = format!("message {id} from queue {number}");
        let message = self.messages.get(id as usize).filter(|message| message.len == len);
        let message = message.ok_or_else(|| format!("{what}, of {len} bytes, was never published"))?;
        let copy =
            self.queues[number].copies.get(&id).ok_or_else(|| format!("{what} was never sent there"))?;
        if self.is_damaged(number) || copy.is_letter {
            return Ok(id);
        }
        if copy.presence == Presence::Gone {
            return Err(format!("{what} is shown after its end"));
        }
        if let Some(early_ms) = copy.is_early(message.due, self.now_ms) {
            return Err(format!("{what} is shown {early_ms} ms too early"));
        }
        let is_delayed = message.due.is_some() || copy.postponed_ms.is_some();
        // A browser is shown messages in the order of the queue, also where they are in groups.
        let stream = (message.publisher, message.priority, None);
        // A browser that was cancelled may be shown messages that were under way.
        let key = (client, delivery.consumer.unwrap_or_default());
        let Some(browser) = self.browsers.get_mut(&key) else { return Ok(id) };
        if !browser.seen.insert(id) {
            return Err(format!("{what} is shown twice to connection {client}"));
        }
        if is_delayed {
            return Ok(id);
        }
        match browser.last.insert(stream, id) {
            Some(before) if before > id => {
                Err(format!("{what} is shown after {before} of the same publisher"))
            }
            _ => Ok(id),
        }
    }

    /// At rest every browser has been shown what is there, where nobody has taken anything.
    pub fn check_browsers(&self) -> Check {
        for ((client, handle), browser) in self.browsers.iter().filter(|(_, browser)| browser.is_alone) {
            let queue = &self.queues[browser.queue];
            if queue.stage != Stage::There || queue.rules.grave.is_some() || self.is_damaged(browser.queue) {
                continue;
            }
            let is_plain = |(id, copy): &(&u64, &Copy)| {
                copy.presence == Presence::Must
                    && !copy.is_letter
                    && copy.postponed_ms.is_none()
                    && self.messages[**id as usize].due.is_none()
                    && copy.due_at_ms.is_none_or(|at| at > self.now_ms)
            };
            let mut missing =
                queue.copies.iter().filter(is_plain).filter(|(id, _)| !browser.seen.contains(id));
            if let Some((id, _)) = missing.next() {
                return Err(format!(
                    "message {id} from queue {} was not shown to consumer {handle} of connection {client}",
                    browser.queue
                ));
            }
        }
        Ok(())
    }
}
