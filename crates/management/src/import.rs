//! The entries of a file of definitions as steps: requests to the catalog, and actions of a client.
//!
//! First virtual hosts and users, then their permissions, then the objects in virtual hosts. Entries of one kind do not
//! depend on each other. The steps are taken elsewhere: by a rehearsal, or by the node. An entry that cannot be one is
//! refused by name, and the others go on.

use crate::body::Body;
use crate::call::Call;
use crate::macros::Defined;
use crate::node::{Action, Node};
use crate::report::{Entry, Report, reason};
use crate::response::Response;
use crate::rows::Rows;
use crate::{
    bindings, exchanges, json, kept, limits, macros, mirrors, parameters, permissions, policies, queues,
    users, vhosts,
};
use base::brief;
use base::hash::SetByBytes;
use broker::catalog::{Catalog, Op, PolicyKind, QueueType, Reason, Refusal};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// How exchanges and queues are called that are there without anybody's doing.
const OWN_PREFIX: &str = "amq.";

/// Exchanges that RabbitMQ has in virtual hosts by itself.
const OWN_EXCHANGES: [&str; 9] =
    ["", "direct", "fanout", "topic", "headers", "match", "rabbitmq.trace", "rabbitmq.log", "rabbitmq.event"];

/// The argument of a queue that RabbitMQ 4 has no more, and does not make it for.
const MASTER_LOCATOR: &str = "x-queue-master-locator";

/// Bytes of a name that are told.
const NAME_SHOWN_MAX: usize = 255;

/// One step of an entry.
#[derive(Debug)]
pub(crate) enum Step {
    /// A request in the node's own name.
    Request(Op),
    /// An action of a client, in a virtual host.
    Act(String, Action),
}

impl Step {
    /// It is for something to be there.
    pub(crate) fn is_declaration(&self) -> bool {
        matches!(self, Step::Act(_, Action::DeclareQueue { .. } | Action::DeclareExchange { .. }))
    }
}

/// The taker of an import's steps: a rehearsal, or the node.
pub(crate) trait Taker {
    /// Takes a step of an entry; its outcome may be known later.
    ///
    /// # Errors
    /// Nothing more can be done.
    fn take(&mut self, entry: Entry, step: Step) -> Result<(), Response>;

    /// Waits until all steps that were taken are done.
    ///
    /// # Errors
    /// Nothing more can be done.
    fn settle(&mut self) -> Result<(), Response>;

    /// Has a look at the catalog.
    ///
    /// # Errors
    /// Nothing more can be done.
    fn look<T: Send + 'static>(
        &mut self,
        look: impl FnOnce(&Catalog) -> T + Send + 'static,
    ) -> Result<T, Response>;
}

/// In definitions, and there alone, an object that does not say otherwise is durable.
fn by_default_durable(row: &mut Body) {
    row.0.entry("durable").or_insert(Value::Bool(true));
}

/// Tells of a step that the catalog says no to.
pub(crate) fn refuse(report: &mut Report, entry: Entry, is_declaration: bool, refusal: &Refusal) {
    match &refusal.reason {
        // An object that is there with other properties keeps them, as with RabbitMQ.
        Reason::Inequivalent { .. } if is_declaration => {}
        Reason::InvalidProperty { .. } if is_declaration => {
            report.remark(entry, format!("left out, as RabbitMQ leaves it out: {}", refusal.peer_text()));
        }
        _ => report.refuse(entry, refusal.peer_text()),
    }
}

/// See the module.
pub(crate) struct Import<'a, 'c, N> {
    pub call: &'a Call<'c, N>,
    /// Everything is for this virtual host.
    pub only: Option<&'a str>,
    /// Keys of mirrored classic queues are left out.
    pub strips_mirrors: bool,
    pub report: &'a RefCell<Report>,
}

impl<N: Node> Import<'_, '_, N> {
    /// Has all entries taken.
    ///
    /// # Errors
    /// The node does not answer.
    pub(crate) fn walk(&self, rows: &Rows<'_>, taker: &mut impl Taker) -> Result<(), Response> {
        if self.only.is_none() {
            let names = |catalog: &Catalog| catalog.vhosts().map(|own| own.name.to_string()).collect();
            let mut there: SetByBytes<String> = taker.look(names)?;
            self.each(rows, "vhosts", taker, |row, steps| {
                let is_there = !there.insert(row.need_text("name")?.to_owned());
                self.vhost(row, is_there, steps)
            })?;
            let names = |catalog: &Catalog| catalog.users().map(|own| own.name.to_string()).collect();
            let mut there: SetByBytes<String> = taker.look(names)?;
            self.each(rows, "users", taker, |row, steps| {
                let is_there = !there.insert(row.need_text("name")?.to_owned());
                self.user(row, is_there, steps)
            })?;
            self.each(rows, "permissions", taker, |row, steps| {
                let (vhost, user) = (self.vhost_of(row)?, row.need_text("user")?);
                steps.push(Step::Request(permissions::wanted(vhost, user, row)?));
                Ok(())
            })?;
            self.each(rows, "global_parameters", taker, |row, steps| {
                let name = row.need_text("name")?;
                // Which cluster it is does not travel.
                if name != "internal_cluster_id" {
                    let value = row.0.get("value").ok_or_else(|| Response::missing_key("value"))?;
                    let value = Some(value.to_string().into());
                    steps.push(Step::Request(Op::SetParameter { name: name.into(), value }));
                }
                Ok(())
            })?;
        }
        let mut defined = Vec::new();
        self.each(rows, "parameters", taker, |row, steps| self.parameter(row, steps, &mut defined))?;
        for (entry, op) in macros::ordered(defined) {
            taker.take(entry, Step::Request(op))?;
        }
        taker.settle()?;
        self.each(rows, "policies", taker, |row, steps| self.policy(row, steps))?;
        let left_out = self.queues(rows, taker)?;
        self.exchanges(rows, taker)?;
        if self.only.is_none() {
            // They name exchanges that must be there.
            self.each(rows, "topic_permissions", taker, |row, steps| {
                let (vhost, user) = (self.vhost_of(row)?, row.need_text("user")?);
                steps.push(Step::Request(permissions::wanted_topics(vhost, user, row)?));
                Ok(())
            })?;
        }
        self.each(rows, "bindings", taker, |row, steps| self.binding(row, &left_out, steps))
    }

    /// Has the steps of each entry of a list taken, and waits for them.
    fn each(
        &self,
        rows: &Rows<'_>,
        list: &'static str,
        taker: &mut impl Taker,
        mut steps_of: impl FnMut(&mut Body, &mut Vec<Step>) -> Result<(), Response>,
    ) -> Result<(), Response> {
        let found = match rows.of(list) {
            Ok(found) => found,
            Err(refused) => {
                let entry = Entry { list, ..Entry::default() };
                self.report.borrow_mut().refuse(entry, reason(&refused));
                return Ok(());
            }
        };
        for (number, mut row) in found.enumerate() {
            let entry = self.entry(list, number, &row);
            let mut steps = Vec::new();
            match steps_of(&mut row, &mut steps) {
                Ok(()) => {
                    self.report.borrow_mut().take(list);
                    for step in steps {
                        taker.take(entry.clone(), step)?;
                    }
                }
                Err(broken) if broken.status >= 500 => return Err(broken),
                Err(refused) => self.report.borrow_mut().refuse(entry, reason(&refused)),
            }
        }
        taker.settle()
    }

    /// The entry, by its list and its name, or by its number where it has none.
    fn entry(&self, list: &'static str, number: usize, row: &Body) -> Entry {
        let text = |key: &str| {
            let text = row.get(key).and_then(Value::as_str)?;
            Some(&text[..text.floor_char_boundary(NAME_SHOWN_MAX)])
        };
        let named = match list {
            "permissions" => text("user").map(|user| format!("of user '{user}'")),
            "topic_permissions" => text("user").map(|user| {
                format!("of user '{user}' on exchange '{}'", text("exchange").unwrap_or_default())
            }),
            "parameters" => text("name")
                .map(|name| format!("'{name}' of component '{}'", text("component").unwrap_or_default())),
            "bindings" => text("source").zip(text("destination")).map(|(source, destination)| {
                let kind = text("destination_type").unwrap_or_default();
                let key = text("routing_key").unwrap_or_default();
                format!("from '{source}' to {kind} '{destination}' with key '{key}'")
            }),
            _ => text("name").map(|name| format!("'{name}'")),
        };
        let name = named.unwrap_or_else(|| format!("entry {}", number + 1));
        let vhost = self.only.or_else(|| text("vhost")).unwrap_or_default().to_owned();
        Entry { list, name, vhost }
    }

    fn remark(&self, list: &'static str, row: &Body, what: impl Into<String>) {
        self.report.borrow_mut().remark(self.entry(list, 0, row), what);
    }

    fn vhost_of<'b>(&'b self, row: &'b Body) -> Result<&'b str, Response> {
        let missing = "no virtual host is named (key vhost): what was exported of one virtual host is imported into one";
        match self.only {
            Some(only) => Ok(only),
            None => row.text("vhost")?.ok_or_else(|| Response::bad_request(missing)),
        }
    }

    fn act(&self, row: &Body, action: Action, steps: &mut Vec<Step>) -> Result<(), Response> {
        steps.push(Step::Act(self.vhost_of(row)?.to_owned(), action));
        Ok(())
    }

    fn vhost(&self, row: &Body, is_there: bool, steps: &mut Vec<Step>) -> Result<(), Response> {
        let name = row.need_text("name")?;
        let mut said: Map<String, Value> = row.0.clone();
        said.extend(row.object("metadata")?);
        steps.extend(vhosts::wanted(self.call, name, &Body(said), is_there)?.into_iter().map(Step::Request));
        let own = limits::listed(row, "limits")?;
        if !own.is_empty() {
            let limits = limits::vhost_limits(&own)?;
            steps.push(Step::Request(Op::SetVhostLimits { vhost: name.into(), limits }));
        }
        Ok(())
    }

    fn user(&self, row: &Body, is_there: bool, steps: &mut Vec<Step>) -> Result<(), Response> {
        let name = row.need_text("name")?;
        let wanted = users::wanted(self.call.node, name, row, is_there)?;
        if let Some(remark) = users::remark(row) {
            self.remark("users", row, remark);
        }
        steps.extend(wanted.into_iter().map(Step::Request));
        let own = limits::listed(row, "limits")?;
        if !own.is_empty() {
            let limits = limits::user_limits(&own)?;
            steps.push(Step::Request(Op::SetUserLimits { user: name.into(), limits }));
        }
        Ok(())
    }

    /// Macros are made behind all other parameters: they go to `defined`.
    fn parameter(
        &self,
        row: &mut Body,
        steps: &mut Vec<Step>,
        defined: &mut Vec<Defined>,
    ) -> Result<(), Response> {
        let component = row.need_text("component")?.to_owned();
        if component == "operator_policy"
            && self.strips_mirrors
            && let Some(Value::Object(policy)) = row.0.get_mut("value")
            && let Some(Value::Object(definition)) = policy.get_mut("definition")
        {
            let removed = mirrors::strip_policy(definition);
            let is_empty = definition.is_empty();
            if !self.stripped("parameters", row, &removed, is_empty) {
                return Ok(());
            }
        }
        let (vhost, value) = (self.vhost_of(row)?, row.0.get("value"));
        let value = value.ok_or_else(|| Response::missing_key("value"))?;
        let name = row.text("name")?.unwrap_or_default();
        if macros::are_of(&component) {
            defined.push(Defined::new(self.entry("parameters", 0, row), vhost, name, value)?);
        } else if parameters::is_served(&component) {
            steps.push(Step::Request(parameters::wanted(&component, vhost, name, value)?));
        } else {
            steps.push(Step::Request(parameters::keeping(&component, vhost, name, value)?));
            self.remark("parameters", row, kept::remark(&component));
        }
        Ok(())
    }

    fn policy(&self, row: &mut Body, steps: &mut Vec<Step>) -> Result<(), Response> {
        if self.strips_mirrors
            && let Some(Value::Object(definition)) = row.0.get_mut("definition")
        {
            let removed = mirrors::strip_policy(definition);
            let is_empty = definition.is_empty();
            if !self.stripped("policies", row, &removed, is_empty) {
                return Ok(());
            }
        }
        let (vhost, name) = (self.vhost_of(row)?, row.need_text("name")?);
        steps.push(Step::Request(policies::wanted(PolicyKind::User, vhost, name, row)?));
        if let Some(remark) = policies::remark(row) {
            self.remark("policies", row, remark);
        }
        Ok(())
    }

    /// Tells of keys that were left out; whether anything is left.
    fn stripped(&self, list: &'static str, row: &Body, removed: &[String], is_empty: bool) -> bool {
        if removed.is_empty() {
            return true;
        }
        let keys = removed.join(", ");
        let what = if is_empty { "left out: it has nothing but" } else { "without" };
        self.remark(list, row, format!("{what} {keys}"));
        !is_empty
    }

    /// Virtual host and name of each that is left out.
    fn queues(
        &self,
        rows: &Rows<'_>,
        taker: &mut impl Taker,
    ) -> Result<SetByBytes<(String, String)>, Response> {
        let types = |catalog: &Catalog| {
            brief::collect(catalog.vhosts().map(|own| (own.name.to_string(), own.default_queue_type)))
        };
        let types: BTreeMap<String, QueueType> = taker.look(types)?;
        let mut left_out = SetByBytes::default();
        self.each(rows, "queues", taker, |row, steps| {
            let (vhost, name) = (self.vhost_of(row)?.to_owned(), row.need_text("name")?.to_owned());
            if name.starts_with(OWN_PREFIX) {
                self.remark("queues", row, "left out: the name is reserved");
                left_out.insert((vhost, name));
                return Ok(());
            }
            if name.is_empty() {
                return Err(Response::bad_request("a queue needs a name"));
            }
            by_default_durable(row);
            let (about, is_own) = (self.call.node.about(), self.call.caller.login.is_own);
            if !(row.boolean("durable", true)? || about.permits_transient_queues || is_own) {
                let what = "left out: queues that are neither durable nor exclusive are not permitted \
                            (deprecated_features.permit.transient_nonexcl_queues)";
                self.remark("queues", row, what);
                left_out.insert((vhost, name));
                return Ok(());
            }
            let mut arguments = row.object("arguments")?;
            if arguments.remove(MASTER_LOCATOR).is_some() {
                self.remark(
                    "queues",
                    row,
                    format!("without {MASTER_LOCATOR}, for which RabbitMQ 4 leaves out the queue"),
                );
            }
            if self.strips_mirrors {
                let removed = mirrors::strip_queue(&mut arguments);
                self.stripped("queues", row, &removed, false);
            }
            // RabbitMQ names the type twice. By itself it counts where it makes a difference.
            let of_type = row.get("type").and_then(Value::as_str).and_then(QueueType::from_any_name);
            let usual = types.get(&vhost).copied().unwrap_or_default();
            if let Some(of_type) = of_type.filter(|of_type| *of_type != usual) {
                arguments.entry("x-queue-type").or_insert_with(|| of_type.name().into());
            }
            row.0.insert("arguments".to_owned(), Value::Object(arguments));
            let declaration = queues::declaration(&name, row)?;
            self.act(row, declaration, steps)
        })?;
        Ok(left_out)
    }

    fn exchanges(&self, rows: &Rows<'_>, taker: &mut impl Taker) -> Result<(), Response> {
        self.each(rows, "exchanges", taker, |row, steps| {
            let name = row.need_text("name")?;
            if name.is_empty() {
                return Ok(());
            }
            if let Some(rest) = name.strip_prefix(OWN_PREFIX) {
                if !OWN_EXCHANGES.contains(&rest) {
                    self.remark("exchanges", row, "left out: the name is reserved");
                }
                return Ok(());
            }
            row.need_text("type")?;
            by_default_durable(row);
            let name = row.need_text("name")?;
            let declaration = exchanges::declaration(name, row)?;
            self.act(row, declaration, steps)
        })
    }

    fn binding(
        &self,
        row: &Body,
        left_out: &SetByBytes<(String, String)>,
        steps: &mut Vec<Step>,
    ) -> Result<(), Response> {
        let to_exchange = match row.need_text("destination_type")? {
            "queue" => false,
            "exchange" => true,
            other => return Err(Response::bad_request(format!("unknown destination type '{other}'"))),
        };
        let (source, destination) = (row.need_text("source")?, row.need_text("destination")?);
        // Every queue is bound to the default exchange by itself, and the log goes to no exchange.
        if source.is_empty() || source == "amq.rabbitmq.log" {
            return Ok(());
        }
        let vhost = self.vhost_of(row)?.to_owned();
        if !to_exchange && left_out.contains(&(vhost, destination.to_owned())) {
            self.remark("bindings", row, "left out with its queue");
            return Ok(());
        }
        let key = row.text("routing_key")?.unwrap_or_default();
        let arguments = json::table(&row.object("arguments")?);
        self.act(row, bindings::bind(source, (to_exchange, destination), key, arguments, true), steps)
    }
}
