//! Import of definitions: what is named is to be so; what is not named stays as it is.
//!
//! First virtual hosts and users, then what says who may do what, then what is in virtual hosts. What is there already is
//! no error, so that the same file can be imported again.

use crate::body::Body;
use crate::node::{Action, Node, Trouble};
use crate::request::Method;
use crate::response::{Answer, Response};
use crate::routes::Call;
use crate::{
    bindings, exchanges, export, json, limits, parameters, permissions, policies, queues, users, vhosts,
};
use broker::catalog::{Op, PolicyKind, ReplyCode};
use serde_json::{Map, Value};

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
    let body = Body::read(&call.request.body).map_err(bad)?;
    let import = Import { call, only };
    import.all(&body)?;
    Ok(Response::empty(204))
}

struct Import<'a, 'c, N> {
    call: &'a Call<'c, N>,
    /// Everything is for this virtual host.
    only: Option<&'a str>,
}

/// The objects of a list; without one there are none.
fn rows(body: &Body, name: &str) -> Result<Vec<Body>, Response> {
    let bad = || Response::bad_request(format!("{name} is not a list of objects"));
    let items = match body.get(name) {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(bad()),
    };
    items.iter().map(|item| item.as_object().cloned().map(Body).ok_or_else(bad)).collect()
}

impl<N: Node> Import<'_, '_, N> {
    fn all(&self, body: &Body) -> Result<(), Response> {
        let node = self.call.node;
        if self.only.is_none() {
            for vhost in rows(body, "vhosts")? {
                self.vhost(&vhost)?;
            }
            for user in rows(body, "users")? {
                self.user(&user)?;
            }
            for own in rows(body, "permissions")? {
                permissions::set(node, own.need_text("vhost")?, own.need_text("user")?, &own)?;
            }
        }
        if self.only.is_none() {
            for parameter in rows(body, "global_parameters")? {
                let name = parameter.need_text("name")?;
                // Which cluster it is does not travel.
                if name != "internal_cluster_id" {
                    let value = Some(parameter.need("value")?.to_string().into());
                    node.wish(Op::SetParameter { name: name.into(), value })?;
                }
            }
        }
        for parameter in rows(body, "parameters")? {
            self.parameter(&parameter)?;
        }
        for policy in rows(body, "policies")? {
            policies::set(
                node,
                PolicyKind::User,
                self.vhost_of(&policy)?,
                policy.need_text("name")?,
                &policy,
            )?;
        }
        for queue in rows(body, "queues")? {
            let name = queue.need_text("name")?;
            let mut queue = queue.clone();
            if let Some(kind) = queue.get("type").cloned() {
                let mut arguments = queue.object("arguments")?;
                arguments.entry("x-queue-type").or_insert(kind);
                queue.0.insert("arguments".to_owned(), Value::Object(arguments));
            }
            self.act(&queue, queues::declaration(name, &queue)?)?;
        }
        for exchange in rows(body, "exchanges")? {
            // RabbitMQ exports one of its own, which is not here.
            if exchange.need_text("name")?.starts_with(OWN_PREFIX) {
                continue;
            }
            self.act(&exchange, exchanges::declaration(exchange.need_text("name")?, &exchange)?)?;
        }
        if self.only.is_none() {
            // They name exchanges that must be there.
            for own in rows(body, "topic_permissions")? {
                permissions::set_topics(node, own.need_text("vhost")?, own.need_text("user")?, &own)?;
            }
        }
        for binding in rows(body, "bindings")? {
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
            self.act(&binding, bindings::bind(source, to, key, arguments, true))?;
        }
        Ok(())
    }

    fn vhost_of<'b>(&'b self, row: &'b Body) -> Result<&'b str, Response> {
        match self.only {
            Some(only) => Ok(only),
            None => row.need_text("vhost"),
        }
    }

    /// What is there as something else stays what it is, as with RabbitMQ.
    fn act(&self, row: &Body, action: Action) -> Result<(), Response> {
        let is_declaration = matches!(action, Action::DeclareQueue { .. } | Action::DeclareExchange { .. });
        match self.call.node.act(&self.call.caller.login, self.vhost_of(row)?, action) {
            Err(Trouble::Refused(refusal))
                if is_declaration
                    && refusal.code == ReplyCode::PreconditionFailed
                    && refusal.text.starts_with("inequivalent arg") =>
            {
                Ok(())
            }
            other => other.map(drop).map_err(Response::from),
        }
    }

    fn vhost(&self, row: &Body) -> Result<(), Response> {
        let (node, name) = (self.call.node, row.need_text("name")?);
        let asked = name.to_owned();
        let is_there = node.look(move |catalog| catalog.vhost(&asked).is_some())?;
        let mut said: Map<String, Value> = row.0.clone();
        said.extend(row.object("metadata")?);
        vhosts::set(node, name, &Body(said), is_there)?;
        if !is_there && !self.call.caller.login.is_own {
            vhosts::give(node, name, &self.call.caller.login.user)?;
        }
        let own = row.object("limits")?;
        if !own.is_empty() {
            let limits = limits::vhost_limits(&own)?;
            node.wish(Op::SetVhostLimits { vhost: name.into(), limits })?;
        }
        Ok(())
    }

    fn user(&self, row: &Body) -> Result<(), Response> {
        let (node, name) = (self.call.node, row.need_text("name")?);
        let asked = name.to_owned();
        let is_there = node.look(move |catalog| catalog.user(&asked).is_some())?;
        users::set(node, name, row, is_there)?;
        let own = row.object("limits")?;
        if !own.is_empty() {
            let limits = limits::user_limits(&own)?;
            node.wish(Op::SetUserLimits { user: name.into(), limits })?;
        }
        Ok(())
    }

    fn parameter(&self, row: &Body) -> Result<(), Response> {
        let (vhost, value) = (self.vhost_of(row)?, row.need("value")?);
        let component = row.need_text("component")?;
        if !["operator_policy", "vhost-limits"].contains(&component) {
            return Err(Response::bad_request(format!(
                "parameters of the component '{component}' are not served: take them out of the file"
            )));
        }
        parameters::set(self.call.node, component, vhost, row.text("name")?.unwrap_or_default(), value)
    }
}
