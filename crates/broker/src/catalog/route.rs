//! From an exchange to queues, through exchanges bound to exchanges and alternate exchanges.

use super::plan_exchange::ALTERNATE;
use super::{Catalog, Destination, Refusal, VhostId};
use routing::{ExchangeId, Headers, Matches, Value};

impl Catalog {
    /// Adds the destinations of a message to `out`: the queues among them are where it goes, each once; the exchanges
    /// are those it came through. True: the headers had a part in it, so that the next message with this key may go
    /// elsewhere. Call `out.start()` before a message.
    ///
    /// The default exchange leads to the queue that has the key as its name.
    pub fn route(
        &self,
        vhost: VhostId,
        exchange: &[u8],
        routing_key: &[u8],
        headers: &dyn Headers,
        out: &mut Matches,
    ) -> Result<bool, Refusal> {
        self.route_all(vhost, exchange, &[routing_key], headers, out)
    }

    /// As [`Catalog::route`], by several keys at once: an exchange sees all of them before its alternate is asked.
    pub fn route_all(
        &self,
        vhost: VhostId,
        exchange: &[u8],
        keys: &[&[u8]],
        headers: &dyn Headers,
        out: &mut Matches,
    ) -> Result<bool, Refusal> {
        if exchange.is_empty() {
            if self.host(vhost).is_none() {
                return Err(self.no_exchange(vhost, exchange));
            }
            self.route_by_name(vhost, keys, out);
            return Ok(false);
        }
        let Some(entry) = self.exchange(vhost, exchange) else {
            return Err(self.no_exchange(vhost, exchange));
        };
        let mut next = out.destinations().len();
        let first = entry.definition.id;
        let mut reads_headers = self.route_on(first, first, keys, headers, out);
        // A destination is in the list once, so exchanges that are bound in a circle end it.
        while let Some(destination) = out.get(next) {
            next += 1;
            if let Destination::Exchange(id) = destination {
                reads_headers |= self.route_on(id, first, keys, headers, out);
            }
        }
        Ok(reads_headers)
    }

    /// The default exchange's part: the queues the keys name.
    fn route_by_name(&self, vhost: VhostId, keys: &[&[u8]], out: &mut Matches) {
        for key in keys {
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
        keys: &[&[u8]],
        headers: &dyn Headers,
        out: &mut Matches,
    ) -> bool {
        let Some(entry) = self.exchanges.get(&exchange) else { return false };
        let reads_headers = entry.exchange.reads_headers();
        if entry.definition.arguments.is_empty() {
            keys.iter().for_each(|key| entry.exchange.route(key, headers, out));
            return reads_headers;
        }
        // Whether it leads anywhere does not show in `out`, where others may have found the same before.
        let mut own = Matches::default();
        keys.iter().for_each(|key| entry.exchange.route(key, headers, &mut own));
        own.destinations().iter().for_each(|destination| out.push(*destination));
        if !own.is_empty() {
            return reads_headers;
        }
        if let Some(Value::Text(alternate)) = entry.definition.arguments.get(ALTERNATE.as_bytes()) {
            let vhost = entry.definition.vhost;
            if alternate.is_empty() {
                self.route_by_name(vhost, keys, out);
            } else if let Some(alternate) = self.exchange(vhost, alternate)
                && alternate.definition.id != first
            {
                out.push(Destination::Exchange(alternate.definition.id));
            }
        }
        reads_headers
    }
}
