//! An exchange: its kind, its settings and its bindings.

use crate::argument::Argument;
use crate::arguments::Arguments;
use crate::binding::Binding;
use crate::errors::{BindError, DeclareError};
use crate::federation;
use crate::filtered::{self, Filtered};
use crate::hash;
use crate::headers::{self, Field, Headers, NoHeaders, Property, X_FILTER, X_MATCH};
use crate::keyed::Keyed;
use crate::matches::{Destination, Matches};
use crate::ring::{self, WEIGHT_MAX};
use crate::table::{Rows, Table};
use crate::topic;
use crate::value::IntType;
use filter::Macros;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How an exchange chooses, AMQP 0-9-1 §3.1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// The routing key is the binding key.
    Direct,
    /// Always.
    Fanout,
    /// The routing key matches the binding key as a pattern.
    Topic,
    /// The headers match the binding's arguments.
    Headers,
    /// One destination: the routing key, a header or a property decides, by weights; a destination that comes or goes
    /// moves few keys.
    ConsistentHash,
    /// One destination: the routing key decides.
    ModulusHash,
    /// One destination by lot.
    Random,
    /// One queue of this node by lot.
    LocalRandom,
    /// Always; and a new binding gets the last messages that came before it.
    RecentHistory,
    /// As the kind its arguments name, when the time has come that a message asks for.
    Delayed,
    /// Always, but for messages that came through too many brokers or were already where they would go: brokers that
    /// federate an exchange declare it for themselves.
    FederationUpstream,
    /// Always, where the filter of the binding says so: a fanout by another name, for bindings by what is in messages.
    Content,
}

/// Of a delayed-message exchange: the kind it chooses as.
const DELAYED_TYPE: &[u8] = b"x-delayed-type";

/// Of a consistent-hash exchange: the header that decides.
const HASH_HEADER: &[u8] = b"hash-header";

/// Of a consistent-hash exchange: the property that decides.
const HASH_PROPERTY: &[u8] = b"hash-property";

/// Of a recent-history exchange: how many messages it remembers.
pub const HISTORY_LENGTH: &[u8] = b"x-recent-history-length";

impl Kind {
    /// All there are.
    pub const ALL: [Kind; 12] = [
        Kind::Direct,
        Kind::Fanout,
        Kind::Topic,
        Kind::Headers,
        Kind::ConsistentHash,
        Kind::ModulusHash,
        Kind::Random,
        Kind::LocalRandom,
        Kind::RecentHistory,
        Kind::Delayed,
        Kind::FederationUpstream,
        Kind::Content,
    ];

    /// The kind clients call `name`.
    pub fn from_name(name: &[u8]) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    /// The name clients use.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Direct => "direct",
            Kind::Fanout => "fanout",
            Kind::Content => "x-content",
            Kind::Topic => "topic",
            Kind::Headers => "headers",
            Kind::ConsistentHash => "x-consistent-hash",
            Kind::ModulusHash => "x-modulus-hash",
            Kind::Random => "x-random",
            Kind::LocalRandom => "x-local-random",
            Kind::RecentHistory => "x-recent-history",
            Kind::Delayed => "x-delayed-message",
            Kind::FederationUpstream => "x-federation-upstream",
        }
    }

    /// The description, in RabbitMQ's words where it has them.
    pub fn description(self) -> &'static str {
        match self {
            Kind::Direct => "AMQP direct exchange, as per the AMQP specification",
            Kind::Fanout => "AMQP fanout exchange, as per the AMQP specification",
            Kind::Content => "Content exchange: by the filters of its bindings",
            Kind::Topic => "AMQP topic exchange, as per the AMQP specification",
            Kind::Headers => "AMQP headers exchange, as per the AMQP specification",
            Kind::ConsistentHash => "Consistent Hashing Exchange",
            Kind::ModulusHash => "Modulus Hashing Exchange",
            Kind::Random => "Randomly picks a binding (queue) to route via (to).",
            Kind::LocalRandom => "Picks one random local binding (queue) to route via (to).",
            Kind::RecentHistory => "Recent History Exchange.",
            Kind::Delayed => "Delayed Message Exchange.",
            Kind::FederationUpstream => "Federation upstream helper exchange",
        }
    }

    /// Whether an exchange of this kind may be declared so; the error is 406 precondition-failed.
    ///
    /// # Errors
    /// A header or property that cannot be hashed by; a number of messages that cannot be remembered.
    pub fn check_declaration(self, arguments: &Arguments) -> Result<(), DeclareError> {
        let kind = match (self, arguments.get(DELAYED_TYPE)) {
            (Kind::Delayed, Some(Argument::Text(name))) => match Kind::from_name(name) {
                Some(Kind::Delayed) => return Err(DeclareError::DelayedTwice),
                // It would have to remember messages that have not come yet; and no broker in front asks for delays.
                Some(Kind::RecentHistory | Kind::FederationUpstream) | None => {
                    return Err(DeclareError::UnknownType(name.into()));
                }
                Some(kind) => kind,
            },
            (Kind::Delayed, _) => return Err(DeclareError::NoDelayedType),
            (kind, _) => kind,
        };
        match kind {
            Kind::ConsistentHash => {}
            Kind::RecentHistory => return check_history(arguments),
            Kind::FederationUpstream => return federation::check(arguments),
            _ => return Ok(()),
        }
        for name in [HASH_HEADER, HASH_PROPERTY] {
            if let Some(value) = arguments.get(name)
                && !matches!(value, Argument::Text(_))
            {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(DeclareError::HashType { name, type_name: value.type_name() });
            }
        }
        match (arguments.get(HASH_HEADER), arguments.get(HASH_PROPERTY)) {
            (Some(_), Some(_)) => Err(DeclareError::TwoHashes),
            (None, Some(Argument::Text(name))) if Property::from_name(name).is_none() => {
                Err(DeclareError::UnknownProperty(name.into()))
            }
            _ => Ok(()),
        }
    }

    /// How an exchange declared so chooses: never [`Kind::Delayed`].
    pub fn chooses_as(self, arguments: &Arguments) -> Kind {
        let named = match arguments.get(DELAYED_TYPE) {
            Some(Argument::Text(name)) if self == Kind::Delayed => Kind::from_name(name),
            _ => None,
        };
        match named.unwrap_or(self) {
            // Nobody could declare it so.
            Kind::Delayed => Kind::Direct,
            kind => kind,
        }
    }

    /// Whether an exchange that [chooses as](Kind::chooses_as) this kind may be bound so; the error is 406
    /// precondition-failed.
    pub fn check(self, key: &[u8], arguments: &Arguments) -> Result<(), BindError> {
        self.check_with(key, arguments, Macros::none())
    }

    /// The same where the filter of the binding may use macros.
    ///
    /// # Errors
    /// See [`Kind::check`].
    pub fn check_with(self, key: &[u8], arguments: &Arguments, macros: &Macros) -> Result<(), BindError> {
        filtered::expression(arguments, macros)
            .map_err(|error| error.map_or(BindError::FilterType, BindError::Filter))?;
        match self {
            Kind::Direct
            | Kind::Fanout
            | Kind::Content
            | Kind::ModulusHash
            | Kind::Random
            | Kind::RecentHistory
            | Kind::Delayed
            | Kind::FederationUpstream => Ok(()),
            Kind::ConsistentHash => match ring::weight(key) {
                None => Err(BindError::NoWeight(key.into())),
                Some(..1) => Err(BindError::WeightTooSmall),
                Some(weight) if weight > i64::from(WEIGHT_MAX) => Err(BindError::WeightTooLarge),
                Some(_) => Ok(()),
            },
            Kind::LocalRandom => match key {
                [] => Ok(()),
                key => Err(BindError::NotEmpty(key.into())),
            },
            Kind::Topic => topic::check(key),
            Kind::Headers => match arguments.get(X_MATCH) {
                None => Ok(()),
                Some(Argument::Text(mode)) if headers::is_mode(mode) => Ok(()),
                Some(Argument::Text(mode)) => Err(BindError::MatchValue(mode.into())),
                Some(other) => Err(BindError::MatchType(other.to_value())),
            },
        }
    }
}

/// Adds the destinations of bindings whose arguments the headers of a message match.
fn route_by_headers(keyed: &Keyed, message: &Envelope<'_>, out: &mut Matches) {
    let mut lookup = headers::Lookup::new(message.headers);
    for bound in keyed.iter().flat_map(|(_, bounds)| bounds.list()) {
        let lets_through = |arguments| out.take(1) && headers::is_match(arguments, &mut lookup, out);
        if bound.variants().any(lets_through) {
            out.push(bound.destination());
        }
        if out.is_too_dear() {
            return;
        }
    }
}

/// Checks how much a recent-history exchange is to remember.
fn check_history(arguments: &Arguments) -> Result<(), DeclareError> {
    match arguments.get(HISTORY_LENGTH) {
        None => Ok(()),
        Some(Argument::Int(IntType::Byte | IntType::Short | IntType::SignedInt | IntType::Long, 1..)) => {
            Ok(())
        }
        Some(other) => Err(DeclareError::HistoryLength(other.to_value())),
    }
}

/// The part of a message that an exchange looks at.
#[derive(Clone, Copy)]
pub struct Envelope<'a> {
    /// The routing key; then those it is routed by as well.
    pub keys: &'a [&'a [u8]],
    /// Headers and properties.
    pub headers: &'a dyn Headers,
    /// Random bits for exchanges that draw lots.
    pub roll: u64,
    /// All that is in it, for filters.
    pub content: &'a dyn filter::Fields,
    /// The present, milliseconds since 1970, for filters that ask for it.
    pub now_ms: u64,
}

impl<'a> Envelope<'a> {
    /// Keys alone.
    pub fn keyed(keys: &'a [&'a [u8]]) -> Envelope<'a> {
        Envelope { keys, headers: &NoHeaders, roll: 0, content: &NoContent, now_ms: 0 }
    }
}

/// A message with nothing in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoContent;

impl filter::Fields for NoContent {
    fn field(&self, _field: filter::Field<'_>) -> Option<filter::Value<'_>> {
        None
    }

    fn body<'a>(&'a self, _paths: &filter::Paths, _found: &mut filter::Found<'a>) -> bool {
        true
    }
}

/// An exchange. A binding is its key, its arguments and its destination; each is there once.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Survives a restart.
    pub durable: bool,
    /// Goes with its last binding.
    pub auto_delete: bool,
    /// Takes messages from other exchanges alone.
    pub internal: bool,
    /// As it was declared with.
    pub arguments: Arguments,
    table: Table,
    /// Bindings with a filter, if there are any.
    filtered: Option<Box<Filtered>>,
    bindings: usize,
}

impl Exchange {
    /// A durable exchange without bindings or arguments; set the fields for any other. One that delays
    /// [chooses as](Kind::chooses_as) another kind, and is made as that.
    pub fn new(kind: Kind) -> Exchange {
        let table = Table::new(kind);
        let (durable, auto_delete, internal) = (true, false, false);
        let arguments = Arguments::new();
        Exchange { durable, auto_delete, internal, arguments, table, filtered: None, bindings: 0 }
    }

    /// How it chooses.
    pub fn kind(&self) -> Kind {
        self.table.kind()
    }

    /// Adds where a message goes to `out`, each destination once. Where that takes too many steps
    /// ([`Matches::is_too_dear`]), some are missing.
    #[inline]
    pub fn route(&self, message: &Envelope<'_>, out: &mut Matches) {
        match self.table.rows() {
            Rows::Keyed(keyed) => match self.kind() {
                Kind::Direct => message.keys.iter().for_each(|key| keyed.route(key, out)),
                Kind::Headers => route_by_headers(keyed, message, out),
                Kind::FederationUpstream if !federation::goes_on(&self.arguments, message.headers) => return,
                _ => keyed.route_all(out),
            },
            Rows::Topic(topic) => topic.route(message.keys, out),
            Rows::Ring(ring) => {
                if out.take(hash::steps(message.keys.iter().take(1))) {
                    self.give(ring.get(self.hash(message)), message, out);
                }
            }
            Rows::Lots(lots) if self.kind() == Kind::ModulusHash => {
                if out.take(hash::steps(message.keys.iter())) {
                    self.give(lots.by_remainder(hash::of_keys(message.keys)), message, out);
                }
            }
            Rows::Lots(lots) => {
                if out.take(1) {
                    self.give(lots.by_roll(message.roll), message, out);
                }
            }
        }
        if let Some(filtered) = &self.filtered {
            filtered.route(message, out);
        }
    }

    /// Adds the one destination of a message, if it wants it.
    fn give(&self, destination: Option<Destination>, message: &Envelope<'_>, out: &mut Matches) {
        let Some(destination) = destination else { return };
        let lets_through =
            |filtered: &Filtered| filtered.lets_through(destination, &self.table, message, out);
        if self.filtered.as_deref().is_none_or(lets_through) {
            out.push(destination);
        }
    }

    /// The number a consistent-hash exchange chooses by.
    fn hash(&self, message: &Envelope<'_>) -> u64 {
        if let Some(Argument::Text(name)) = self.arguments.get(HASH_HEADER) {
            return hash::of_field(message.headers.get(name));
        }
        if let Some(Argument::Text(name)) = self.arguments.get(HASH_PROPERTY) {
            let property = Property::from_name(name);
            return match property.and_then(|property| message.headers.property(property)) {
                Some(Field::Timestamp(seconds)) => hash::of_bytes(seconds.to_string().as_bytes()).into(),
                field => hash::of_field(field),
            };
        }
        message.keys.first().map_or(0, |key| hash::of_bytes(key).into())
    }

    /// Whether a binding has a filter.
    pub fn has_filters(&self) -> bool {
        self.filtered.is_some()
    }

    /// Whether where a message goes depends on more than its keys, or it leaves a trace here, so that these are no key
    /// for a cache.
    #[inline]
    pub fn sees_more_than_keys(&self) -> bool {
        if self.filtered.is_some() {
            return true;
        }
        match self.kind() {
            Kind::Direct | Kind::Fanout | Kind::Content | Kind::Topic | Kind::ModulusHash | Kind::Delayed => {
                false
            }
            Kind::Headers
            | Kind::Random
            | Kind::LocalRandom
            | Kind::RecentHistory
            | Kind::FederationUpstream => true,
            Kind::ConsistentHash => {
                self.arguments.get(HASH_HEADER).or(self.arguments.get(HASH_PROPERTY)).is_some()
            }
        }
    }

    /// Binds; whether that is new. Ask [`Kind::check`] first. The key is shared with the caller that has it as an `Arc`.
    pub fn bind(
        &mut self,
        key: impl Into<Arc<[u8]>>,
        arguments: Arguments,
        destination: Destination,
    ) -> bool {
        self.bind_with(key, arguments, destination, Macros::none())
    }

    /// The same where the filter of the binding may use macros. They are to stay as they are for as long as it is
    /// there: its filter is not read again.
    pub fn bind_with(
        &mut self,
        key: impl Into<Arc<[u8]>>,
        arguments: Arguments,
        destination: Destination,
        macros: &Macros,
    ) -> bool {
        let key = key.into();
        let is_new = match arguments.get(X_FILTER) {
            None => self.table.bind(key, arguments, destination),
            Some(_) => self.bind_filtered(key, arguments, destination, macros),
        };
        self.bindings += usize::from(is_new);
        is_new
    }

    #[cold]
    fn bind_filtered(
        &mut self,
        key: Arc<[u8]>,
        arguments: Arguments,
        destination: Destination,
        macros: &Macros,
    ) -> bool {
        let Exchange { table, filtered, .. } = self;
        let filtered = filtered.get_or_insert_with(|| Box::new(Filtered::new(table.kind())));
        // One that gives each message to one destination chooses it among all its bindings.
        let may_be_new = !table.gives_to_one() || table.bind(key.clone(), arguments.clone(), destination);
        may_be_new && filtered.bind(key, arguments, destination, macros)
    }

    /// The macros that the filter of a binding with these arguments uses, by their [folded](filter::folded) names; none
    /// where there is no such binding. It costs a look-up: the text was gone through when the binding came.
    pub fn macros_of(&self, arguments: &Arguments) -> &[Box<str>] {
        match (&self.filtered, arguments.get(X_FILTER)) {
            (Some(filtered), Some(_)) => filtered.macros_of(arguments),
            _ => &[],
        }
    }

    /// Takes a binding away; whether it was there.
    pub fn unbind(&mut self, key: &[u8], arguments: &Arguments, destination: Destination) -> bool {
        let Exchange { table, filtered, .. } = self;
        let existed = match (arguments.get(X_FILTER), filtered) {
            (None, _) => table.unbind(key, arguments, destination),
            (Some(_), None) => false,
            (Some(_), Some(filtered)) => {
                (!table.gives_to_one() || table.unbind(key, arguments, destination))
                    && filtered.unbind(key, arguments, destination)
            }
        };
        if self.filtered.as_ref().is_some_and(|filtered| filtered.is_empty()) {
            self.filtered = None;
        }
        self.bindings -= usize::from(existed);
        existed
    }

    /// All bindings, sorted by key, then by destination.
    pub fn bindings(&self) -> Vec<Binding> {
        let mut list = Vec::with_capacity(self.bindings);
        let all = self.visit_bindings(|key, arguments, destination| {
            list.push(Binding { key: key.into(), arguments: arguments.clone(), destination });
            ControlFlow::Continue(())
        });
        assert!(all.is_continue(), "nobody asked to stop");
        list.sort_by(|a, b| (&a.key, a.destination).cmp(&(&b.key, b.destination)));
        list
    }

    /// Visits bindings in no order, until `visit` breaks: those that remain are not looked at.
    pub fn visit_bindings(
        &self,
        mut visit: impl FnMut(&[u8], &Arguments, Destination) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.table.visit(&mut visit)?;
        match &self.filtered {
            Some(filtered) => filtered.visit(visit),
            None => ControlFlow::Continue(()),
        }
    }

    /// Its bindings in the order in which they were made, where that order has a part in where messages go.
    pub fn ordered_bindings(&self) -> impl Iterator<Item = &Binding> {
        let ring = if let Rows::Ring(ring) = self.table.rows() { Some(ring) } else { None };
        ring.into_iter().flat_map(|ring| ring.bindings())
    }

    /// Whether the order in which its bindings were made has a part in where messages go.
    pub fn keeps_order(&self) -> bool {
        matches!(self.table.rows(), Rows::Ring(_))
    }

    /// How many bindings it has.
    pub fn bindings_count(&self) -> usize {
        self.bindings
    }

    /// Nothing is bound to it (AMQP 0-9-1 exchange.delete if-unused).
    pub fn is_unused(&self) -> bool {
        self.bindings == 0
    }

    /// Different filters that its bindings have.
    pub fn filters(&self) -> usize {
        self.filtered.as_ref().map_or(0, |filtered| filtered.filters())
    }

    /// Bytes of memory of the bindings that have filters, the steps of regular expressions apart; of many bindings some stand
    /// for all.
    pub fn filters_bytes(&self) -> usize {
        self.filtered.as_ref().map_or(0, |filtered| filtered.heap_bytes())
    }

    /// Bytes of memory, its own included and [those of filters](Exchange::filters_bytes) apart; of many bindings some stand
    /// for all, so that the caller holds nobody up.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Exchange>() + self.arguments.heap_bytes() + self.table.heap_bytes()
    }
}
