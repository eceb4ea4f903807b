//! Publishing: a message goes into the logs its route leads to, those of other shards by mail.

use super::route::{Due, Target, View};
use super::{Known, More, Publish, Published, Publisher, add_messages};
use crate::access::AccessCache;
use crate::catalog::Refusal;
use crate::mail::{Mail, Waiter, wait};
use crate::shard::Shard;
use crate::tally::NO_EXCHANGE;
use base::Now;
use base::id::PortId;
use message::record::{NewEnqueue, flag};
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

    /// Whether [`Shard::publish`] of this message would lead anywhere now; uses up no number.
    ///
    /// # Errors
    /// Those it would have.
    pub fn would_publish(
        &self,
        now: Now,
        publisher: &mut Publisher,
        publish: &Publish<'_>,
    ) -> Result<bool, Refusal> {
        let view = self.view((publisher.handle, publisher.next_seq));
        let (route, _) = view.route(&mut publisher.access, publish)?;
        if let Some(target) = route.targets.iter().find(|target| self.stopped.contains(&target.log)) {
            return Err(Refusal::log_stopped(target.log));
        }
        if publish.record(now).record_len(route.queues_most).is_none() {
            return Err(Refusal::message_too_large());
        }
        Ok(!route.targets.is_empty() || route.replies.is_some())
    }

    /// What routing looks at; `message`: who publishes, and the message's number.
    pub(crate) fn view(&self, message: (u32, u64)) -> View<'_> {
        View {
            catalog: &self.catalog,
            limits: &self.settings.limits,
            placement: self.settings.placement,
            log_slots: &self.log_slots,
            seed: self.settings.seed,
            message,
        }
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
        let at = match known.last_route(self.catalog.version(), publish) {
            Some(at) => at,
            None => {
                let at = known.route(access, &self.view((*handle, seq)), publish)?;
                let counted = &mut known.routes[at].counted;
                if *counted == NO_EXCHANGE {
                    *counted = self.tallies.exchange(&self.catalog, access.vhost(), publish.exchange);
                }
                if known.routes[at].holds_once {
                    return self.publish_once(now, (*port, *handle, seq), access, known, publish);
                }
                at
            }
        };
        let route = &mut known.routes[at];
        route.messages += 1;
        let message = publish.record(now);
        let sizes = message.sizes();
        self.tallies.publish(route.counted, route.queues, publish, sizes.body);
        if route.targets.is_empty() && route.replies.is_none() {
            return Ok(Published::Unroutable);
        }
        if !self.stopped.is_empty()
            && let Some(target) = route.targets.iter().find(|target| self.stopped.contains(&target.log))
        {
            return Err(Refusal::log_stopped(target.log));
        }
        if message.record_len_of(sizes, route.queues_most).is_none() {
            return Err(Refusal::message_too_large());
        }
        let mut waits = 0;
        for target in &route.targets {
            let needs_flush = !target.is_memory && (publish.durable || target.has_quorum);
            let is_waited_for = publish.confirm && (needs_flush || target.is_special);
            waits += u32::from(is_waited_for);
            let waiter = is_waited_for.then_some((*port, *handle, seq));
            if target.is_special {
                self.append_special(now, &message, target, waiter, needs_flush);
                continue;
            }
            match target.slot {
                Some(slot) => {
                    let log = &mut self.logs[slot as usize];
                    log.append_message(now, (&message, sizes), &target.queues, waiter, needs_flush);
                }
                None => self.append_remote(&message, target, waiter, needs_flush),
            }
        }
        if let Some(replies) = &route.replies {
            self.append_replies(&message, replies);
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
        if let Some(target) = route.targets.iter().find(|target| self.stopped.contains(&target.log)) {
            return Err(Refusal::log_stopped(target.log));
        }
        let hidden = publish.more.map_or(&[][..], More::hidden_keys);
        if message.hiding_len(route.queues_most, hidden).is_none() {
            return Err(Refusal::message_too_large());
        }
        let (_, handle, seq) = waiter;
        if route.is_remembered {
            let exchanges = self.remembering((handle, seq), access, publish);
            self.have_remembered(now, exchanges, &message);
        }
        if route.is_traced {
            let queues = route.targets.iter().flat_map(|target| &*target.queues);
            self.trace_publish(now, waiter, publish, queues);
        }
        let mut waits = 0;
        for target in &route.targets {
            let waiter = publish.confirm.then_some(waiter);
            waits += u32::from(self.append_hiding(now, (&message, hidden), target, waiter));
        }
        if let Some(replies) = &route.replies {
            self.append_replies(&message, replies);
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
        message: (u32, u64),
        access: &AccessCache,
        publish: &Publish<'_>,
    ) -> Vec<ExchangeId> {
        // The same way again, which is the same: nothing has changed since, and the lot falls as it did.
        let keys: Vec<&[u8]> = [publish.routing_key]
            .into_iter()
            .chain(publish.more.iter().flat_map(|more| more.keys.iter().copied()))
            .collect();
        let roll = self.view(message).roll(access.actor().port);
        let envelope = Envelope { keys: &keys, headers: publish.headers, roll };
        let (vhost, exchange, mut matches) = (access.vhost(), publish.exchange, Matches::default());
        match self.catalog.route(vhost, exchange, &envelope, &mut matches) {
            Ok(_) => self.catalog.remembering_exchanges(vhost, exchange, &matches),
            Err(_) => Vec::new(),
        }
    }

    /// Publishes a message of the node itself to where `matches` leads; nobody waits for it.
    #[cold]
    pub(crate) fn publish_own(&mut self, now: Now, message: &NewEnqueue<'_>, matches: &Matches) {
        for target in &self.view((0, 0)).targets_now(matches) {
            if !self.stopped.contains(&target.log) && message.record_len(target.queues.len()).is_some() {
                self.append_to(now, message, target, None);
            }
        }
    }

    /// Appends a message of the broker's own to a log. Whether `waiter` will hear of it.
    pub(crate) fn append_to(
        &mut self,
        now: Now,
        message: &NewEnqueue<'_>,
        target: &Target,
        waiter: Option<(PortId, u32, u64)>,
    ) -> bool {
        self.append_hiding(now, (message, &[]), target, waiter)
    }

    /// As [`Shard::append_to`], with keys that nobody is to see.
    #[cold]
    pub(crate) fn append_hiding(
        &mut self,
        now: Now,
        (message, hidden): (&NewEnqueue<'_>, &[&[u8]]),
        target: &Target,
        waiter: Option<(PortId, u32, u64)>,
    ) -> bool {
        let is_durable = message.flags & flag::DURABLE != 0;
        let needs_flush = !target.is_memory && (is_durable || target.has_quorum);
        let waiter = waiter.filter(|_| needs_flush || target.is_special);
        match target.slot {
            _ if target.is_special => {
                self.append_special_hiding(now, (message, hidden), target, waiter, needs_flush);
            }
            _ if !hidden.is_empty() => {
                self.append_hidden(now, (message, hidden), target, waiter, needs_flush)
            }
            Some(slot) => {
                let log = &mut self.logs[slot as usize];
                log.append_message_rare(now, message, &target.queues, waiter, needs_flush);
            }
            None => self.append_remote(message, target, waiter, needs_flush),
        }
        waiter.is_some()
    }

    /// Appends a message that is delayed, or to a log of whose queues some may refuse it.
    #[cold]
    #[inline(never)]
    fn append_special(
        &mut self,
        now: Now,
        message: &NewEnqueue<'_>,
        target: &Target,
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        self.append_special_hiding(now, (message, &[]), target, waiter, needs_flush);
    }

    fn append_special_hiding(
        &mut self,
        now: Now,
        (message, hidden): (&NewEnqueue<'_>, &[&[u8]]),
        target: &Target,
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        let due_at_ms = match target.due {
            Due::Now => 0,
            Due::At(at_ms) => at_ms,
            Due::After(0) => now.wall_ms,
            // The clock may be as good as at its next millisecond: what waits less than it was asked to is early.
            Due::After(delay_ms) => now.wall_ms.saturating_add(delay_ms).saturating_add(1),
        };
        // The clock says what is to come, in the log for ever: what was received and is due.
        if due_at_ms <= message.received_at_ms {
            return self.append_ordinary(now, (message, hidden), target, waiter, needs_flush);
        }
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
        self.append_ordinary(now, (&delayed, hidden), target, waiter, needs_flush);
    }

    /// Appends a message as it is; queues that may refuse it are asked.
    fn append_ordinary(
        &mut self,
        now: Now,
        (message, hidden): (&NewEnqueue<'_>, &[&[u8]]),
        target: &Target,
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        match target.slot {
            _ if target.asks || !hidden.is_empty() => {
                self.append_hidden(now, (message, hidden), target, waiter, needs_flush);
            }
            Some(slot) => {
                let log = &mut self.logs[slot as usize];
                log.append_message_rare(now, message, &target.queues, waiter, needs_flush);
            }
            None => self.append_remote(message, target, waiter, needs_flush),
        }
    }

    fn append_remote(
        &mut self,
        message: &NewEnqueue<'_>,
        target: &Target,
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        let owner = self.settings.placement.owner(target.log);
        if !matches!(self.post.last_for(owner), Some(Mail::Append { log, .. }) if *log == target.log) {
            let (records, waiters) = (self.parcels.take(), Vec::new());
            let (from, log) = (self.settings.id, target.log);
            self.post.send(owner, Mail::Append { from, log, records, waiters, needs_flush: false });
        }
        if let Some(Mail::Append { records, waiters, needs_flush: flush, .. }) = self.post.last_for(owner) {
            let before = records.len();
            message.write(&target.queues, records);
            self.under_way += records.len() - before;
            *flush |= needs_flush;
            if let Some(waiter) = waiter {
                wait(waiters, Waiter::one(waiter));
            }
        }
    }
}
