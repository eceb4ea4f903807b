//! An endpoint: a path, its methods, the users that each is for, the bodies of requests and of responses.
//!
//! The one table of them is [`crate::endpoints`]; requests are routed by it and the OpenAPI document is made of it, so
//! that neither knows a path that the other does not.

use crate::caller::Need;
use crate::endpoints::Name;
use crate::request::Method;

/// See the module.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Which one it is.
    pub name: Name,
    /// Its path below `/api`; `{x}` stands for any one segment.
    pub path: &'static str,
    /// The methods it answers.
    pub verbs: &'static [Verb],
}

/// A method of a path.
#[derive(Debug)]
pub(crate) struct Verb {
    /// How.
    pub method: Method,
    /// The rights it takes.
    pub need: Need,
    /// Its purpose, in a few words.
    pub about: &'static str,
    /// The body of a request.
    pub takes: Takes,
    /// The body of a response without errors.
    pub gives: Gives,
    /// The keys that the query may have.
    pub asks: &'static [Field],
}

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Nothing.
    Nothing,
    /// A JSON object with these fields; nothing at all is an empty one.
    Object(&'static [Field]),
    /// A form with these fields.
    Form(&'static [Field]),
}

/// The body of a response without errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// A list, or a page of it where one is asked for.
    Rows,
    /// A list.
    Array,
    /// A JSON object.
    Object,
    /// A JSON text.
    Text,
    /// Plain text.
    Plain,
    /// Server-sent events, without an end unless one is asked for.
    Events,
    /// An object, with 200 or, where something is wrong, with 503.
    Health,
    /// One of these statuses and no body.
    Done(&'static [u16]),
    /// The report of an import: nothing, or all of it where that is asked for.
    Imported,
}

/// A field of an object, or of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its name.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// It has to be there.
    pub is_needed: bool,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Boolean,
    Integer,
    Object,
    Texts,
    Objects,
    Integers,
    /// A list of words, or a text with commas between them.
    Words,
    /// Any value.
    Any,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// The keys that the query of a list may have, and these.
macro_rules! of_list {
    ($($more:expr),*) => {
        &[
            may("page", Kind::Integer),
            may("page_size", Kind::Integer),
            may("name", Kind::Text),
            may("use_regex", Kind::Boolean),
            may("pagination", Kind::Boolean),
            may("sort", Kind::Text),
            may("sort_reverse", Kind::Boolean),
            may("columns", Kind::Text),
            $($more),*
        ]
    };
}

/// The keys that the query of every list may have.
pub(crate) const LIST: &[Field] = of_list!();

/// The same of a list with figures.
pub(crate) const LIST_WITH_FIGURES: &[Field] = of_list!(PLAIN);

/// The same of a list of queues.
pub(crate) const LIST_OF_QUEUES: &[Field] = of_list!(PLAIN, TOTALS);

/// Figures are left out.
pub(crate) const PLAIN: Field = may("disable_stats", Kind::Boolean);

/// The lengths of queues are told also then.
pub(crate) const TOTALS: Field = may("enable_queue_totals", Kind::Boolean);

pub(crate) const fn may(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, is_needed: false }
}

pub(crate) const fn must(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, is_needed: true }
}

const fn verb(method: Method, need: Need, about: &'static str, takes: Takes, gives: Gives) -> Verb {
    let asks = if matches!(gives, Gives::Rows) { LIST } else { &[] };
    Verb { method, need, about, takes, gives, asks }
}

/// It can be looked at; also without the body.
pub(crate) const fn get(need: Need, about: &'static str, gives: Gives) -> Verb {
    verb(Method::Get, need, about, Takes::Nothing, gives)
}

/// It is to be so: made, or changed.
pub(crate) const fn put(need: Need, about: &'static str, takes: &'static [Field]) -> Verb {
    verb(Method::Put, need, about, Takes::Object(takes), Gives::Done(&[201, 204]))
}

/// Something is to be done with it.
pub(crate) const fn post(need: Need, about: &'static str, takes: Takes, gives: Gives) -> Verb {
    verb(Method::Post, need, about, takes, gives)
}

/// It is to be no more.
pub(crate) const fn delete(need: Need, about: &'static str) -> Verb {
    verb(Method::Delete, need, about, Takes::Nothing, Gives::Done(&[204]))
}

impl Verb {
    /// The same, which can be asked more.
    pub(crate) const fn asking(self, asks: &'static [Field]) -> Verb {
        Verb { asks, ..self }
    }

    /// The same, which answers with this.
    pub(crate) const fn giving(self, gives: Gives) -> Verb {
        Verb { gives, ..self }
    }
}

impl Endpoint {
    /// The segments that stand for names, where `path` is this endpoint's.
    pub(crate) fn matched<'p>(&self, path: &[&'p str]) -> Option<Vec<&'p str>> {
        let mut named = Vec::new();
        let mut given = path.iter();
        for own in self.path.split('/') {
            let given = given.next()?;
            match own.starts_with('{') {
                true => named.push(*given),
                false if own == *given => {}
                false => return None,
            }
        }
        given.next().is_none().then_some(named)
    }

    /// The names in its path that stand for segments.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|own| own.strip_prefix('{')?.strip_suffix('}'))
    }

    /// The verb of a method; `HEAD` has that of `GET`, but for a few paths.
    pub(crate) fn verb(&self, method: Method) -> Option<&'static Verb> {
        let method = if method == Method::Head && !self.has_no_head() { Method::Get } else { method };
        self.verbs.iter().find(|verb| verb.method == method)
    }

    /// RabbitMQ's answers `HEAD` for all that can be got but for a few.
    fn has_no_head(&self) -> bool {
        use Name::{
            HashPassword, QuorumStatus, UserLimit, UserLimits, UserLimitsOf, VhostLimit, VhostLimits,
            VhostLimitsOf, VhostProtection,
        };
        matches!(
            self.name,
            HashPassword
                | QuorumStatus
                | UserLimit
                | UserLimits
                | UserLimitsOf
                | VhostLimit
                | VhostLimits
                | VhostLimitsOf
                | VhostProtection
        )
    }

    /// No cache may keep its responses: they have or may have passwords, hashes of these, or messages.
    pub(crate) fn is_secret(&self) -> bool {
        use Name::{
            AllConfiguration, ConfigEffective, Definitions, DefinitionsOf, GlobalParameterOf,
            GlobalParameters, HashPassword, Login, ParameterOf, Parameters, ParametersIn, ParametersOf,
            QueueGet, QueueMessages, QueueTail, Session, ShovelOf, UserOf, Users, UsersBulkDelete,
            UsersWithoutPermissions,
        };
        matches!(
            self.name,
            AllConfiguration
                | ConfigEffective
                | Definitions
                | DefinitionsOf
                | GlobalParameterOf
                | GlobalParameters
                | HashPassword
                | Login
                | ParameterOf
                | Parameters
                | ParametersIn
                | ParametersOf
                | QueueGet
                | QueueMessages
                | QueueTail
                | Session
                | ShovelOf
                | UserOf
                | Users
                | UsersBulkDelete
                | UsersWithoutPermissions
        )
    }

    /// As the header `allow` has it.
    pub(crate) fn allowed(&self) -> String {
        let mut names = Vec::new();
        for method in [Method::Head, Method::Get, Method::Put, Method::Post, Method::Delete] {
            if self.verb(method).is_some() {
                names.push(method.name());
            }
        }
        names.push("OPTIONS");
        names.join(", ")
    }
}
