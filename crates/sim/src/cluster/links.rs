//! The messages under way between nodes: each takes its time, some are late, lost, or come twice; links are cut, in one
//! direction or both.

use crate::agreement::faults::Faults;
use crate::seat::{node_no, number_of};
use base::Random;
use base::id::NodeNo;
use node::word::Word;
use std::collections::{BTreeMap, BTreeSet};

/// A word under way.
#[derive(Debug)]
pub struct Sent {
    /// Its sender.
    pub from: NodeNo,
    /// The number of the node it goes to, from 0.
    pub to: usize,
    /// Its content.
    pub word: Word,
}

/// See the module.
#[derive(Debug)]
pub struct Links {
    faults: Faults,
    rolled: Faults,
    /// By when each arrives, nanoseconds, and a number.
    under_way: BTreeMap<(u64, u64), Sent>,
    numbers: u64,
    /// Messages from the first to the second are lost.
    cut: BTreeSet<(usize, usize)>,
}

impl Links {
    /// Those of a run.
    pub fn roll(dice: &mut Random) -> Links {
        let (under_way, cut) = Default::default();
        let rolled = Faults::roll(dice);
        Links { faults: rolled, rolled, under_way, numbers: 0, cut }
    }

    /// A node sends a word to another.
    pub fn send(&mut self, now_ns: u64, dice: &mut Random, from: usize, (to, word): (NodeNo, Word)) {
        let to = number_of(to);
        for _ in 0..1 + u64::from(self.faults.is_twice(dice)) {
            let delay_us = self.faults.message(dice);
            let Some(delay_us) = delay_us.filter(|_| !self.cut.contains(&(from, to))) else { continue };
            self.numbers += 1;
            let sent = Sent { from: node_no(from), to, word: word.clone() };
            self.under_way.insert((now_ns + delay_us * 1000, self.numbers), sent);
        }
    }

    /// Takes the words that are due.
    pub fn due(&mut self, now_ns: u64) -> Vec<Sent> {
        let later = self.under_way.split_off(&(now_ns + 1, 0));
        std::mem::replace(&mut self.under_way, later).into_values().collect()
    }

    /// The node went down: nothing that is under way to it arrives.
    pub fn forget(&mut self, node: usize) {
        self.under_way.retain(|_, sent| sent.to != node);
    }

    /// A node hears nothing of another any more, and if `both` that one of it.
    pub fn cut(&mut self, one: usize, other: usize, both: bool) {
        self.cut.insert((one, other));
        if both {
            self.cut.insert((other, one));
        }
    }

    /// All links carry messages again.
    pub fn mend(&mut self) {
        self.cut.clear();
    }

    /// All is well from now on.
    pub fn end_faults(&mut self) {
        self.cut.clear();
        self.faults.end();
    }

    /// Messages are late and lost again as they were.
    pub fn begin_faults(&mut self) {
        self.faults = self.rolled;
    }
}
