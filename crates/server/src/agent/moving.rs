//! Moves of messages to another place.
//!
//! A message that moves is taken as a consumer takes it, published with its properties, and acknowledged when its copy
//! is safe. When the node dies in between it is in both places: nothing is lost, something may come twice.
//!
//! That is done in windows: many are taken, then published, then waited for, so that they share a flush of the target's
//! log. Messages are published in the order they are taken in.
//!
//! Messages that are named by position are asked for with methods that AMQP does not have and that other connections
//! are refused.
//!
//! It is published over a connection of its own: a refusal closes that one's channel, and an alarm stops the reading of
//! it. Messages that were taken over the other go back by name, which is no failed delivery; with a channel that closes
//! it would be one, and after some of them a quorum queue drops the message.

use super::{Agent, TICK};
use management::{Goal, Outcome, Pace, Trouble};
use placing::{Fate, Placer};
use slice::Slice;
use std::time::{Duration, Instant};
use taking::{Answer, Taken, Taking};
use window::Window;

mod placing;
mod slice;
mod taking;
mod window;

pub(super) use window::requests_max;

/// How far a move has come.
#[derive(Default)]
struct Progress {
    moved: u32,
    unplaced: u32,
    /// Positions at which nothing was ready.
    missing: Vec<u64>,
    /// Nothing is left to move.
    is_over: bool,
}

impl Progress {
    /// Messages and positions that were looked at.
    fn looked_at(&self) -> u32 {
        self.moved + self.unplaced + self.missing.len() as u32
    }

    /// A message of the first ones at most, of so many that are asked for.
    fn left(&self, pace: &Pace) -> u32 {
        (pace.count - self.moved).min(pace.among - self.moved - self.unplaced)
    }

    /// Answers and the fates of the messages in them. Behind the first message that was not placed for trouble, only those that
    /// have moved count: nothing behind it would have been looked at.
    fn add(&mut self, answers: &[Answer], fates: &[Fate]) {
        let (mut fates, mut is_in_trouble) = (fates.iter(), false);
        for Answer { position, taken } in answers {
            let fate = taken.as_ref().and_then(|_| fates.next());
            match (fate, position) {
                (Some(Fate::Safe), _) => self.moved += 1,
                (Some(Fate::Untried | Fate::UnderWay), _) => is_in_trouble = true,
                _ if is_in_trouble => {}
                (Some(Fate::Unplaced), _) => self.unplaced += 1,
                (None, Some(position)) => self.missing.push(*position),
                (None, None) => self.is_over = true,
            }
        }
    }
}

impl Agent<'_> {
    /// Moves messages at that pace, those at the `chosen` positions or else the first ones, until the node stops; `publisher` is
    /// another connection of the same user's.
    pub(super) fn move_all(
        &mut self,
        publisher: &mut Agent<'_>,
        queue: &[u8],
        goal: &Goal,
        chosen: Option<&[u64]>,
        pace: &Pace,
    ) -> Result<Outcome, Trouble> {
        let begin = Instant::now();
        let (mut taking, mut placer) = (Taking::new(queue), Placer::new(publisher, goal));
        let (mut progress, mut rest) = (Progress::default(), chosen.unwrap_or_default().iter());
        let (mut slice, mut window) = (Slice::new(pace), Window::new(queue, pace.per_second));
        let mut is_taking_in_trouble = false;
        let trouble = loop {
            progress.is_over |= match chosen {
                Some(_) => rest.len() == 0 && taking.is_idle(),
                None => progress.left(pace) == 0,
            };
            let is_late = slice.is_late(begin.elapsed().as_millis() as u64, progress.looked_at());
            let unplaced_left = pace.unplaced_max - progress.unplaced;
            if progress.is_over || is_late || unplaced_left == 0 || self.is_stopping() {
                break None;
            }
            if taking.is_idle() {
                let most = window.size().min(unplaced_left);
                match chosen {
                    Some(_) => {
                        let positions = rest.by_ref().take(most as usize);
                        positions.for_each(|position| taking.ask(self, Some(*position)));
                    }
                    None => (0..most.min(progress.left(pace))).for_each(|_| taking.ask(self, None)),
                }
            }
            let window_begin = Instant::now();
            let answers = match taking.answers(self, window::BYTES_MAX) {
                Ok(answers) => answers,
                Err(trouble) => {
                    is_taking_in_trouble = true;
                    break Some(trouble);
                }
            };
            let messages: Vec<&Taken> = answers.iter().filter_map(|answer| answer.taken.as_ref()).collect();
            let (fates, trouble) = placer.place_all(&messages);
            let largest = messages.iter().map(|message| message.body.len()).max();
            window.learn(window_begin.elapsed(), largest.unwrap_or_default());
            taking.settle(self, messages.iter().map(|message| message.tag).zip(fates.iter().copied()));
            progress.add(&answers, &fates);
            if trouble.is_some() {
                break trouble;
            }
            self.keep_pace(begin, progress.moved, pace.per_second);
        };
        taking.give_back(self, is_taking_in_trouble);
        let Progress { moved, unplaced, missing, is_over } = progress;
        Ok(Outcome::Moved { moved, unplaced, missing, is_over, trouble })
    }

    /// Waits until so many may have moved since `begin`.
    fn keep_pace(&self, begin: Instant, moved: u32, per_second: u32) {
        if per_second == 0 {
            return;
        }
        let due = Duration::from_secs_f64(f64::from(moved) / f64::from(per_second));
        // However slow the pace is, the node need not wait for it.
        while !self.is_stopping()
            && let Some(rest) = due.checked_sub(begin.elapsed()).filter(|rest| !rest.is_zero())
        {
            std::thread::sleep(rest.min(TICK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_trouble_counts_only_if_it_moved() {
        use Fate::{Safe, UnderWay, Unplaced, Untried};
        const GONE: Option<Fate> = None;
        let check = |answers: &[Option<Fate>], expected: (u32, u32, &[u64])| {
            let taken = |tag: u64| Taken { tag, properties: Vec::new(), body: Vec::new() };
            let all = || (0..).zip(answers);
            let answers: Vec<_> = all()
                .map(|(at, fate)| Answer { position: Some(at), taken: fate.map(|_| taken(at)) })
                .collect();
            let fates: Vec<_> = all().filter_map(|(_, fate)| *fate).collect();
            let mut progress = Progress::default();
            progress.add(&answers, &fates);
            let Progress { moved, unplaced, missing, is_over } = progress;
            assert_eq!(((moved, unplaced, &missing[..]), is_over), (expected, false));
        };
        check(&[Some(Safe), GONE, Some(Unplaced), Some(Safe), GONE], (2, 1, &[1, 4]));
        check(&[Some(Safe), GONE, Some(UnderWay), Some(Safe), GONE, Some(Unplaced)], (2, 0, &[1]));
        check(&[Some(Unplaced), Some(Untried), Some(Untried), GONE], (0, 1, &[]));
        // The first one was asked for, and there was none.
        let mut progress = Progress::default();
        progress.add(&[Answer { position: None, taken: None }], &[]);
        assert!(progress.is_over);
    }
}
