//! AMQP 1.0 and the broker.
//!
//! [`Adapter`] is a connection; the work is in rooms of its own: login and open in `login`, attaching in `links` and
//! `termini`, messages in and their outcomes in `publishing`, messages out and theirs in `consuming` and `head`, senders
//! whose queue is deleted in `gone`, requests to the management node in `management`, queues made for a link in `nodes`
//! and, for addresses of the first version, `old_nodes`, transactions in `coordinator`.
//! Below it are the parts that own its fields: `session`, `link`, `credit`, `windows`, `watched`, `pending`,
//! `transactions`. They do not know it, and take what they need as arguments.
//! While the broker's answer to an attach or a request is awaited nothing further is read, so that everything a peer says takes effect
//! in the order it was said.
//! A delivery's number in its session is the lower half of its publish number: see [`broker::Publisher::align`].

mod address;
mod address_v1;
mod annotations;
mod consuming;
mod coordinator;
mod credit;
mod firehose;
mod following;
mod gone;
mod head;
mod leasing;
mod link;
mod links;
mod listing;
mod login;
mod looking_again;
mod management;
mod news;
mod nodes;
mod old_nodes;
mod outcomes;
mod pending;
mod publishing;
mod receiving;
mod refused;
mod selecting;
mod session;
mod streams;
mod termini;
mod transactions;
mod watched;
mod windows;

pub(crate) use head::Heads;

use crate::alarm::Alarm;
use crate::clients::Client;
use crate::context::{Context, Gravity, Note};
use crate::credentials;
use crate::following::Roaming;
use crate::handles::{Handles, LeasesOver, numbered};
use crate::settings::Peer;
use crate::tokens::Tokens;
use ::amqp10::{Config, Connection, Error, Event as WireEvent, Input, Room, SessionId};
use base::{Now, Output};
use broker::access::AccessCache;
use broker::catalog::{Actor, Catalog, VhostId};
use broker::ledger::Kind;
use broker::{ConnectionRow, Event, Events, Publisher};
use link::{ConsumerAt, Link};
use login::Login;
use management::Management;
use nodes::Nodes;
use pending::Requests;
use refused::Refused;
use session::{Session, Sessions};
use std::sync::Arc;
use transactions::Transactions;

/// In place of [`Adapter::blocked_bytes`]: more came than may.
const HELD: u32 = u32::MAX;

/// Bytes that a session takes, here and in the machine.
const SESSION_BYTES: usize = 704;

/// A connection that speaks AMQP 1.0.
#[derive(Debug)]
pub struct Adapter {
    machine: Connection,
    peer: Peer,
    /// Only until the connection is open.
    login: Option<Box<Login>>,
    actor: Option<Actor>,
    /// Its client's description of itself.
    client: Option<Client>,
    /// Its client's container id (§2.7.1).
    container: Option<Box<str>>,
    sessions: Sessions,
    /// Which session and link a consumer's handle stands for.
    consumers: Handles<ConsumerAt>,
    requests: Requests,
    tokens: Tokens,
    /// Only where links to the management node are.
    management: Option<Box<Management>>,
    /// Only where queues were made for links.
    nodes: Option<Box<Nodes>>,
    /// Only where a coordinator is.
    transactions: Option<Box<Transactions>>,
    next_session: u16,
    /// How it logged in, as [`credentials::mechanism`] knows it.
    mechanism: u8,
    has_published: bool,
    is_paused: bool,
    is_blocked: bool,
    /// Bytes of messages that came since an alarm shut the windows; [`HELD`]: more than may come.
    blocked_bytes: u32,
    /// A link's credit may have to be topped up.
    is_due: bool,
    /// Leases that are over, by consumer; until the turn ends.
    leases_over: Option<Box<LeasesOver>>,
    /// See [`crate::connection::Adapter::counts_tables`].
    pub(crate) counts_tables: bool,
    /// Bytes that the links of all sessions take: see [`link::Link::table_bytes`].
    link_bytes: u32,
    /// Whether it may go to the shard of the queue it uses.
    roaming: Roaming,
}

impl Adapter {
    /// The server's end of a connection whose protocol header is about to be read.
    pub fn new(context: &mut Context<'_>, peer: &Peer) -> Adapter {
        let mechanisms = credentials::AMQP10.offered(context.shard.catalog(), context.shard.rules(), peer);
        let config = Config { limits: context.limits10.clone(), mechanisms, first_id: 0 };
        let mut machine = Connection::server(config, context.now);
        machine.ration();
        Adapter {
            machine,
            peer: peer.clone(),
            login: Some(Box::default()),
            actor: None,
            sessions: Sessions::default(),
            consumers: Handles::default(),
            client: None,
            container: None,
            requests: Requests::default(),
            tokens: Tokens::default(),
            management: None,
            nodes: None,
            transactions: None,
            next_session: 0,
            counts_tables: false,
            link_bytes: 0,
            mechanism: 0,
            has_published: false,
            is_paused: false,
            is_blocked: false,
            blocked_bytes: 0,
            is_due: false,
            leases_over: None,
            roaming: Roaming::new(context.settings, peer),
        }
    }

    /// Takes in bytes of the peer: how many are done with. Requests are left alone while there is too much to send;
    /// transfers are not, for an outcome is all that goes back.
    pub(crate) fn input(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> usize {
        let mut input = Input::new(bytes);
        while !self.requests.is_waiting()
            && !context.shard.has_worked_enough()
            && let Some(event) = self.machine.poll_event(context.now, &mut input)
        {
            match event {
                // Most of all.
                WireEvent::Transfer(transfer) => self.transfer(context, &transfer),
                event => {
                    self.heard(context, event);
                    if self.output_len() > context.settings.unread_bytes_max {
                        break;
                    }
                }
            }
        }
        bytes.len() - input.len()
    }

    fn heard(&mut self, context: &mut Context<'_>, event: WireEvent<'_>) {
        match event {
            WireEvent::Transfer(transfer) => self.transfer(context, &transfer),
            WireEvent::Assembled(assembled) => match assembled.transaction() {
                None => self.transfer(context, &assembled.transfer()),
                Some(transaction) => self.post(context, &assembled.transfer(), transaction),
            },
            WireEvent::Assembling { session, bytes } => self.assemble(context, session, bytes),
            WireEvent::Disposition(disposition) => self.disposition(context, &disposition),
            WireEvent::Flow(flow) => self.flow(context, &flow),
            WireEvent::Posted { transfer, transaction } => self.post(context, &transfer, transaction),
            WireEvent::Window { session } => self.look_at_room(context, session),
            WireEvent::SaslInit { mechanism, initial_response, .. } => {
                self.log_in(context, mechanism, initial_response);
            }
            WireEvent::Open(open) => self.open(context, &open),
            WireEvent::OpenRefused(fault) => self.refuse_open(context, &fault),
            WireEvent::Begin { session, .. } => self.begin(context, session),
            WireEvent::Attach { session, link, attach, .. } => self.attach(context, session, link, &attach),
            WireEvent::Detach { session, link, .. } | WireEvent::LinkFailed { session, link, .. } => {
                self.drop_link(context, session, link);
            }
            WireEvent::End { session, .. } => self.drop_session(context, session),
            WireEvent::SessionFailed { session, fault } => {
                self.note(context, Gravity::Error, format!("session {} error: {fault}", session.0));
                self.drop_session(context, session);
            }
            WireEvent::Aborted { .. } => self.is_due = true,
            WireEvent::Failed(fault) => {
                self.note(context, Gravity::Error, format!("error: {fault}"));
                self.drop_sessions(context);
            }
            WireEvent::Close(_) => {}
            // A server never hears these.
            WireEvent::SaslMechanisms(_) | WireEvent::SaslOutcome(_) => {}
        }
    }

    pub(crate) fn event(&mut self, context: &mut Context<'_>, event: &Event, events: &Events) {
        match event {
            Event::Deliver { consumer, memory, items } => {
                self.deliver(context, *consumer, *memory, items.clone(), events);
            }
            Event::Barrier { consumer, memory, item } => {
                self.deliver_barrier(context, *consumer, *memory, *item..*item + 1, events);
            }
            Event::Confirmed { publisher, first, last } => {
                self.confirmed(context, *publisher, *first, *last);
            }
            Event::Refused { publisher, first, last, queue } => {
                self.publishes_refused(context, *publisher, (*first, *last), *queue);
            }
            Event::Active { consumer, active } => self.is_active(*consumer, *active),
            // Before it is open a connection asks for nothing but that.
            Event::Reply { reply, .. } if self.login.is_some() => {
                self.admitted(context, reply.as_ref().err())
            }
            Event::Reply { token, reply } => self.answered(context, *token, reply.clone()),
            Event::Drained { consumer, unused } => {
                if let Some(ConsumerAt { session, link, .. }) = self.consumers.get(*consumer).copied() {
                    let mut bytes = Vec::new();
                    let properties = self.activity(session, link, &mut bytes);
                    self.machine.drained(session, link, *unused, properties);
                }
            }
            Event::Available { consumer, ready } => {
                if let Some(ConsumerAt { session, link, .. }) = self.consumers.get(*consumer).copied() {
                    let ready = u32::try_from(*ready).unwrap_or(u32::MAX);
                    let mut bytes = Vec::new();
                    let properties = self.activity(session, link, &mut bytes);
                    self.machine.report(session, link, Some(ready), properties);
                }
            }
            Event::TimedOut { consumer, range, .. } => self.timed_out(*consumer, *range),
            Event::Leased { consumer, lease_ms } => self.leased(*consumer, *lease_ms),
            Event::LeaseOver { consumer, ranges } => {
                self.leases_over.get_or_insert_default().0.push((*consumer, ranges.clone()))
            }
            // Nothing here asks for single messages, or for chunks; a stream's reader by messages reads on under
            // another leader.
            Event::Got { .. } | Event::Shown { .. } | Event::Chunk { .. } | Event::StreamRestarted { .. } => {
            }
            Event::Cancelled { consumer, queue } => self.cancelled(context, *consumer, queue),
            Event::QueueDeleted { watcher, queue } => self.queue_deleted(context, *watcher, *queue),
            Event::Introduce => context.shard.introduce(context.port, &self.peer.name),
            Event::Close { refusal } => {
                self.note(context, Gravity::Error, format!("error: {refusal}"));
                self.stay();
                let Refused { condition, text, .. } = Refused::from(refusal);
                self.machine.close(Some(Error::new(condition, &text)));
                // Behind its close nothing more is said, and the peer may take its time to answer that.
                self.drop_sessions(context);
            }
        }
    }

    /// The turn ends: links get new credit.
    pub(crate) fn end_turn(&mut self, context: &mut Context<'_>) {
        if std::mem::take(&mut self.is_due) {
            self.top_up(context);
        }
        if let Some(over) = self.leases_over.take() {
            self.end_leases(context, *over);
        }
        let spare = self.machine.take_spare_room();
        if spare > 0 {
            context.shard.give(context.port, Kind::Bodies, spare);
        }
        if self.has_published && self.roaming.may_go() {
            self.look_for_home(context);
        }
    }

    /// Links are to be given credit when a turn ends.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    #[inline]
    pub(crate) fn output(&mut self) -> &mut Output {
        self.machine.output_mut()
    }

    /// Bytes to be sent.
    #[inline]
    pub(crate) fn output_len(&self) -> usize {
        self.machine.output().len()
    }

    /// Bytes of memory of the output.
    pub(crate) fn output_bytes(&self) -> usize {
        self.machine.output().capacity()
    }

    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.requests.is_waiting()
    }

    /// Publishers here are held by their credit and their session's window, and settling must go on; but where an alarm has shut
    /// the window, transfers that a peer had under way, or sends all the same, must not be without bound.
    pub(crate) fn is_publishing(&self) -> bool {
        self.blocked_bytes == HELD
    }

    /// An attach's answer is soon there, and silence goes on counting meanwhile; an alarm may last.
    pub(crate) fn set_reading(&mut self, _now: Now, reads: bool) {
        self.machine.set_reading(reads || !self.is_publishing());
    }

    /// The peer took some of its output.
    pub(crate) fn note_alive(&mut self) {
        self.machine.note_alive();
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.machine.is_finished()
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        let own = self.transactions.as_ref().and_then(|transactions| transactions.deadline());
        self.machine.poll_deadline().into_iter().chain(own).min()
    }

    pub(crate) fn handle_deadline(&mut self, context: &mut Context<'_>) {
        self.end_late_transactions(context);
        if let Some(event) = self.machine.handle_deadline(context.now) {
            self.heard(context, event);
        }
    }

    /// The socket is gone.
    pub(crate) fn closed(&mut self, context: &mut Context<'_>) {
        self.unwatch_all(context);
        if self.actor.is_some() && !self.is_over() {
            let text = "client unexpectedly closed TCP connection".to_owned();
            self.note(context, Gravity::Warning, text);
        }
        self.announce_ends(context);
    }

    /// An alarm shuts the windows of sessions that publish; consuming and settling go on.
    pub(crate) fn set_blocked(&mut self, _context: &mut Context<'_>, alarm: Option<Alarm>) {
        self.is_blocked = alarm.is_some();
        self.blocked_bytes = 0;
        for session in self.sessions.iter() {
            if session.links.iter().any(Link::is_publishing) {
                self.machine.block(session.id, self.is_blocked);
            }
        }
    }

    /// The user it acts for, once it is open.
    pub(crate) fn user(&self) -> Option<&Arc<str>> {
        self.actor.as_ref().map(|actor| &actor.user)
    }

    /// The virtual host it is in, once it is open.
    pub(crate) fn vhost(&self) -> Option<VhostId> {
        self.actor.as_ref().map(|actor| actor.vhost)
    }

    /// How many sessions are begun.
    pub(crate) fn channels(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn row(&self, catalog: &Catalog) -> ConnectionRow {
        let over = self.is_over().then_some("closed");
        let row = ConnectionRow::new(catalog, self.actor.as_ref(), "AMQP 1-0", over);
        ConnectionRow {
            given_name: self.peer.given_name().map(Box::from),
            container: self.container.clone(),
            frame_max: self.machine.remote_frame_bytes(),
            channel_max: self.machine.channel_max(),
            timeout_s: u64::from(self.machine.idle_ms()) / 500,
            mechanism: credentials::mechanism(self.mechanism),
            client: self.client.clone(),
            ..row
        }
    }

    /// Bytes that its sessions and links take, here and at their queues, and its deliveries that are not settled.
    #[inline]
    pub(crate) fn table_bytes(&self) -> usize {
        self.sessions.len() * SESSION_BYTES + self.link_bytes as usize + self.machine.unsettled_bytes()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Adapter>()
            + (self.machine.memory_bytes() - size_of::<Connection>() - self.output_bytes())
            + self.container.as_ref().map_or(0, |container| container.len())
            + self.consumers.heap_bytes()
            + self.transactions.as_ref().map_or(0, |transactions| transactions.heap_bytes())
            + self.nodes.as_ref().map_or(0, |nodes| nodes.heap_bytes())
            + self.management.as_ref().map_or(0, |management| management.heap_bytes())
            + self.sessions.iter().map(|session| session.memory_bytes()).sum::<usize>()
    }

    fn note(&self, context: &mut Context<'_>, gravity: Gravity, text: String) {
        let text = format!("AMQP 1.0 connection {}: {text}", self.peer.name);
        context.notes.push(Note { gravity, text });
    }

    fn begin(&mut self, context: &mut Context<'_>, id: SessionId) {
        let Some(actor) = &self.actor else { return };
        let handle = numbered(&mut self.next_session, id.0);
        let publisher = Publisher::new(context.port, handle, AccessCache::new(actor.clone()));
        self.sessions.add(Session::new(id, handle, publisher));
    }

    #[inline]
    fn session(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(id)
    }

    /// A link is attached to a session.
    fn add_link(&mut self, session: SessionId, mut link: Link) {
        let name_bytes = self.machine.link_name_bytes(session, link.id);
        link.particulars.name_bytes = u16::try_from(name_bytes).unwrap_or(u16::MAX);
        let Some(session) = self.sessions.get_mut(session) else { return };
        // Beyond the limits of links that are set by default there may be more than a number has room for.
        self.link_bytes = self.link_bytes.saturating_add(link.table_bytes());
        session.links.push(link);
    }

    /// A link is gone from its session: it, if it was there.
    fn remove_link(&mut self, session: SessionId, link: ::amqp10::LinkId) -> Option<Link> {
        let links = &mut self.sessions.get_mut(session)?.links;
        let gone = links.swap_remove(links.iter().position(|own| own.id == link)?);
        self.link_bytes = self.link_bytes.saturating_sub(gone.table_bytes());
        Some(gone)
    }

    /// More is kept of messages that are not whole: where there is no room, the session ends, and they go with it.
    #[cold]
    fn assemble(&mut self, context: &mut Context<'_>, id: SessionId, bytes: usize) {
        match context.shard.take(context.port, Kind::Bodies, bytes) {
            Ok(()) => self.machine.grant_room(bytes),
            Err(full) => {
                let text = format!("no memory for {bytes} bytes more of incomplete messages: {full}");
                self.end_session(context, id, ::amqp10::condition::RESOURCE_LIMIT_EXCEEDED, &text);
            }
        }
    }

    /// A session breaks a rule that ends it.
    fn end_session(&mut self, context: &mut Context<'_>, id: SessionId, condition: &str, text: &str) {
        self.note(context, Gravity::Error, format!("session {} error: {condition}: {text}", id.0));
        self.machine.end(id, Some(Error::new(condition, text)));
        self.drop_session(context, id);
    }

    /// The connection is closed: deliveries go back, and transactions that were not discharged are undone.
    fn drop_sessions(&mut self, context: &mut Context<'_>) {
        let ids: Vec<SessionId> = self.sessions.iter().map(|session| session.id).collect();
        ids.into_iter().for_each(|id| self.drop_session(context, id));
    }

    fn drop_session(&mut self, context: &mut Context<'_>, id: SessionId) {
        if self.sessions.get(id).is_none() {
            return;
        }
        self.forget_consume(context, |(session, _)| session == id);
        let Some(session) = self.sessions.get_mut(id) else { return };
        // Nothing of it waits for room any more.
        session.room = Room::Anything;
        let links: Vec<_> = session.links.iter().map(|link| link.id).collect();
        links.into_iter().for_each(|link| self.drop_link(context, id, link));
        if let Some(session) = self.sessions.get_mut(id) {
            context.shard.forget_routes(&mut session.publisher);
        }
        self.sessions.remove(id);
    }
}
