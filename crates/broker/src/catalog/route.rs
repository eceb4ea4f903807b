//! From an exchange to queues, through exchanges bound to exchanges and alternate exchanges.

use super::{Catalog, Destination, Refusal, VhostId};
use routing::{Envelope, ExchangeId, Kind, Matches, delay_ms};

impl Catalog {
    /// Adds the destinations of a message to `out`: the queues among them are where it goes, each once; the exchanges
    /// are those it came through. True: more than its keys had a part in it, so that the next message with the same may
    /// go elsewhere. An exchange sees all keys before its alternate is asked. Call `out.start()` before a message.
    ///
    /// The default exchange leads to the queue that has the key as its name. What a delayed-message exchange keeps for
    /// later goes on by [`Catalog::route_from`].
    ///
    /// # Errors
    /// There is no such exchange, or finding the destinations takes more steps than `out` grants.
    pub fn route(
        &self,
        vhost: VhostId,
        exchange: &[u8],
        message: &Envelope<'_>,
        out: &mut Matches,
    ) -> Result<bool, Refusal> {
        if exchange.is_empty() {
            if self.host(vhost).is_none() {
                return Err(self.no_exchange(vhost, exchange));
            }
            self.route_by_name(vhost, message.keys, out);
            return self.check_steps(vhost, exchange, message.keys, out).map(|()| false);
        }
        let Some(entry) = self.exchange(vhost, exchange) else {
            return Err(self.no_exchange(vhost, exchange));
        };
        let sees_more = self.spread(entry.definition.id, message, true, out);
        self.check_steps(vhost, exchange, message.keys, out)?;
        Ok(sees_more)
    }

    /// Refuses a message that takes too many steps: its destinations are not all known.
    ///
    /// # Errors
    /// It takes too many.
    pub(crate) fn check_steps(
        &self,
        vhost: VhostId,
        exchange: &[u8],
        keys: &[&[u8]],
        out: &Matches,
    ) -> Result<(), Refusal> {
        if !out.is_too_dear() {
            return Ok(());
        }
        let has_filters = self.exchange(vhost, exchange).is_some_and(|entry| entry.exchange.has_filters());
        let named = self.exchange_named(vhost, &String::from_utf8_lossy(exchange));
        let key_bytes = (!has_filters).then(|| keys.iter().map(|key| key.len()).sum());
        Err(Refusal::route_too_dear(&named, key_bytes, out.steps_max()))
    }

    /// As [`Catalog::route`], from an exchange that is not the default one; none keeps the message for later: where it goes
    /// on from one that did ([`Matches::held`]). Whether it takes too many steps is asked of `out`.
    pub(crate) fn route_from(&self, first: ExchangeId, message: &Envelope<'_>, out: &mut Matches) -> bool {
        self.spread(first, message, false, out)
    }

    /// Whether an exchange that keeps no message from a destination but by the filters of its bindings sends it a message.
    pub(crate) fn sends_to(
        &self,
        exchange: ExchangeId,
        destination: Destination,
        message: &Envelope<'_>,
        out: &mut Matches,
    ) -> bool {
        let Some(entry) = self.exchanges.get(&exchange).filter(|entry| entry.exchange.has_filters()) else {
            return true;
        };
        let mut own = out.beside();
        entry.exchange.route(message, &mut own);
        out.count(&own);
        own.destinations().contains(&destination)
    }

    fn spread(&self, first: ExchangeId, message: &Envelope<'_>, may_hold: bool, out: &mut Matches) -> bool {
        let mut next = out.destinations().len();
        let mut sees_more = self.route_on(first, first, message, may_hold, out);
        // A destination is in the list once, so exchanges that are bound in a circle end it.
        while let Some(destination) = out.get(next)
            && !out.is_too_dear()
        {
            next += 1;
            if let Destination::Exchange(id) = destination {
                sees_more |= self.route_on(id, first, message, may_hold, out);
            }
        }
        sees_more
    }

    /// The default exchange's part: the queues the keys name.
    fn route_by_name(&self, vhost: VhostId, keys: &[&[u8]], out: &mut Matches) {
        for key in keys {
            if !out.take_bytes(key) {
                return;
            }
            if let Some(queue) = self.queue_by_name(vhost, key) {
                out.push(Destination::Queue(queue.id));
            }
        }
    }

    /// One exchange's part; where that leads nowhere, its alternate exchange takes its place.
    fn route_on(
        &self,
        exchange: ExchangeId,
        first: ExchangeId,
        message: &Envelope<'_>,
        may_hold: bool,
        out: &mut Matches,
    ) -> bool {
        let Some(entry) = self.exchanges.get(&exchange) else { return false };
        let is_delayed = entry.definition.kind == Kind::Delayed;
        if is_delayed && may_hold && delay_ms(message.headers).is_some() {
            out.hold(exchange);
            return true;
        }
        let sees_more = is_delayed || entry.exchange.sees_more_than_keys();
        // Exchanges that follow each other must not draw the same lot.
        let message = &Envelope { roll: mixed(message.roll, exchange), ..*message };
        let Some(alternate) = &entry.alternate else {
            entry.exchange.route(message, out);
            return sees_more;
        };
        // Whether it leads anywhere does not show in `out`, where others may have found the same before.
        let mut own = out.beside();
        entry.exchange.route(message, &mut own);
        out.join(&own);
        if !own.is_empty() || !out.take(1) {
            return sees_more;
        }
        // The default exchange has no bindings, so as an alternate it leads nowhere, as in RabbitMQ.
        if let Some(alternate) = self.exchange(entry.definition.vhost, alternate)
            && alternate.definition.id != first
        {
            out.push(Destination::Exchange(alternate.definition.id));
        }
        sees_more
    }
}

/// Random bits of an exchange's own.
fn mixed(roll: u64, exchange: ExchangeId) -> u64 {
    let bits = (roll ^ exchange.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (bits ^ bits >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}
