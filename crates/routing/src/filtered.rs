//! Bindings that say which messages they are for by an expression over what is in them: the argument [`X_FILTER`].
//!
//! A message goes by such a binding where the exchange's kind would send it there, and the expression is true of it.
//! They have a table of their own, so that an exchange without them pays nothing. Where the kind chooses few, by key or
//! headers, the expressions of those are asked alone; where it would choose all, an index of all expressions says which
//! ones are true. A kind that gives each message to one destination chooses among all bindings first: a message whose
//! destination does not want it goes nowhere.

use crate::argument::Argument;
use crate::arguments::Arguments;
use crate::bounds::Bounds;
use crate::exchange::{Envelope, Kind};
use crate::headers::{self, X_FILTER};
use crate::matches::{Destination, Matches};
use crate::table::{Rows, Table};
use base::hash::{ByBytes, MapById};
use base::sample::sum_of;
use filter::{Cursor, Error, Expression, Filed, Index, Known, Limits, Macros, Names, Room, Site};
use hashbrown::HashTable;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Up to so many candidates are asked one by one, each looking into the body for itself; more are looked up in the index.
const ALONE_MAX: usize = 4;

/// Bytes that an exchange keeps of each kind of memory for evaluating: there may be many exchanges.
const KEPT_MAX: usize = 16 << 10;

/// The expression in the arguments of a binding, none where they have none. Macros in it are those of the virtual host.
///
/// # Errors
/// It is no text: `None`; it cannot be read: its fault and place.
pub(crate) fn expression(
    arguments: &Arguments,
    macros: &Macros,
) -> Result<Option<Expression>, Option<Error>> {
    match filter_text(arguments) {
        None => Ok(None),
        Some(text) => {
            let text = text.ok_or(None)?;
            let site = Site { limits: Limits::content(), known: Known::PUBLISHED, names: Names::Own, macros };
            Expression::parse_at(text, &site).map(Some).map_err(Some)
        }
    }
}

/// The text of that expression, `Some(None)` where it is no text; none where there is no filter.
fn filter_text(arguments: &Arguments) -> Option<Option<&str>> {
    Some(match arguments.get(X_FILTER)? {
        Argument::Text(text) | Argument::Bytes(text) => std::str::from_utf8(text).ok(),
        _ => None,
    })
}

/// The bindings of an exchange that have a filter, and of one that gives each message to one destination all others too.
#[derive(Clone, Debug)]
pub(crate) struct Filtered {
    index: Index,
    /// The filters of all bindings, by their arguments.
    said: HashTable<Said>,
    way: Way,
    /// Memory for evaluating.
    scratch: Scratch,
}

/// Memory that is used from message to message.
#[derive(Debug, Default)]
struct Scratch(RefCell<Memory>);

#[derive(Debug, Default)]
struct Memory {
    room: Room,
    cursor: Cursor,
    /// The filters that the last message passed.
    hits: Vec<Filed>,
}

impl Clone for Scratch {
    /// None: it is nobody's value.
    fn clone(&self) -> Scratch {
        Scratch::default()
    }
}

/// Arguments of bindings, each once.
#[derive(Clone, Debug)]
struct Said {
    arguments: Arguments,
    /// None: one that this version cannot read, and that no message passes.
    filter: Option<Filed>,
    /// The macros that the filter uses, by their [folded](filter::folded) names.
    macros: Box<[Box<str>]>,
    bindings: u32,
}

/// The way from a filter to where messages go.
#[derive(Clone, Debug)]
enum Way {
    /// Each message goes to all whose filter it passes: bindings, and destinations by filter.
    All(Table, MapById<Filed, Goal>),
    /// Each message goes to those that its keys or headers choose and whose filter it passes: bindings, and filters by the
    /// [place](place) of the arguments, which are kept once.
    Chosen(Table, MapById<usize, Filed>),
    /// The exchange's own table chooses one destination.
    One(MapById<Destination, Gate>),
}

/// The destinations of one filter, with how many bindings lead there.
type Goal = BTreeMap<Destination, u32>;

/// The bindings of one destination that have a filter.
#[derive(Clone, Debug, Default)]
struct Gate {
    /// Their filters, with how many bindings have each.
    filters: BTreeMap<Option<Filed>, u32>,
    bindings: u32,
}

impl Filtered {
    /// No bindings, of an exchange that [chooses as](Kind::chooses_as) this kind.
    pub(crate) fn new(kind: Kind) -> Filtered {
        let table = Table::new(kind);
        let way = match (table.rows(), table.kind()) {
            (Rows::Ring(_) | Rows::Lots(_), _) => Way::One(MapById::default()),
            (Rows::Topic(_), _) | (Rows::Keyed(_), Kind::Direct | Kind::Headers) => {
                Way::Chosen(table, MapById::default())
            }
            (Rows::Keyed(_), _) => Way::All(table, MapById::default()),
        };
        Filtered { index: Index::new(), said: HashTable::new(), way, scratch: Scratch::default() }
    }

    /// Adds a binding that has a filter; whether it is new. Of an exchange that gives each message to one destination it is.
    pub(crate) fn bind(
        &mut self,
        key: Arc<[u8]>,
        arguments: Arguments,
        destination: Destination,
        macros: &Macros,
    ) -> bool {
        // Of those there are: so each is kept once, and found by where it is.
        let arguments = self.kept(arguments);
        let is_new = match &mut self.way {
            Way::All(table, _) | Way::Chosen(table, _) => table.bind(key, arguments.clone(), destination),
            Way::One(_) => true,
        };
        if !is_new {
            return false;
        }
        let place = place(&arguments);
        let filter = self.file(arguments, macros);
        match &mut self.way {
            Way::All(_, goals) => {
                if let Some(filter) = filter {
                    *goals.entry(filter).or_default().entry(destination).or_default() += 1;
                }
            }
            Way::Chosen(_, filters) => _ = filter.map(|filter| filters.insert(place, filter)),
            Way::One(gates) => {
                let gate = gates.entry(destination).or_default();
                *gate.filters.entry(filter).or_default() += 1;
                gate.bindings += 1;
            }
        }
        true
    }

    /// Takes away a binding that is there, or was in the exchange's own table; whether it was.
    pub(crate) fn unbind(&mut self, key: &[u8], arguments: &Arguments, destination: Destination) -> bool {
        let existed = match &mut self.way {
            Way::All(table, _) | Way::Chosen(table, _) => table.unbind(key, arguments, destination),
            Way::One(_) => true,
        };
        let is_it = |said: &Said| said.arguments == *arguments;
        let Some(said) = self.said.find(hash_of(arguments), is_it).filter(|_| existed) else { return false };
        let filter = said.filter;
        match &mut self.way {
            Way::All(_, goals) => {
                if let Some(filter) = filter
                    && let Some(goal) = goals.get_mut(&filter)
                {
                    take_one(goal, destination);
                    if goal.is_empty() {
                        goals.remove(&filter);
                    }
                }
            }
            Way::Chosen(..) => {}
            Way::One(gates) => {
                if let Some(gate) = gates.get_mut(&destination) {
                    take_one(&mut gate.filters, filter);
                    gate.bindings -= 1;
                    if gate.bindings == 0 {
                        gates.remove(&destination);
                    }
                }
            }
        }
        self.forget(arguments);
        true
    }

    /// The macros that the filter of bindings with these arguments uses; none where there is no such binding.
    pub(crate) fn macros_of(&self, arguments: &Arguments) -> &[Box<str>] {
        let found = self.said.find(hash_of(arguments), |said| said.arguments == *arguments);
        found.map_or(&[], |said| &said.macros)
    }

    /// No binding has a filter.
    pub(crate) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// Different filters.
    pub(crate) fn filters(&self) -> usize {
        self.index.len()
    }

    /// Visits the bindings that are here and not in the exchange's own table, in no order, until `visit` breaks.
    pub(crate) fn visit(
        &self,
        visit: impl FnMut(&[u8], &Arguments, Destination) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match &self.way {
            Way::All(table, _) | Way::Chosen(table, _) => table.visit(visit),
            Way::One(_) => ControlFlow::Continue(()),
        }
    }

    /// Adds where a message goes by its bindings.
    #[cold]
    pub(crate) fn route(&self, message: &Envelope<'_>, out: &mut Matches) {
        match &self.way {
            Way::All(_, goals) => {
                let mut scratch = self.scratch.0.borrow_mut();
                for filter in self.passed(message, &mut scratch, out) {
                    let Some(goal) = goals.get(filter) else { continue };
                    if !out.take(goal.len()) {
                        return;
                    }
                    goal.keys().for_each(|destination| out.push(*destination));
                }
            }
            Way::Chosen(table, filters) => {
                let candidates = candidates(table, filters, message, out);
                self.ask(&candidates, message, out, |destination, out| out.push(destination));
            }
            Way::One(_) => {}
        }
    }

    /// Whether a message that an exchange gives to one destination, this one, passes a filter of it, or comes by a binding
    /// without one. `table`: the exchange's own.
    #[cold]
    pub(crate) fn lets_through(
        &self,
        destination: Destination,
        table: &Table,
        message: &Envelope<'_>,
        out: &mut Matches,
    ) -> bool {
        let Way::One(gates) = &self.way else { return true };
        let Some(gate) = gates.get(&destination) else { return true };
        if table.has_more(destination, gate.bindings, out) {
            return true;
        }
        let filters: Vec<_> =
            gate.filters.keys().filter_map(|filter| Some((destination, (*filter)?))).collect();
        let mut lets_through = false;
        if out.take(filters.len()) {
            self.ask(&filters, message, out, |_, _| lets_through = true);
        }
        lets_through
    }

    /// Bytes it keeps on the heap, its own included; of many bindings some stand for all.
    pub(crate) fn heap_bytes(&self) -> usize {
        // A row of an ordered map, with what is empty beside it.
        const ROW: usize = 3 * size_of::<Destination>();
        let way = match &self.way {
            Way::All(table, goals) => {
                table.heap_bytes()
                    + goals.capacity() * (size_of::<(Filed, Goal)>() + 1)
                    + sum_of(goals.len(), goals.values(), |goal| goal.len() * ROW)
            }
            Way::Chosen(table, filters) => {
                table.heap_bytes() + filters.capacity() * (size_of::<(usize, Filed)>() + 1)
            }
            Way::One(gates) => {
                gates.capacity() * (size_of::<(Destination, Gate)>() + 1)
                    + sum_of(gates.len(), gates.values(), |gate| gate.filters.len() * ROW)
            }
        };
        let Memory { room, cursor, hits } = &*self.scratch.0.borrow();
        let scratch = room.memory() + cursor.memory() + hits.capacity() * size_of::<Filed>();
        size_of::<Filtered>()
            + scratch
            + self.index.memory()
            + self.said.capacity() * (size_of::<Said>() + 1)
            + way
    }

    /// The same arguments, as a binding that is here has them if one does.
    fn kept(&self, arguments: Arguments) -> Arguments {
        let is_it = |said: &Said| said.arguments == arguments;
        self.said.find(hash_of(&arguments), is_it).map_or(arguments.clone(), |said| said.arguments.clone())
    }

    /// Counts a binding with these arguments, and files its filter with the first.
    fn file(&mut self, arguments: Arguments, macros: &Macros) -> Option<Filed> {
        let hash = hash_of(&arguments);
        if let Some(said) = self.said.find_mut(hash, |said| said.arguments == arguments) {
            said.bindings += 1;
            return said.filter;
        }
        let read = expression(&arguments, macros).ok().flatten();
        let filter = read.and_then(|expression| self.index.add(&expression).ok());
        let text = filter_text(&arguments).flatten();
        let macros = text.map(filter::calls).unwrap_or_default().into_iter().collect();
        let said = Said { arguments, filter, macros, bindings: 1 };
        self.said.insert_unique(hash, said, |said| hash_of(&said.arguments));
        filter
    }

    /// The reverse.
    fn forget(&mut self, arguments: &Arguments) {
        let is_it = |said: &Said| said.arguments == *arguments;
        let Ok(mut entry) = self.said.find_entry(hash_of(arguments), is_it) else { return };
        entry.get_mut().bindings -= 1;
        if entry.get().bindings == 0 {
            let (said, _) = entry.remove();
            if let Way::Chosen(_, filters) = &mut self.way {
                filters.remove(&place(&said.arguments));
            }
            if let Some(filter) = said.filter {
                self.index.remove(filter);
            }
            if self.said.capacity() > 32 && self.said.len() < self.said.capacity() / 8 {
                self.said.shrink_to(self.said.len() * 2, |said| hash_of(&said.arguments));
            }
        }
    }

    /// Says of each candidate whose filter a message passes that it does.
    fn ask(
        &self,
        candidates: &[(Destination, Filed)],
        message: &Envelope<'_>,
        out: &mut Matches,
        mut say: impl FnMut(Destination, &mut Matches),
    ) {
        if candidates.len() <= ALONE_MAX {
            for (destination, filter) in candidates {
                if self.passes(*filter, message, out) {
                    say(*destination, out);
                }
            }
            return;
        }
        let mut scratch = self.scratch.0.borrow_mut();
        let passed = self.passed(message, &mut scratch, out);
        for (destination, filter) in candidates {
            if passed.binary_search(filter).is_ok() {
                say(*destination, out);
            }
        }
    }

    /// Whether a message passes one filter.
    fn passes(&self, filter: Filed, message: &Envelope<'_>, out: &mut Matches) -> bool {
        if out.is_too_dear() {
            return false;
        }
        let program = self.index.get(filter).expect("a binding has it");
        let room = &mut self.scratch.0.borrow_mut().room;
        let passes = program.matches(message.content, room, message.now_ms);
        let units = program.price(0) + room.spent();
        out.note_filtered(1, room.is_unreadable());
        room.trim(KEPT_MAX);
        out.take(units) && passes
    }

    /// The filters that a message passes, in order. Where that takes too many steps, some are missing.
    fn passed<'s>(
        &self,
        message: &Envelope<'_>,
        Memory { room, cursor, hits }: &'s mut Memory,
        out: &mut Matches,
    ) -> &'s [Filed] {
        hits.clear();
        // Steps of routing and units of filters are of one price.
        let left = out.steps_left();
        let is_done = self.index.search(message.content, room, message.now_ms, cursor, left, hits);
        out.note_filtered(cursor.candidates(), room.is_unreadable());
        // The message is refused where it is not: it is not gone on with.
        cursor.reset();
        cursor.trim(KEPT_MAX);
        room.trim(KEPT_MAX);
        let units = if is_done { cursor.spent() } else { left + 1 };
        out.take(units);
        hits.sort_unstable();
        hits
    }
}

/// The bindings that keys or headers choose, as their destinations and filters.
fn candidates(
    table: &Table,
    filters: &MapById<usize, Filed>,
    message: &Envelope<'_>,
    out: &mut Matches,
) -> Vec<(Destination, Filed)> {
    let mut found = Vec::new();
    let mut add = |arguments: &Arguments, destination| {
        found.extend(filters.get(&place(arguments)).map(|filter| (destination, *filter)));
    };
    let mut collect = |bounds: &Bounds, out: &mut Matches| {
        for bound in bounds.list() {
            for arguments in bound.variants() {
                if !out.take(1) {
                    return;
                }
                add(arguments, bound.destination());
            }
        }
    };
    match table.rows() {
        Rows::Topic(topic) => topic.visit_matching(message.keys, out, &mut collect),
        Rows::Keyed(keyed) if table.kind() == Kind::Direct => {
            for key in message.keys {
                if let Some(bounds) = keyed.find(key, out) {
                    collect(bounds, out);
                }
            }
        }
        Rows::Keyed(keyed) => {
            let mut lookup = headers::Lookup::new(message.headers);
            for bound in keyed.iter().flat_map(|(_, bounds)| bounds.list()) {
                for arguments in bound.variants() {
                    if out.take(1) && headers::is_match(arguments, &mut lookup, out) {
                        add(arguments, bound.destination());
                    }
                }
                if out.is_too_dear() {
                    break;
                }
            }
        }
        Rows::Ring(_) | Rows::Lots(_) => {}
    }
    found
}

/// Counts one less of a thing, of which there is one.
fn take_one<T: Ord>(counts: &mut BTreeMap<T, u32>, thing: T) {
    if let Entry::Occupied(mut entry) = counts.entry(thing) {
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}

/// Where arguments are in memory: a number that those of two bindings have in common if they share them.
fn place(arguments: &Arguments) -> usize {
    arguments.0.as_ref().map_or(0, |bytes| bytes.as_ptr().addr())
}

fn hash_of(arguments: &Arguments) -> u64 {
    ByBytes.hash_one(arguments)
}
