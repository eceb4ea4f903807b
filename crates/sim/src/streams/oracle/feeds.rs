//! Queues that are filled from a stream: nobody takes from them until the end, and then they hold what the stream got from where they
//! began, each message once and in the stream's order, however often the node went down meanwhile.
//!
//! - Messages in one when the node rested, or when it came up, stay in it, and at the end as many come out of it as it
//!   says are there: also where retention has taken some from its stream, and where that was deleted.
//! - One with a limit holds the last messages there were, and no more of them.
//! - One that was emptied holds the messages behind some message, and all of them.
//! - One with a filter value holds whole chunks: every message with that value, and perhaps others.

use super::Oracle;
use crate::client::Begin;
use crate::oracle::{Check, Stage};
use crate::streams::names::{FIRST_FED, FIRST_MESSAGE};
use base::id::LogId;
use broker::QueueRow;

/// A queue that is filled from a stream.
#[derive(Clone, Debug)]
pub struct Fed {
    /// How far it is.
    pub stage: Stage,
    /// The stream it is filled from, by number.
    pub stream: usize,
    /// The place in the stream where it begins.
    pub begin: Begin,
    /// The filter value that its messages have, among [`VALUES`].
    pub value: Option<usize>,
    /// Messages it may hold; the first go where there are more.
    pub length_max: Option<u64>,
    log: Option<LogId>,
    /// Messages that are in it, and on disk.
    least: u64,
    /// It is to be emptied: all that is known may be gone.
    is_purged: bool,
    /// It was emptied once.
    was_purged: bool,
    /// Messages that were taken from it, at the end.
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

/// Of the queue with this name, its place among those that are fed.
fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix('f')?.parse().ok()
}

impl Oracle {
    /// A queue is asked for that is filled from a stream: its number.
    pub fn new_fed(&mut self, stream: usize, begin: Begin, value: Option<usize>) -> usize {
        let number = self.fed.len();
        self.fed.push(Fed {
            stage: Stage::Asked,
            stream,
            begin,
            value,
            // As with other bounds: no choice of its own.
            length_max: (number % 4 == 3).then_some(1 + number as u64 * 5 % 16),
            log: None,
            least: 0,
            is_purged: false,
            was_purged: false,
            came: Vec::new(),
        });
        FIRST_FED + number
    }

    /// One is to be emptied.
    pub fn purging_fed(&mut self, queue: usize) {
        let fed = self.fed(queue);
        (fed.is_purged, fed.was_purged) = (true, true);
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
        let fed = self.fed(queue);
        fed.came.push(id);
        fed.least = fed.least.saturating_sub(1);
        Ok(())
    }

    /// Messages that came out of a queue and are not in its stream any more.
    pub fn outlived(&self, queue: usize) -> u64 {
        let fed = &self.fed[queue - FIRST_FED];
        let is_there = self.streams[fed.stream].stage == Stage::There;
        let is_gone =
            |id: &&u64| !is_there || self.messages[(**id - FIRST_MESSAGE) as usize].offset.is_none();
        fed.came.iter().filter(is_gone).count() as u64
    }

    pub(super) fn learn_fed(&mut self, row: &QueueRow) {
        if let Some(fed) = number_of(&row.definition.name).and_then(|at| self.fed.get_mut(at)) {
            fed.log = Some(row.definition.log);
        }
    }

    /// Messages that were in a queue are there, and no more than may be. Those there now are on disk, as the node rests
    /// or came up just now.
    pub fn fed_rest(&mut self, rows: &[QueueRow], is_damaged: &impl Fn(Option<LogId>) -> bool) -> Check {
        self.check_fed_counts(rows, is_damaged)?;
        for row in rows {
            if let Some(fed) = number_of(&row.definition.name).and_then(|at| self.fed.get_mut(at)) {
                (fed.least, fed.is_purged) = (row.ready, false);
            }
        }
        Ok(())
    }

    /// Checks the counts of these queues that the node reports.
    pub(super) fn check_fed_counts(
        &self,
        rows: &[QueueRow],
        is_damaged: &impl Fn(Option<LogId>) -> bool,
    ) -> Check {
        for row in rows {
            let Some((number, fed)) =
                number_of(&row.definition.name).and_then(|at| Some((at, self.fed.get(at)?)))
            else {
                continue;
            };
            let (ready, log) = (row.ready, row.definition.log);
            if fed.stage != Stage::There || is_damaged(Some(log)) {
                continue;
            }
            if ready < fed.least && !fed.is_purged {
                return Err(format!("the queue f{number} had {} messages and has {ready}", fed.least));
            }
            if fed.length_max.is_some_and(|most| ready > most) {
                return Err(format!("the queue f{number} has {ready} messages: {fed:?}"));
            }
        }
        Ok(())
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
        self.fed_rest(rows, is_damaged)
    }

    /// Everything was taken out of a queue, which said that it had so many messages, and all of its stream was read.
    pub fn check_fed(&self, queue: usize, ready: u64, is_damaged: impl Fn(Option<LogId>) -> bool) -> Check {
        let fed = &self.fed[queue - FIRST_FED];
        let Fed { stream: number, begin, value, length_max, came, .. } = fed;
        let stream = &self.streams[*number];
        if is_damaged(fed.log) {
            return Ok(());
        }
        let wrong =
            |what: String| Err(format!("queue f{} of stream {number}, {begin:?}: {what}", queue - FIRST_FED));
        if fed.count() != ready {
            return wrong(format!("{ready} messages were in it, and {} came", fed.count()));
        }
        let has_gaps = stream.has_gaps() || stream.was_unreadable;
        if has_gaps || is_damaged(stream.log) {
            return Ok(());
        }
        let is_there = stream.stage == Stage::There;
        let message = |id: &u64| &self.messages[(id - FIRST_MESSAGE) as usize];
        let (mut first, mut last) = (None, None);
        for id in came {
            let offset = message(id).offset;
            // A message that was not read before retention took it, or before the stream was deleted, has no offset
            // here.
            if offset.is_none() && !stream.retains && is_there {
                return wrong(format!("message {id} is not in the stream"));
            }
            if offset.is_some() && last >= offset {
                return wrong(format!("message {id}, offset {offset:?}, comes behind offset {last:?}"));
            }
            (first, last) = (first.or(offset), offset.or(last));
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
        let first = first.unwrap_or(u64::MAX);
        let from = match begin {
            // Of how many of the last nobody knows the offsets?
            _ if length_max.is_some() && (value.is_some() || !is_there) => first,
            _ if fed.was_purged => first,
            Begin::First => 0,
            Begin::Offset(offset) => *offset,
            Begin::Next => first,
        };
        let is_wanted = |id: &u64| value.is_none() || message(id).value == *value;
        let is_due = |offset: u64| {
            let is_behind = offset >= from || offset >= first && value.is_none();
            // Of a stream that was deleted nobody knows how far the queue had come.
            is_behind && (is_there || Some(offset) <= last)
        };
        let due =
            stream.found.range(from.min(first)..).filter(|(offset, id)| is_due(**offset) && is_wanted(id));
        let due: Vec<(&u64, &u64)> = due.collect();
        let past = length_max.map_or(0, |most| due.len().saturating_sub(most as usize));
        let mut missing = due[past..].iter().filter(|(_, id)| once.binary_search(id).is_err());
        match missing.next() {
            Some((offset, id)) => wrong(format!("message {id} at offset {offset} is missing")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::names::value_of;
    use crate::streams::oracle::Publisher;
    use crate::streams::oracle::tests::chunk;

    /// A stream of three messages at offsets 0 to 2, and a queue that is filled from it.
    fn three(begin: Begin, value: Option<usize>) -> (Oracle, usize) {
        let mut oracle = Oracle::default();
        let stream = oracle.new_stream(false);
        oracle.streams[stream].stage = Stage::There;
        let ids = [0; 3].map(|_| oracle.publishing(stream, Publisher::Plain(1, 0)));
        ids.iter().for_each(|id| oracle.has_value(*id));
        oracle.arrived(stream, &chunk(0, 1, &ids), false).unwrap();
        let queue = oracle.new_fed(stream, begin, value);
        (oracle, queue)
    }

    /// That came out of the queue, all that it said it had.
    fn check_of(mut oracle: Oracle, queue: usize, came: &[u64], is_right: bool) {
        let all = came.iter().map(|at| oracle.fed_came(queue, Some(FIRST_MESSAGE + at)));
        let checked = all.collect::<Result<(), _>>();
        let checked = checked.and_then(|()| oracle.check_fed(queue, came.len() as u64, |_| false));
        assert_eq!(checked.is_ok(), is_right, "{:?} {came:?}: {checked:?}", oracle.fed(queue));
    }

    fn check(begin: Begin, value: Option<usize>, came: &[u64], is_right: bool) {
        let (oracle, queue) = three(begin, value);
        check_of(oracle, queue, came, is_right);
    }

    #[test]
    fn what_a_queue_says_it_has_comes() {
        for retains in [false, true] {
            for stage in [Stage::There, Stage::Gone] {
                for ready in 2..5 {
                    let (mut oracle, queue) = three(Begin::First, None);
                    (oracle.streams[0].retains, oracle.streams[0].stage) = (retains, stage);
                    for at in 0..3 {
                        oracle.fed_came(queue, Some(FIRST_MESSAGE + at)).unwrap();
                    }
                    assert_eq!(oracle.check_fed(queue, ready, |_| false).is_ok(), ready == 3);
                    assert_eq!(oracle.check_fed(queue, ready, |_| true), Ok(()));
                }
            }
        }
    }

    #[test]
    fn of_a_stream_that_is_gone_a_queue_has_all_up_to_somewhere() {
        let rows: [(&[u64], bool); 5] =
            [(&[], true), (&[0], true), (&[0, 1], true), (&[0, 2], false), (&[1], false)];
        for (came, is_right) in rows {
            let (mut oracle, queue) = three(Begin::First, None);
            oracle.streams[0].stage = Stage::Gone;
            check_of(oracle, queue, came, is_right);
        }
    }

    #[test]
    fn a_limited_queue_has_the_last_and_an_emptied_one_all_behind_some() {
        for (came, if_limited, if_emptied) in [
            (&[1u64, 2][..], true, true),
            (&[2], false, true),
            (&[], false, true),
            (&[0, 1], false, false),
            (&[0, 2], false, false),
        ] {
            let (mut oracle, queue) = three(Begin::First, None);
            oracle.fed(queue).length_max = Some(2);
            check_of(oracle, queue, came, if_limited);
            let (mut oracle, queue) = three(Begin::First, None);
            oracle.purging_fed(queue);
            check_of(oracle, queue, came, if_emptied);
        }
    }

    /// The last of what was published was read by nobody before the stream was deleted: it is among the last all the same.
    #[test]
    fn what_nobody_read_is_among_the_last_of_a_limited_queue() {
        for (came, is_right) in [(&[2u64, 3][..], true), (&[0, 3], true), (&[0, 2, 3], false)] {
            let (mut oracle, queue) = three(Begin::First, None);
            oracle.publishing(0, Publisher::Plain(1, 0));
            oracle.streams[0].stage = Stage::Gone;
            oracle.fed(queue).length_max = Some(2);
            check_of(oracle, queue, came, is_right);
        }
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
