//! The nodes that visit this one, which leads a log: how far each has come with what it brings, and which events it has heard.
//!
//! Of what a guest brings the next one is taken, and no other: were one passed over, the number of a later one would say that
//! it is recorded. A guest hears what is done: records once they are applied here, which is when they are agreed on. Events
//! for its connections are numbered, and told until it has heard them; they say what was done before them, so that a message
//! which comes back to a consumer is not taken for the one that it gave back.
//! Not here: the other side ([`super::visit`]), and the claims that it comes with ([`super::claims`]).

use crate::event::{Events, Item};
use crate::limits::Limits;
use crate::post::Post;
use crate::word::{LogWord, Said, Tenure};
use base::Now;
use base::id::{LogId, LogIndex, NodeNo, PortId, QueueId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Events that a guest has not said to have heard.
#[derive(Debug)]
struct Told {
    number: u64,
    /// Everything up to this position was done before them.
    done: u64,
    events: Arc<Events>,
    bytes: usize,
}

/// A node that visits.
#[derive(Debug)]
struct Guest {
    life: u64,
    visit: u64,
    /// The node under which its connections are known here.
    alias: NodeNo,
    /// Queues at which its connections may have something.
    uses: BTreeSet<(PortId, QueueId)>,
    /// Everything up to this position has come.
    taken: u64,
    /// Positions that are done once everything before an index is applied.
    pending: VecDeque<(u64, LogIndex)>,
    /// Everything up to this position is done.
    done: u64,
    /// The highest number of records of its that came in.
    number: u64,
    /// It is to hear how far everything is.
    is_owed: bool,
    /// Something came before what comes next, or was not taken.
    has_gap: bool,
    /// It has said all it claims.
    has_claimed: bool,
    /// The number of the events that were told last.
    told: u64,
    /// The number of those that were said at least once.
    said: u64,
    unheard: VecDeque<Told>,
    /// Bytes of those.
    unheard_bytes: usize,
    /// Its consumers are given nothing, as it has not heard of so much.
    is_held_up: bool,
    /// Queues at which connections of it may have consumers since then.
    uses_since: Vec<(PortId, QueueId)>,
    /// When events are told again, monotonic nanoseconds.
    again_at: u64,
    /// When it said something last, monotonic nanoseconds.
    came_at: u64,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Guests {
    log: LogId,
    tenure: Tenure,
    by_node: BTreeMap<NodeNo, Guest>,
}

/// A word of a guest.
#[derive(Debug)]
pub(crate) enum Came {
    /// Nothing is to be done.
    Nothing,
    /// Its item is the next.
    Next,
    /// An answer, to be sent at once.
    Answer(Said),
}

/// A connection of a guest that is gone, and a queue at which it may have something.
pub(crate) type Gone = (PortId, QueueId);

impl Guests {
    /// Those of a log that this node leads, if it leads it: none so far.
    pub(crate) fn new(log: LogId) -> Guests {
        Guests { log, tenure: Tenure::default(), by_node: BTreeMap::new() }
    }

    /// This node leads no more: all have gone.
    pub(crate) fn leave(&mut self, post: &mut Post) {
        self.by_node.values().for_each(|guest| post.close_tray(guest.alias));
        self.by_node.clear();
    }

    /// The present time of leading.
    pub(crate) fn set_tenure(&mut self, tenure: Tenure) {
        self.tenure = tenure;
    }

    /// A guest has said all it claims.
    pub(crate) fn has_claimed(&self, node: NodeNo) -> bool {
        self.by_node.get(&node).is_some_and(|guest| guest.has_claimed)
    }

    /// A word came of a node, `last_life` of which is the latest that the log knows, and whose records are in it up to
    /// `recorded`. `gone`: what connections of an earlier life of it may have.
    pub(crate) fn hear(
        &mut self,
        now: Now,
        (from, word): (NodeNo, &LogWord),
        (last_life, recorded): (u64, u64),
        (limits, post): (&Limits, &mut Post),
        gone: &mut Vec<Gone>,
    ) -> Came {
        let is_full = self.by_node.len() >= limits.guests_max;
        let is_led = word.tenure == self.tenure;
        let guest = self.by_node.get_mut(&from);
        match word.said {
            Said::Come if word.life < last_life => Came::Answer(Said::Past { life: last_life }),
            Said::Come => {
                match guest {
                    Some(guest) if (guest.life, guest.visit) == (word.life, word.visit) => {}
                    Some(guest) if guest.life > word.life => {
                        return Came::Answer(Said::Past { life: guest.life });
                    }
                    Some(guest) if guest.life == word.life && guest.visit > word.visit => {
                        return Came::Nothing;
                    }
                    None if is_full => return Came::Nothing,
                    _ => {
                        self.dismiss(from, post, gone);
                        _ = self.by_node.insert(from, Guest::new(word, post.open_tray(), now));
                    }
                }
                Came::Answer(Said::Welcome { recorded })
            }
            Said::Bring { .. } | Said::Heard { .. } => {
                let is_this = |guest: &&mut Guest| (guest.life, guest.visit) == (word.life, word.visit);
                let Some(guest) = guest.filter(|guest| is_led && is_this(guest)) else {
                    return Came::Answer(Said::Stranger);
                };
                guest.came_at = now.mono_ns;
                match word.said {
                    Said::Bring { at, .. } => {
                        guest.is_owed |= at <= guest.taken;
                        guest.has_gap |= at > guest.taken + 1;
                        if at == guest.taken + 1 { Came::Next } else { Came::Nothing }
                    }
                    Said::Heard { number, has_gap } => {
                        guest.heard(number);
                        if has_gap {
                            guest.again_at = 0;
                        }
                        Came::Nothing
                    }
                    _ => Came::Nothing,
                }
            }
            _ => Came::Nothing,
        }
    }

    /// A guest is one no more: what its connections may have goes to `gone`.
    fn dismiss(&mut self, node: NodeNo, post: &mut Post, gone: &mut Vec<Gone>) {
        if let Some(guest) = self.by_node.remove(&node) {
            post.close_tray(guest.alias);
            gone.extend(guest.uses);
        }
    }

    /// Dismisses the guests of which nothing was heard for long.
    pub(crate) fn dismiss_lost(&mut self, now: Now, limits: &Limits, post: &mut Post, gone: &mut Vec<Gone>) {
        let lost_ns = limits.node_lost_after_ms * base::time::NS_PER_MS;
        let is_lost = |guest: &Guest| !guest.uses.is_empty() && guest.came_at + lost_ns <= now.mono_ns;
        let lost: Vec<NodeNo> =
            self.by_node.iter().filter(|(_, guest)| is_lost(guest)).map(|(node, _)| *node).collect();
        lost.into_iter().for_each(|node| self.dismiss(node, post, gone));
    }

    /// Records of a guest come into the log under this number. False: they have come before.
    pub(crate) fn is_new(&mut self, from: NodeNo, number: u64) -> bool {
        let Some(guest) = self.by_node.get_mut(&from) else { return false };
        let is_new = number > guest.number;
        guest.number = guest.number.max(number);
        is_new
    }

    /// The item that a guest brought last is taken, and done once everything before `until` is applied.
    pub(crate) fn took(&mut self, from: NodeNo, until: LogIndex) {
        let Some(guest) = self.by_node.get_mut(&from) else { return };
        guest.taken += 1;
        guest.has_gap = false;
        guest.is_owed = true;
        guest.pending.push_back((guest.taken, until));
    }

    /// A guest has said all it claims.
    pub(crate) fn claimed(&mut self, from: NodeNo) {
        if let Some(guest) = self.by_node.get_mut(&from) {
            guest.has_claimed = true;
        }
    }

    /// A connection of a guest as it is known here.
    pub(crate) fn port_of(&self, from: NodeNo, port: PortId) -> Option<PortId> {
        let guest = self.by_node.get(&from)?;
        Some(PortId { node: guest.alias, ..port })
    }

    /// A connection of a guest may have something at a queue from now on, or is gone.
    pub(crate) fn uses(&mut self, from: NodeNo, port: PortId, queue: QueueId, does: bool) {
        let Some(guest) = self.by_node.get_mut(&from) else { return };
        match does {
            true => {
                guest.uses.insert((port, queue));
                if guest.is_held_up {
                    guest.uses_since.push((port, queue));
                }
            }
            false => _ = guest.uses.remove(&(port, queue)),
        }
    }

    /// Items that guests brought in the meantime, and that were not taken, are to come again.
    pub(crate) fn ask_again(&mut self) {
        self.by_node.values_mut().for_each(|guest| guest.has_gap = true);
    }

    /// Everything before an index is applied: who is to hear something hears it.
    pub(crate) fn turn(&mut self, now: Now, applied: LogIndex, limits: &Limits, post: &mut Post) {
        let Guests { log, tenure, by_node } = self;
        for (node, guest) in by_node {
            while let Some((at, _)) = guest.pending.pop_front_if(|(_, until)| *until <= applied) {
                (guest.done, guest.is_owed) = (at, true);
            }
            let events = post.take_tray(guest.alias);
            guest.tell(now, events, limits);
            let again = guest.again(now, limits);
            let mut say = |said| {
                let (life, visit) = (guest.life, guest.visit);
                post.words.push((*node, LogWord { log: *log, life, visit, tenure: *tenure, said }));
            };
            for (number, done, events) in again {
                say(Said::Events { number, done, events });
            }
            if std::mem::take(&mut guest.is_owed) {
                say(Said::Taken { taken: guest.taken, done: guest.done });
            }
            if std::mem::take(&mut guest.has_gap) {
                say(Said::GoBack { from: guest.taken + 1 });
            }
        }
    }

    /// Connections of guests whose consumers are given nothing from now on, or something again, as their node has not heard of
    /// much, or has.
    pub(crate) fn held_up(&mut self, limits: &Limits) -> Vec<(PortId, QueueId, bool)> {
        let mut changed = Vec::new();
        for guest in self.by_node.values_mut() {
            let is_much = guest.unheard_bytes > limits.guest_bytes_max;
            let is_little = guest.unheard_bytes <= limits.guest_bytes_max / 2;
            let since = std::mem::take(&mut guest.uses_since).into_iter();
            changed.extend(since.map(|(port, queue)| (port, queue, true)));
            if (is_much && !guest.is_held_up) || (is_little && guest.is_held_up) {
                guest.is_held_up = is_much;
                changed.extend(guest.uses.iter().map(|(port, queue)| (*port, *queue, is_much)));
            }
        }
        changed
    }

    /// Somebody is to hear something, as everything before an index is applied.
    pub(crate) fn has_news(&self, applied: LogIndex) -> bool {
        self.by_node.values().any(|guest| {
            let is_done = guest.pending.front().is_some_and(|(_, until)| *until <= applied);
            guest.is_owed || guest.has_gap || is_done
        })
    }

    /// When something is told again, or a guest is lost, monotonic nanoseconds.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<u64> {
        let lost_ns = limits.node_lost_after_ms * base::time::NS_PER_MS;
        let of_each = self.by_node.values().map(|guest| {
            let again = (!guest.unheard.is_empty()).then_some(guest.again_at);
            let lost = (!guest.uses.is_empty()).then_some(guest.came_at + lost_ns);
            [again, lost].into_iter().flatten().min()
        });
        of_each.flatten().min()
    }

    /// The answer to a word, as a word.
    pub(crate) fn answer(&self, word: &LogWord, said: Said) -> LogWord {
        // A visit that is none is told so in the words that it knows.
        let tenure = if matches!(said, Said::Stranger) { word.tenure } else { self.tenure };
        LogWord { log: self.log, life: word.life, visit: word.visit, tenure, said }
    }

    /// Has all of these come that have not so far.
    pub(crate) fn call(&self, others: &[NodeNo], post: &mut Post) {
        for node in others.iter().filter(|node| !self.has_claimed(**node)) {
            let (life, visit, tenure) = (0, 0, self.tenure);
            post.words.push((*node, LogWord { log: self.log, life, visit, tenure, said: Said::Led }));
        }
    }
}

impl Guest {
    fn new(word: &LogWord, alias: NodeNo, now: Now) -> Guest {
        Guest {
            life: word.life,
            visit: word.visit,
            alias,
            uses: BTreeSet::new(),
            taken: 0,
            pending: VecDeque::new(),
            done: 0,
            number: 0,
            is_owed: false,
            has_gap: false,
            has_claimed: false,
            told: 0,
            said: 0,
            unheard: VecDeque::new(),
            unheard_bytes: 0,
            is_held_up: false,
            uses_since: Vec::new(),
            again_at: 0,
            came_at: now.mono_ns,
        }
    }

    /// Events are to be told.
    fn tell(&mut self, now: Now, events: Option<Events>, limits: &Limits) {
        let Some(mut events) = events else { return };
        // As their own node knows them.
        events.list.iter_mut().for_each(|(port, _)| port.node = NodeNo::ONLY);
        if self.unheard.is_empty() {
            self.again_at = now.after_ms(limits.visit_again_ms);
        }
        self.told += 1;
        let memories: usize = events.memories.iter().map(|memory| memory.capacity()).sum();
        let bytes = memories + events.items.len() * size_of::<Item>();
        self.unheard_bytes += bytes;
        self.unheard.push_back(Told { number: self.told, done: self.done, events: Arc::new(events), bytes });
    }

    /// The events that are said now: those that are new, and all where they were not heard for long.
    fn again(&mut self, now: Now, limits: &Limits) -> Vec<(u64, u64, Arc<Events>)> {
        let is_due = !self.unheard.is_empty() && now.mono_ns >= self.again_at;
        if is_due {
            self.again_at = now.after_ms(limits.visit_again_ms);
        }
        let said = std::mem::replace(&mut self.said, self.told);
        let those = self.unheard.iter().filter(|told| is_due || told.number > said);
        those.map(|told| (told.number, told.done, told.events.clone())).collect()
    }

    /// Events up to this number were heard.
    fn heard(&mut self, number: u64) {
        while let Some(told) = self.unheard.pop_front_if(|told| told.number <= number) {
            self.unheard_bytes -= told.bytes;
        }
    }
}
