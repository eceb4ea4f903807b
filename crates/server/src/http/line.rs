//! A client that is connected, the port that it came to, and the state that all ports share.

use super::answers::Answers;
use super::asker::{Asker, Service};
use super::bodies::Piece;
use super::files::Files;
use super::handshakes::Handshakes;
use super::lanes::{Job, Queues};
use super::pools::Pools;
use super::room::Place;
use crate::clock::Clock;
use crate::tls::LiveConfig;
use management::{Attempt, Block, Gate, Limits, Request, Response};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, oneshot};

/// State shared by all ports.
pub struct Shared {
    /// The bounds.
    pub limits: Limits,
    /// The filter before the lanes.
    pub gate: Gate,
    /// The lanes.
    pub jobs: Queues,
    /// Places, answers and bodies.
    pub pools: Arc<Pools>,
    /// Handshakes of TLS.
    pub handshakes: Arc<Handshakes>,
    /// Files of the web interface.
    pub files: Files,
    /// The node's clock.
    pub clock: Clock,
}

/// Where the requests of a port go.
#[derive(Clone)]
pub struct Line {
    /// The interface that the port serves.
    pub service: Service,
    /// The TLS configuration, for a port with TLS.
    pub tls: Option<Arc<LiveConfig>>,
    /// The state that all ports share.
    pub shared: Arc<Shared>,
}

impl Line {
    /// Answers of the interface that clients have not taken.
    pub fn answers(&self) -> &Answers {
        &self.shared.pools.answers[self.service as usize]
    }
}

/// A connected client.
pub struct Client {
    /// Its address.
    pub from: IpAddr,
    /// The addresses that count as one with it.
    pub block: Block,
    /// The place among the connections.
    pub place: Arc<Place>,
    /// The connection is to be closed, whatever is on its way.
    pub end: Arc<Notify>,
    /// Milliseconds that the client has for its first request.
    pub head_ms_max: u64,
    /// The first request has come.
    pub has_asked: AtomicBool,
    /// The last login that was accepted: the header that it came in, and the user.
    pub login: Mutex<Option<(String, Arc<str>)>>,
}

impl Client {
    /// The user of a request, where the connection has logged in as that already; a name alone proves nothing.
    pub fn user(&self, request: &Request) -> Option<Arc<str>> {
        let login = self.login.lock().unwrap_or_else(PoisonError::into_inner);
        let (header, user) = login.as_ref()?;
        (request.authorization.as_ref() == Some(header)).then(|| user.clone())
    }

    /// The peer that takes turns, and has a share, with a request.
    pub fn asker(&self, request: &Request) -> Asker {
        self.user(request).map_or(Asker::Block(self.block), Asker::User)
    }

    /// A login was accepted.
    pub fn log_in(&self, header: String, user: &str) {
        self.place.know(user);
        *self.login.lock().unwrap_or_else(PoisonError::into_inner) = Some((header, user.into()));
    }
}

/// The answer of a worker; none where the node is stopping. A login that it accepts is the client's from then on.
pub async fn told(
    line: &Line,
    client: &Arc<Client>,
    request: Request,
    room: Option<Piece>,
) -> Option<Response> {
    let (sender, receiver) = oneshot::channel();
    let asker = client.asker(&request);
    let header = request.authorization.clone();
    let login = request.user().zip(header).filter(|_| matches!(asker, Asker::Block(_)));
    let job = Job {
        service: line.service,
        request: Box::new(request),
        answer: sender,
        _work: client.place.work(),
        _room: room,
    };
    line.shared.jobs.send(asker, job);
    let response = receiver.await.ok()?;
    if response.login == Attempt::Accepted
        && let Some((user, header)) = login
    {
        client.log_in(header, &user);
    }
    Some(response)
}
