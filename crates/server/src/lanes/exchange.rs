//! The thread of the lanes: sockets in, letters to shards; words of shards in, sockets out.
//!
//! Invariants: a link of a peer has a wire exactly while a wire is [`Side::Dialed`] for it; a wire that is [`Side::Stranger`]
//! has a place in the crowd until it is closed; of accepted wires there is one for each node and purpose.

use super::lookup::{Found, Lookup};
use super::peers::Peer;
use super::wire::{Host, Served, Side, Wire};
use super::{INBOUND, Lanes, Limits, NO_LANE, OUTBOUND, Posted, words};
use crate::acceptor;
use crate::clock::Clock;
use crate::config::cluster::Cluster;
use crate::config::{Config, SocketOptions};
use crate::crowd::Crowd;
use crate::door::{Door, Letter};
use crate::log::Logger;
use crate::mailbox::{Mailbox, Sleeper};
use crate::membership::Membership;
use base::id::{NodeNo, ShardId};
use base::{Now, Secrets};
use broker::Placement;
use cluster::Lane;
use cluster::lane::{Hello, Identity, Kind, Outgoing, Purpose, Refusal, RefusalCode, Trust};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use node::word::Word;
use slab::Slab;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Readiness events taken at once.
const EVENTS_MAX: usize = 256;

/// Milliseconds between two looks at all timers, at most.
const TICK_MS: u64 = 250;

/// Milliseconds until a name that is being looked up is thought of again.
const LOOKUP_MS: u64 = 100;

/// Milliseconds without accepting after an error of the listener.
const PAUSE_MS: u64 = 100;

/// Connections the kernel keeps until they are accepted.
const BACKLOG: u32 = 128;

const WAKE: Token = Token(usize::MAX - 1);
const LISTENER: Token = Token(usize::MAX - 2);

/// The listener for other nodes, before anything runs.
pub struct Opened {
    poll: Poll,
    sleeper: Arc<Sleeper>,
    listener: TcpListener,
    membership: Membership,
    trust: Trust,
    secrets: Secrets,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Opened {
    /// Listens for the other nodes of a cluster.
    ///
    /// # Errors
    /// The port cannot be listened on.
    pub fn new(wanted: &Cluster, membership: Membership, secrets: Secrets) -> Result<Opened, String> {
        let options =
            SocketOptions { backlog: BACKLOG, keepalive: false, send_bytes: None, receive_bytes: None };
        let listener = acceptor::listen(wanted.listener, &options);
        let mut listener =
            listener.map_err(|why| format!("{why}. Another port: --set leveret.cluster.listener=25673"))?;
        let failed = |error: std::io::Error| format!("the node cannot start: {error}");
        let address = listener.local_addr().map_err(failed)?;
        let poll = Poll::new().map_err(failed)?;
        let waker = Waker::new(poll.registry(), WAKE).map_err(failed)?;
        // A thread that cannot be woken is gone.
        let sleeper = Sleeper::new(move || waker.wake().unwrap_or_default());
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE).map_err(failed)?;
        let trust = Trust::Cookie(wanted.cookie.clone());
        Ok(Opened { poll, sleeper, listener, membership, trust, secrets, address })
    }

    /// The cluster.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Descriptors that lanes of a node with so many shards may take beside those that are open.
    pub fn descriptors(&self, shards: usize) -> usize {
        let limits = Limits::default();
        let others = self.membership.members().count().saturating_sub(1);
        // Both ways, and as many again on their way out.
        limits.strangers_max + 4 * others * (shards + 1)
    }

    /// The thread's value, and the other side of it. `call_keeper` tells the keeper that there is something for it, and `fail` the
    /// node that it must stop.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(
        self,
        placement: Placement,
        doors: Arc<[Door]>,
        clock: Clock,
        logger: Logger,
        call_keeper: Box<dyn Fn() + Send + Sync>,
        fail: Box<dyn Fn(String) + Send>,
    ) -> std::io::Result<(Arc<Lanes>, Exchange)> {
        let Opened { poll, sleeper, listener, membership, trust, mut secrets, .. } = self;
        let limits = Limits::default();
        let own = membership.number;
        let others = membership.members().filter(|(number, _)| *number != own);
        let named = others.clone().map(|(number, member)| (number, member.name.to_string())).collect();
        let shards = usize::from(placement.shards);
        let lanes = Arc::new(Lanes::new(sleeper.clone(), shards, &limits, named, call_keeper));
        let peers: Vec<Peer> = others
            .map(|(number, member)| {
                Peer::new(number, member.name.clone(), member.host.clone(), placement.shards)
            })
            .collect();
        let found = Arc::new(Mailbox::new(sleeper));
        let is_named = |peer: &Peer| super::lookup::literal(&peer.host).is_none();
        let lookup = peers.iter().any(is_named).then(|| Lookup::start(found.clone())).transpose()?;
        let identity = membership.identity(&mut secrets);
        let around = Around {
            lanes: lanes.clone(),
            doors,
            placement,
            membership,
            limits,
            logger,
            lanes_of: BTreeMap::new(),
        };
        let exchange = Exchange {
            poll,
            listener,
            may_accept: true,
            accept_at: 0,
            around,
            trust,
            identity,
            secrets,
            clock,
            fail,
            wires: Slab::new(),
            listed: Vec::new(),
            peers,
            found,
            lookup,
            crowd: Crowd::new(limits.strangers_max),
            complaint: Complaint::default(),
            timers_at: 0,
            buffer: vec![0; limits.read_bytes_turn],
            posted: Vec::new(),
        };
        Ok((lanes, exchange))
    }
}

/// Strangers that were refused, and when the log is told.
#[derive(Debug, Default)]
struct Complaint {
    count: u64,
    due_ns: u64,
}

/// The parts of the node that what comes on lanes goes to.
struct Around {
    lanes: Arc<Lanes>,
    doors: Arc<[Door]>,
    placement: Placement,
    membership: Membership,
    limits: Limits,
    logger: Logger,
    /// Accepted lanes, by node.
    lanes_of: BTreeMap<NodeNo, usize>,
}

impl Host for Around {
    fn meet(&mut self, side: Side, hello: &Hello) -> Result<NodeNo, Refusal> {
        let claim = &hello.identity;
        let refuse = |code: RefusalCode, text: String| Err(Refusal::new(code, &text));
        let found = self.membership.members().find(|(_, member)| member.name == claim.name);
        let Some((number, member)) = found.map(|(number, member)| (number, member.clone())) else {
            let text = format!("{} is not in the list of nodes", claim.name);
            return refuse(RefusalCode::WRONG_CLUSTER, text);
        };
        if number == self.membership.number {
            let text = format!("the refusing node is {} too, with another data folder", claim.name);
            return refuse(RefusalCode::ANOTHER_FOLDER, text);
        }
        if claim.cluster != Some(self.membership.id) || claim.number != number {
            let text = format!("{} is not of this cluster, or has another number in it", claim.name);
            return refuse(RefusalCode::WRONG_CLUSTER, text);
        }
        if let Side::Dialed(dialed, _) = side
            && dialed != number
        {
            let text = format!("{} answers where node {dialed} was expected", claim.name);
            return refuse(RefusalCode::UNEXPECTED_PURPOSE, text);
        }
        if member.folder.is_some_and(|folder| folder != claim.folder) {
            let text = format!(
                "{} had another data folder: what it promised is lost with that, and it cannot come back under its name yet",
                claim.name
            );
            return refuse(RefusalCode::ANOTHER_FOLDER, text);
        }
        if hello.purpose == Purpose::Courier {
            return refuse(RefusalCode::UNEXPECTED_PURPOSE, "no courier is served".to_owned());
        }
        let count = self.lanes_of.get(&number).copied().unwrap_or_default();
        if matches!(side, Side::Stranger(_)) && count >= self.limits.lanes_of_node_max {
            let text = format!("{} has {count} lanes, which are all that it may have", claim.name);
            return refuse(RefusalCode::UNEXPECTED_PURPOSE, text);
        }
        match self.membership.learn(number, claim.folder) {
            Ok(()) => Ok(number),
            Err(why) => {
                self.logger.error(format!("node {} is not spoken to: {why}", claim.name));
                refuse(RefusalCode::FAULT, "the refusing node cannot write down that they met".to_owned())
            }
        }
    }

    fn take(&mut self, from: NodeNo, kind: Kind, body: &[u8]) -> Result<(), String> {
        if kind == Kind::News {
            return self.lanes.news.hear(from, body, self.limits.news_bytes_max);
        }
        let word = words::read(kind, body, (from, self.membership.number), &self.limits.word)?;
        if let Word::Fetch(fetch) = word {
            self.lanes.hear_of_state(from, fetch);
            return Ok(());
        }
        let log = word.log();
        if log.0 >= self.placement.logs {
            self.lanes.drop_one(INBOUND);
            return Ok(());
        }
        // A log that nodes agree on stays at its shard.
        let (shard, weight) = (self.placement.owner_at_start(log), words::weight(&word));
        if self.lanes.admit(shard, weight) {
            self.doors[usize::from(shard.0)].letters.put(Letter::Word(from, word, weight));
        }
        Ok(())
    }
}

/// See the module.
pub struct Exchange {
    poll: Poll,
    listener: TcpListener,
    /// Connections may wait to be accepted.
    may_accept: bool,
    accept_at: u64,
    around: Around,
    trust: Trust,
    identity: Identity,
    secrets: Secrets,
    clock: Clock,
    fail: Box<dyn Fn(String) + Send>,
    wires: Slab<Wire>,
    /// Wires to be served.
    listed: Vec<usize>,
    peers: Vec<Peer>,
    found: Arc<Mailbox<Found>>,
    lookup: Option<Lookup>,
    crowd: Crowd<usize>,
    complaint: Complaint,
    timers_at: u64,
    buffer: Vec<u8>,
    posted: Vec<Posted>,
}

impl Exchange {
    /// Runs until it is told to stop.
    pub fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.around.lanes.is_stopping() {
            if let Err(error) = self.wait(&mut events) {
                return (self.fail)(format!("waiting for other nodes failed: {error}"));
            }
            let now = self.clock.now();
            for event in &events {
                self.note(event);
            }
            self.accept(now);
            self.take_found();
            self.take_post(now);
            self.say_news(now);
            self.serve_listed(now);
            self.tick(now);
        }
    }

    fn wait(&mut self, events: &mut Events) -> std::io::Result<()> {
        let now = self.clock.mono_ns();
        let accept_at = if self.may_accept { self.accept_at } else { u64::MAX };
        let until = if self.listed.is_empty() { self.timers_at.min(accept_at) } else { 0 };
        let mut timeout = Duration::from_nanos(until.saturating_sub(now));
        let lanes = &self.around.lanes;
        let sleeps = !timeout.is_zero();
        if sleeps {
            lanes.sleeper.going_to_sleep();
            if !lanes.post.is_empty() || !self.found.is_empty() || lanes.is_stopping() {
                timeout = Duration::ZERO;
            }
        }
        let result = self.poll.poll(events, Some(timeout));
        if sleeps {
            lanes.sleeper.is_up();
        }
        match result {
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            other => other,
        }
    }

    fn note(&mut self, event: &mio::event::Event) {
        if event.token() == LISTENER {
            self.may_accept = true;
        } else if let Some(wire) = self.wires.get_mut(event.token().0) {
            // The waker's own token is of no wire.
            wire.note(event);
            list(&mut self.listed, wire, event.token().0);
        }
    }

    // ---- strangers

    fn accept(&mut self, now: Now) {
        if !self.may_accept || now.mono_ns < self.accept_at {
            return;
        }
        for _ in 0..self.around.limits.accepts_turn_max {
            match self.listener.accept() {
                Ok((stream, from)) => self.welcome(now, stream, from.ip().to_canonical()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.may_accept = false;
                    return;
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => {
                    self.accept_at = now.after_ms(PAUSE_MS);
                    return self.complain(now, &format!("a connection could not be accepted: {error}"));
                }
            }
        }
    }

    fn welcome(&mut self, now: Now, mut stream: TcpStream, from: IpAddr) {
        // A peer that is gone already needs no connection.
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let Exchange { wires, crowd, poll, .. } = self;
        let entry = wires.vacant_entry();
        let key = entry.key();
        let Some((place, instead_of)) = crowd.begin(from, key) else { return };
        let interest = Interest::READABLE | Interest::WRITABLE;
        if poll.registry().register(&mut stream, Token(key), interest).is_err() {
            crowd.end(place);
        } else {
            let lane = Lane::listener(
                self.around.limits.lane,
                self.trust.clone(),
                self.identity.clone(),
                &mut self.secrets,
                now,
            );
            let wire = entry.insert(Wire::new(stream, Some(lane), Side::Stranger(place), from));
            list(&mut self.listed, wire, key);
        }
        if let Some(other) = instead_of {
            self.close(now, other, Some("others wanted its place".to_owned()));
        }
    }

    /// A line of the log about strangers, once in a while.
    fn complain(&mut self, now: Now, why: &str) {
        self.complaint.count += 1;
        if now.mono_ns < self.complaint.due_ns {
            return;
        }
        let more = std::mem::take(&mut self.complaint.count) - 1;
        self.complaint.due_ns = now.after_ms(self.around.limits.complaint_gap_ms);
        let others = if more > 0 { format!("; {more} more since the last such line") } else { String::new() };
        self.around.logger.warning(format!("port for other nodes: {why}{others}"));
    }

    // ---- dialing

    fn take_found(&mut self) {
        let mut found = Vec::new();
        self.found.take(&mut found);
        for (number, addresses) in found {
            let now = self.clock.now();
            let Some(at) = self.peers.iter().position(|peer| peer.number == number) else { continue };
            let peer = &mut self.peers[at];
            match addresses {
                Ok(addresses) => peer.found(addresses),
                Err(why) => {
                    peer.found(Vec::new());
                    self.miss(now, number, &why);
                }
            }
        }
    }

    fn dial(&mut self, now: Now, at: usize, link: usize) {
        let peer = &mut self.peers[at];
        let Some(address) = peer.next_address() else {
            if !peer.is_asked
                && let Some(lookup) = &self.lookup
            {
                peer.is_asked = true;
                lookup.ask(peer.number, &peer.host);
            }
            peer.links[link].dial_at = now.after_ms(LOOKUP_MS);
            return;
        };
        let number = peer.number;
        let entry = self.wires.vacant_entry();
        let key = entry.key();
        let connected = TcpStream::connect(address).and_then(|mut stream| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, Token(key), interest)?;
            Ok(stream)
        });
        match connected {
            Ok(stream) => {
                let mut wire = Wire::new(stream, None, Side::Dialed(number, link), address.ip());
                wire.ends_at = Some(now.after_ms(self.around.limits.connect_ms_max));
                entry.insert(wire);
                peer.links[link].wire = Some(key);
            }
            Err(error) => {
                peer.links[link].lost(now, None, &self.around.limits);
                self.miss(now, number, &format!("{address}: {error}"));
            }
        }
    }

    /// The connection to another node is there: the lane begins.
    fn begin(&mut self, now: Now, key: usize) {
        let wire = &mut self.wires[key];
        let Side::Dialed(number, link) = wire.side else { return };
        match wire.is_connected() {
            Ok(false) => {}
            Ok(true) => {
                let Some(peer) = self.peers.iter().find(|peer| peer.number == number) else { return };
                let _ = wire.stream.set_nodelay(true);
                wire.ends_at = None;
                wire.lane = Some(Lane::dialer(
                    self.around.limits.lane,
                    self.trust.clone(),
                    self.identity.clone(),
                    peer.links[link].purpose,
                    &mut self.secrets,
                    now,
                ));
                list(&mut self.listed, wire, key);
            }
            Err(why) => self.close(now, key, Some(why)),
        }
    }

    /// Another node cannot be reached, or was lost: a line of the log, once in a while.
    fn miss(&mut self, now: Now, number: NodeNo, why: &str) {
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.number == number) else { return };
        if now.mono_ns < peer.complain_at && !peer.is_told {
            return;
        }
        let lost = if std::mem::take(&mut peer.is_told) { "is lost" } else { "cannot be reached" };
        peer.complain_at = now.after_ms(self.around.limits.complaint_gap_ms);
        self.around.logger.warning(format!("node {} at {} {lost}: {why}", peer.name, peer.host));
    }

    // ---- wires

    fn serve_listed(&mut self, now: Now) {
        for key in std::mem::take(&mut self.listed) {
            let Some(wire) = self.wires.get_mut(key) else { continue };
            wire.is_listed = false;
            match wire.lane {
                None => self.begin(now, key),
                Some(_) => self.serve(now, key),
            }
        }
    }

    fn serve(&mut self, now: Now, key: usize) {
        let Exchange { wires, around, buffer, clock, .. } = self;
        let Some(wire) = wires.get_mut(key) else { return };
        let limits = around.limits;
        let served = wire.serve(now, clock, &limits, buffer, around);
        let moved = std::mem::take(&mut wire.moved);
        if let Side::Dialed(node, _) | Side::Accepted(node, _) = wire.side {
            around.lanes.news.count(node, moved);
        }
        if let Some(wire) = self.wires.get_mut(key)
            && (wire.can_read || (wire.can_write && wire.has_unsent()))
        {
            list(&mut self.listed, wire, key);
        }
        self.mind(now, key, served);
    }

    /// Does what the outcome of serving a wire asks for.
    fn mind(&mut self, now: Now, key: usize, served: Served) {
        match served {
            Served::On => {}
            Served::Opened(number, purpose) => self.opened(key, number, purpose, now),
            Served::Over(why) => self.part(now, key, why),
            Served::Gone(why) => self.close(now, key, why),
        }
    }

    fn opened(&mut self, key: usize, number: NodeNo, purpose: Purpose, now: Now) {
        match self.wires[key].side {
            Side::Dialed(_, link) => {
                let Some(peer) = self.peers.iter_mut().find(|peer| peer.number == number) else { return };
                peer.links[link].is_open = true;
                if purpose == Purpose::Pulse && !std::mem::replace(&mut peer.is_told, true) {
                    self.around.logger.info(format!("node {} at {} is connected", peer.name, peer.host));
                }
                self.tell();
            }
            Side::Stranger(place) => {
                let side = Side::Accepted(number, purpose);
                // One that its node has given up, and of whose end nothing came here.
                let old: Vec<usize> =
                    self.wires.iter().filter(|(_, wire)| wire.side == side).map(|(key, _)| key).collect();
                old.into_iter().for_each(|old| self.close(now, old, None));
                self.crowd.end(place);
                self.wires[key].side = side;
                *self.around.lanes_of.entry(number).or_default() += 1;
            }
            Side::Accepted(..) | Side::Parting => {}
        }
    }

    /// A lane is over: the wire has a while to say the last of it.
    fn part(&mut self, now: Now, key: usize, why: String) {
        if !matches!(self.wires[key].side, Side::Stranger(_)) {
            self.leave(now, key, Some(why));
            self.wires[key].side = Side::Parting;
        } else if self.wires[key].ends_at.is_none() {
            let from = self.wires[key].peer;
            self.complain(now, &format!("a connection from {from} was refused: {why}"));
        }
        let wire = &mut self.wires[key];
        wire.ends_at = Some(now.after_ms(self.around.limits.parting_ms_max));
        self.timers_at = self.timers_at.min(now.after_ms(self.around.limits.parting_ms_max));
        list(&mut self.listed, wire, key);
    }

    /// The socket goes.
    fn close(&mut self, now: Now, key: usize, why: Option<String>) {
        if !self.wires.contains(key) {
            return;
        }
        if let (Side::Stranger(_), None, Some(why)) = (self.wires[key].side, self.wires[key].ends_at, &why) {
            let from = self.wires[key].peer;
            self.complain(now, &format!("a connection from {from} proved nothing: {why}"));
        }
        self.leave(now, key, why);
        let mut wire = self.wires.remove(key);
        // A socket that is dropped is deregistered anyhow.
        let _ = self.poll.registry().deregister(&mut wire.stream);
    }

    /// A wire is no longer on the side it was on.
    fn leave(&mut self, now: Now, key: usize, why: Option<String>) {
        let wire = &self.wires[key];
        match wire.side {
            Side::Stranger(place) => self.crowd.end(place),
            Side::Accepted(number, _) => {
                if let Some(count) = self.around.lanes_of.get_mut(&number) {
                    *count -= 1;
                }
            }
            Side::Dialed(number, link) => {
                let open_ns = wire.opened_at.map(|at| now.mono_ns.saturating_sub(at));
                let Some(peer) = self.peers.iter_mut().find(|peer| peer.number == number) else { return };
                let is_pulse = peer.links[link].purpose == Purpose::Pulse;
                if is_pulse {
                    self.around.lanes.news.forget(number);
                }
                peer.links[link].lost(now, open_ns, &self.around.limits);
                self.timers_at = self.timers_at.min(peer.links[link].dial_at);
                peer.doubt();
                if is_pulse {
                    self.miss(now, number, why.as_deref().unwrap_or("the lane was closed"));
                }
                self.tell();
            }
            Side::Parting => {}
        }
    }

    fn tell(&self) {
        self.around.lanes.tell(self.peers.iter().flat_map(Peer::rows).collect());
    }

    // ---- words

    fn take_post(&mut self, now: Now) {
        let mut posted = std::mem::take(&mut self.posted);
        self.around.lanes.post.take(&mut posted);
        for Posted { shard, to, word, weight } in posted.drain(..) {
            let Around { lanes, limits, logger, .. } = &self.around;
            lanes.outbound.fetch_sub(weight, std::sync::atomic::Ordering::Relaxed);
            let peer = self.peers.iter().find(|peer| peer.number == to);
            let link = peer.map(|peer| peer.link((!words::is_urgent(&word)).then_some(shard)));
            let key = link.filter(|link| link.is_open).and_then(|link| link.wire);
            let Some(wire) = key.and_then(|key| self.wires.get_mut(key)) else {
                lanes.drop_one(NO_LANE);
                continue;
            };
            let Some(lane) = &mut wire.lane else { continue };
            let (kind, body) = match words::write(&word, &limits.word) {
                Ok(written) => written,
                Err(why) => {
                    logger.error(format!("a word to node {to} cannot be sent: {why}"));
                    continue;
                }
            };
            match lane.send(now, kind, body) {
                Ok(()) => list(&mut self.listed, wire, key.unwrap_or_default()),
                Err(_) => lanes.drop_one(OUTBOUND),
            }
        }
        self.posted = posted;
    }

    /// Sends the news of this node, where there are some: on the lane of shard 0, as one is as good as another.
    fn say_news(&mut self, now: Now) {
        let Some(news) = self.around.lanes.news.take() else { return };
        for peer in &self.peers {
            let link = peer.link(Some(ShardId(0)));
            let Some(key) = link.wire.filter(|_| link.is_open) else { continue };
            let Some(wire) = self.wires.get_mut(key) else { continue };
            let Some(lane) = &mut wire.lane else { continue };
            // Others come soon where the lane is full.
            if lane.send(now, Kind::News, Outgoing::new(news.clone())).is_ok() {
                list(&mut self.listed, wire, key);
            }
        }
    }

    // ---- time

    fn tick(&mut self, now: Now) {
        if now.mono_ns < self.timers_at {
            return;
        }
        let mut next = now.after_ms(TICK_MS);
        let (mut over, mut due) = (Vec::new(), Vec::new());
        for (key, wire) in &mut self.wires {
            if wire.ends_at.is_some_and(|at| at <= now.mono_ns) {
                over.push(key);
                continue;
            }
            next = next.min(wire.ends_at.unwrap_or(u64::MAX));
            let Some(lane) = &mut wire.lane else { continue };
            match lane.poll_deadline() {
                Some(at) if at <= now.mono_ns => {
                    lane.handle_deadline(now);
                    due.push(key);
                }
                Some(at) => next = next.min(at),
                None => {}
            }
            lane.output_mut().cool();
        }
        for key in over {
            let is_new = self.wires[key].lane.is_none();
            self.close(now, key, is_new.then(|| "no connection came in time".to_owned()));
        }
        for key in due {
            let Exchange { wires, around, .. } = self;
            let Some(wire) = wires.get_mut(key) else { continue };
            let served = wire.poll(now, around);
            list(&mut self.listed, wire, key);
            self.mind(now, key, served);
        }
        for at in 0..self.peers.len() {
            for link in 0..self.peers[at].links.len() {
                let own = &self.peers[at].links[link];
                if own.wire.is_none() && own.dial_at <= now.mono_ns {
                    self.dial(now, at, link);
                }
                let own = &self.peers[at].links[link];
                if own.wire.is_none() {
                    next = next.min(own.dial_at);
                }
            }
        }
        self.timers_at = next;
    }
}

/// The wire is served in this turn or the next.
fn list(listed: &mut Vec<usize>, wire: &mut Wire, key: usize) {
    if !std::mem::replace(&mut wire.is_listed, true) {
        listed.push(key);
    }
}

/// The line of the log for a cluster whose frames anybody on the way can read.
pub fn warning(config: &Config) -> Option<String> {
    let cluster = config.cluster.as_deref()?;
    let is_near = cluster.listener.ip.is_some_and(|ip| ip.is_loopback());
    (!is_near).then(|| {
        format!(
            "what nodes say to each other is not encrypted: keep port {} within a network that is trusted",
            cluster.listener.port
        )
    })
}
