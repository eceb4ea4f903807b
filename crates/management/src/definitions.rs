//! Import of definitions: what is named is to be so; what is not named stays as it is.
//!
//! First virtual hosts and users, then what says who may do what, then what is in virtual hosts. What is there already is
//! no error, so that the same file can be imported again.
//!
//! Things of one kind do not depend on each other: several are under way at once, and a kind begins when those before it are
//! done. What is wished of the catalog comes to be in the file's order all the same. Told is what is wrong with the first in the file's order; a few behind it may have been imported by then.

use crate::body::Body;
use crate::node::{Action, Node, Trouble};
use crate::request::Method;
use crate::response::{Answer, Response};
use crate::routes::Call;
use crate::rows::Rows;
use crate::underway::Underway;
use crate::{
    bindings, exchanges, export, json, limits, parameters, permissions, policies, queues, users, vhosts,
};
use broker::catalog::{Catalog, Op, PolicyKind, ReplyCode};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// How exchanges are called that are there without anybody's doing.
const OWN_PREFIX: &str = "amq.";

/// Where RabbitMQ publishes its log.
const LOG_EXCHANGE: &str = "amq.rabbitmq.log";

/// `/api/definitions[/VHOST]`.
pub(crate) fn definitions<N: Node>(call: &Call<'_, N>, only: Option<&str>) -> Answer {
    if call.request.method != Method::Post {
        return export::export(call, only);
    }
    if let Some(name) = only
        && call.caller.vhost(name).is_err()
    {
        return Err(Response::error(404, "not_found", "vhost_not_found"));
    }
    let bad = |_| Response::bad_request("failed_to_parse_json");
    let rows = Rows::read(&call.request.body).map_err(bad)?;
    let import = Import { call, only };
    let mut underway = Underway::new(call.node.about().limits.import_begun_max);
    let begun = import.all(&rows, &mut underway);
    // What fails of what is under way comes before what could not be begun.
    underway.finish()?;
    begun?;
    Ok(Response::empty(204))
}

struct Import<'a, 'c, N> {
    call: &'a Call<'c, N>,
    /// Everything is for this virtual host.
    only: Option<&'a str>,
}

impl<'c, N: Node> Import<'_, 'c, N> {
    fn all(&self, rows: &Rows<'_>, underway: &mut Underway<'c>) -> Result<(), Response> {
        if self.only.is_none() {
            let names = |catalog: &Catalog| catalog.vhosts().map(|own| own.name.to_string()).collect();
            let mut there: HashSet<String> = self.call.node.look(names)?;
            for vhost in rows.of("vhosts")? {
                let is_there = !there.insert(vhost.need_text("name")?.to_owned());
                self.vhost(underway, &vhost, is_there)?;
            }
            underway.finish()?;
            let names = |catalog: &Catalog| catalog.users().map(|own| own.name.to_string()).collect();
            let mut there: HashSet<String> = self.call.node.look(names)?;
            for user in rows.of("users")? {
                let is_there = !there.insert(user.need_text("name")?.to_owned());
                self.user(underway, &user, is_there)?;
            }
            underway.finish()?;
            for own in rows.of("permissions")? {
                let (vhost, user) = (own.need_text("vhost")?, own.need_text("user")?);
                self.wish(underway, permissions::wanted(vhost, user, &own)?)?;
            }
            underway.finish()?;
            for parameter in rows.of("global_parameters")? {
                let name = parameter.need_text("name")?;
                // Which cluster it is does not travel.
                if name != "internal_cluster_id" {
                    let value = Some(parameter.need("value")?.to_string().into());
                    self.wish(underway, Op::SetParameter { name: name.into(), value })?;
                }
            }
            underway.finish()?;
        }
        for parameter in rows.of("parameters")? {
            self.wish(underway, self.parameter(&parameter)?)?;
        }
        underway.finish()?;
        for policy in rows.of("policies")? {
            let (vhost, name) = (self.vhost_of(&policy)?, policy.need_text("name")?);
            self.wish(underway, policies::wanted(PolicyKind::User, vhost, name, &policy)?)?;
        }
        underway.finish()?;
        let mut declared = HashSet::new();
        for mut queue in rows.of("queues")? {
            let name = queue.need_text("name")?.to_owned();
            if !declared.insert((self.vhost_of(&queue)?.to_owned(), name.clone())) {
                // The first of a name counts, and they are declared in no order.
                underway.finish()?;
            }
            if let Some(kind) = queue.get("type").cloned() {
                let mut arguments = queue.object("arguments")?;
                arguments.entry("x-queue-type").or_insert(kind);
                queue.0.insert("arguments".to_owned(), Value::Object(arguments));
            }
            self.act(underway, &queue, queues::declaration(&name, &queue)?)?;
        }
        underway.finish()?;
        for exchange in rows.of("exchanges")? {
            // RabbitMQ exports one of its own, which is not here.
            if exchange.need_text("name")?.starts_with(OWN_PREFIX) {
                continue;
            }
            let declaration = exchanges::declaration(exchange.need_text("name")?, &exchange)?;
            self.act(underway, &exchange, declaration)?;
        }
        underway.finish()?;
        if self.only.is_none() {
            // They name exchanges that must be there.
            for own in rows.of("topic_permissions")? {
                let (vhost, user) = (own.need_text("vhost")?, own.need_text("user")?);
                self.wish(underway, permissions::wanted_topics(vhost, user, &own)?)?;
            }
            underway.finish()?;
        }
        for binding in rows.of("bindings")? {
            let to_exchange = match binding.need_text("destination_type")? {
                "queue" => false,
                "exchange" => true,
                other => return Err(Response::bad_request(format!("unknown destination type '{other}'"))),
            };
            let to = (to_exchange, binding.need_text("destination")?);
            let source = binding.need_text("source")?;
            if source.is_empty() || source == LOG_EXCHANGE {
                // Every queue is bound to the default exchange by itself, and the log goes to no exchange.
                continue;
            }
            let key = binding.text("routing_key")?.unwrap_or_default();
            let arguments = json::table(&binding.object("arguments")?);
            self.act(underway, &binding, bindings::bind(source, to, key, arguments, true))?;
        }
        Ok(())
    }

    fn vhost_of<'b>(&'b self, row: &'b Body) -> Result<&'b str, Response> {
        match self.only {
            Some(only) => Ok(only),
            None => row.need_text("vhost"),
        }
    }

    fn wish(&self, underway: &mut Underway<'c>, op: Op) -> Result<(), Response> {
        underway.make_room()?;
        underway.add(self.call.node.begin_wish(op));
        Ok(())
    }

    /// What is there as something else stays what it is, as with RabbitMQ.
    fn act(&self, underway: &mut Underway<'c>, row: &Body, action: Action) -> Result<(), Response> {
        let vhost = self.vhost_of(row)?;
        underway.make_room()?;
        let is_declaration = matches!(action, Action::DeclareQueue { .. } | Action::DeclareExchange { .. });
        let begun = self.call.node.begin_act(&self.call.caller.login, vhost, action);
        underway.add(Box::new(move || match begun() {
            Err(Trouble::Refused(refusal))
                if is_declaration
                    && refusal.code == ReplyCode::PreconditionFailed
                    && refusal.text.starts_with("inequivalent arg") =>
            {
                Ok(())
            }
            other => other,
        }));
        Ok(())
    }

    fn vhost(&self, underway: &mut Underway<'c>, row: &Body, is_there: bool) -> Result<(), Response> {
        let name = row.need_text("name")?;
        let mut said: Map<String, Value> = row.0.clone();
        said.extend(row.object("metadata")?);
        for op in vhosts::wanted(self.call, name, &Body(said), is_there)? {
            self.wish(underway, op)?;
        }
        let own = row.object("limits")?;
        if !own.is_empty() {
            let limits = limits::vhost_limits(&own)?;
            self.wish(underway, Op::SetVhostLimits { vhost: name.into(), limits })?;
        }
        Ok(())
    }

    fn user(&self, underway: &mut Underway<'c>, row: &Body, is_there: bool) -> Result<(), Response> {
        let name = row.need_text("name")?;
        for op in users::wanted(self.call.node, name, row, is_there)? {
            self.wish(underway, op)?;
        }
        let own = row.object("limits")?;
        if !own.is_empty() {
            let limits = limits::user_limits(&own)?;
            self.wish(underway, Op::SetUserLimits { user: name.into(), limits })?;
        }
        Ok(())
    }

    fn parameter(&self, row: &Body) -> Result<Op, Response> {
        let (vhost, value) = (self.vhost_of(row)?, row.need("value")?);
        let component = row.need_text("component")?;
        if !["operator_policy", "vhost-limits"].contains(&component) {
            return Err(Response::bad_request(format!(
                "parameters of the component '{component}' are not served: take them out of the file"
            )));
        }
        parameters::wanted(component, vhost, row.text("name")?.unwrap_or_default(), value)
    }
}
