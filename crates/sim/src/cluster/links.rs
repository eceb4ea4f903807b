//! The messages under way between nodes: each takes its time, some are late, lost, or come twice; links are cut, in one
//! direction or both.

use crate::agreement::faults::Faults;
use crate::seat::{node_no, number_of};
use base::id::NodeNo;
use base::{Output, Random};
use broker::word_codec as codec;
use broker::{Said, WordItem as Item};
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

/// How much came of nodes that follow logs to those that lead them, and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Parcels of records, and messages that queues were asked about.
    pub records: u64,
    /// Commands of connections.
    pub commands: u64,
    /// Consumers that were to go on, and what they hold.
    pub claims: u64,
}

impl Brought {
    fn note(&mut self, word: &Word) {
        let Word::Log(word) = word else { return };
        match &word.said {
            Said::Bring { item: Item::Records { .. } | Item::Ask { .. }, .. } => self.records += 1,
            Said::Bring { item: Item::Command { .. }, .. } => self.commands += 1,
            Said::Bring { item: Item::Claim(_), .. } => self.claims += 1,
            _ => {}
        }
    }
}

/// The word as it is on the other side, where it has bytes.
fn carried(word: Word) -> Word {
    let Word::Log(word) = word else { return word };
    let mut out = Output::default();
    codec::write(&word, &mut out).expect("a word about a log that nodes agree on has bytes");
    let again = codec::read(&out.to_vec()).expect("it is what was written");
    Word::Log(Box::new(again))
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
    /// Words about logs that came.
    pub brought: Brought,
}

impl Links {
    /// Those of a run.
    pub fn roll(dice: &mut Random) -> Links {
        let (under_way, cut) = Default::default();
        let rolled = Faults::roll(dice);
        Links { faults: rolled, rolled, under_way, numbers: 0, cut, brought: Brought::default() }
    }

    /// A node sends a word to another.
    pub fn send(&mut self, now_ns: u64, dice: &mut Random, from: usize, (to, word): (NodeNo, Word)) {
        let (to, word) = (number_of(to), carried(word));
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
        let due: Vec<Sent> = std::mem::replace(&mut self.under_way, later).into_values().collect();
        due.iter().for_each(|sent| self.brought.note(&sent.word));
        due
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
