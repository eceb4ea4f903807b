//! Publishing: a message goes into the logs its route leads to, those of other shards by mail.

use super::route::{View, version};
use super::{
    Addressed, Known, More, Publish, Published, Publisher, QUEUES_FREE, Spent, add_messages, price_of_queues,
};
use crate::access::AccessCache;
use crate::catalog::Refusal;
use crate::firehose;
use crate::placed::stream::{Messages, NewMessages};
use crate::recent_history;
use crate::shard::Shard;
use crate::tally::NO_EXCHANGE;
use base::Now;
use base::id::{LogId, PortId, QueueId};
use message::record::QUEUE_BYTES;
use routing::{Envelope, ExchangeId, Matches};

impl Shard {
    /// [`Shard::publish`] for what is rare: it stays where it is, so that the one place that publishes all the time gets
    /// a copy made for it.
    ///
    /// # Errors
    /// As there.
    #[cold]
    #[inline(never)]
    pub fn publish_rare(
        &mut self,
        now: Now,
        publisher: &mut Publisher,
        publish: &Publish<'_>,
    ) -> Result<Published, Refusal> {
        self.publish(now, publisher, publish)
    }

    /// To how many queues and reply consumers [`Shard::publish`] of this message would lead now; uses up no number.
    ///
    /// # Errors
    /// Those it would have.
    pub fn would_publish(
        &self,
        now: Now,
        publisher: &mut Publisher,
        publish: &Publish<'_>,
    ) -> Result<u32, Refusal> {
        let view = self.view(now, (publisher.handle, publisher.next_seq));
        let mut spent = Spent::default();
        let found = view.route(&mut publisher.access, publish, &mut spent);
        // Its filters count when it is published.
        publisher.known.get_or_insert_default().spent.steps += spent.steps;
        let (route, _) = found?;
        if let Some(target) = route.targets.iter().find(|target| self.logs.is_stopped(target.log)) {
            return Err(Refusal::log_stopped(target.log));
        }
        if publish.record(now).record_len(route.queues_most).is_none() {
            return Err(Refusal::message_too_large());
        }
        let replies = route.replies.as_ref().map_or(0, |replies| replies.len());
        Ok(route.queues.saturating_add(u32::try_from(replies).unwrap_or(u32::MAX)))
    }

    /// Forgets the routes that a publisher remembers, which is used no more, and gives their memory back.
    pub fn forget_routes(&mut self, publisher: &mut Publisher) {
        let Some(known) = &mut publisher.known else { return };
        known.forget();
        known.count(self.ports.get_mut(publisher.port).map(|state| &mut state.holding));
    }

    /// The parts that routing looks at; `message`: the publisher, and the message's number.
    fn view(&self, now: Now, message: (u32, u64)) -> View<'_> {
        let places = (&self.post.whereabouts, self.logs.slots());
        View::of(&self.settings, &self.catalog, places, message, now.wall_ms)
    }

    /// Publishes a message. Uses up one number of the publisher's, also when it goes nowhere or is refused.
    #[inline]
    pub fn publish(
        &mut self,
        now: Now,
        publisher: &mut Publisher,
        publish: &Publish<'_>,
    ) -> Result<Published, Refusal> {
        let seq = publisher.skip();
        let Publisher { port, handle, access, known, .. } = publisher;
        let known = known.get_or_insert_default();
        let at = match known.last_route(version(&self.catalog, &self.post.whereabouts), publish) {
            Some(at) => at,
            None => {
                let found = known.route(access, &self.view(now, (*handle, seq)), publish);
                self.pace.work.spend(known.take_steps());
                // Of a refused message they count with no exchange.
                let filtered = std::mem::take(&mut known.spent.filtered);
                let mut at = found.inspect_err(|refusal| self.tallies.note_refused(refusal))?;
                if known.due() != known.counted {
                    known.count(self.ports.get_mut(*port).map(|state| &mut state.holding));
                    at = known.last;
                }
                let counted = &mut known.routes[at].counted;
                if *counted == NO_EXCHANGE {
                    *counted = self.tallies.exchange(&self.catalog, access.vhost(), publish.exchange);
                }
                if known.routes[at].holds_once {
                    // Filters are asked of messages whose routes are theirs alone.
                    if !filtered.is_empty() {
                        self.tallies.filtered(known.routes[at].counted, filtered);
                    }
                    self.pace.work.spend(price_of_queues(known.routes[at].queues));
                    return self.publish_once(now, (*port, *handle, seq), access, known, publish);
                }
                at
            }
        };
        let route = &mut known.routes[at];
        if route.queues > QUEUES_FREE {
            self.pace.work.spend(price_of_queues(route.queues));
        }
        route.messages += 1;
        let message = publish.record(now);
        let sizes = message.sizes();
        self.tallies.publish(route.counted, route.queues, publish, sizes.body);
        if route.targets.is_empty() && route.replies.is_none() {
            return Ok(Published::Unroutable);
        }
        if !self.logs.stopped.is_empty()
            && let Some(target) = route.targets.iter().find(|target| self.logs.is_stopped(target.log))
        {
            return Err(Refusal::log_stopped(target.log));
        }
        let Some(longest) = message.record_len_of(sizes, route.queues_most) else {
            return Err(Refusal::message_too_large());
        };
        let (mut waits, mut is_ranked) = (0, false);
        for target in &route.targets {
            let needs_flush = target.needs_flush(publish.durable);
            let is_waited_for = publish.confirm && (needs_flush || target.is_special);
            waits += u32::from(is_waited_for);
            let waiter = is_waited_for.then_some((*port, *handle, seq));
            match target.slot {
                Some(slot) if !target.is_long => {
                    let log = &mut self.logs.all[slot as usize];
                    let len = longest - (route.queues_most - target.queues.len()) * QUEUE_BYTES;
                    let measured = (&message, (sizes, len));
                    log.commons.append_message(now, measured, &target.queues, waiter, needs_flush);
                }
                _ => {
                    let addressed = Addressed { message: &message, hidden: &[], target, waiter, needs_flush };
                    self.logs.append(now, &mut self.post, &addressed);
                    is_ranked |= target.key_rule.is_some();
                }
            }
        }
        if is_ranked {
            self.pace.work.spend(self.logs.ranking.take_units());
        }
        if let Some(replies) = &route.replies {
            self.replies.send(&mut self.post, &message, replies);
        }
        match waits {
            0 => Ok(Published::Done),
            1 => Ok(Published::Waiting),
            _ => {
                known.split.insert(seq, waits);
                Ok(Published::Waiting)
            }
        }
    }

    /// The rest of [`Shard::publish`] where the last route was made for this message alone: it goes with it.
    #[cold]
    #[inline(never)]
    fn publish_once(
        &mut self,
        now: Now,
        waiter: (PortId, u32, u64),
        access: &AccessCache,
        known: &mut Known,
        publish: &Publish<'_>,
    ) -> Result<Published, Refusal> {
        let route = known.routes.pop().expect("the route was just made");
        add_messages(&mut known.gone, publish.exchange, 1);
        let message = publish.record(now);
        self.tallies.publish(route.counted, route.queues, publish, message.sizes().body);
        if let Some(target) = route.targets.iter().find(|target| self.logs.is_stopped(target.log)) {
            return Err(Refusal::log_stopped(target.log));
        }
        let hidden = publish.more.map_or(&[][..], More::hidden_keys);
        if message.hiding_len(route.queues_most, hidden).is_none() {
            return Err(Refusal::message_too_large());
        }
        let (_, handle, seq) = waiter;
        if route.is_remembered {
            let exchanges = self.remembering(now, (handle, seq), access, publish);
            recent_history::have_remembered(&mut self.own(now), exchanges, &message);
        }
        if route.is_traced {
            let queues = route.targets.iter().flat_map(|target| &*target.queues);
            let (mut own, ports) = self.own_and_ports(now);
            firehose::tell_publish(&mut own, ports, waiter, publish, queues);
        }
        let mut waits = 0;
        for target in &route.targets {
            let waiter = publish.confirm.then_some(waiter);
            let addressed = Addressed::new(&message, hidden, target, waiter);
            waits += u32::from(addressed.is_waited_for());
            self.logs.append(now, &mut self.post, &addressed);
        }
        self.pace.work.spend(self.logs.ranking.take_units());
        if let Some(replies) = &route.replies {
            self.replies.send(&mut self.post, &message, replies);
        }
        match waits {
            0 if route.targets.is_empty() && route.replies.is_none() => Ok(Published::Unroutable),
            0 => Ok(Published::Done),
            1 => Ok(Published::Waiting),
            _ => {
                known.split.insert(seq, waits);
                Ok(Published::Waiting)
            }
        }
    }

    /// The exchanges on a message's way that remember it.
    fn remembering(
        &self,
        now: Now,
        message: (u32, u64),
        access: &AccessCache,
        publish: &Publish<'_>,
    ) -> Vec<ExchangeId> {
        // The same way again, which is the same: nothing has changed since, and the lot falls as it did.
        let keys: Vec<&[u8]> = [publish.routing_key]
            .into_iter()
            .chain(publish.more.iter().flat_map(|more| more.keys.iter().copied()))
            .collect();
        let roll = self.view(now, message).roll(access.actor().port);
        let content = &publish.content();
        let envelope = Envelope { keys: &keys, headers: publish.headers, roll, content, now_ms: now.wall_ms };
        let (vhost, exchange) = (access.vhost(), publish.exchange);
        let mut matches = Matches::within(self.settings.limits.route_steps_max);
        match self.catalog.route(vhost, exchange, &envelope, &mut matches) {
            Ok(_) => self.catalog.remembering_exchanges(vhost, exchange, &matches),
            Err(_) => Vec::new(),
        }
    }

    /// Appends messages for one stream, which is placed on `log`; their publisher hears of it in
    /// [`crate::Event::Confirmed`], counted in its own numbers, when they are on disk: duplicates too, and where the
    /// stream is gone by then. The caller has checked permissions and the bounds of messages and of sub-batches.
    ///
    /// # Errors
    /// The log is stopped.
    ///
    /// # Panics
    /// When the reference or a filter value is longer than 65,535 bytes.
    pub fn append<'a>(
        &mut self,
        now: Now,
        port: PortId,
        log: LogId,
        stream: QueueId,
        new: NewMessages<'a, impl Messages<'a>>,
    ) -> Result<(), Refusal> {
        self.logs.append_to_stream((now, &mut self.post), port, (log, stream), new)
    }
}
