//! The node as a publisher: what it publishes by itself, without asking for permissions, and the parts of a shard that this takes.
//!
//! Dead letters, announcements, what the firehose tells and what exchanges remember go through here. Not here: what clients publish
//! ([`crate::Shard::publish`]), which routes by what it remembers.

use super::Addressed;
use super::route::View;
use crate::catalog::Catalog;
use crate::logs::Logs;
use crate::post::Post;
use crate::shard::ShardSettings;
use crate::tally::Tallies;
use base::Now;
use message::record::{Format, NewEnqueue};
use routing::Matches;

/// See the module's head.
pub(crate) struct OwnPublisher<'a> {
    pub(crate) now: Now,
    pub(crate) settings: &'a ShardSettings,
    pub(crate) catalog: &'a Catalog,
    pub(crate) logs: &'a mut Logs,
    pub(crate) post: &'a mut Post,
    pub(crate) tallies: &'a mut Tallies,
}

impl OwnPublisher<'_> {
    /// The parts that routing looks at; `message`: as in [`View`].
    pub(crate) fn view(&self, message: (u32, u64)) -> View<'_> {
        View::of(
            self.settings,
            self.catalog,
            (&self.post.whereabouts, self.logs.slots()),
            message,
            self.now.wall_ms,
        )
    }

    /// A transient AMQP 0-9-1 message of the node's: received now, without priority, expiry or keys.
    pub(crate) fn message<'m>(
        &self,
        (exchange, routing_key): (&'m [u8], &'m [u8]),
        head: &'m [&'m [u8]],
        body: &'m [&'m [u8]],
    ) -> NewEnqueue<'m> {
        NewEnqueue {
            flags: 0,
            format: Format::Amqp091,
            priority: 0,
            received_at_ms: self.now.wall_ms,
            expires_at_ms: 0,
            due_at_ms: 0,
            keys: None,
            exchange,
            routing_key,
            head,
            body,
        }
    }

    /// Publishes a message to where `matches` leads; nobody waits for it. One that takes too many steps goes nowhere, and the
    /// log says so.
    #[cold]
    pub(crate) fn publish(&mut self, message: &NewEnqueue<'_>, matches: &Matches) {
        if matches.is_too_dear() {
            self.tallies.too_dear += 1;
            return self.post.notices.note_own_too_dear(self.now, message.exchange, matches.steps_max());
        }
        for target in &self.view((0, 0)).targets_now(matches) {
            if !self.logs.is_stopped(target.log) && message.record_len(target.queues.len()).is_some() {
                self.append(&Addressed::new(message, &[], target, None));
            }
        }
        // Nobody owes it.
        self.logs.ranking.take_units();
    }

    /// Appends a message to its log.
    pub(crate) fn append(&mut self, addressed: &Addressed<'_>) {
        self.logs.append(self.now, self.post, addressed);
    }
}
