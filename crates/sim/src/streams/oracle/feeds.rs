//! Queues that are filled from a stream: nobody takes from them until the end, and then they hold what the stream got from where they
//! began, each message once and in the stream's order, however often the node went down meanwhile.
//!
//! One with a filter value holds whole chunks: every message with that value, and perhaps others.

use super::{FIRST_MESSAGE, Oracle};
use crate::oracle::{Check, Stage};
use base::id::LogId;
use broker::QueueRow;

/// The numbers of these queues begin here, so that nobody takes them for others.
pub const FIRST_FED: usize = 1 << 20;

/// The filter values there are: a message has one of them, or none.
pub const VALUES: [&str; 2] = ["red", "blue"];

/// Where a queue begins in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    First,
    Next,
    Offset(u64),
}

/// A queue that is filled from a stream.
#[derive(Clone, Debug)]
pub struct Fed {
    /// How far it is.
    pub stage: Stage,
    /// What it is filled from.
    pub stream: usize,
    /// Since when.
    pub begin: Begin,
    /// The filter value that its messages have, among [`VALUES`].
    pub value: Option<usize>,
    log: Option<LogId>,
    /// What came out of it, at the end.
    came: Vec<u64>,
}

impl Fed {
    /// The log it is on, where that is known.
    pub fn log(&self) -> Option<LogId> {
        self.log
    }

    /// Messages that came out of it.
    pub fn count(&self) -> u64 {
        self.came.len() as u64
    }
}

/// The filter value a message has, among [`VALUES`], where who publishes it says one.
pub fn value_of(id: u64) -> Option<usize> {
    (id % 3).checked_sub(1).map(|value| value as usize)
}

/// Of the queue with this name, its place among those that are fed.
fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix('f')?.parse().ok()
}

impl Oracle {
    /// A queue is asked for that is filled from a stream: its number.
    pub fn new_fed(&mut self, stream: usize, begin: Begin, value: Option<usize>) -> usize {
        self.fed.push(Fed { stage: Stage::Asked, stream, begin, value, log: None, came: Vec::new() });
        FIRST_FED + self.fed.len() - 1
    }

    /// One of these queues.
    pub fn fed(&mut self, queue: usize) -> &mut Fed {
        &mut self.fed[queue - FIRST_FED]
    }

    /// Those that are there.
    pub fn fed_there(&self) -> Vec<usize> {
        let there = self.fed.iter().enumerate().filter(|(_, fed)| fed.stage == Stage::There);
        there.map(|(at, _)| FIRST_FED + at).collect()
    }

    /// A message came out of one.
    pub fn fed_came(&mut self, queue: usize, id: Option<u64>) -> Check {
        let stream = self.fed(queue).stream;
        let is_its = |id: &u64| {
            let message = id.checked_sub(FIRST_MESSAGE).and_then(|at| self.messages.get(at as usize));
            message.is_some_and(|message| message.stream == stream)
        };
        let Some(id) = id.filter(is_its) else {
            return Err(format!(
                "a queue filled from stream {stream} holds {id:?}, which is not the stream's"
            ));
        };
        self.fed(queue).came.push(id);
        Ok(())
    }

    pub(super) fn learn_fed(&mut self, row: &QueueRow) {
        if let Some(fed) = number_of(&row.definition.name).and_then(|at| self.fed.get_mut(at)) {
            fed.log = Some(row.definition.log);
        }
    }

    /// The node is up, with these queues.
    pub(super) fn fed_came_up(
        &mut self,
        rows: &[QueueRow],
        is_damaged: &impl Fn(Option<LogId>) -> bool,
    ) -> Check {
        for (number, fed) in self.fed.iter_mut().enumerate() {
            let is_there = rows.iter().any(|row| number_of(&row.definition.name) == Some(number));
            if fed.stage == Stage::There && !is_there && !is_damaged(Some(LogId(0))) {
                return Err(format!("the queue {number} that is filled from a stream is lost"));
            }
            fed.stage = match fed.stage {
                Stage::Gone => Stage::Gone,
                // It may have lost anything, and is never looked at again.
                Stage::Leaving => Stage::Leaving,
                _ if is_there => Stage::There,
                _ => Stage::Missing,
            };
        }
        Ok(())
    }

    /// Everything was taken out of a queue, and all of its stream was read.
    pub fn check_fed(&self, queue: usize, is_damaged: impl Fn(Option<LogId>) -> bool) -> Check {
        let Fed { stream: number, begin, value, log, came, .. } = &self.fed[queue - FIRST_FED];
        let stream = &self.streams[*number];
        let has_gaps = stream.has_gaps() || stream.was_unreadable;
        if stream.stage != Stage::There || has_gaps || is_damaged(*log) || is_damaged(stream.log) {
            return Ok(());
        }
        let wrong =
            |what: String| Err(format!("queue f{} of stream {number}, {begin:?}: {what}", queue - FIRST_FED));
        let message = |id: &u64| &self.messages[(id - FIRST_MESSAGE) as usize];
        let mut before = None;
        for id in came {
            let offset = message(id).offset;
            // What retention took before anybody read it has no offset here.
            if offset.is_none() && !stream.retains {
                return wrong(format!("message {id} is not in the stream"));
            }
            if offset.is_some() && before >= offset {
                return wrong(format!("message {id}, offset {offset:?}, comes behind offset {before:?}"));
            }
            before = offset.or(before);
        }
        let mut once = came.clone();
        once.sort_unstable();
        once.dedup();
        if once.len() != came.len() {
            return wrong("a message is there twice".to_owned());
        }
        if stream.retains {
            return Ok(());
        }
        let first = came.first().and_then(|id| message(id).offset).unwrap_or(u64::MAX);
        let from = match begin {
            Begin::First => 0,
            Begin::Offset(offset) => *offset,
            Begin::Next => first,
        };
        let is_wanted = |id: &u64| value.is_none() || message(id).value == *value;
        let mut missing = stream.found.range(from.min(first)..).filter(|(offset, id)| {
            let is_due = **offset >= from || **offset >= first && value.is_none();
            is_due && is_wanted(id) && once.binary_search(id).is_err()
        });
        match missing.next() {
            Some((offset, id)) => wrong(format!("message {id} at offset {offset} is missing")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::oracle::Publisher;
    use crate::streams::oracle::tests::chunk;

    /// A stream of three messages at offsets 0 to 2, and what came out of a queue filled from it.
    fn check(begin: Begin, value: Option<usize>, came: &[u64], is_right: bool) {
        let mut oracle = Oracle::default();
        let stream = oracle.new_stream(false);
        oracle.streams[stream].stage = Stage::There;
        let ids = [0; 3].map(|_| oracle.publishing(stream, Publisher::Plain(1, 0)));
        ids.iter().for_each(|id| oracle.has_value(*id));
        oracle.arrived(stream, &chunk(0, 1, &ids), false).unwrap();
        let queue = oracle.new_fed(stream, begin, value);
        let came = came.iter().map(|at| oracle.fed_came(queue, Some(FIRST_MESSAGE + at)));
        let checked = came.collect::<Result<(), _>>().and_then(|()| oracle.check_fed(queue, |_| false));
        assert_eq!(checked.is_ok(), is_right, "{begin:?} {value:?}: {checked:?}");
    }

    #[test]
    fn a_queue_holds_all_from_where_it_began_once_and_in_order() {
        check(Begin::First, None, &[0, 1, 2], true);
        check(Begin::First, None, &[1, 2], false);
        check(Begin::First, None, &[0, 2], false);
        check(Begin::First, None, &[0, 1], false);
        check(Begin::First, None, &[0, 1, 1, 2], false);
        check(Begin::First, None, &[1, 0, 2], false);
        check(Begin::Next, None, &[1, 2], true);
        check(Begin::Next, None, &[], true);
        check(Begin::Next, None, &[1], false);
        check(Begin::Offset(1), None, &[1, 2], true);
        check(Begin::Offset(1), None, &[2], false);
        // It was not there yet.
        check(Begin::Offset(9), None, &[2], true);
        let red = (0..3).find(|at| value_of(FIRST_MESSAGE + at) == Some(0)).unwrap();
        check(Begin::First, Some(0), &[red], true);
        check(Begin::First, Some(0), &[0, 1, 2], true);
        check(Begin::First, Some(0), &[], false);
        check(Begin::First, None, &[0, 1, 7], false);
    }
}
