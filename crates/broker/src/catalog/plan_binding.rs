//! Binding and unbinding.

use super::plan::{check_length, check_not_default};
use super::removal::Removal;
use super::{
    Actor, Binding, Catalog, Change, Destination, ExchangeEntry, Object, Plan, QueueType, Reason, Refusal,
};
use crate::access::{Access, Resource};
use routing::{Arguments, Kind};
use std::sync::Arc;

/// A binding as it is asked for, its ends still names.
struct BindingRequest<'a> {
    source: &'a str,
    destination: Resource<'a>,
    key: &'a str,
    arguments: &'a Arguments,
}

/// A destination that is there.
struct End {
    destination: Destination,
    durable: bool,
}

impl Catalog {
    pub(super) fn bind_queue(
        &self,
        by: &Actor,
        queue: &str,
        exchange: &str,
        key: &str,
        arguments: &Arguments,
    ) -> Result<Plan, Refusal> {
        self.have(
            by,
            &BindingRequest { source: exchange, destination: Resource::Queue(queue), key, arguments },
        )
    }

    pub(super) fn bind_exchange(
        &self,
        by: &Actor,
        source: &str,
        destination: &str,
        key: &str,
        arguments: &Arguments,
    ) -> Result<Plan, Refusal> {
        self.have(
            by,
            &BindingRequest { source, destination: Resource::Exchange(destination), key, arguments },
        )
    }

    pub(super) fn unbind_queue(
        &self,
        by: &Actor,
        queue: &str,
        exchange: &str,
        key: &str,
        arguments: &Arguments,
        most: usize,
    ) -> Result<Plan, Refusal> {
        self.have_not(
            by,
            &BindingRequest { source: exchange, destination: Resource::Queue(queue), key, arguments },
            most,
        )
    }

    pub(super) fn unbind_exchange(
        &self,
        by: &Actor,
        source: &str,
        destination: &str,
        key: &str,
        arguments: &Arguments,
        most: usize,
    ) -> Result<Plan, Refusal> {
        self.have_not(
            by,
            &BindingRequest { source, destination: Resource::Exchange(destination), key, arguments },
            most,
        )
    }

    fn have(&self, by: &Actor, request: &BindingRequest<'_>) -> Result<Plan, Refusal> {
        self.check_binding(by, request)?;
        check_length("binding key", request.key)?;
        let Some(source) = self.exchange(by.vhost, request.source.as_bytes()) else {
            return Err(Refusal::missing(Object::Exchange, request.source, self.vhost_name(by.vhost)));
        };
        let Some(end) = self.end(by, request.destination) else {
            let name = request.destination.pattern_name();
            return Err(Refusal::missing(request.destination.object(), name, self.vhost_name(by.vhost)));
        };
        self.check_open(by, &end)?;
        let kind = source.definition.kind.chooses_as(&source.definition.arguments);
        kind.check_with(request.key.as_bytes(), request.arguments, self.macros(by.vhost))
            .map_err(|error| Refusal::precondition(Reason::Invalid(Object::Binding), error.to_string()))?;
        if kind == Kind::LocalRandom {
            self.check_local(&end)?;
        }
        let binding = request.binding(source, &end);
        let ends = self.ends(end.destination);
        if ends.is_some_and(|ends| ends.find(&binding).is_some()) {
            return Ok(Plan::nothing());
        }
        Ok(Plan::one(Change::Bind(binding)))
    }

    /// Unbinds. A binding that is not there needs no change, whichever part of it is missing.
    fn have_not(&self, by: &Actor, request: &BindingRequest<'_>, most: usize) -> Result<Plan, Refusal> {
        self.check_binding(by, request)?;
        let Some(source) = self.exchange(by.vhost, request.source.as_bytes()) else {
            return Ok(Plan::nothing());
        };
        let Some(end) = self.end(by, request.destination) else { return Ok(Plan::nothing()) };
        let wanted = request.binding(source, &end);
        let Some(binding) = self.ends(end.destination).and_then(|ends| ends.find(&wanted)) else {
            return Ok(Plan::nothing());
        };
        self.check_open(by, &end)?;
        let mut removal = Removal::new(self, most);
        removal.binding(binding);
        Ok(removal.finish())
    }

    /// The permissions and rules that come before looking.
    fn check_binding(&self, by: &Actor, request: &BindingRequest<'_>) -> Result<(), Refusal> {
        self.check_access(by, Access::Write, request.destination)?;
        if let Resource::Exchange(destination) = request.destination {
            check_not_default(destination)?;
        }
        check_not_default(request.source)?;
        self.check_access(by, Access::Read, Resource::Exchange(request.source))?;
        match self.exchange(by.vhost, request.source.as_bytes()) {
            Some(source) => {
                self.check_topic_access(by, Access::Read, &source.definition, request.key.as_bytes())
            }
            None => Ok(()),
        }
    }

    fn end(&self, by: &Actor, resource: Resource<'_>) -> Option<End> {
        match resource {
            Resource::Queue(name) => {
                let queue = self.queue_by_name(by.vhost, name.as_bytes())?;
                Some(End { destination: Destination::Queue(queue.id), durable: queue.is_recorded() })
            }
            Resource::Exchange(name) => {
                let exchange = &self.exchange(by.vhost, name.as_bytes())?.definition;
                Some(End { destination: Destination::Exchange(exchange.id), durable: exchange.durable })
            }
        }
    }

    /// Checks that a local random exchange leads to classic queues alone.
    fn check_local(&self, end: &End) -> Result<(), Refusal> {
        let Destination::Queue(id) = end.destination else {
            return Err(Refusal::precondition(Reason::Unsuited(Object::Exchange), "Destination not found"));
        };
        match self.queue(id).map(|queue| queue.queue_type) {
            Some(queue_type) if queue_type != QueueType::Classic => {
                let module = queue_type.module();
                let text = format!("Queue type {module} not valid for this exchange type");
                Err(Refusal::precondition(Reason::Unsuited(Object::Queue), text))
            }
            _ => Ok(()),
        }
    }

    fn check_open(&self, by: &Actor, end: &End) -> Result<(), Refusal> {
        if let Destination::Queue(id) = end.destination
            && let Some(queue) = self.queue(id)
            && !by.is_internal
            && !queue.is_open_to(by.port)
        {
            return Err(Refusal::queue_locked(queue));
        }
        Ok(())
    }
}

impl BindingRequest<'_> {
    fn binding(&self, source: &ExchangeEntry, end: &End) -> Arc<Binding> {
        Arc::new(Binding {
            source: source.definition.id,
            destination: end.destination,
            key: self.key.into(),
            arguments: self.arguments.clone(),
            durable: source.definition.durable && end.durable,
        })
    }
}
