//! Declaring and deleting exchanges.

use super::arguments::check_same_argument;
use super::effective::ALTERNATE;
use super::plan::{check_length, check_not_default, check_not_reserved, without_line_ends};
use super::removal::Removal;
use super::{Actor, Catalog, Change, ExchangeDefinition, Object, Plan, Reason, Refusal, VhostId};
use crate::access::{Access, Resource};
use routing::{Argument, Arguments, ExchangeId, Kind};
use std::sync::Arc;

/// The argument that says through how many brokers a message may have come.
const MAX_HOPS: &str = "x-max-hops";

/// The exchange at which changes are announced, in one virtual host.
pub(crate) const EVENT_EXCHANGE: &str = "amq.rabbitmq.event";

fn kind(name: &str) -> Result<Kind, Refusal> {
    match Kind::from_name(name.as_bytes()) {
        Some(kind) => Ok(kind),
        None if name.is_empty() => {
            Err(Refusal::precondition(Reason::Invalid(Object::Exchange), "invalid exchange type ''"))
        }
        None => Err(Refusal::precondition(
            Reason::Invalid(Object::Exchange),
            format!("unknown exchange type '{name}'"),
        )),
    }
}

/// The exchanges every virtual host begins with.
pub(super) const PREDECLARED: [(&str, Kind, bool); 7] = [
    ("", Kind::Direct, false),
    ("amq.direct", Kind::Direct, false),
    ("amq.fanout", Kind::Fanout, false),
    ("amq.headers", Kind::Headers, false),
    ("amq.match", Kind::Headers, false),
    ("amq.rabbitmq.trace", Kind::Topic, true),
    ("amq.topic", Kind::Topic, false),
];

impl Catalog {
    pub(super) fn find_exchange(&self, by: &Actor, name: &str) -> Result<Plan, Refusal> {
        let name = without_line_ends(name);
        check_not_default(&name)?;
        self.check_any_access(by, Resource::Exchange(&name))?;
        match self.exchange(by.vhost, name.as_bytes()) {
            Some(_) => Ok(Plan::nothing()),
            None => Err(Refusal::missing(Object::Exchange, &name, self.vhost_name(by.vhost))),
        }
    }

    /// `flags`: durable, auto-delete, internal.
    pub(super) fn declare_exchange(
        &self,
        by: &Actor,
        name: &str,
        kind_name: &str,
        flags: [bool; 3],
        arguments: &Arguments,
    ) -> Result<Plan, Refusal> {
        let kind = kind(kind_name)?;
        let name = without_line_ends(name);
        check_not_default(&name)?;
        check_length("exchange name", &name)?;
        let vhost = self.vhost_name(by.vhost);
        let resource = Resource::Exchange(&name);
        self.check_access(by, Access::Configure, resource)?;
        let named = format!("exchange '{name}' in vhost '{vhost}'");
        if let Some(entry) = self.exchange(by.vhost, name.as_bytes()) {
            check_same(&entry.definition, kind, flags, arguments, &named)?;
            return Ok(Plan::nothing());
        }
        check_not_reserved(Object::Exchange, &name)?;
        match arguments.get(ALTERNATE.as_bytes()) {
            None => {}
            Some(Argument::Text(alternate)) => {
                self.check_access(by, Access::Read, resource)?;
                let alternate = String::from_utf8_lossy(alternate);
                self.check_access(by, Access::Write, Resource::Exchange(&alternate))?;
            }
            Some(other) => {
                return Err(Refusal::invalid_type(ALTERNATE, other.type_name(), &named));
            }
        }
        kind.check_declaration(arguments)
            .map_err(|error| Refusal::precondition(Reason::Invalid(Object::Exchange), error.to_string()))?;
        let [durable, auto_delete, internal] = flags;
        Ok(Plan::one(Change::AddExchange(Arc::new(ExchangeDefinition {
            id: ExchangeId(self.next_exchange),
            vhost: by.vhost,
            name,
            kind,
            durable,
            auto_delete,
            internal,
            declared_by: self.declarers.shared(&by.user, &self.users),
            arguments: arguments.clone(),
        }))))
    }

    pub(super) fn remove_exchange(
        &self,
        by: &Actor,
        name: &str,
        if_unused: bool,
        most: usize,
    ) -> Result<Plan, Refusal> {
        let name = without_line_ends(name);
        check_not_default(&name)?;
        let named = format!("exchange '{name}' in vhost '{}'", self.vhost_name(by.vhost));
        if name.starts_with("amq.") {
            return Err(Refusal::access(
                Reason::Reserved(Object::Exchange),
                format!("deletion of system {named} not allowed"),
            ));
        }
        self.check_access(by, Access::Configure, Resource::Exchange(&name))?;
        let Some(entry) = self.exchange(by.vhost, name.as_bytes()) else { return Ok(Plan::nothing()) };
        if if_unused && !entry.exchange.is_unused() {
            return Err(Refusal::precondition(Reason::InUse(Object::Exchange), format!("{named} in use")));
        }
        let mut removal = Removal::new(self, most);
        removal.exchange(&entry.definition);
        Ok(removal.finish())
    }

    /// The change that makes the event exchange, if it is nowhere and there is such a virtual host.
    pub(crate) fn missing_event_exchange(&self, vhost: &str) -> Option<Change> {
        if self.event_exchange.is_some() {
            return None;
        }
        Some(event_exchange(self.vhost(vhost)?, ExchangeId(self.next_exchange)))
    }

    /// The number of an exchange that is made right after those of a new virtual host.
    pub(super) fn exchange_after_predeclared(&self) -> ExchangeId {
        ExchangeId(self.next_exchange + PREDECLARED.len() as u64)
    }

    /// The exchanges of a new virtual host.
    pub(super) fn predeclared(&self, vhost: VhostId) -> impl Iterator<Item = Change> {
        let first = self.next_exchange;
        PREDECLARED.into_iter().zip(first..).map(move |((name, kind, internal), id)| {
            Change::AddExchange(Arc::new(ExchangeDefinition {
                id: ExchangeId(id),
                vhost,
                name: name.into(),
                kind,
                durable: true,
                auto_delete: false,
                internal,
                declared_by: None,
                arguments: Arguments::default(),
            }))
        })
    }
}

/// The change that makes the event exchange.
pub(super) fn event_exchange(vhost: VhostId, id: ExchangeId) -> Change {
    Change::AddExchange(Arc::new(ExchangeDefinition {
        id,
        vhost,
        name: EVENT_EXCHANGE.into(),
        kind: Kind::Topic,
        durable: true,
        auto_delete: false,
        internal: true,
        declared_by: None,
        arguments: Arguments::default(),
    }))
}

/// Declaring again what is there: everything must be the same.
fn check_same(
    current: &ExchangeDefinition,
    kind: Kind,
    [durable, auto_delete, internal]: [bool; 3],
    arguments: &Arguments,
    named: &str,
) -> Result<(), Refusal> {
    let differs = |argument: &'static str, received: &str, current: &str| {
        let how = format!("received '{received}' but current is '{current}'");
        Err(Refusal::inequivalent(argument, named, &how))
    };
    if kind != current.kind {
        return differs("type", kind.name(), current.kind.name());
    }
    let flags = [
        ("durable", durable, current.durable),
        ("auto_delete", auto_delete, current.auto_delete),
        ("internal", internal, current.internal),
    ];
    for (flag, received, current) in flags {
        if received != current {
            return differs(flag, &received.to_string(), &current.to_string());
        }
    }
    let hops = (kind == Kind::FederationUpstream).then_some(MAX_HOPS);
    hops.into_iter().chain([ALTERNATE]).try_for_each(|name| {
        let (received, current) = (arguments.get(name.as_bytes()), current.arguments.get(name.as_bytes()));
        check_same_argument(name, received, current, named)
    })
}
