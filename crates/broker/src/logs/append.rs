//! A message goes into a log: into the shard's own at once, into another shard's by mail.
//!
//! Most messages go the short way, see [`crate::Shard::publish`]: a log of the shard's own takes them as they are. The long way is
//! for those that are delayed, that have keys nobody is to see or keys a queue goes by, or that a queue may refuse.
//! A record is written apart, before it goes into a log, where its message has keys that nobody is to see (BCC), which the message
//! takes along for when it dies, and where a queue is asked for it first.

use super::Logs;
use crate::catalog::Refusal;
use crate::log::Brings;
use crate::mail::{Mail, Waiter, wait};
use crate::placed::stream::{Messages, NewMessages};
use crate::post::Post;
use crate::publisher::{Addressed, Due};
use base::id::{LogId, PortId, QueueId};
use base::{Buffer, Now};
use message::record::{NewAppend, NewEnqueue, flag};

impl Logs {
    /// Appends a message to its log, delayed where its target says so; queues that may refuse it are asked.
    #[inline(never)]
    pub(crate) fn append(&mut self, now: Now, post: &mut Post, addressed: &Addressed<'_>) {
        let Addressed { message, target, .. } = *addressed;
        let Some(due_at_ms) = addressed.due_at_ms(now) else {
            return self.append_as_it_is(now, post, addressed);
        };
        let head = match target.due {
            Due::After(delay_ms) => message::delay::taken(message.format, message.head, delay_ms),
            _ => None,
        };
        let pieces = [head.as_deref().unwrap_or_default()];
        let later_ms = due_at_ms - message.received_at_ms;
        let delayed = NewEnqueue {
            flags: message.flags | flag::DELAYED,
            due_at_ms: message.due_at(due_at_ms),
            expires_at_ms: match message.expires_at_ms {
                0 => 0,
                expires_at_ms => expires_at_ms.saturating_add(later_ms),
            },
            head: if head.is_some() { &pieces } else { message.head },
            ..*message
        };
        self.append_as_it_is(now, post, &Addressed { message: &delayed, ..*addressed });
    }

    fn append_as_it_is(&mut self, now: Now, post: &mut Post, addressed: &Addressed<'_>) {
        let keys = addressed
            .target
            .key_rule
            .as_ref()
            .and_then(|rule| rule.keys(addressed.message, &mut self.ranking));
        let message = &NewEnqueue { keys: keys.as_ref(), ..*addressed.message };
        let addressed = &Addressed { message, ..*addressed };
        let Addressed { hidden, target, waiter, needs_flush, .. } = *addressed;
        match target.slot {
            _ if target.asks || !hidden.is_empty() => self.append_apart(now, post, addressed),
            Some(slot) => {
                let sizes = message.sizes();
                let len = message.record_len_of(sizes, target.queues.len()).expect("asked record_len before");
                let measured = (message, (sizes, len));
                let log = &mut self.all[slot as usize];
                log.commons.append_message(now, measured, &target.queues, waiter, needs_flush);
            }
            None => post.add_records(target.log, needs_flush, |records, waiters| {
                message.write(&target.queues, records);
                if let Some(waiter) = waiter {
                    wait(waiters, Waiter::one(waiter));
                }
            }),
        }
    }

    /// Appends a message with its hidden keys, if any; queues that may refuse it are asked.
    #[cold]
    #[inline(never)]
    fn append_apart(&mut self, now: Now, post: &mut Post, addressed: &Addressed<'_>) {
        let Addressed { message, hidden, target, waiter, needs_flush } = *addressed;
        let (from, log) = (post.me(), target.log);
        let mut record = Buffer::default();
        match hidden {
            [] => message.write(&target.queues, &mut record),
            keys => message.write_hiding(keys, &target.queues, &mut record),
        }
        let waiter = waiter.map(Waiter::one);
        match target.slot {
            Some(_) if target.asks => return self.admit((now, post), log, record, waiter, needs_flush),
            Some(slot) => {
                let log = &mut self.all[slot as usize];
                return log.commons.append_records(now, record.bytes(), waiter.as_slice(), needs_flush);
            }
            None => {}
        }
        let bytes = record.len();
        let mail = if target.asks {
            Mail::Ask { from, log, record, waiter, needs_flush }
        } else {
            Mail::Append { from, log, records: record, waiters: waiter.into_iter().collect(), needs_flush }
        };
        post.send_record(log, bytes, mail);
    }

    /// Appends messages of the stream protocol's publishers: see [`crate::Shard::append`].
    ///
    /// # Errors
    /// The log is stopped.
    pub(crate) fn append_to_stream<'a>(
        &mut self,
        (now, post): (Now, &mut Post),
        port: PortId,
        (log, stream): (LogId, QueueId),
        new: NewMessages<'a, impl Messages<'a>>,
    ) -> Result<(), Refusal> {
        if self.is_stopped(log) {
            return Err(Refusal::log_stopped(log));
        }
        let NewMessages { publisher, first, reference, has_filters, messages } = new;
        let record = NewAppend { stream, at_ms: now.wall_ms, reference, has_filters };
        let waiter = |count: u32| Waiter { port, publisher, first, last: first + u64::from(count) - 1 };
        if post.whereabouts.home(log) == Some(post.me())
            && let Some(log) = self.get_mut(log)
        {
            let count = log.commons.append(now, 0, Brings::STREAM, |records| record.write(messages, records));
            if count > 0 {
                log.commons.pipeline.wait(waiter(count));
            }
            return Ok(());
        }
        post.add_records(log, true, |records, waiters| {
            let count = record.write(messages, records);
            if count > 0 {
                wait(waiters, waiter(count));
            }
        });
        Ok(())
    }
}
