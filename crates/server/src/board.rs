//! The pages of a dashboard (`leveret top`): totals, and the part it shows of the queues or of the connections.
//!
//! Everything is looked at anew for each page, a part at a time; only the counts of the look before are kept, for
//! rates, at most [`OBJECTS_MAX`] of each list, and for [`KEEP_NS`] after the last look. Not the HTTP API's history,
//! which is sampled every few seconds for ten minutes.

use crate::manager::Manager;
use base::time::NS_PER_MS;
use broker::catalog::QueueType;
use broker::{ConnectionRow, Count, Tally};
use ctl::top::{Asked, ConnectionLine, Counted, Gauges, List, Order, Overview, QueueLine};
use management::{Busy, Condition, Node, Which};
use std::sync::{Mutex, PoisonError};

/// Queues, and connections, whose rates are known.
const OBJECTS_MAX: usize = 200_000;

/// Rates are over as much time at least.
const SPAN_NS: u64 = 200 * NS_PER_MS;

/// Nanoseconds for which counts are of use.
const KEEP_NS: u64 = 180_000 * NS_PER_MS;

/// See the module.
#[derive(Debug, Default)]
pub struct Board {
    marks: Mutex<[Marks; 2]>,
}

/// Counts of a list's rows at two looks: the latest, and one before it.
#[derive(Debug, Default)]
struct Marks {
    latest: Option<Mark>,
    before: Option<Mark>,
}

/// Counts at one look, by the rows' ids, in ascending order.
#[derive(Debug)]
struct Mark {
    at_ns: u64,
    counts: Vec<(u128, [u64; 2])>,
}

impl Mark {
    fn rates(&self, now_ns: u64, id: u128, [came, went]: [u64; 2]) -> Option<[f64; 2]> {
        let at = self.counts.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let [came_then, went_then] = self.counts[at].1;
        // Somebody else may have looked since.
        let seconds = now_ns.checked_sub(self.at_ns).filter(|ns| *ns > 0)? as f64 / 1e9;
        let rate = |then: u64, now: u64| now.saturating_sub(then) as f64 / seconds;
        Some([rate(came_then, came), rate(went_then, went)])
    }
}

impl Marks {
    /// Keeps the counts of now, and returns the mark that rates are against.
    fn add(&mut self, now_ns: u64, counts: impl Iterator<Item = (u128, [u64; 2])>) -> Option<&Mark> {
        let is_old = |mark: &Mark| now_ns.saturating_sub(mark.at_ns) >= SPAN_NS;
        if self.latest.as_ref().is_none_or(is_old) {
            let mut counts: Vec<_> = counts.take(OBJECTS_MAX).collect();
            base::brief::sort_by_key(&mut counts, |(id, _)| *id);
            self.before = self.latest.replace(Mark { at_ns: now_ns, counts });
        }
        self.before.as_ref()
    }
}

impl Board {
    /// The overview, and the page that `asked` names.
    ///
    /// # Errors
    /// The node did not answer in time.
    pub fn look(&self, manager: &Manager<'_>, asked: &Asked) -> Result<Overview, Busy> {
        let rows = manager.queue_rows(Which::All, false)?;
        let mut now = Gauges::default();
        let at_ns = manager.clock.mono_ns();
        let mut queues = Vec::new();
        for row in rows {
            // Messages of a stream are no backlog: they stay when they were read.
            if row.definition.queue_type == QueueType::Stream {
                now.streams += 1;
                now.kept += row.ready;
            } else {
                now.queues += 1;
                now.ready += row.ready;
            }
            now.unacked += row.unsettled;
            now.consumers += u64::from(row.consumers);
            queues.push((u128::from(row.definition.id.0), of(&row.tally), row));
        }
        let mut overview = Overview { at_ns, ..Overview::default() };
        match asked.list {
            List::Queues => {
                let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
                let own = &mut marks[List::Queues as usize];
                let mark = own.add(at_ns, queues.iter().map(|(id, counts, _)| (*id, *counts)));
                let rates =
                    |id: &u128, counts: &[u64; 2]| mark.and_then(|mark| mark.rates(at_ns, *id, *counts));
                let with_rates: Vec<_> =
                    queues.iter().map(|(id, counts, row)| (rates(id, counts), row)).collect();
                let measure = |(rates, row): &(Option<[f64; 2]>, &broker::QueueRow)| match asked.order {
                    Order::Ready => row.ready as f64,
                    Order::Unacked => row.unsettled as f64,
                    Order::In => rates.map_or(0.0, |[came, _]| came),
                    Order::Out => rates.map_or(0.0, |[_, went]| went),
                    Order::Consumers => row.consumers.into(),
                    Order::Memory => row.memory_bytes as f64,
                    Order::Channels | Order::Name => 0.0,
                };
                let (matched, page) = asked.page(
                    with_rates,
                    |(_, row)| (&*row.definition.name, &*row.definition.vhost_name),
                    measure,
                );
                overview.matched = matched;
                overview.queues = page.into_iter().map(|(rates, row)| queue(rates, row)).collect();
            }
            List::Connections => {
                let rows = manager.connections()?;
                let at_ns = manager.clock.mono_ns();
                let id = |row: &ConnectionRow| {
                    let (shard, slot, generation) = row.id;
                    u128::from(shard) << 64 | u128::from(slot) << 32 | u128::from(generation)
                };
                let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
                let own = &mut marks[List::Connections as usize];
                let mark = own.add(at_ns, rows.iter().map(|row| (id(row), [row.received, row.sent])));
                let lines = rows.into_iter().map(|row| {
                    let rates = mark.and_then(|mark| mark.rates(at_ns, id(&row), [row.received, row.sent]));
                    connection(rates, row)
                });
                let measure = |line: &ConnectionLine| match asked.order {
                    Order::Channels => line.channels as f64,
                    Order::In => line.rates.map_or(0.0, |[came, _]| came),
                    Order::Out => line.rates.map_or(0.0, |[_, went]| went),
                    _ => 0.0,
                };
                (overview.matched, overview.connections) =
                    asked.page(lines.collect(), |line| (line.name.as_str(), line.vhost.as_str()), measure);
            }
        }
        let mut whole = Tally::default();
        manager.survey()?.vhosts.values().for_each(|tally| whole.merge(tally));
        now.connections = manager.connection_count()?;
        describe(manager, &mut overview, now, &whole);
        Ok(overview)
    }

    /// Lets go of lists that nobody has looked at for long.
    pub fn forget_old(&self, now_ns: u64) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        for own in marks.iter_mut() {
            if own.latest.as_ref().is_some_and(|mark| now_ns.saturating_sub(mark.at_ns) > KEEP_NS) {
                *own = Marks::default();
            }
        }
    }
}

/// Fills in the overview of the node as a whole.
fn describe(manager: &Manager<'_>, overview: &mut Overview, mut now: Gauges, whole: &Tally) {
    let Condition { uptime_ms, memory_used, memory_limit, disk_free, disk_limit, .. } = manager.condition();
    let (about, writing) = (manager.about(), manager.writing());
    now.memory = [memory_used, memory_limit];
    now.disk = [disk_free, disk_limit];
    now.flush_ns = writing.sync_ns;
    overview.node = about.node.clone();
    overview.product = format!("{} {}", about.product, about.product_version);
    overview.uptime_s = uptime_ms / 1000;
    overview.alarms = (manager.raised)().names();
    overview.counted = Counted {
        published: whole.get(Count::Publish),
        confirmed: whole.get(Count::Confirm),
        delivered: whole.deliver_get(),
        acknowledged: whole.get(Count::Ack),
        redelivered: whole.get(Count::Redeliver),
        written_bytes: writing.written_bytes,
        flushes: writing.syncs,
    };
    overview.now = now;
}

/// Messages that came to a queue and went from it.
fn of(tally: &Tally) -> [u64; 2] {
    [tally.get(Count::Publish), tally.deliver_get()]
}

fn queue(rates: Option<[f64; 2]>, row: &broker::QueueRow) -> QueueLine {
    QueueLine {
        name: row.definition.name.to_string(),
        vhost: row.definition.vhost_name.to_string(),
        kind: row.definition.queue_type.name().to_owned(),
        ready: row.ready,
        unacked: row.unsettled,
        rates,
        consumers: row.consumers,
        memory: row.memory_bytes as u64,
    }
}

fn connection(rates: Option<[f64; 2]>, row: ConnectionRow) -> ConnectionLine {
    ConnectionLine {
        name: row.name,
        user: row.user,
        vhost: row.vhost,
        protocol: row.protocol.to_owned(),
        state: row.state.to_owned(),
        channels: row.channels,
        rates,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_against_a_look_that_is_long_enough_ago() {
        let mut marks = Marks::default();
        let mut rate = |at_ms: u64, count: u64| {
            let at_ns = at_ms * NS_PER_MS;
            let mark = marks.add(at_ns, [(7, [count, 0]), (3, [0, 0])].into_iter());
            mark.and_then(|mark| mark.rates(at_ns, 7, [count, 0])).map(|[came, _]| came)
        };
        assert_eq!(rate(1000, 100), None);
        // Another dashboard, a moment later: there is nothing that rates could be against.
        assert_eq!(rate(1001, 200), None);
        assert_eq!(rate(2000, 1100), Some(1000.0));
        assert_eq!(rate(2001, 1101), Some(1001.0 / 1.001));
        // A count that began anew has a rate of 0.
        assert_eq!(rate(3000, 5), Some(0.0));
    }

    #[test]
    fn what_nobody_looks_at_is_forgotten() {
        let board = Board::default();
        board.marks.lock().unwrap()[0].add(5, [(1, [1, 1])].into_iter());
        board.forget_old(KEEP_NS);
        assert!(board.marks.lock().unwrap()[0].latest.is_some());
        board.forget_old(KEEP_NS + 6);
        assert!(board.marks.lock().unwrap()[0].latest.is_none());
    }

    #[test]
    fn of_so_many_things_rates_are_known() {
        let mut marks = Marks::default();
        marks.add(0, (0..OBJECTS_MAX as u128 + 5).map(|id| (id, [0, 0])));
        let mark = marks.latest.unwrap();
        assert_eq!(mark.counts.len(), OBJECTS_MAX);
        assert_eq!(mark.rates(SPAN_NS, OBJECTS_MAX as u128, [1, 1]), None);
        assert!(mark.rates(SPAN_NS, 5, [1, 1]).is_some());
    }
}
