//! The dashboard's question to a node, and the answer: totals, and the page of a list that is on the screen.

use serde::{Deserialize, Serialize};

/// Rows that are told at once.
pub const ROWS_MAX: u32 = 500;

/// Which list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum List {
    /// Queues and streams of all virtual hosts.
    #[default]
    Queues,
    /// Connections.
    Connections,
}

/// The order of a list: the most of something first, or the first name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Order {
    /// Messages that are ready
    #[default]
    Ready,
    /// Messages that consumers hold
    Unacked,
    /// Messages that come in a second, of connections bytes
    In,
    /// Messages that go out a second, of connections bytes
    Out,
    /// Consumers
    Consumers,
    /// Memory
    Memory,
    /// Channels and sessions
    Channels,
    /// The name
    Name,
}

impl List {
    /// The orders that it can have, as its columns stand.
    pub fn orders(self) -> &'static [Order] {
        match self {
            List::Queues => &[
                Order::Name,
                Order::Ready,
                Order::Unacked,
                Order::In,
                Order::Out,
                Order::Consumers,
                Order::Memory,
            ],
            List::Connections => &[Order::Name, Order::Channels, Order::In, Order::Out],
        }
    }
}

/// A question of the dashboard: a page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Which list.
    pub list: List,
    /// The order of the list.
    pub order: Order,
    /// The other way round.
    pub is_reversed: bool,
    /// Those alone that have this in their names, in any case.
    pub search: String,
    /// So many rows are left out before the page.
    pub skip: u64,
    /// Rows of the page, [`ROWS_MAX`] at most.
    pub count: u32,
    /// The queue that is open, by virtual host and name: the tool asks for it by requests of its own.
    #[serde(skip)]
    pub opened: Option<[String; 2]>,
}

/// The node as it is now, and one page of the list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// When, by the node's own clock.
    pub at_ns: u64,
    /// As in `rabbit@host`.
    pub node: String,
    /// The product's name and version.
    pub product: String,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// Alarms that hold: `memory`, `disk`.
    pub alarms: Vec<String>,
    /// Counters since it started.
    pub counted: Counted,
    /// How it is now.
    pub now: Gauges,
    /// Rows that the search leaves.
    pub matched: u64,
    /// The page of the list that was asked for: of queues,
    pub queues: Vec<QueueLine>,
    /// or of connections.
    pub connections: Vec<ConnectionLine>,
    /// The queue that is open.
    #[serde(skip)]
    pub opened: Option<Opened>,
}

/// Figures that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Messages published.
    pub published: u64,
    /// Messages confirmed.
    pub confirmed: u64,
    /// Messages delivered or got.
    pub delivered: u64,
    /// Messages acknowledged.
    pub acknowledged: u64,
    /// Messages delivered once more.
    pub redelivered: u64,
    /// Bytes written to the disk.
    pub written_bytes: u64,
    /// Flushes of the disk.
    pub flushes: u64,
}

/// Figures that go up and down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gauges {
    /// Messages that are ready, those of streams left out.
    pub ready: u64,
    /// Messages that consumers hold.
    pub unacked: u64,
    /// Queues, streams left out.
    pub queues: u64,
    /// Streams.
    pub streams: u64,
    /// Messages that streams keep, which no consumer takes away.
    pub kept: u64,
    /// Consumers.
    pub consumers: u64,
    /// Connections.
    pub connections: u64,
    /// Bytes of memory, and from how many on publishers wait.
    pub memory: [u64; 2],
    /// Bytes of free disk, and below how many publishers wait.
    pub disk: [u64; 2],
    /// How long a flush of the disk takes, nanoseconds.
    pub flush_ns: u64,
}

/// A queue or a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueLine {
    /// Its name.
    pub name: String,
    /// Its virtual host.
    pub vhost: String,
    /// `classic`, ...
    pub kind: String,
    /// Messages that are ready.
    pub ready: u64,
    /// Messages that consumers hold.
    pub unacked: u64,
    /// Messages that came and went a second; none: it was not looked at before.
    pub rates: Option<[f64; 2]>,
    /// Consumers.
    pub consumers: u32,
    /// Bytes of memory, messages apart.
    pub memory: u64,
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionLine {
    /// Its name.
    pub name: String,
    /// The user that it logged in as.
    pub user: String,
    /// Where.
    pub vhost: String,
    /// `AMQP 0-9-1`, ...
    pub protocol: String,
    /// `running`, `blocked`, ...
    pub state: String,
    /// Channels or sessions.
    pub channels: u64,
    /// Bytes that came and went a second; none: it was not looked at before.
    pub rates: Option<[f64; 2]>,
}

/// A queue or stream that was opened from the list: its properties, its consumers, and the messages at its head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Names and values.
    pub properties: Vec<[String; 2]>,
    /// All consumers, of which some may not be among these.
    pub consumer_count: usize,
    /// Tag, connection, prefetch and state of each consumer.
    pub consumers: Vec<[String; 4]>,
    /// Routing key, size and body of each message.
    pub messages: Vec<[String; 3]>,
    /// Why there is nothing of it.
    pub trouble: Option<String>,
}

impl Asked {
    /// The page of `all`: those with the search in their names, the first by `measure`; and how many there are.
    /// `measure` is the value that the list is ordered by, `name` decides between equal ones.
    pub fn page<T>(
        &self,
        mut all: Vec<T>,
        name: impl Fn(&T) -> (&str, &str),
        measure: impl Fn(&T) -> f64,
    ) -> (u64, Vec<T>) {
        if !self.search.is_empty() {
            let search = self.search.to_lowercase();
            let has = |text: &str| text.to_lowercase().contains(&search);
            all.retain(|item| {
                let (own, place) = name(item);
                has(own) || has(place)
            });
        }
        let order = |one: &T, other: &T| {
            let by_measure = match self.order {
                Order::Name => std::cmp::Ordering::Equal,
                _ => measure(other).total_cmp(&measure(one)),
            };
            let all = by_measure.then_with(|| name(one).cmp(&name(other)));
            if self.is_reversed { all.reverse() } else { all }
        };
        let matched = all.len();
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX).min(matched);
        let end = skip.saturating_add(self.count.min(ROWS_MAX) as usize).min(matched);
        // Only the rows of the page, and those before it, are put in order.
        if end < matched {
            all.select_nth_unstable_by(end, order);
            all.truncate(end);
        }
        base::brief::sort_by(&mut all, order);
        all.drain(..skip);
        (matched as u64, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(asked: &Asked, matched: u64, expected: &[&str]) {
        let all = [("b", 3), ("a", 3), ("d", 9), ("c", 0), ("Abc", 1)];
        let page = asked.page(all.to_vec(), |item| (item.0, "/"), |item| f64::from(item.1));
        let names: Vec<&str> = page.1.iter().map(|item| item.0).collect();
        assert_eq!((page.0, &names[..]), (matched, expected), "{asked:?}");
    }

    #[test]
    fn a_page_is_cut_from_the_ordered_list() {
        let asked = Asked { count: 10, ..Asked::default() };
        check(&asked, 5, &["d", "a", "b", "Abc", "c"]);
        check(&Asked { count: 2, ..asked.clone() }, 5, &["d", "a"]);
        check(&Asked { count: 2, skip: 1, ..asked.clone() }, 5, &["a", "b"]);
        check(&Asked { skip: 4, ..asked.clone() }, 5, &["c"]);
        check(&Asked { skip: u64::MAX, ..asked.clone() }, 5, &[]);
        check(&Asked { count: 0, ..asked.clone() }, 5, &[]);
        check(
            &Asked { count: u32::MAX, is_reversed: true, ..asked.clone() },
            5,
            &["c", "Abc", "b", "a", "d"],
        );
        check(&Asked { order: Order::Name, ..asked.clone() }, 5, &["Abc", "a", "b", "c", "d"]);
        check(&Asked { search: "B".into(), ..asked.clone() }, 2, &["b", "Abc"]);
        check(&Asked { search: "/".into(), count: 1, ..asked.clone() }, 5, &["d"]);
        check(&Asked { search: "none".into(), ..asked }, 0, &[]);
    }

    #[test]
    fn no_more_rows_than_are_told_at_once() {
        let asked = Asked { count: u32::MAX, ..Asked::default() };
        let (matched, page) = asked.page((0..2000).collect(), |_| ("", ""), |item| f64::from(*item));
        assert_eq!((matched, page.len(), page[0]), (2000, ROWS_MAX as usize, 1999));
    }
}
