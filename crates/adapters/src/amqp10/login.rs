//! From the SASL header to an open connection: the user, and the virtual host.

use super::Adapter;
use super::pending::Waiting;
use crate::context::{Context, Gravity};
use crate::credentials::{self, Outcome, Proof, Unproved};
use crate::settings::{GIVEN_NAME_BYTES_MAX, INFORMATION, PLATFORM, PRODUCT, Peer};
use ::amqp10::{Fault, Open, SaslCode, Symbols};
use base::rabbitmq::VERSION;
use broker::access::open_vhost;
use broker::catalog::{Actor, Refusal, UserDefinition};
use broker::fields::arguments;
use broker::{Caller, Settled};
use message::amqp10::{Encoder, Map};
use message::amqp091::Table;
use routing::Arguments;
use std::sync::Arc;

/// The login under way, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Login {
    user: Option<Arc<str>>,
    /// The client's introduction, for events of the connection where somebody hears.
    introduction: Introduction,
}

/// A peer's description of itself.
#[derive(Debug, Default)]
struct Introduction {
    mechanism: String,
    container: String,
    properties: Arguments,
}

/// Our capabilities among those that clients ask for.
const CAPABILITIES: [&str; 2] = ["LINK_PAIR_V1_0", "ANONYMOUS-RELAY"];

/// A connection of this protocol, as it is announced.
fn caller<'a>(peer: &'a Peer, mechanism: &'a str) -> Caller<'a> {
    Caller { name: &peer.name, protocol: "{1,0}", mechanism, encryption: peer.encryption.as_deref() }
}

/// Properties in the words of AMQP 0-9-1, in which they are announced.
fn properties(map: &Map<'_>) -> Arguments {
    let fields = message::convert::table_fields(map);
    Table::new(&fields).map(|table| arguments(&table)).unwrap_or_default()
}

impl Adapter {
    pub(super) fn log_in(&mut self, context: &mut Context<'_>, mechanism: &str, response: Option<&[u8]>) {
        let (catalog, rules) = (context.shard.catalog(), context.shard.rules());
        let response = response.unwrap_or_default();
        match credentials::log_in(context.watch(), catalog, rules, &self.peer, mechanism, response) {
            Ok(Proof::Awaited(trial)) => {
                // No answer has this token.
                self.requests.wait(0, Default::default(), Waiting::LogIn(mechanism.into()));
                context.await_trial(trial);
            }
            Ok(Proof::Given(user)) => self.finish_login(context, mechanism, Ok(user)),
            Err(unproved) => self.finish_login(context, mechanism, Err(unproved)),
        }
    }

    /// The password was compared elsewhere.
    pub(crate) fn tried(&mut self, context: &mut Context<'_>, outcome: Outcome) {
        let awaited = self.requests.take_if(|pending| matches!(pending.waiting, Waiting::LogIn(_)));
        // It may have been given up meanwhile.
        if let Some(pending) = awaited.filter(|_| self.machine.is_authenticating())
            && let Waiting::LogIn(mechanism) = pending.waiting
        {
            self.finish_login(context, &mechanism, outcome.map_err(Unproved::Denied));
        }
    }

    fn finish_login(
        &mut self,
        context: &mut Context<'_>,
        mechanism: &str,
        found: Result<Arc<UserDefinition>, Unproved>,
    ) {
        let told = caller(&self.peer, mechanism);
        match found {
            Ok(user) => {
                let name = user.name.clone();
                context.shard.login_tried(context.now, &told, Ok(&name));
                self.mechanism = credentials::mechanism_number(mechanism);
                if let Some(login) = &mut self.login {
                    login.user = Some(name);
                    login.introduction.mechanism = mechanism.to_owned();
                }
                self.machine.sasl_outcome(SaslCode::Ok);
            }
            Err(Unproved::Denied(denied)) => {
                context.shard.login_tried(context.now, &told, Err(denied.announced()));
                if denied.is_told() {
                    let text = format!("{mechanism} login refused: {}", denied.reason);
                    self.note(context, Gravity::Error, text);
                }
                self.machine.sasl_outcome(SaslCode::Auth);
                if let Some(held_ms) = denied.held_ms() {
                    self.machine.prolong_silence(held_ms);
                }
            }
            // No client one could talk to: it hears nothing more, as from RabbitMQ.
            Err(Unproved::Malformed) => {
                let text = format!("{mechanism} login refused: malformed response");
                self.note(context, Gravity::Error, text);
                self.machine.abort();
            }
            Err(Unproved::Unknown) => {
                let text = format!("unknown SASL mechanism '{mechanism}'");
                self.note(context, Gravity::Error, text);
                self.machine.sasl_outcome(SaslCode::Auth);
            }
        }
    }

    pub(super) fn open(&mut self, context: &mut Context<'_>, open: &Open<'_>) {
        let Some(user) = self.login.as_ref().and_then(|login| login.user.clone()) else { return };
        if let Some(name) = open.properties.get("connection_name").and_then(|name| name.as_str()) {
            self.peer.call(name.as_bytes());
        }
        let end = open.container_id.floor_char_boundary(GIVEN_NAME_BYTES_MAX);
        self.container = Some(open.container_id[..end].into());
        let fields = message::convert::table_fields(&open.properties);
        self.client = Table::new(&fields).ok().and_then(|table| context.scratch.clients.keep(&table));
        if context.shard.is_heard()
            && let Some(login) = &mut self.login
        {
            login.introduction.container = open.container_id.to_owned();
            login.introduction.properties = properties(&open.properties);
        }
        let named = open.hostname.and_then(|hostname| hostname.strip_prefix("vhost:"));
        let vhost = named.unwrap_or(&context.settings.default_vhost).to_owned();
        match open_vhost(context.shard.catalog(), &user, &vhost) {
            Ok(id) => {
                let actor = Actor::new(user, id, context.port);
                if context.shard.is_limited(&actor) {
                    // Before it is open a connection asks for nothing but that.
                    self.requests.wait(0, Default::default(), Waiting::Open(actor.clone()));
                    return context.shard.ask_port(context.port, actor, 0);
                }
                context.shard.open_port(context.port, actor.clone());
                self.opened(context, actor);
            }
            Err(refusal) => {
                self.note(context, Gravity::Error, format!("error: {refusal}"));
                self.machine.abort();
            }
        }
    }

    /// The peer's open is wrong. Its login was right, so it hears why.
    pub(super) fn refuse_open(&mut self, context: &mut Context<'_>, fault: &Fault) {
        self.note(context, Gravity::Error, format!("error: {fault}"));
        self.answer_open(context);
        self.machine.close(Some(fault.error()));
    }

    /// Whether one connection more may be open was asked, and answered; refused, the client hears nothing more, as from
    /// RabbitMQ.
    pub(super) fn admitted(&mut self, context: &mut Context<'_>, refusal: Option<&Refusal>) {
        let asked = self.requests.take_if(|pending| matches!(pending.waiting, Waiting::Open(_)));
        let Some(Waiting::Open(actor)) = asked.map(|pending| pending.waiting) else { return };
        match refusal {
            // It may have been given up meanwhile.
            None if self.is_over() => context.shard.close_port(context.now, context.port),
            None => self.opened(context, actor),
            Some(refusal) => {
                context.shard.close_port(context.now, context.port);
                self.note(context, Gravity::Error, format!("error: {refusal}"));
                self.machine.abort();
            }
        }
    }

    fn opened(&mut self, context: &mut Context<'_>, actor: Actor) {
        context.now_known();
        let vhost = context.shard.catalog().vhost_definition(actor.vhost).map(|vhost| vhost.name.clone());
        let (user, vhost) = (&actor.user, vhost.unwrap_or_default());
        let text = format!("user '{user}' authenticated and granted access to vhost '{vhost}'");
        self.note(context, Gravity::Info, text);
        let introduction = self.login.take().map(|login| login.introduction).unwrap_or_default();
        let settled = Settled {
            timeout_s: u64::from(self.machine.idle_ms()) / 500,
            frame_max: self.machine.remote_frame_bytes(),
            channel_max: self.machine.channel_max(),
            properties: &introduction.properties,
            container: Some(&introduction.container),
        };
        let caller = caller(&self.peer, &introduction.mechanism);
        context.shard.connection_opened(context.now, &actor, &caller, &settled);
        self.actor = Some(actor);
        self.answer_open(context);
    }

    fn answer_open(&mut self, context: &mut Context<'_>) {
        let texts = [
            ("cluster_name", &*context.settings.cluster),
            ("copyright", "Copyright (c) the Leveret authors"),
            ("information", INFORMATION),
            ("node", &*context.settings.node),
            ("platform", PLATFORM),
            ("product", PRODUCT),
            ("version", VERSION),
        ];
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        for (name, text) in texts {
            encoder.symbol(name);
            encoder.string(text);
        }
        let open = Open {
            offered_capabilities: Symbols::Given(&CAPABILITIES),
            properties: Map::new(2 * texts.len() as u32, &bytes),
            ..Open::new(&context.settings.node)
        };
        self.machine.open(&open);
    }
}
