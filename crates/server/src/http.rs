//! The listeners of the management HTTP API and of metrics: requests in, answers of [`management::handle`] out.
//!
//! A thread of its own reads and writes on a current-thread runtime; requests that need a shard's answer are done by
//! others, by lanes ([`Lane`]), so that a request that waits for its answer holds up no bytes of other clients, and a
//! slow request no quick one, and in a lane users take turns. All sleep while nobody asks anything. Bounds are
//! [`management::Limits`]: a client that is too slow, or sends too much, is closed, answers that clients do not take
//! share a bound, and of each bound an address or a user has a share.

use crate::clock::Clock;
use crate::tls::LiveConfig;
use answers::{Shown, closing, shown};
use asker::Asker;
pub use asker::Service;
use bodies::Piece;
use events::live;
pub use files::Files;
use http_body_util::Limited;
use hyper::body::{Body, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, IF_NONE_MATCH,
    STRICT_TRANSPORT_SECURITY,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use lanes::lane;
pub use lanes::{Lanes, Queues, work};
use line::{Client, Line, Shared, told};
use management::{Block, Gate, Limits, Request, Response};
use patient::Patient;
pub use pools::Pools;
use room::Room;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

mod answers;
mod asker;
mod bodies;
mod compress;
mod events;
mod files;
mod handshakes;
mod head;
mod lanes;
mod line;
mod listeners;
mod patient;
mod pools;
mod refusing;
mod room;

/// Milliseconds without accepting after the process ran out of descriptors.
const PAUSE_MS: u64 = 100;

/// A port.
pub struct Listener {
    /// The interface that it serves.
    pub service: Service,
    /// Its socket.
    pub listener: std::net::TcpListener,
    /// The TLS configuration, for a port with TLS.
    pub tls: Option<Arc<LiveConfig>>,
}

/// Serves on these listeners until `stop` is notified.
///
/// # Errors
/// The system's error.
pub fn serve(
    listeners: Vec<Listener>,
    limits: Limits,
    gate: Gate,
    (files, clock): (Files, Clock),
    pools: Arc<Pools>,
    jobs: &Queues,
    stop: &Notify,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let (jobs, handshakes) = (jobs.clone(), Arc::default());
        let shared = Arc::new(Shared { limits, gate, jobs, pools, handshakes, files, clock });
        for Listener { service, listener, tls } in listeners {
            listener.set_nonblocking(true)?;
            let line = Line { service, tls, shared: shared.clone() };
            let room = shared.pools.rooms[service as usize].clone();
            tokio::spawn(accept(TcpListener::from_std(listener)?, room, line));
        }
        stop.notified().await;
        Ok(())
    })
}

async fn accept(listener: TcpListener, room: Arc<Room>, line: Line) {
    let refusals = refusing::Refusals::default();
    loop {
        room.has_room().await;
        let Ok((stream, from)) = listener.accept().await else {
            sleep(Duration::from_millis(PAUSE_MS)).await;
            continue;
        };
        let (from, end) = (from.ip().to_canonical(), Arc::new(Notify::new()));
        let Some((place, is_beyond)) = room.take(from, &end).await else {
            refusals.refuse(stream, line.tls.is_some());
            continue;
        };
        let limits = &line.shared.limits;
        let client = Client {
            from,
            block: Block::of(from),
            place,
            end,
            head_ms_max: if is_beyond { limits.young_ms } else { limits.head_ms_max },
            has_asked: AtomicBool::new(false),
            login: Mutex::default(),
        };
        let client = Arc::new(client);
        tokio::spawn(until_its_end(client.clone(), converse(stream, client, line.clone())));
    }
}

/// Does this until it is over, or the client is to be closed.
async fn until_its_end(client: Arc<Client>, work: impl Future<Output = ()>) {
    let (mut work, mut end) = (pin!(work), pin!(client.end.notified()));
    poll_fn(|context| match end.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => work.as_mut().poll(context),
    })
    .await;
}

async fn converse(stream: TcpStream, client: Arc<Client>, line: Line) {
    let limits = &line.shared.limits;
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let stream = Patient::new(stream, Duration::from_millis(limits.silence_ms_max), limits.answer_bytes_min);
    match &line.tls {
        None => talk(stream, &client, &line).await,
        Some(tls) => {
            let handshake = line.shared.handshakes.accept(stream, client.block, tls.current());
            // Beyond the share of its address a client has no more time for it than for a request.
            let ms_max = limits.handshake_ms_max.min(client.head_ms_max);
            // A client whose handshake fails, or is not over in time, is closed.
            if let Ok(Ok(stream)) = timeout(Duration::from_millis(ms_max), handshake).await {
                talk(stream, &client, &line).await;
            }
        }
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin, client: &Arc<Client>, line: &Line) {
    let answer = service_fn(|request| async move {
        let mut answer = answer(request, client, line).await;
        // Told over anything but TLS it would count for nothing (RFC 6797 §7.2).
        if line.service == Service::Api
            && line.tls.is_some()
            && let Some(policy) = &line.shared.gate.rules.transport_policy
            && let Ok(policy) = HeaderValue::from_str(policy)
        {
            answer.headers_mut().insert(STRICT_TRANSPORT_SECURITY, policy);
        }
        Ok::<_, Infallible>(answer)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(line.shared.limits.idle_ms_max))
        .max_buf_size(line.shared.limits.head_bytes_max)
        .serve_connection(TokioIo::new(stream), answer);
    // A client that breaks off, or is too slow, is nobody's fault.
    let (mut connection, mut first) =
        (pin!(connection), pin!(sleep(Duration::from_millis(client.head_ms_max))));
    poll_fn(|context| {
        let talked = connection.as_mut().poll(context).map(drop);
        let is_silent = || !client.has_asked.load(Ordering::Relaxed);
        match talked.is_pending() && is_silent() && first.as_mut().poll(context).is_ready() {
            true => Poll::Ready(()),
            false => talked,
        }
    })
    .await;
}

async fn answer(request: hyper::Request<Incoming>, client: &Arc<Client>, line: &Line) -> Shown {
    client.has_asked.store(true, Ordering::Relaxed);
    let closing = |response, asker: &Asker| closing(response, asker, line.answers());
    let stranger = Asker::Block(client.block);
    let (head, body) = request.into_parts();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let Some(mut request) = Request::new(head.method.as_str(), target, Vec::new(), client.from.is_loopback())
    else {
        let refused = Response::error(400, "bad_request", "the path or the query cannot be decoded");
        return closing(refused, &stranger);
    };
    let text = |name: HeaderName| head.headers.get(name)?.to_str().ok().map(str::to_owned);
    request.from = Some(client.from);
    request.authorization = text(AUTHORIZATION);
    request.content_type = text(CONTENT_TYPE);
    request.reason = text(HeaderName::from_static("x-reason"));
    let encodings = head.headers.get_all(ACCEPT_ENCODING).iter();
    request.takes_turns = true;
    request.takes_gzip = compress::is_taken(encodings.filter_map(|value| value.to_str().ok()));
    let passed = match head::judge(line, &head, &mut request) {
        Ok(passed) => passed,
        Err(refused) => return closing(refused, &stranger),
    };
    if line.service == Service::Api
        && let Some(file) =
            line.shared.files.answer(&request, head.uri.path(), text(IF_NONE_MATCH).as_deref())
    {
        return file;
    }
    let Answered { mut response, asker, again, is_over } = answer_passed(request, body, client, line).await;
    passed.tell(&mut response);
    match again {
        _ if is_over => closing(response, &asker),
        Some(again) if response.next.is_some() => live(response, *again, client, line),
        _ => shown(response, &asker, line.answers()),
    }
}

/// The answer to a request that the gate has let in.
struct Answered {
    response: Response,
    /// Whose share it counts in.
    asker: Asker,
    /// The request, where more may follow.
    again: Option<Box<Request>>,
    /// The rest of what the client sends is not read.
    is_over: bool,
}

async fn answer_passed(request: Request, body: Incoming, client: &Arc<Client>, line: &Line) -> Answered {
    let is_small = is_small(&body, &line.shared.limits);
    // A client without permission is refused before any of a large body is kept, and does not stand in line in a slow
    // lane. One that has not shown a login over this connection is not known by the name that it gives.
    let is_new = line.service == Service::Api
        && request.authorization.is_some()
        && client.user(&request).is_none()
        && management::asks_for_login(&request);
    let is_asked_first = !is_small || is_new || lane(line.service, &request).is_slow();
    if is_asked_first
        && !is_small
        && let Some(response) = refused(line, client, &request).await
    {
        return Answered { response, asker: client.asker(&request), again: None, is_over: true };
    }
    let mut request = request;
    let asker = client.asker(&request);
    let room = match read_body(body, &asker, line).await {
        Ok((read, room)) => {
            request.body = read;
            room
        }
        Err(unread) => {
            return Answered { response: unread.response(), asker, again: None, is_over: true };
        }
    };
    if is_asked_first
        && is_small
        && let Some(response) = refused(line, client, &request).await
    {
        return Answered { response, asker: client.asker(&request), again: None, is_over: false };
    }
    let again = Request { body: Vec::new(), ..request.clone() };
    let asker = client.asker(&request);
    let response = done(line, client, request, room).await;
    Answered { response, asker, again: Some(Box::new(again)), is_over: false }
}

/// Whether a body is so small that it is read before its user is known.
fn is_small(body: &Incoming, limits: &Limits) -> bool {
    body.size_hint().upper().is_some_and(|size| size <= limits.first_body_bytes_max as u64)
}

/// A request's body, and its room if it is large.
async fn read_body(
    body: Incoming,
    asker: &Asker,
    line: &Line,
) -> Result<(Vec<u8>, Option<Piece>), bodies::Unread> {
    let Shared { limits, pools, .. } = &*line.shared;
    let bodies = &pools.bodies;
    let length = body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    let is_small = is_small(&body, limits);
    let body = Limited::new(body, limits.body_bytes_max);
    match length {
        None => bodies::read_unknown(body, limits, bodies, asker).await,
        Some(length) => {
            let patience = Instant::now() + Duration::from_millis(limits.silence_ms_max);
            let taken = length.min(limits.body_bytes_max).min(limits.bodies_bytes_max);
            let room = match is_small {
                true => None,
                false => Some(bodies.take(asker, taken, patience).await?),
            };
            Ok((bodies::read(body, length, limits).await?, room))
        }
    }
}

/// The answer to a client without permission; none where it has permission.
async fn refused(line: &Line, client: &Arc<Client>, request: &Request) -> Option<Response> {
    let asked = Request { awaits_body: true, body: Vec::new(), ..request.clone() };
    let response = done(line, client, asked, None).await;
    (response.status != 100).then_some(response)
}

/// The answer of a worker. A client whose login was held back waits for it.
async fn done(line: &Line, client: &Arc<Client>, request: Request, room: Option<Piece>) -> Response {
    let Some(response) = told(line, client, request, room).await else {
        return Response::error(503, "service_unavailable", "the node is stopping");
    };
    let wait_ms = response.login.wait_ms();
    if wait_ms > 0 {
        sleep(Duration::from_millis(wait_ms)).await;
    }
    response
}

#[cfg(test)]
mod tests;
