//! From the first frame to an open connection: the user, and the virtual host; and renewals of the proof.

use super::Adapter;
use super::arrivals::Arrival;
use super::pending::BrokerRequest;
use super::rights::Rights;
use crate::context::{Context, Gravity};
use crate::credentials::{self, Outcome, Proof, Unproved};
use crate::settings::{INFORMATION, PLATFORM, PRODUCT, Peer};
use ::stream_protocol::{List, Pair, Response, ResponseCode, Tune};
use base::rabbitmq::VERSION;
use broker::access::open_vhost;
use broker::catalog::{Actor, Object, Reason, Refusal, ReplyCode, UserDefinition};
use broker::{Caller, Settled};
use routing::{Arguments, Value};
use std::sync::Arc;

/// As RabbitMQ calls the protocol and its version, which has none.
pub(super) const PROTOCOL: &str = "{<<\"stream\">>,[]}";

/// The login under way, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Login {
    user: Option<Arc<str>>,
    /// The settled bounds.
    pub(super) tuned: Option<Tune>,
    /// The client's description of itself, where somebody hears of it.
    properties: Arguments,
    /// The correlation id of `open`, while it is asked whether one connection more may be open.
    opening: u32,
}

/// The refusal of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RefusedLogin {
    code: ResponseCode,
    /// Milliseconds until the answer, where the guard refused it without a try.
    held_ms: Option<u64>,
}

impl From<ResponseCode> for RefusedLogin {
    fn from(code: ResponseCode) -> RefusedLogin {
        RefusedLogin { code, held_ms: None }
    }
}

/// The port of the listener that a client came to.
pub(super) fn port_of(peer: &Peer) -> u16 {
    peer.name.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or_default()
}

/// A connection of this protocol, as it is announced.
fn caller<'a>(peer: &'a Peer, mechanism: &'a str) -> Caller<'a> {
    Caller { name: &peer.name, protocol: PROTOCOL, mechanism, encryption: peer.encryption.as_deref() }
}

impl Adapter {
    /// Answers the client's introduction with the server's properties.
    pub(super) fn introduce(
        &mut self,
        context: &mut Context<'_>,
        correlation_id: u32,
        properties: &List<'_, Pair<'_>>,
    ) {
        if let Some(name) = properties.iter().find(|pair| pair.key == b"connection_name") {
            self.peer.call(name.value);
        }
        let pairs = properties.iter().map(|pair| (pair.key, pair.value));
        self.client = context.scratch.clients.keep_texts(pairs);
        if context.shard.is_heard()
            && let Some(login) = &mut self.login
        {
            let said = properties.iter().map(|pair| (pair.key, Value::Text(pair.value.into())));
            login.properties = said.collect();
        }
        let own = [
            Pair::new("cluster_name", &context.settings.cluster),
            Pair::new("copyright", "Copyright (c) the Leveret authors"),
            Pair::new("information", INFORMATION),
            Pair::new("platform", PLATFORM),
            Pair::new("product", PRODUCT),
            Pair::new("version", VERSION),
        ];
        let properties = List::new(&own);
        let response = Response::PeerProperties { code: ResponseCode::OK, properties };
        self.machine.respond(correlation_id, &response);
    }

    pub(super) fn offer(&mut self, context: &mut Context<'_>, correlation_id: u32) {
        let offered = credentials::STREAM.offered(context.shard.catalog(), context.shard.rules(), &self.peer);
        let names: Vec<&[u8]> = offered.iter().map(|name| name.as_bytes()).collect();
        let response = Response::SaslHandshake { code: ResponseCode::OK, mechanisms: List::new(&names) };
        self.machine.respond(correlation_id, &response);
    }

    /// The client's user, or the refusal of its login.
    fn proved(
        &self,
        context: &mut Context<'_>,
        mechanism: &str,
        found: Result<Arc<UserDefinition>, Unproved>,
    ) -> Result<Arc<str>, RefusedLogin> {
        let mut held_ms = None;
        let (announced, reason, code) = match found {
            Ok(user) => return Ok(user.name.clone()),
            Err(Unproved::Unknown) => {
                let text = format!("unknown authentication mechanism '{mechanism}'");
                self.note(context, Gravity::Error, text);
                return Err(ResponseCode::SASL_MECHANISM_NOT_SUPPORTED.into());
            }
            Err(Unproved::Malformed) => {
                let reason = format!("malformed {mechanism} response");
                (reason.clone(), Some(reason), ResponseCode::SASL_ERROR)
            }
            Err(Unproved::Denied(denied)) => {
                held_ms = denied.held_ms();
                // A client that would be let in from the server's own machine is told so.
                let code = match denied.is_far() {
                    true => ResponseCode::SASL_AUTHENTICATION_FAILURE_LOOPBACK,
                    false => ResponseCode::AUTHENTICATION_FAILURE,
                };
                (denied.announced().to_owned(), denied.is_told().then_some(denied.reason), code)
            }
        };
        context.shard.login_tried(context.now, &caller(&self.peer, mechanism), Err(&announced));
        if let Some(reason) = reason {
            self.note(context, Gravity::Error, format!("{mechanism} login refused: {reason}"));
        }
        Err(RefusedLogin { code, held_ms })
    }

    fn refuse(&mut self, context: &mut Context<'_>, correlation_id: u32, refused: RefusedLogin) {
        context.shard.tallies().stream_errors(refused.code.0, 1);
        self.machine.refuse_login(context.now, correlation_id, refused.code);
        if let Some(held_ms) = refused.held_ms {
            self.machine.prolong_silence(context.now, held_ms);
        }
    }

    pub(super) fn authenticate(
        &mut self,
        context: &mut Context<'_>,
        correlation_id: u32,
        mechanism: &[u8],
        response: &[u8],
    ) {
        let mechanism = String::from_utf8_lossy(mechanism);
        if self.login.is_none() && mechanism != self.mechanism {
            return self.renew(context, correlation_id, &mechanism, None);
        }
        let (catalog, rules) = (context.shard.catalog(), context.shard.rules());
        match credentials::log_in(context.watch(), catalog, rules, &self.peer, &mechanism, response) {
            Ok(Proof::Awaited(trial)) => {
                let request = BrokerRequest::LogIn { mechanism: mechanism.into() };
                self.requests.wait(correlation_id, 1, request);
                context.await_trial(trial);
            }
            Ok(Proof::Given(user)) => self.answer(context, correlation_id, &mechanism, Ok(user)),
            Err(unproved) => self.answer(context, correlation_id, &mechanism, Err(unproved)),
        }
    }

    /// The password was compared elsewhere.
    pub(crate) fn tried(&mut self, context: &mut Context<'_>, outcome: Outcome) {
        // It may have been given up meanwhile.
        if let Some((correlation_id, mechanism)) =
            self.requests.take_login().filter(|_| self.machine.is_authenticating())
        {
            self.answer(context, correlation_id, &mechanism, outcome.map_err(Unproved::Denied));
        }
    }

    /// Answers a login, or the renewal of one.
    fn answer(
        &mut self,
        context: &mut Context<'_>,
        correlation_id: u32,
        mechanism: &str,
        found: Result<Arc<UserDefinition>, Unproved>,
    ) {
        if self.login.is_none() {
            return self.renew(context, correlation_id, mechanism, Some(found));
        }
        match self.proved(context, mechanism, found) {
            Ok(user) => {
                context.shard.login_tried(context.now, &caller(&self.peer, mechanism), Ok(&user));
                let offered =
                    credentials::STREAM.offered(context.shard.catalog(), context.shard.rules(), &self.peer);
                self.mechanism = offered.iter().find(|own| **own == mechanism).copied().unwrap_or_default();
                if let Some(login) = &mut self.login {
                    login.user = Some(user);
                }
                self.machine.accept_login(correlation_id);
            }
            Err(refused) => self.refuse(context, correlation_id, refused),
        }
    }

    /// The client of an open connection proves its user again. Nothing is found where it would do so by another
    /// mechanism.
    fn renew(
        &mut self,
        context: &mut Context<'_>,
        correlation_id: u32,
        mechanism: &str,
        found: Option<Result<Arc<UserDefinition>, Unproved>>,
    ) {
        let Some(actor) = self.rights.actor().cloned() else { return };
        let renewed = match found {
            None => Err(ResponseCode::SASL_CANNOT_CHANGE_MECHANISM.into()),
            Some(found) => self.proved(context, mechanism, found).and_then(|user| match user == actor.user {
                true => Ok(()),
                false => Err(ResponseCode::SASL_CANNOT_CHANGE_USERNAME.into()),
            }),
        };
        let renewed = renewed.and_then(|()| {
            let catalog = context.shard.catalog();
            let has_access = catalog.permissions(actor.vhost, &actor.user).is_some();
            has_access.then_some(()).ok_or(ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE.into())
        });
        match renewed {
            Ok(()) => {
                context.shard.login_tried(context.now, &caller(&self.peer, mechanism), Ok(&actor.user));
                let response = Response::SaslAuthenticate { code: ResponseCode::OK, challenge: &[] };
                self.machine.respond(correlation_id, &response);
                self.leave_forbidden(context);
            }
            Err(refused) => {
                self.drop_all(context);
                self.refuse(context, correlation_id, refused);
            }
        }
    }

    pub(super) fn open(&mut self, context: &mut Context<'_>, correlation_id: u32, vhost: &[u8]) {
        let Some(user) = self.login.as_ref().and_then(|login| login.user.clone()) else { return };
        if let Some(most) = self.arrival.as_ref().and_then(Arrival::too_many) {
            let text = format!("connection refused: node connection limit ({most}) is reached");
            let refusal = Refusal::new(ReplyCode::NotAllowed, Reason::LimitReached(Object::Connection), text);
            return self.not_opened(context, correlation_id, &refusal);
        }
        match open_vhost(context.shard.catalog(), &user, &String::from_utf8_lossy(vhost)) {
            Ok(id) => {
                let actor = Actor::new(user, id, context.port);
                if context.shard.is_limited(&actor) {
                    if let Some(login) = &mut self.login {
                        login.opening = correlation_id;
                    }
                    let token =
                        self.requests.wait(correlation_id, 1, BrokerRequest::Open { actor: actor.clone() });
                    return context.shard.ask_port(context.port, actor, token);
                }
                context.shard.open_port(context.port, actor.clone());
                self.opened(context, correlation_id, actor);
            }
            Err(refusal) => self.not_opened(context, correlation_id, &refusal),
        }
    }

    pub(super) fn not_opened(&mut self, context: &mut Context<'_>, correlation_id: u32, refusal: &Refusal) {
        self.note(context, Gravity::Error, format!("error: {refusal}"));
        context.shard.tallies().stream_errors(ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE.0, 1);
        self.machine.refuse_open(context.now, correlation_id);
    }

    pub(super) fn opened(&mut self, context: &mut Context<'_>, correlation_id: u32, actor: Actor) {
        context.now_known();
        let vhost = context.shard.catalog().vhost_definition(actor.vhost).map(|vhost| vhost.name.clone());
        let (user, vhost) = (&actor.user, vhost.unwrap_or_default());
        let text = format!("user '{user}' authenticated and granted access to vhost '{vhost}'");
        self.note(context, Gravity::Info, text);
        let login = self.login.take().unwrap_or_default();
        let tuned = login.tuned.unwrap_or(Tune { frame_max: 0, heartbeat_s: 0 });
        let settled = Settled {
            timeout_s: tuned.heartbeat_s.into(),
            frame_max: tuned.frame_max,
            channel_max: 0,
            properties: &login.properties,
            container: None,
        };
        let caller = caller(&self.peer, self.mechanism);
        context.shard.connection_opened(context.now, &actor, &caller, &settled);
        self.rights = Rights::of(actor);
        let (host, port) = self.advertised(context);
        let port = port.to_string();
        let properties = [Pair::new("advertised_host", &host), Pair::new("advertised_port", &port)];
        self.machine.open_ok(correlation_id, &properties);
    }

    /// Where clients are told to go that come as this one does.
    pub(super) fn advertised(&self, context: &Context<'_>) -> (Arc<str>, u16) {
        let settings = &context.settings.stream;
        let advertised = if self.peer.encryption.is_some() { &settings.secure } else { &settings.plain };
        (advertised.host.clone(), advertised.port.unwrap_or_else(|| port_of(&self.peer)))
    }
}
