//! An import on a catalog of its own: refusals are known before anything is changed.
//!
//! That catalog begins with everything of the node's but queues and bindings. Queues are looked up as the file names them, a few
//! hundred at once, so that the memory of a rehearsal grows with the file and not with the node. Some things only the
//! node can know: how many queues a virtual host with a limit has by now, and the changes that others make meanwhile.

use crate::call::Call;
use crate::import::{Step, Taker, refuse};
use crate::node::{Action, Login, Node};
use crate::report::{Entry, Report};
use crate::response::Response;
use base::id::PortId;
use broker::access::open_vhost;
use broker::catalog::{
    Actor, Catalog, Change, Object, Op, Places, QueueDefinition, Reason, Refusal, ReplyCode, VhostId,
};
use message::amqp091::Table;
use routing::Arguments;
use std::cell::RefCell;
use std::sync::Arc;

/// Bytes of a name, AMQP 0-9-1 §4.2.5.3.
const NAME_BYTES_MAX: usize = 255;

/// See the module.
pub(crate) struct Rehearsal<'a, 'c, N> {
    call: &'a Call<'c, N>,
    report: &'a RefCell<Report>,
    catalog: Catalog,
    waiting: Vec<(Entry, Step)>,
}

impl<'a, 'c, N: Node> Rehearsal<'a, 'c, N> {
    /// With the node's catalog as it is now.
    ///
    /// # Errors
    /// The node does not answer.
    pub(crate) fn new(call: &'a Call<'c, N>, report: &'a RefCell<Report>) -> Result<Self, Response> {
        let mut catalog = Catalog::default();
        let (changes, used) = call.node.look(|catalog| (catalog.outline(), catalog.macros_used()))?;
        for change in changes {
            catalog.apply(&change);
        }
        catalog.count_as_used(used);
        Ok(Rehearsal { call, report, catalog, waiting: Vec::new() })
    }

    /// Has the queues at hand that the waiting steps name, and takes them.
    fn flush(&mut self) -> Result<(), Response> {
        let waiting = std::mem::take(&mut self.waiting);
        let names: Vec<(String, String)> = waiting.iter().filter_map(|(_, step)| queue_of(step)).collect();
        if !names.is_empty() {
            let found: Vec<Arc<QueueDefinition>> = self.call.node.look(move |catalog| {
                let one = |(vhost, name): &(String, String)| {
                    catalog.queue_by_name(catalog.vhost(vhost)?, name.as_bytes()).cloned()
                };
                names.iter().filter_map(one).collect()
            })?;
            for queue in found.into_iter().filter(|queue| queue.exclusive.is_none()) {
                if self.catalog.queue(queue.id).is_none() {
                    self.catalog.apply(&Change::AddQueue(queue));
                }
            }
        }
        for (entry, step) in waiting {
            let is_declaration = step.is_declaration();
            if let Err(refusal) = self.try_step(&entry, step) {
                refuse(&mut self.report.borrow_mut(), entry, is_declaration, &refusal);
            }
        }
        Ok(())
    }

    fn try_step(&mut self, entry: &Entry, step: Step) -> Result<(), Refusal> {
        if !entry.vhost.is_empty() && self.catalog.vhost(&entry.vhost).is_none() {
            let vhost = &entry.vhost;
            let text = format!("Please create virtual host \"{vhost}\" prior to importing definitions.");
            return Err(no_vhost(text));
        }
        let (by, op) = match step {
            Step::Request(op) => (Actor::internal(VhostId::default(), PortId::default()), op),
            Step::Act(vhost, action) => (actor(&self.catalog, &self.call.caller.login, &vhost)?, op(action)?),
        };
        for change in self.catalog.plan(&by, &op, Places::default())?.changes {
            // Nothing of an import depends on a binding, and there may be many.
            if !matches!(change, Change::Bind(_)) {
                self.catalog.apply(&change);
            }
        }
        Ok(())
    }
}

impl<N: Node> Taker for Rehearsal<'_, '_, N> {
    fn take(&mut self, entry: Entry, step: Step) -> Result<(), Response> {
        self.waiting.push((entry, step));
        if self.waiting.len() < self.call.node.about().limits.import_looked_max {
            return Ok(());
        }
        self.flush()
    }

    fn settle(&mut self) -> Result<(), Response> {
        self.flush()
    }

    fn look<T: Send + 'static>(
        &mut self,
        look: impl FnOnce(&Catalog) -> T + Send + 'static,
    ) -> Result<T, Response> {
        self.flush()?;
        Ok(look(&self.catalog))
    }
}

fn actor(catalog: &Catalog, login: &Login, vhost: &str) -> Result<Actor, Refusal> {
    if login.is_own {
        let id = catalog.vhost(vhost).ok_or_else(|| no_vhost(format!("no vhost '{vhost}'")))?;
        return Ok(Actor::internal(id, PortId::default()));
    }
    let id = open_vhost(catalog, &login.user, vhost)?;
    Ok(Actor::new(login.user.as_str().into(), id, PortId::default()))
}

/// The queue that a step names.
fn queue_of(step: &Step) -> Option<(String, String)> {
    let Step::Act(vhost, action) = step else { return None };
    let name = match action {
        Action::DeclareQueue { name, .. } => name,
        Action::Bind { destination, to_exchange: false, .. } => destination,
        _ => return None,
    };
    Some((vhost.clone(), name.clone()))
}

fn no_vhost(text: String) -> Refusal {
    Refusal::new(ReplyCode::NotFound, Reason::NotFound(Object::VirtualHost), text)
}

fn text(text: String) -> Result<Box<str>, Refusal> {
    if text.len() > NAME_BYTES_MAX {
        let text = format!("a name is longer than {NAME_BYTES_MAX} bytes");
        return Err(Refusal::precondition(Reason::TooLong, text));
    }
    Ok(text.into())
}

fn table(bytes: &[u8]) -> Result<Arguments, Refusal> {
    let reason = Reason::TooLong;
    let bad = |_| Refusal::precondition(reason, "the arguments cannot be written as a table");
    Ok(broker::fields::arguments(&Table::new(bytes).map_err(bad)?))
}

/// The request to the catalog that an action of an import is.
fn op(action: Action) -> Result<Op, Refusal> {
    Ok(match action {
        Action::DeclareQueue { name, durable, auto_delete, arguments } => Op::DeclareQueue {
            name: text(name)?,
            passive: false,
            durable,
            exclusive: false,
            auto_delete,
            arguments: table(&arguments)?,
            random: [0; 16],
        },
        Action::DeclareExchange { name, kind, durable, auto_delete, internal, arguments } => {
            Op::DeclareExchange {
                name: text(name)?,
                kind: text(kind)?,
                passive: false,
                durable,
                auto_delete,
                internal,
                arguments: table(&arguments)?,
            }
        }
        Action::Bind { source, destination, to_exchange, key, arguments, .. } => {
            let (source, destination, key) = (text(source)?, text(destination)?, text(key)?);
            let arguments = table(&arguments)?;
            match to_exchange {
                true => Op::BindExchange { source, destination, key, arguments },
                false => Op::BindQueue { queue: destination, exchange: source, key, arguments },
            }
        }
        other => unreachable!("no step of an import: {other:?}"),
    })
}
