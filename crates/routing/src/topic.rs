//! Topic bindings: `*` is one word, `#` any number of them, none included.
//!
//! Keys without wildcards are looked up whole, as in a direct exchange. Patterns are a trie over words: a routing key
//! walks it as a set of nodes, one word after the other, so the cost is (words) x (nodes reached at once) whatever the
//! patterns: nothing backtracks. Words are numbered, so a step is one look-up of two numbers. Each word and each node
//! that it is compared with is a step of the message ([`Matches::steps`]), and so is what is found: all keys of a message
//! share what it may take.
//!
//! Words are the parts of a key between its dots; they may be empty. The empty key has no word.
//!
//! Invariant: every node of the trie but the root has something bound, or a node below that has.

use crate::arguments::Arguments;
use crate::bounds::Bounds;
use crate::errors::BindError;
use crate::keyed::Keyed;
use crate::matches::{Destination, Matches};
use crate::walk::Walk;
use base::hash::MapByBytes;
use base::sample::sum_of;
use std::ops::ControlFlow;
use std::sync::Arc;

/// `#` words a binding key may have, as in RabbitMQ.
pub const WILDCARDS_MAX: usize = 2;

const ROOT: u32 = 0;
/// No node: the root is nobody's child.
const NONE: u32 = 0;

/// Words that mean something else than themselves.
const STAR: u32 = 0;
const HASH: u32 = 1;
/// Leads to the root, as it were.
const NO_WORD: u32 = u32::MAX;

/// The words of a key; none of the empty key.
fn words(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = (!key.is_empty()).then(|| key.split(|byte| *byte == b'.'));
    words.into_iter().flatten()
}

/// Checks a binding key.
pub(crate) fn check(key: &[u8]) -> Result<(), BindError> {
    let wildcards = words(key).filter(|word| *word == b"#").count();
    if wildcards > WILDCARDS_MAX {
        return Err(BindError::Wildcards { key: key.into(), wildcards });
    }
    Ok(())
}

/// How many words a binding key has; none where none of them is a wildcard, as such a key is looked up whole.
pub fn pattern_words(key: &[u8]) -> Option<usize> {
    is_pattern(key).then(|| words(key).count())
}

#[derive(Clone, Debug)]
struct Node {
    parent: u32,
    /// The word that leads here.
    word: u32,
    /// Where `*` leads.
    star: u32,
    /// Where `#` leads.
    hash: u32,
    children: u32,
    bounds: Option<Box<Bounds>>,
}

#[derive(Clone, Debug)]
struct Word {
    text: Arc<[u8]>,
    /// Edges it is on.
    edges: u32,
}

/// The bindings of a topic exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topic {
    exact: Keyed,
    patterns: Trie,
}

impl Topic {
    pub(crate) fn route(&self, keys: &[&[u8]], out: &mut Matches) {
        for key in keys {
            self.exact.route(key, out);
            if !self.patterns.is_empty() {
                self.patterns.route(key, out);
            }
            if out.is_too_dear() {
                return;
            }
        }
    }

    /// Visits what is bound under keys that match, until that takes too many steps.
    pub(crate) fn visit_matching(
        &self,
        keys: &[&[u8]],
        out: &mut Matches,
        visit: &mut impl FnMut(&Bounds, &mut Matches),
    ) {
        for key in keys {
            if let Some(bounds) = self.exact.find(key, out) {
                visit(bounds, out);
            }
            if !self.patterns.is_empty() {
                self.patterns.visit_matching(key, out, visit);
            }
            if out.is_too_dear() {
                return;
            }
        }
    }

    pub(crate) fn bind(&mut self, key: Arc<[u8]>, arguments: Arguments, destination: Destination) -> bool {
        match is_pattern(&key) {
            true => self.patterns.bind(&key, arguments, destination),
            false => self.exact.bind(key, arguments, destination),
        }
    }

    pub(crate) fn unbind(&mut self, key: &[u8], arguments: &Arguments, destination: Destination) -> bool {
        match is_pattern(key) {
            true => self.patterns.unbind(key, arguments, destination),
            false => self.exact.unbind(key, arguments, destination),
        }
    }

    /// Every key with the destinations bound under it, in no order, until `visit` breaks.
    pub(crate) fn try_for_each<'a>(
        &'a self,
        mut visit: impl FnMut(&[u8], &'a Bounds) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.exact.iter().try_for_each(|(key, bounds)| visit(key, bounds))?;
        self.patterns.try_for_each(visit)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.exact.heap_bytes() + self.patterns.heap_bytes()
    }
}

/// Whether a binding key has a wildcard.
fn is_pattern(key: &[u8]) -> bool {
    words(key).any(|word| matches!(word, b"*" | b"#"))
}

/// The patterns among them.
#[derive(Clone, Debug)]
struct Trie {
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    /// From a node and a word that is no wildcard to the next node. Both numbers are ours, but which of them meet is
    /// the choice of whoever binds.
    edges: MapByBytes<(u32, u32), u32>,
    words: Vec<Word>,
    free_words: Vec<u32>,
    numbers: MapByBytes<Arc<[u8]>, u32>,
}

impl Default for Trie {
    fn default() -> Trie {
        let root = Node { parent: NONE, word: NO_WORD, star: NONE, hash: NONE, children: 0, bounds: None };
        let words = [&b"*"[..], b"#"].map(|text| Word { text: text.into(), edges: 0 });
        Trie {
            nodes: vec![root],
            free_nodes: Vec::new(),
            edges: MapByBytes::default(),
            words: words.into(),
            free_words: Vec::new(),
            numbers: MapByBytes::default(),
        }
    }
}

impl Trie {
    fn is_empty(&self) -> bool {
        self.nodes[ROOT as usize].children == 0 && self.nodes[ROOT as usize].bounds.is_none()
    }

    #[inline]
    fn route(&self, key: &[u8], out: &mut Matches) {
        self.visit_matching(key, out, &mut |bounds, out| bounds.route(out));
    }

    #[inline]
    fn visit_matching(&self, key: &[u8], out: &mut Matches, visit: &mut impl FnMut(&Bounds, &mut Matches)) {
        let mut walk = std::mem::take(&mut out.walk);
        if self.walk(key, &mut walk, out) {
            for &at in &walk.current {
                if let Some(bounds) = &self.nodes[at as usize].bounds {
                    visit(bounds, out);
                }
            }
        }
        walk.current.clear();
        out.walk = walk;
    }

    /// Leads `walk` to the nodes at the end of the key; false: that takes too many steps.
    fn walk(&self, key: &[u8], walk: &mut Walk, out: &mut Matches) -> bool {
        walk.current.clear();
        walk.advance();
        self.reach(ROOT, walk);
        std::mem::swap(&mut walk.current, &mut walk.next);
        for word in words(key) {
            if !(out.take(walk.current.len()) && out.take_bytes(word)) {
                return false;
            }
            walk.advance();
            let number = self.numbers.get(word).copied();
            let current = std::mem::take(&mut walk.current);
            for &at in &current {
                let node = &self.nodes[at as usize];
                if node.word == HASH {
                    self.reach(at, walk);
                }
                if node.star != NONE {
                    self.reach(node.star, walk);
                }
                if let Some(number) = number
                    && let Some(&child) = self.edges.get(&(at, number))
                {
                    self.reach(child, walk);
                }
            }
            walk.current = current;
            walk.current.clear();
            std::mem::swap(&mut walk.current, &mut walk.next);
            if walk.current.is_empty() {
                break;
            }
        }
        out.take(walk.current.len())
    }

    /// The walk reaches a node, and with it the `#` nodes right below: they match no word too.
    #[inline]
    fn reach(&self, at: u32, walk: &mut Walk) {
        let mut at = at;
        loop {
            let node = &self.nodes[at as usize];
            if node.word == HASH && !walk.reached.insert(at) {
                return;
            }
            walk.next.push(at);
            if node.hash == NONE {
                return;
            }
            at = node.hash;
        }
    }

    fn bind(&mut self, key: &[u8], arguments: Arguments, destination: Destination) -> bool {
        let mut at = ROOT;
        for word in words(key) {
            at = self.child_or_new(at, word);
        }
        let node = &mut self.nodes[at as usize];
        match &mut node.bounds {
            Some(bounds) => bounds.bind(destination, arguments),
            None => {
                node.bounds = Some(Box::new(Bounds::new(destination, arguments)));
                true
            }
        }
    }

    fn unbind(&mut self, key: &[u8], arguments: &Arguments, destination: Destination) -> bool {
        let mut at = ROOT;
        for word in words(key) {
            match self.child(at, word) {
                Some(child) => at = child,
                None => return false,
            }
        }
        let node = &mut self.nodes[at as usize];
        let Some(bounds) = &mut node.bounds else { return false };
        let (existed, is_left) = bounds.unbind(destination, arguments);
        if !is_left {
            node.bounds = None;
            self.prune(at);
        }
        existed
    }

    fn child(&self, at: u32, word: &[u8]) -> Option<u32> {
        let node = &self.nodes[at as usize];
        match word {
            b"*" => Some(node.star).filter(|child| *child != NONE),
            b"#" => Some(node.hash).filter(|child| *child != NONE),
            _ => self.edges.get(&(at, *self.numbers.get(word)?)).copied(),
        }
    }

    fn child_or_new(&mut self, at: u32, word: &[u8]) -> u32 {
        if let Some(child) = self.child(at, word) {
            return child;
        }
        let number = match word {
            b"*" => STAR,
            b"#" => HASH,
            _ => self.number(word),
        };
        let new = Node { parent: at, word: number, star: NONE, hash: NONE, children: 0, bounds: None };
        let child = match self.free_nodes.pop() {
            Some(free) => {
                self.nodes[free as usize] = new;
                free
            }
            None => {
                self.nodes.push(new);
                (self.nodes.len() - 1) as u32
            }
        };
        let node = &mut self.nodes[at as usize];
        node.children += 1;
        match number {
            STAR => node.star = child,
            HASH => node.hash = child,
            _ => {
                self.edges.insert((at, number), child);
                self.words[number as usize].edges += 1;
            }
        }
        child
    }

    /// The number of a word that is no wildcard.
    fn number(&mut self, word: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let text: Arc<[u8]> = word.into();
        let new = Word { text: text.clone(), edges: 0 };
        let number = match self.free_words.pop() {
            Some(free) => {
                self.words[free as usize] = new;
                free
            }
            None => {
                self.words.push(new);
                (self.words.len() - 1) as u32
            }
        };
        self.numbers.insert(text, number);
        number
    }

    /// Takes away a node that leads to nothing, and those above that then do.
    fn prune(&mut self, leaf: u32) {
        let mut at = leaf;
        while at != ROOT {
            let node = &self.nodes[at as usize];
            if node.children > 0 || node.bounds.is_some() {
                break;
            }
            let (parent, number) = (node.parent, node.word);
            let above = &mut self.nodes[parent as usize];
            above.children -= 1;
            match number {
                STAR => above.star = NONE,
                HASH => above.hash = NONE,
                _ => {
                    self.edges.remove(&(parent, number));
                    let word = &mut self.words[number as usize];
                    word.edges -= 1;
                    if word.edges == 0 {
                        self.numbers.remove(&word.text);
                        word.text = Arc::default();
                        self.free_words.push(number);
                    }
                }
            }
            self.free_nodes.push(at);
            at = parent;
        }
        // Nothing is bound any more: the memory of past bindings goes too.
        if self.is_empty() {
            *self = Trie::default();
        }
    }

    /// Every key with the destinations bound under it, in no order, until `visit` breaks.
    fn try_for_each<'a>(
        &'a self,
        mut visit: impl FnMut(&[u8], &'a Bounds) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut key = Vec::new();
        let mut path = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let Some(bounds) = &node.bounds else { continue };
            path.clear();
            let mut at = number as u32;
            while at != ROOT {
                let node = &self.nodes[at as usize];
                path.push(node.word);
                at = node.parent;
            }
            key.clear();
            for (place, word) in path.iter().rev().enumerate() {
                if place > 0 {
                    key.push(b'.');
                }
                key.extend(&self.words[*word as usize].text[..]);
            }
            visit(&key, bounds)?;
        }
        ControlFlow::Continue(())
    }

    fn heap_bytes(&self) -> usize {
        // An `Arc` has two counters in front of its bytes.
        let words = |word: &Word| (word.text.len() + 16).next_multiple_of(16);
        let bounds =
            |node: &Node| node.bounds.as_ref().map_or(0, |own| size_of::<Bounds>() + own.heap_bytes());
        let words = sum_of(self.words.len(), self.words.iter(), words);
        let bounds = sum_of(self.nodes.len(), self.nodes.iter(), bounds);
        words
            + bounds
            + self.nodes.capacity() * size_of::<Node>()
            + self.words.capacity() * size_of::<Word>()
            + self.edges.capacity() * 8 / 7 * (size_of::<((u32, u32), u32)>() + 1)
            + self.numbers.capacity() * 8 / 7 * (size_of::<(Arc<[u8]>, u32)>() + 1)
            + (self.free_nodes.capacity() + self.free_words.capacity()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matches::STEPS_MAX;
    use base::id::QueueId;

    fn bound(patterns: &[&str]) -> Topic {
        let mut topic = Topic::default();
        for (id, pattern) in patterns.iter().enumerate() {
            let queue = Destination::Queue(QueueId(id as u64));
            topic.bind(pattern.as_bytes().into(), Arguments::new(), queue);
        }
        topic
    }

    fn check(patterns: &[&str], keys: &[&str], expected: &[u64]) {
        let mut matches = Matches::default();
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        bound(patterns).route(&keys, &mut matches);
        let mut found: Vec<u64> = matches.queues().map(|queue| queue.0).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn long_keys_are_compared_whole() {
        let patterns = ["#", "a.#", "#.z", "*.b.#", "a.#.a.#"];
        let long_word = format!("{}.z", "a".repeat(70_000));
        check(&patterns, &[&long_word], &[0, 2]);
        let key = |words: usize| format!("{}.z", vec!["a"; words - 1].join("."));
        check(&patterns, &[&key(256)], &[0, 1, 2, 4]);
        check(&patterns, &[&key(30_000)], &[0, 1, 2, 4]);
        check(&patterns, &["x", &key(30_000)], &[0, 1, 2, 4]);
        check(&patterns, &["x", "a.b", "z"], &[0, 1, 2, 3]);
    }

    /// Each node that stays is one `#` has led to: as many as words in the pattern.
    #[test]
    fn each_word_and_node_is_a_step() {
        let topic = bound(&["#", "#.a.*.a.*.a.*.a.*.a.*.a.*.a.*.a.*.a.*.a.z", "x.#"]);
        let key = vec!["a"; 30_000].join(".");
        let mut matches = Matches::default();
        topic.route(&[key.as_bytes()], &mut matches);
        let taken = matches.steps() as usize;
        assert!((15 * 30_000..=24 * 30_000).contains(&taken), "{taken} steps");
        assert_eq!(matches.queues().collect::<Vec<_>>(), [QueueId(0)]);
        // A second key takes them anew, or as many as are left.
        topic.route(&[key.as_bytes()], &mut matches);
        assert!(matches.steps() as usize == 2 * taken || matches.is_too_dear());
        topic.route(&[key.as_bytes()], &mut matches);
        assert!(matches.is_too_dear());
        matches.start();
        assert_eq!(matches.steps(), 0);
    }

    /// As many keys as a message may bring, and patterns that reach a node for each of their words: without a
    /// bound this takes minutes.
    #[test]
    fn many_long_keys_end() {
        let word = |bit: bool| if bit { "a." } else { "*." };
        let words = |id: usize| (0..60).map(|at| word(id >> (at % 8) & 1 == 1)).collect::<String>();
        let patterns: Vec<String> = (0..256).map(|id| format!("#.{}z", words(id))).collect();
        let topic = bound(&patterns.iter().map(String::as_str).collect::<Vec<_>>());
        let key = vec!["a"; 128].join(".");
        let keys = vec![key.as_bytes(); 30_000];
        let mut matches = Matches::default();
        topic.route(&keys, &mut matches);
        assert!(matches.is_too_dear() && matches.is_empty());
        assert!(matches.steps() < STEPS_MAX + 256 * 62, "{} steps", matches.steps());
    }

    /// Each of them finds all of these.
    #[test]
    fn many_keys_that_find_much_end() {
        let mut topic = Topic::default();
        for queue in 0..4096 {
            topic.bind(b"#"[..].into(), Arguments::new(), Destination::Queue(QueueId(queue)));
        }
        let texts: Vec<String> = (0..1_000_000).map(|at| format!("k{at}")).collect();
        let keys: Vec<&[u8]> = texts.iter().map(|key| key.as_bytes()).collect();
        let mut matches = Matches::default();
        topic.route(&keys, &mut matches);
        assert!(matches.is_too_dear());
        matches.start();
        topic.route(&keys[..200], &mut matches);
        assert_eq!((matches.is_too_dear(), matches.queues().count()), (false, 4096));
    }
}
