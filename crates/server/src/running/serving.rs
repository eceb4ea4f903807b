//! A node that serves: what lets clients in, the HTTP API and the administration socket, until the node is to end.

use super::settings::{access_rules, cores};
use super::{Running, Then};
use crate::acceptor::{self, Acceptor};
use crate::board::Board;
use crate::config::Config;
use crate::config::network::ListenerKind;
use crate::courtesy;
use crate::definitions;
use crate::descriptors::{Places, Shares};
use crate::desk::Desk;
use crate::door::Letter;
use crate::end::End;
use crate::greeting;
use crate::handshake::{self, Handshaker, SecureListener};
use crate::http;
use crate::layer::{Layer, WebRules};
use crate::manager::Manager;
use crate::news;
use crate::notify::{self, News};
use crate::ports::{self, Ports};
use crate::queue_names::QueueNames;
use crate::queue_orders::QueueOrders;
use crate::seed;
use crate::socket::Arrival;
use crate::tls::LiveConfig;
use adapters::{Peer, Protocol};
use base::time::NS_PER_MS;
use ctl::client::SOCKET_NAME;
use management::{About, Lane, WebSessions};
use node::turn::Raised;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, Builder, Scope};
use tokio::sync::Notify;

/// The purpose of the listener for other nodes, in the words of RabbitMQ's tools.
const BETWEEN_NODES: &str = "inter-node and CLI tool communication";

/// Threads for TLS handshakes: half as many as cores, and no more than this.
const HANDSHAKERS_MAX: usize = 4;

/// The protocol of a listener without TLS, and the rules of WebSocket where it is for that.
type Spoken = (Protocol, Option<Arc<WebRules>>);

/// Threads that serve, up to the first that could not be begun.
struct Crew<'scope, 'env> {
    threads: &'scope Scope<'scope, 'env>,
    begun: io::Result<()>,
}

impl<'scope, 'env> Crew<'scope, 'env> {
    fn new(threads: &'scope Scope<'scope, 'env>) -> Self {
        Crew { threads, begun: Ok(()) }
    }

    fn add(&mut self, name: &str, work: impl FnOnce() + Send + 'scope) {
        if self.begun.is_ok() {
            self.begun = Builder::new().name(name.into()).spawn_scoped(self.threads, work).map(drop);
        }
    }
}

/// Threads that let clients of all protocols but HTTP in, before they are begun.
struct Gates {
    acceptor: Acceptor,
    handshakers: Vec<Handshaker>,
}

impl Gates {
    fn new(
        config: &Config,
        plain: Vec<mio::net::TcpListener>,
        secure: &[SecureListener],
        threads: usize,
        places: &Arc<Places>,
    ) -> io::Result<(Gates, acceptor::Stop, Vec<handshake::Stop>)> {
        let network = &config.network;
        let (acceptor, stop) = Acceptor::new(plain, places.clone())?;
        let handshakers: io::Result<Vec<_>> = (0..threads)
            .map(|_| {
                let listeners = ports::again(secure)?;
                Handshaker::new(listeners, places.clone(), network.tls_handshake_ms, network.login)
            })
            .collect();
        let (handshakers, stops) = handshakers?.into_iter().unzip();
        Ok((Gates { acceptor, handshakers }, stop, stops))
    }
}

/// The HTTP listeners, and what is on the way between them and the threads that answer.
struct Http<'a> {
    listeners: Vec<http::Listener>,
    pools: Arc<http::Pools>,
    jobs: http::Queues,
    lanes: &'a http::Lanes,
    /// Wakes the thread that samples.
    woken: Receiver<()>,
    stop: &'a Notify,
}

impl Running {
    /// Accepts connections until the node is to end; what it ends with.
    pub(super) fn serve(
        &self,
        config: &Config,
        ports: Ports,
        shares: Shares,
        end: Sender<End>,
        ends: &Receiver<End>,
    ) -> Result<Then, String> {
        let failed = |error: io::Error| format!("the node cannot start: {error}");
        let rows = self.rows(config, &ports);
        let Ports { plain, spoken, secure, http: listeners, tls, addresses, without: _ } = ports;
        let socket = config.data_dir.join(SOCKET_NAME);
        let control = self.listen_for_tools(&socket)?;
        let threads = if secure.is_empty() { 0 } else { (cores() as usize).div_ceil(2).min(HANDSHAKERS_MAX) };
        // Each of them, and the acceptor without TLS, has its own epoll and its waker.
        let of_lanes = self.lanes.as_ref().map_or(0, |(_, _, descriptors)| *descriptors);
        let places = shares.places(&self.logger, threads * (secure.len() + 2) + 2 + of_lanes);
        let (gates, stop_accepting, stop_handshakes) =
            Gates::new(config, plain, &secure, threads, &places).map_err(failed)?;
        let (raised, lacks_space) = (|| self.raised(), || self.committer.lacks_space());
        let (wake, woken) = channel();
        let stop_samples = wake.clone();
        let about = self.about(config, &rows, shares)?;
        let pools = Arc::new(http::Pools::new(&about.limits));
        let manager =
            &self.manager(config, about, (pools.clone(), places), &tls, wake, (&raised, &lacks_space));
        let board = &Board::default();
        let imports = !config.definitions.paths.is_empty();
        if imports && self.lanes.is_some() {
            self.entrance.owe_import();
        } else if let Err(why) = definitions::load(config, manager, &self.logger) {
            return Ok(Then::Failed(why));
        }
        let (next, stop_http) = (&AtomicUsize::new(0), &Notify::new());
        let (jobs, lanes) = http::Queues::new();
        let http = Http { listeners, pools, jobs, lanes: &lanes, woken, stop: stop_http };
        let desk = Desk {
            doors: &self.doors,
            manager,
            board,
            lanes: manager.lanes,
            config,
            ports: &rows,
            raised: &raised,
            watermarks: &self.watermarks,
            clock: self.clock,
            logger: &self.logger,
            end: end.clone(),
        };
        thread::scope(|threads| {
            let mut crew = Crew::new(threads);
            self.let_clients_in(&mut crew, gates, &spoken, next);
            self.answer_tools(&mut crew, &control, desk);
            self.serve_http(&mut crew, manager, http);
            self.say_news(&mut crew, manager);
            if imports && self.lanes.is_some() {
                self.import_later(&mut crew, manager, end);
            }
            let outcome = crew.begun.map_err(failed).and_then(|()| {
                let ms = self.clock.now().mono_ns / NS_PER_MS;
                self.greet(config, &addresses, ms);
                self.watch(config, ends, || {
                    board.forget_old(self.clock.mono_ns());
                    let now_ms = self.clock.now().mono_ns / NS_PER_MS;
                    manager.queue_orders.forget_old(now_ms, &manager.about.limits);
                })
            });
            // One that begins anew by itself does not stop, for those who watch over it.
            if !matches!(outcome, Ok(Then::Wait | Then::Anew)) {
                notify::tell(News::Stopping, &self.logger);
            }
            self.is_stopping.store(true, Ordering::SeqCst);
            self.entrance.end();
            stop_accepting.stop();
            stop_http.notify_one();
            // Nobody samples where nothing is served.
            let _ = stop_samples.send(());
            stop_handshakes.iter().for_each(handshake::Stop::stop);
            // Its thread ends with the next request, which this is; where its file is gone, with its socket.
            if let Err(error) = ctl::server::wake(&socket) {
                self.logger.warning(format!("the administration socket does not answer: {error}"));
                let _ = socket2::SockRef::from(&control).shutdown(Shutdown::Both);
            }
            outcome
        })
    }

    /// Logs where the node listens, and has it in the words of RabbitMQ's tools.
    fn rows(&self, config: &Config, ports: &Ports) -> Vec<ctl::Listener> {
        for (kind, address) in &ports.addresses {
            self.logger.info(format!("started {} listener on {address}", kind.names().2));
        }
        let mut rows = ports.rows(&config.node_name);
        if let Some((_, address, _)) = &self.lanes {
            rows.push(ports::row(&config.node_name, *address, "clustering", BETWEEN_NODES));
        }
        rows
    }

    fn listen_for_tools(&self, socket: &Path) -> Result<UnixListener, String> {
        let control = ctl::server::listen(socket)
            .map_err(|error| format!("cannot listen on {}: {error}", socket.display()))?;
        self.logger.info(format!("administration socket at {}", socket.display()));
        Ok(control)
    }

    fn about(&self, config: &Config, rows: &[ctl::Listener], shares: Shares) -> Result<About, String> {
        let (guard, ledger) = (self.guard.clone(), self.ledger.clone());
        let mut about = Manager::about(config, self.identity, rows, access_rules(config), guard, ledger);
        if !config.http_shares {
            about.limits = about.limits.without_shares();
        }
        about.web_sessions = Some(Arc::new(WebSessions::new(config.web_sessions, seed::secrets()?)));
        about.limits.connections_max = about.limits.connections_max.min(shares.api);
        about.limits.metrics_connections_max = about.limits.metrics_connections_max.min(shares.metrics);
        about.limits.event_streams_max = about.limits.event_streams_max.min(shares.listeners);
        about.limits.handshake_ms_max = config.network.tls_handshake_ms;
        Ok(about)
    }

    fn manager<'a>(
        &'a self,
        config: &'a Config,
        about: About,
        (pools, places): (Arc<http::Pools>, Arc<Places>),
        tls: &'a [Arc<LiveConfig>],
        wake: Sender<()>,
        (raised, lacks_space): (&'a (dyn Fn() -> Raised + Sync), &'a (dyn Fn() -> bool + Sync)),
    ) -> Manager<'a> {
        Manager {
            pools,
            places,
            doors: &self.doors,
            config,
            raised,
            lacks_space,
            watermarks: &self.watermarks,
            clock: self.clock,
            about,
            next: AtomicUsize::new(0),
            committer: &self.committer,
            history: Mutex::default(),
            queue_names: QueueNames::default(),
            queue_orders: QueueOrders::default(),
            asked_at: AtomicU64::new(0),
            wake,
            logins: [const { AtomicU64::new(0) }; 2],
            forgotten: Mutex::default(),
            reads: self.reads.clone(),
            tls,
            is_stopping: &self.is_stopping,
            lanes: self.lanes.as_ref().map(|(lanes, ..)| &**lanes),
            logger: self.logger.clone(),
            passwords: self.passwords.clone(),
        }
    }

    /// Begins the threads that accept and that shake hands; the shards have their clients in turn, from `next` on.
    fn let_clients_in<'s>(
        &'s self,
        crew: &mut Crew<'s, '_>,
        gates: Gates,
        spoken: &'s [Spoken],
        next: &'s AtomicUsize,
    ) {
        let hand_over = move |arrival| {
            let number = next.fetch_add(1, Ordering::Relaxed) % self.doors.len();
            self.doors[number].letters.put(Letter::Accepted(arrival));
        };
        let Gates { acceptor, handshakers } = gates;
        crew.add("accept", move || {
            self.let_in();
            acceptor.run(
                |number, stream, peer| {
                    let (protocol, web) = &spoken[number];
                    let layer = web.clone().map(|rules| Box::new(Layer::new(None, Some(rules))));
                    let peer = Peer { protocol: *protocol, ..peer };
                    hand_over(Arrival { stream, peer, layer });
                },
                |text| self.logger.error(text),
            );
        });
        for handshaker in handshakers {
            crew.add("tls", move || {
                self.let_in();
                handshaker.run(|| self.clock.now().mono_ns, hand_over, |text| self.logger.warning(text));
            });
        }
    }

    /// Begins the thread that answers on the administration socket.
    fn answer_tools<'s>(&'s self, crew: &mut Crew<'s, '_>, control: &'s UnixListener, desk: Desk<'s>) {
        crew.add("ctl", move || {
            let is_over = || self.is_stopping.load(Ordering::SeqCst);
            ctl::server::serve(control, &ctl::Limits::default(), is_over, |request| {
                courtesy::step_back();
                desk.answer(request)
            });
        });
    }

    /// Begins the thread that imports definitions once nodes agree on a catalog.
    fn import_later<'s>(&'s self, crew: &mut Crew<'s, '_>, manager: &'s Manager<'s>, end: Sender<End>) {
        crew.add("definitions", move || {
            courtesy::step_back();
            if !self.entrance.wait_to_import() {
                return;
            }
            match definitions::load(manager.config, manager, &self.logger) {
                Ok(()) => self.entrance.imported(),
                // Nobody listens once the node is ending.
                Err(why) => end.send(End::Failed(why)).unwrap_or_default(),
            }
        });
    }

    /// Begins the threads of HTTP, where anything listens.
    fn serve_http<'s>(&'s self, crew: &mut Crew<'s, '_>, manager: &'s Manager<'s>, http: Http<'s>) {
        let Http { listeners, pools, jobs, lanes, woken, stop } = http;
        if listeners.is_empty() {
            return;
        }
        let is_over = move || self.is_stopping.load(Ordering::SeqCst);
        for lane in Lane::ALL.into_iter().flat_map(|lane| vec![lane; lane.workers()]) {
            crew.add("http-work", move || {
                courtesy::step_back();
                self.let_in();
                http::work(manager, lanes, lane, is_over);
            });
        }
        crew.add("http-rates", move || {
            courtesy::step_back();
            manager.sample_on(&woken, is_over);
        });
        let (limits, gate) = (manager.about.limits, manager.gate());
        let served = (manager.config.ui.clone(), self.clock);
        crew.add("http", move || {
            if let Err(error) = http::serve(listeners, limits, gate, served, pools, &jobs, stop) {
                self.logger.error(format!("the management HTTP API is not served: {error}"));
            }
        });
    }

    /// Begins the thread that tells the other nodes of this one, where there are any.
    fn say_news<'s>(&'s self, crew: &mut Crew<'s, '_>, manager: &'s Manager<'s>) {
        if let Some(lanes) = manager.lanes {
            crew.add("news", move || {
                courtesy::step_back();
                news::say_on(manager, lanes, &self.entrance);
            });
        }
    }

    /// Tells that the node serves, `ms` milliseconds after its start.
    fn greet(&self, config: &Config, addresses: &[(ListenerKind, SocketAddr)], ms: u64) {
        let plugins = base::rabbitmq::PLUGINS.len();
        self.logger.info(format!("Server startup complete; {plugins} plugins started."));
        self.logger.info(format!("Time to start RabbitMQ: {ms} ms"));
        self.logger.info(greeting::line(ms, addresses, self.user.as_deref(), &config.data_dir));
        notify::tell(News::Ready, &self.logger);
    }

    /// Returns when clients may come.
    fn let_in(&self) {
        if self.lanes.is_some() {
            self.entrance.wait();
        }
    }
}
