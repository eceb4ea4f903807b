//! An exchange: its kind, its settings and its bindings.

use crate::headers::{self, Headers, X_MATCH};
use crate::keyed::Keyed;
use crate::matches::{Destination, Matches};
use crate::topic::{self, Topic, WILDCARDS_MAX};
use crate::value::{Arguments, Value};
use serde::{Deserialize, Serialize};

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
}

impl Kind {
    /// The kind clients call `name`.
    pub fn from_name(name: &[u8]) -> Option<Kind> {
        Some(match name {
            b"direct" => Kind::Direct,
            b"fanout" => Kind::Fanout,
            b"topic" => Kind::Topic,
            b"headers" => Kind::Headers,
            _ => return None,
        })
    }

    /// What clients call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Direct => "direct",
            Kind::Fanout => "fanout",
            Kind::Topic => "topic",
            Kind::Headers => "headers",
        }
    }

    /// Whether an exchange of this kind may be bound so; the error is 406 precondition-failed.
    pub fn check(self, key: &[u8], arguments: &Arguments) -> Result<(), BindError> {
        match self {
            Kind::Direct | Kind::Fanout => Ok(()),
            Kind::Topic => match topic::wildcards(key) {
                0..=WILDCARDS_MAX => Ok(()),
                wildcards => Err(BindError::Wildcards { key: key.into(), wildcards }),
            },
            Kind::Headers => match arguments.get(X_MATCH) {
                None => Ok(()),
                Some(Value::Text(mode)) if headers::is_mode(mode) => Ok(()),
                Some(Value::Text(mode)) => Err(BindError::MatchValue(mode.clone())),
                Some(other) => Err(BindError::MatchType(other.clone())),
            },
        }
    }
}

/// Why a binding is refused; displayed in RabbitMQ's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindError {
    /// A topic binding key has more than [`WILDCARDS_MAX`] `#` words.
    Wildcards {
        /// The key.
        key: Box<[u8]>,
        /// How many it has.
        wildcards: usize,
    },
    /// `x-match` names no mode.
    MatchValue(Box<[u8]>),
    /// `x-match` is no text.
    MatchType(Value),
}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BindError::Wildcards { key, wildcards } => write!(
                f,
                "Topic binding key '{}' uses {wildcards} '#' wildcards, at most {WILDCARDS_MAX} are allowed",
                String::from_utf8_lossy(key)
            ),
            BindError::MatchValue(mode) => write!(
                f,
                "Invalid x-match field value <<\"{}\">>; expected all, any, all-with-x, or any-with-x",
                String::from_utf8_lossy(mode)
            ),
            BindError::MatchType(value) => write!(
                f,
                "Invalid x-match field type {} (value {value}); expected longstr",
                value.type_name()
            ),
        }
    }
}

impl std::error::Error for BindError {}

/// A binding of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The binding key.
    pub key: Box<[u8]>,
    /// Its arguments.
    pub arguments: Arguments,
    /// What it leads to.
    pub destination: Destination,
}

#[derive(Clone, Debug)]
enum Table {
    Direct(Keyed),
    Fanout(Keyed),
    Topic(Box<Topic>),
    Headers(Keyed),
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
    bindings: usize,
}

impl Exchange {
    /// A durable exchange without bindings or arguments; set the fields for any other.
    pub fn new(kind: Kind) -> Exchange {
        let table = match kind {
            Kind::Direct => Table::Direct(Keyed::default()),
            Kind::Fanout => Table::Fanout(Keyed::default()),
            Kind::Topic => Table::Topic(Box::default()),
            Kind::Headers => Table::Headers(Keyed::default()),
        };
        let (durable, auto_delete, internal) = (true, false, false);
        Exchange { durable, auto_delete, internal, arguments: Arguments::new(), table, bindings: 0 }
    }

    /// How it chooses.
    pub fn kind(&self) -> Kind {
        match &self.table {
            Table::Direct(_) => Kind::Direct,
            Table::Fanout(_) => Kind::Fanout,
            Table::Topic(_) => Kind::Topic,
            Table::Headers(_) => Kind::Headers,
        }
    }

    /// Adds where a message with this key and these headers goes to `out`, each destination once.
    #[inline]
    pub fn route(&self, routing_key: &[u8], headers: &dyn Headers, out: &mut Matches) {
        match &self.table {
            Table::Direct(keyed) => {
                if let Some(bounds) = keyed.get(routing_key) {
                    bounds.route(out);
                }
            }
            Table::Fanout(keyed) => keyed.route_all(out),
            Table::Topic(topic) => topic.route(routing_key, out),
            Table::Headers(keyed) => {
                for bound in keyed.iter().flat_map(|(_, bounds)| bounds.list()) {
                    let mut variants = bound.variants().iter();
                    if variants.any(|arguments| headers::is_match(arguments, headers)) {
                        out.push(bound.destination());
                    }
                }
            }
        }
    }

    /// Whether where a message goes depends on its headers, so that the routing key alone is no key for a cache.
    #[inline]
    pub fn reads_headers(&self) -> bool {
        matches!(self.table, Table::Headers(_))
    }

    /// Binds; whether that is new. Ask [`Kind::check`] first.
    pub fn bind(&mut self, key: &[u8], arguments: Arguments, destination: Destination) -> bool {
        let is_new = match &mut self.table {
            Table::Direct(keyed) | Table::Fanout(keyed) | Table::Headers(keyed) => {
                keyed.bind(key, arguments, destination)
            }
            Table::Topic(topic) => topic.bind(key, arguments, destination),
        };
        self.bindings += usize::from(is_new);
        is_new
    }

    /// Takes a binding away; whether it was there.
    pub fn unbind(&mut self, key: &[u8], arguments: &Arguments, destination: Destination) -> bool {
        let existed = match &mut self.table {
            Table::Direct(keyed) | Table::Fanout(keyed) | Table::Headers(keyed) => {
                keyed.unbind(key, arguments, destination)
            }
            Table::Topic(topic) => topic.unbind(key, arguments, destination),
        };
        self.bindings -= usize::from(existed);
        existed
    }

    /// Takes all bindings to a destination away; how many. Looks at every binding: who keeps a list of a destination's
    /// bindings calls [`Exchange::unbind`] for each instead.
    pub fn remove_destination(&mut self, destination: Destination) -> usize {
        let mut bindings = self.bindings();
        bindings.retain(|binding| binding.destination == destination);
        bindings.iter().filter(|binding| self.unbind(&binding.key, &binding.arguments, destination)).count()
    }

    /// All bindings, sorted by key, then by destination.
    pub fn bindings(&self) -> Vec<Binding> {
        let mut list = Vec::with_capacity(self.bindings);
        let mut add = |key: &[u8], bounds: &crate::bounds::Bounds| {
            for bound in bounds.list() {
                for arguments in bound.variants() {
                    let (arguments, destination) = (arguments.clone(), bound.destination());
                    list.push(Binding { key: key.into(), arguments, destination });
                }
            }
        };
        match &self.table {
            Table::Direct(keyed) | Table::Fanout(keyed) | Table::Headers(keyed) => {
                keyed.iter().for_each(|(key, bounds)| add(key, bounds));
            }
            Table::Topic(topic) => topic.for_each(add),
        }
        list.sort_by(|a, b| (&a.key, a.destination).cmp(&(&b.key, b.destination)));
        list
    }

    /// How many bindings it has.
    pub fn bindings_count(&self) -> usize {
        self.bindings
    }

    /// Nothing is bound to it (AMQP 0-9-1 exchange.delete if-unused).
    pub fn is_unused(&self) -> bool {
        self.bindings == 0
    }

    /// Bytes of memory, its own included.
    pub fn memory_bytes(&self) -> usize {
        let table = match &self.table {
            Table::Direct(keyed) | Table::Fanout(keyed) | Table::Headers(keyed) => keyed.heap_bytes(),
            Table::Topic(topic) => size_of::<Topic>() + topic.heap_bytes(),
        };
        size_of::<Exchange>() + self.arguments.heap_bytes() + table
    }
}
