//! From the protocol header to an open connection: the user, and the virtual host.

use super::Adapter;
use super::pending::BrokerRequest;
use super::tables::arguments;
use crate::context::{Context, Gravity};
use crate::credentials::{self, Outcome, Proof, Unproved};
use crate::settings::{INFORMATION, PLATFORM, PRODUCT, Peer};
use ::amqp091::method::{ConnectionOpen, ConnectionStartOk, MethodId};
use base::rabbitmq::VERSION;
use broker::access::open_vhost;
use broker::catalog::{Actor, UserDefinition};
use broker::{Caller, Settled};
use message::amqp091::{Table, Value};
use routing::Arguments;
use std::sync::Arc;

/// Features clients look for (RabbitMQ's extensions that are served).
const CAPABILITIES: [&str; 9] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
];

/// connection.open.
const OPEN: MethodId = MethodId { class: 10, method: 40 };

/// The login under way, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Login {
    user: Option<Arc<str>>,
    /// The client's introduction, for events of the connection where somebody hears.
    introduction: Introduction,
}

/// A client's description of itself.
#[derive(Debug, Default)]
struct Introduction {
    mechanism: String,
    properties: Arguments,
}

impl Adapter {
    /// The client spoke: tells it the name, version and capabilities of the server.
    pub(super) fn start(&mut self, context: &mut Context<'_>) {
        let mut capabilities = Vec::new();
        for name in CAPABILITIES {
            field(&mut capabilities, name, &Value::Bool(true));
        }
        let capabilities = Table::new(&capabilities).expect("it was just written");
        let mut properties = Vec::new();
        field(&mut properties, "capabilities", &Value::Table(capabilities));
        let texts = [
            ("cluster_name", &*context.settings.cluster),
            ("copyright", "Copyright (c) the Leveret authors"),
            ("information", INFORMATION),
            ("node", &*context.settings.node),
            ("platform", PLATFORM),
            ("product", PRODUCT),
            ("version", VERSION),
        ];
        for (name, text) in texts {
            field(&mut properties, name, &Value::Text(text.as_bytes()));
        }
        let properties = Table::new(&properties).expect("it was just written");
        let mechanisms = credentials::AMQP091
            .offered(context.shard.catalog(), context.shard.rules(), &self.peer)
            .join(" ");
        self.machine.start(properties, mechanisms.as_bytes(), b"en_US");
    }

    pub(super) fn log_in(&mut self, context: &mut Context<'_>, start_ok: &ConnectionStartOk<'_>) {
        let capability = |name: &[u8]| {
            let value = start_ok.client_properties.get(b"capabilities").and_then(|value| value.as_table());
            value.and_then(|table| table.get(name)).and_then(|value| value.as_bool()).unwrap_or(false)
        };
        if let Some(name) =
            start_ok.client_properties.get(b"connection_name").and_then(|name| name.as_bytes())
        {
            self.peer.call(name);
        }
        self.hears_blocked = capability(b"connection.blocked");
        self.hears_cancel = capability(b"consumer_cancel_notify");
        let wants_close = capability(b"authentication_failure_close");
        let mechanism = String::from_utf8_lossy(start_ok.mechanism).into_owned();
        if context.shard.is_heard()
            && let Some(login) = &mut self.login
        {
            let properties = arguments(&start_ok.client_properties);
            login.introduction = Introduction { mechanism: mechanism.clone(), properties };
        }
        if let (Some(name), Some(login)) = (self.peer.own_name(), &mut self.login) {
            login.user = Some(name.clone());
            return self.machine.tune();
        }
        let (catalog, rules) = (context.shard.catalog(), context.shard.rules());
        let response = start_ok.response;
        let found = credentials::log_in(context.watch(), catalog, rules, &self.peer, &mechanism, response);
        if found.is_ok() {
            self.client = context.scratch.clients.keep(&start_ok.client_properties);
        }
        let found = match found {
            Ok(Proof::Awaited(trial)) => {
                let request = BrokerRequest::LogIn { mechanism: mechanism.into(), wants_close };
                self.requests.wait(0, MethodId::NONE, false, request);
                return context.await_trial(trial);
            }
            Ok(Proof::Given(user)) => Ok(user),
            Err(unproved) => Err(unproved),
        };
        self.finish_login(context, &mechanism, wants_close, found);
    }

    /// The password was compared elsewhere.
    pub(crate) fn tried(&mut self, context: &mut Context<'_>, outcome: Outcome) {
        let awaited = self.requests.take_if(|pending| matches!(pending.request, BrokerRequest::LogIn { .. }));
        // It may have been given up meanwhile.
        if let Some(pending) = awaited.filter(|_| self.machine.is_authenticating())
            && let BrokerRequest::LogIn { mechanism, wants_close } = pending.request
        {
            self.finish_login(context, &mechanism, wants_close, outcome.map_err(Unproved::Denied));
        }
    }

    fn finish_login(
        &mut self,
        context: &mut Context<'_>,
        mechanism: &str,
        wants_close: bool,
        found: Result<Arc<UserDefinition>, Unproved>,
    ) {
        let mut held_ms = None;
        let (announced, reason) = match found {
            Ok(user) => {
                let name = user.name.clone();
                self.mechanism = credentials::mechanism_number(mechanism);
                context.shard.login_tried(context.now, &caller(&self.peer, mechanism), Ok(&name));
                if let Some(login) = &mut self.login {
                    login.user = Some(name);
                }
                return self.machine.tune();
            }
            Err(Unproved::Unknown) => {
                let text = format!("unknown authentication mechanism '{mechanism}'");
                self.note(context, Gravity::Error, text.clone());
                // Told like any other refusal that comes before the login: not at all.
                return self.machine.refuse_login(context.now, &text, false);
            }
            Err(Unproved::Malformed) => {
                let reason = format!("malformed {mechanism} response");
                (reason.clone(), Some(reason))
            }
            Err(Unproved::Denied(denied)) => {
                held_ms = denied.held_ms();
                (denied.announced().to_owned(), denied.is_told().then_some(denied.reason))
            }
        };
        context.shard.login_tried(context.now, &caller(&self.peer, mechanism), Err(&announced));
        if let Some(reason) = reason {
            self.note(context, Gravity::Error, format!("{mechanism} login refused: {reason}"));
        }
        let text = format!(
            "Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
        );
        self.machine.refuse_login(context.now, &text, wants_close);
        if let Some(held_ms) = held_ms {
            self.machine.prolong_silence(context.now, held_ms);
        }
    }

    pub(super) fn open(&mut self, context: &mut Context<'_>, open: &ConnectionOpen<'_>) {
        let vhost = String::from_utf8_lossy(open.virtual_host).into_owned();
        let Some(user) = self.login.as_ref().and_then(|login| login.user.clone()) else { return };
        let is_own = self.peer.own_name().is_some();
        let found = match context.shard.catalog().vhost(&vhost) {
            Some(id) if is_own => Ok(id),
            _ => open_vhost(context.shard.catalog(), &user, &vhost),
        };
        match found {
            Ok(id) => {
                let is_tool = self.peer.is_agent();
                let actor = Actor { is_internal: is_own, is_tool, ..Actor::new(user, id, context.port) };
                if !is_own && context.shard.is_limited(&actor) {
                    let request = BrokerRequest::Open { actor: actor.clone() };
                    let token = self.requests.wait(0, OPEN, false, request);
                    return context.shard.ask_port(context.port, actor, token);
                }
                context.shard.open_port(context.port, actor.clone());
                self.opened(context, actor);
            }
            Err(refusal) => {
                self.close(context, &refusal, OPEN);
            }
        }
    }

    /// The virtual host is open, and no limit is in the way.
    pub(super) fn opened(&mut self, context: &mut Context<'_>, actor: Actor) {
        context.now_known();
        let vhost = context.shard.catalog().vhost_definition(actor.vhost).map(|vhost| vhost.name.clone());
        let (user, vhost) = (&actor.user, vhost.unwrap_or_default());
        let text = format!("user '{user}' authenticated and granted access to vhost '{vhost}'");
        self.note(context, Gravity::Info, text);
        let introduction = self.login.take().map(|login| login.introduction).unwrap_or_default();
        let settled = Settled {
            timeout_s: self.machine.heartbeat_s(),
            frame_max: self.machine.frame_max(),
            channel_max: self.machine.channel_max(),
            properties: &introduction.properties,
            container: None,
        };
        let caller = caller(&self.peer, &introduction.mechanism);
        context.shard.connection_opened(context.now, &actor, &caller, &settled);
        self.actor = Some(actor);
        self.machine.open_ok();
    }
}

/// A connection of this protocol, as it is announced.
fn caller<'a>(peer: &'a Peer, mechanism: &'a str) -> Caller<'a> {
    Caller { name: &peer.name, protocol: "{0,9,1}", mechanism, encryption: peer.encryption.as_deref() }
}

/// Appends a field to the bytes of a table.
fn field(into: &mut Vec<u8>, name: &str, value: &Value<'_>) {
    into.push(name.len() as u8);
    into.extend_from_slice(name.as_bytes());
    value.write(into);
}
