//! The order of consumers that could take a message, where it is not simply their turn ([`Fairness`]).
//!
//! A tournament over the slots of consumers: each node of a binary tree has the better one of its two children. To find
//! the best one costs nothing, and to move one as many steps as the logarithm of their number, few where it is not
//! among the best.
//! Not here: when a consumer can take a message, and what it holds (`crate::consumers`).
//!
//! Invariant: a consumer that can take something has the key of what it holds now, any other slot has [`NOBODY`].

use crate::command::{ConsumerId, Credit};
use crate::consumers::Consumer;
use crate::settings::Fairness;
use std::hint::select_unpredictable;

/// The room of a consumer without a bound of its own, as its share is reckoned.
const UNBOUNDED_WINDOW: u64 = 2000;

/// Bits of a share behind the point: it is told apart to that part of a window.
const SHARE_BITS: u32 = 32;

/// Bits of a key that have the share: more than 256 windows count as so many.
const KEY_SHARE_BITS: u32 = 40;

/// Bits of a key that have the turn.
const KEY_TURN_BITS: u32 = 56;

/// The key of a slot whose consumer, if there is one, can take nothing.
const NOBODY: u128 = u128::MAX;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Ranking {
    fairness: Fairness,
    /// By slot; the least is next: priority, share, turn. A power of two.
    keys: Vec<u128>,
    /// The root is at 1, the children of a node at twice its place and behind; the leaves are the slots.
    tree: Vec<u32>,
    /// By slot, when it was given something last, or came.
    turns: Vec<u64>,
    turn: u64,
    /// How many can take something.
    takers: u32,
}

/// The part that a consumer holds of what it may, as a number of 2^-32 parts.
fn share(consumer: &Consumer) -> u64 {
    let held = consumer.unsettled.count();
    let window = match consumer.credit {
        Credit::Prefetch(0) => UNBOUNDED_WINDOW,
        Credit::Prefetch(prefetch) => u64::from(prefetch),
        Credit::Link(credit) => held + u64::from(credit),
    };
    // Nobody holds 2^32 messages: a position costs memory.
    (held << SHARE_BITS) / window.max(1)
}

impl Ranking {
    pub(crate) fn new(fairness: Fairness) -> Ranking {
        let (keys, tree, turns) = (vec![NOBODY], vec![0; 2], vec![0]);
        Ranking { fairness, keys, tree, turns, turn: 0, takers: 0 }
    }

    pub(crate) fn fairness(&self) -> Fairness {
        self.fairness
    }

    /// A consumer came: others have waited longer.
    pub(crate) fn join(&mut self, id: ConsumerId) {
        let slot = id.0 as usize;
        if self.keys.len() <= slot {
            self.grow((slot + 1).next_power_of_two());
        }
        self.took(id);
    }

    fn grow(&mut self, slots: usize) {
        self.keys.resize(slots, NOBODY);
        self.turns.resize(slots, 0);
        self.tree = vec![0; 2 * slots];
        for node in (1..2 * slots).rev() {
            self.tree[node] = match node.checked_sub(slots) {
                Some(slot) => slot as u32,
                None => {
                    let [one, other] = [self.tree[2 * node], self.tree[2 * node + 1]];
                    if self.keys[other as usize] < self.keys[one as usize] { other } else { one }
                }
            };
        }
    }

    /// A consumer was given something: others have waited longer. Its place is to be found anew.
    #[inline]
    pub(crate) fn took(&mut self, id: ConsumerId) {
        self.turn += 1;
        self.turns[id.0 as usize] = self.turn;
    }

    /// A consumer can take something: it gets its place, or another one.
    pub(crate) fn place(&mut self, id: ConsumerId, consumer: &Consumer) {
        let (share, turn) = match self.fairness {
            Fairness::Proportional => (share(consumer), self.turns[id.0 as usize]),
            _ => (0, u64::from(consumer.joined)),
        };
        // Higher priorities first.
        let priority = !(consumer.priority as u32 ^ 1 << 31);
        let share = share.min((1 << KEY_SHARE_BITS) - 1);
        let key = u128::from(priority) << (KEY_SHARE_BITS + KEY_TURN_BITS)
            | u128::from(share) << KEY_TURN_BITS
            | u128::from(turn);
        self.set(id, key);
    }

    /// A consumer can take nothing.
    pub(crate) fn remove(&mut self, id: ConsumerId) {
        self.set(id, NOBODY);
    }

    fn set(&mut self, id: ConsumerId, key: u128) {
        let Ranking { keys, tree, .. } = self;
        let before = std::mem::replace(&mut keys[id.0 as usize], key);
        self.takers = self.takers + u32::from(key != NOBODY) - u32::from(before != NOBODY);
        let (mut best, mut best_key) = (id.0, key);
        let mut node = keys.len() + id.0 as usize;
        while node > 1 {
            let other = tree[node ^ 1];
            let other_key = keys[other as usize];
            // Which one is better follows no pattern that a processor could learn.
            let is_less = other_key < best_key;
            best = select_unpredictable(is_less, other, best);
            best_key = select_unpredictable(is_less, other_key, best_key);
            node /= 2;
            // Above this node nothing is about the one that moves.
            if std::mem::replace(&mut tree[node], best) == best && best != id.0 {
                return;
            }
        }
    }

    /// The consumer that is next, and whether it may be given as much as it can take.
    #[inline]
    pub(crate) fn first(&self) -> Option<(ConsumerId, bool)> {
        let takes_all = self.fairness == Fairness::Fast || self.takers == 1;
        (self.takers > 0).then(|| (ConsumerId(self.tree[1]), takes_all))
    }

    /// All that can take something, the best first.
    pub(crate) fn in_order(&self) -> Vec<ConsumerId> {
        let slots = self.keys.iter().enumerate().filter(|(_, key)| **key != NOBODY);
        let mut all: Vec<(u128, u32)> = slots.map(|(slot, key)| (*key, slot as u32)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, slot)| ConsumerId(slot)).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.takers == 0
    }

    /// Heap bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.keys.capacity() * size_of::<u128>()
            + self.tree.capacity() * size_of::<u32>()
            + self.turns.capacity() * size_of::<u64>()
    }
}
