//! The listeners of the management HTTP API and of metrics: requests in, answers of [`management::handle`] out.
//!
//! A thread of its own reads and writes on a current-thread runtime; requests that need a shard's answer are done by
//! others, by lanes ([`Lane`]), so that a request that waits for its answer holds up no bytes of other clients, and a
//! slow request no quick one. All sleep while nobody asks anything. Bounds are [`management::Limits`]: a client that is
//! too slow, or sends too much, is closed, and answers that clients do not take share a bound.

use crate::tls::LiveConfig;
use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use management::{Gate, Lane, Limits, Node, Request, Response};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, Sleep, sleep, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

mod compress;
mod head;

/// Milliseconds without accepting after the process ran out of descriptors.
const PAUSE_MS: u64 = 100;

/// Bytes in which room for bodies is counted.
const BODY_UNIT: usize = 1024;

/// Events of a stream that wait for the one before them to be sent.
const EVENTS_WAITING: usize = 1;

/// An answer: whole, or piece by piece as things happen.
type Shown = hyper::Response<Either<Full<Bytes>, Live>>;

/// The interface that a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The management API.
    Api,
    /// Metrics.
    Metrics,
}

/// A port.
pub struct Listener {
    /// The interface that it serves.
    pub service: Service,
    /// Its socket.
    pub listener: std::net::TcpListener,
    /// The TLS configuration, for a port with TLS.
    pub tls: Option<Arc<LiveConfig>>,
}

/// A request and where its answer goes.
///
/// The places are its own until it is answered: a client that goes before that leaves room for others only once nothing
/// is kept or done for it any more, so that the bound of clients is a bound of waiting work.
pub struct Job {
    service: Service,
    request: Box<Request>,
    answer: oneshot::Sender<Response>,
    /// Its client's among the connections.
    _place: Arc<OwnedSemaphorePermit>,
    /// Its body's, if that is large.
    _room: Option<OwnedSemaphorePermit>,
}

/// Where the requests of each lane come out.
pub type Lanes = [(Lane, Mutex<Receiver<Job>>); Lane::ALL.len()];

/// Where requests wait for a thread that answers, by lane: at most one of each connection.
#[derive(Clone)]
pub struct Queues([Sender<Job>; Lane::ALL.len()]);

impl Queues {
    /// Queues, and of each lane where its requests come out.
    pub fn new() -> (Queues, Lanes) {
        let pairs = Lane::ALL.map(|lane| (lane, channel()));
        let senders = pairs.each_ref().map(|(_, (sender, _))| sender.clone());
        (Queues(senders), pairs.map(|(lane, (_, receiver))| (lane, Mutex::new(receiver))))
    }

    fn of(&self, lane: Lane) -> &Sender<Job> {
        &self.0[lane as usize]
    }
}

/// The lane of a request. Requests on the port of metrics, which asks for no login, have one of their own: they hold up
/// no other port.
fn lane(service: Service, request: &Request) -> Lane {
    match service {
        Service::Api => Lane::of(request),
        Service::Metrics => Lane::Metrics,
    }
}

/// Answers requests until nobody is left to send any. Once `is_over` none is begun.
pub fn work(node: &impl Node, jobs: &Mutex<Receiver<Job>>, is_over: impl Fn() -> bool) {
    while let Some(job) = next(jobs, &is_over) {
        let response = match job.service {
            Service::Api => management::handle(node, &job.request),
            Service::Metrics => management::metrics(node, &job.request),
        };
        // Here, so that the thread that reads and writes for all clients has no such work.
        let response = match job.request.takes_gzip {
            true => compress::compressed(response, node.about().limits.gzip_bytes_min),
            false => response,
        };
        // The client may be gone.
        let _ = job.answer.send(response);
    }
}

/// The next request whose answer somebody waits for; none: nobody is left to send any. The others are dropped, and all
/// are once `is_over`.
fn next(jobs: &Mutex<Receiver<Job>>, is_over: impl Fn() -> bool) -> Option<Job> {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()?;
        if !job.answer.is_closed() && !is_over() {
            return Some(job);
        }
    }
}

/// Serves on these listeners until `stop` is notified.
///
/// # Errors
/// The system's error.
pub fn serve(
    listeners: Vec<Listener>,
    limits: Limits,
    gate: Gate,
    jobs: &Queues,
    stop: &Notify,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let [api, metrics] = [limits.connections_max, limits.metrics_connections_max]
            .map(|connections_max| Arc::new(Semaphore::new(connections_max)));
        let shared = Arc::new(Shared {
            limits,
            gate,
            jobs: jobs.clone(),
            bodies: Arc::new(Semaphore::new(limits.bodies_bytes_max / BODY_UNIT)),
            answers: Arc::default(),
            streams: Arc::new(Semaphore::new(limits.event_streams_max)),
        });
        for Listener { service, listener, tls } in listeners {
            listener.set_nonblocking(true)?;
            let line = Line { service, tls, shared: shared.clone() };
            let room = match service {
                Service::Api => api.clone(),
                Service::Metrics => metrics.clone(),
            };
            tokio::spawn(accept(TcpListener::from_std(listener)?, room, line));
        }
        stop.notified().await;
        Ok(())
    })
}

/// State shared by all ports.
struct Shared {
    limits: Limits,
    gate: Gate,
    jobs: Queues,
    /// Room for bodies, in units of [`BODY_UNIT`].
    bodies: Arc<Semaphore>,
    /// Bytes of answers that clients have not taken.
    answers: Arc<AtomicUsize>,
    /// Room for streams of events.
    streams: Arc<Semaphore>,
}

/// Where the requests of a port go.
#[derive(Clone)]
struct Line {
    service: Service,
    tls: Option<Arc<LiveConfig>>,
    shared: Arc<Shared>,
}

/// A connected client.
struct Client {
    from: IpAddr,
    /// The place among the connections.
    place: Arc<OwnedSemaphorePermit>,
    /// The connection is to be closed, whatever is on its way.
    end: Arc<Notify>,
}

async fn accept(listener: TcpListener, room: Arc<Semaphore>, line: Line) {
    // The semaphore is never closed.
    while let Ok(place) = room.clone().acquire_owned().await {
        let Ok((stream, from)) = listener.accept().await else {
            sleep(Duration::from_millis(PAUSE_MS)).await;
            continue;
        };
        let client = Client { from: from.ip().to_canonical(), place: Arc::new(place), end: Arc::default() };
        tokio::spawn(converse(stream, client, line.clone()));
    }
}

async fn converse(stream: TcpStream, client: Client, line: Line) {
    let silence = Duration::from_millis(line.shared.limits.silence_ms_max);
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let stream = Patient::new(stream, silence, line.shared.limits.answer_bytes_min);
    match &line.tls {
        None => talk(stream, &client, silence, &line).await,
        Some(tls) => {
            let handshake = TlsAcceptor::from(tls.current()).accept(stream);
            // A client whose handshake fails, or is not over in time, is closed.
            if let Ok(Ok(stream)) = timeout(silence, handshake).await {
                talk(stream, &client, silence, &line).await;
            }
        }
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin, client: &Client, silence: Duration, line: &Line) {
    let answer =
        service_fn(|request| async move { Ok::<_, Infallible>(answer(request, client, line).await) });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(silence)
        .max_buf_size(line.shared.limits.head_bytes_max)
        .serve_connection(TokioIo::new(stream), answer);
    // A client that breaks off, or is too slow, is nobody's fault.
    let (mut connection, mut end) = (pin!(connection), pin!(client.end.notified()));
    poll_fn(|context| match end.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => connection.as_mut().poll(context).map(drop),
    })
    .await;
}

async fn answer(request: hyper::Request<Incoming>, client: &Client, line: &Line) -> Shown {
    let closing = |response| closing(response, &line.shared);
    let (head, body) = request.into_parts();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let Some(mut request) = Request::new(head.method.as_str(), target, Vec::new(), client.from.is_loopback())
    else {
        return closing(Response::error(400, "bad_request", "the path or the query cannot be decoded"));
    };
    let text = |name: HeaderName| head.headers.get(name)?.to_str().ok().map(str::to_owned);
    request.from = Some(client.from);
    request.authorization = text(AUTHORIZATION);
    request.content_type = text(CONTENT_TYPE);
    request.reason = text(HeaderName::from_static("x-reason"));
    let encodings = head.headers.get_all(ACCEPT_ENCODING).iter();
    request.takes_gzip = compress::is_taken(encodings.filter_map(|value| value.to_str().ok()));
    let passed = match head::judge(line, &head, &mut request) {
        Ok(passed) => passed,
        Err(refused) => return closing(refused),
    };
    let Answered { mut response, again, is_over } = answer_passed(request, body, client, line).await;
    passed.tell(&mut response);
    match again {
        _ if is_over => closing(response),
        Some(again) if response.next.is_some() => live(response, *again, client, line),
        _ => shown(response, &line.shared),
    }
}

/// The answer to a request that the gate has let in.
struct Answered {
    response: Response,
    /// The request, where more may follow.
    again: Option<Box<Request>>,
    /// The rest of what the client sends is not read.
    is_over: bool,
}

impl Answered {
    fn over(response: Response) -> Answered {
        Answered { response, again: None, is_over: true }
    }
}

async fn answer_passed(mut request: Request, body: Incoming, client: &Client, line: &Line) -> Answered {
    let limits = line.shared.limits;
    let is_small = body.size_hint().upper().is_some_and(|size| size <= limits.first_body_bytes_max as u64);
    let silence = Duration::from_millis(limits.silence_ms_max);
    let mut room = None;
    if !is_small {
        // A client without permission is refused before any of its body is kept.
        if let Some(refused) = refused(line, client, &request).await {
            return Answered::over(refused);
        }
        let length = body.size_hint().upper().and_then(|length| usize::try_from(length).ok());
        let length = length.unwrap_or(usize::MAX).min(limits.body_bytes_max).min(limits.bodies_bytes_max);
        let units = u32::try_from(length / BODY_UNIT).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        match timeout(silence, line.shared.bodies.clone().acquire_many_owned(units)).await {
            Ok(Ok(own)) => room = Some(own),
            _ => {
                return Answered::over(Response::error(
                    503,
                    "service_unavailable",
                    "too many bodies are on their way",
                ));
            }
        }
    }
    request.body = match read(Limited::new(body, limits.body_bytes_max), &limits).await {
        Ok(body) => body,
        Err(Unread::TooLarge) => {
            return Answered::over(Response::error(413, "payload_too_large", "the body is too large"));
        }
        Err(Unread::Broken) => {
            return Answered::over(Response::error(400, "bad_request", "the body cannot be read"));
        }
        Err(Unread::Late) => {
            return Answered::over(Response::error(408, "request_timeout", "the body did not come in time"));
        }
    };
    // A client without permission does not stand in line in a slow lane.
    if is_small
        && lane(line.service, &request).is_slow()
        && let Some(refused) = refused(line, client, &request).await
    {
        return Answered { response: refused, again: None, is_over: false };
    }
    let again = Request { body: Vec::new(), ..request.clone() };
    let response = done(line, client, request, room).await;
    Answered { response, again: Some(Box::new(again)), is_over: false }
}

/// Why a body is not there.
enum Unread {
    TooLarge,
    Broken,
    Late,
}

/// A body, which may take long as long as enough of it comes all the time: a slow line is not a slow client.
async fn read(mut body: Limited<Incoming>, limits: &Limits) -> Result<Vec<u8>, Unread> {
    let silence = Duration::from_millis(limits.silence_ms_max);
    let begin = Instant::now();
    let end = begin + Duration::from_millis(limits.body_ms_max);
    let (mut judged_at, mut came, mut bytes) = (begin + silence, 0, Vec::new());
    loop {
        match timeout_at(judged_at.min(end), body.frame()).await {
            Ok(None) => return Ok(bytes),
            Ok(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    came += data.len();
                    bytes.extend_from_slice(data);
                }
            }
            Ok(Some(Err(error))) if error.is::<LengthLimitError>() => return Err(Unread::TooLarge),
            Ok(Some(Err(_))) => return Err(Unread::Broken),
            Err(_) if came < limits.body_bytes_min || judged_at >= end => return Err(Unread::Late),
            Err(_) => (judged_at, came) = (judged_at + silence, 0),
        }
    }
}

/// The answer to a client without permission; none where it has permission.
async fn refused(line: &Line, client: &Client, request: &Request) -> Option<Response> {
    let asked = Request { awaits_body: true, body: Vec::new(), ..request.clone() };
    let response = done(line, client, asked, None).await;
    (response.status != 100).then_some(response)
}

/// The answer of a worker. A client whose login was held back waits for it.
async fn done(
    line: &Line,
    client: &Client,
    request: Request,
    room: Option<OwnedSemaphorePermit>,
) -> Response {
    let Some(response) = told(line, &client.place, request, room).await else {
        return Response::error(503, "service_unavailable", "the node is stopping");
    };
    let wait_ms = response.login.wait_ms();
    if wait_ms > 0 {
        sleep(Duration::from_millis(wait_ms)).await;
    }
    response
}

/// The answer of a worker; none where the node is stopping.
async fn told(
    line: &Line,
    place: &Arc<OwnedSemaphorePermit>,
    request: Request,
    room: Option<OwnedSemaphorePermit>,
) -> Option<Response> {
    let (sender, receiver) = oneshot::channel();
    let job = Job {
        service: line.service,
        request: Box::new(request),
        answer: sender,
        _place: place.clone(),
        _room: room,
    };
    line.shared.jobs.of(lane(job.service, &job.request)).send(job).ok()?;
    receiver.await.ok()
}

/// An answer that goes on: the first event, and others every so often until there are no more, nobody may be told any
/// more, or the client takes none.
fn live(first: Response, request: Request, client: &Client, line: &Line) -> Shown {
    let Ok(own) = line.shared.streams.clone().try_acquire_owned() else {
        let why = "as many clients listen to events as may";
        return shown(Response::error(503, "service_unavailable", why), &line.shared);
    };
    let (sender, receiver) = mpsc::channel(EVENTS_WAITING);
    let (line, place, end) = (line.clone(), client.place.clone(), client.end.clone());
    let headers = Response { body: Vec::new(), ..first.clone() };
    let answer = shown(headers, &line.shared);
    tokio::spawn(async move {
        let limits = line.shared.limits;
        let patience = Duration::from_millis(limits.event_wait_ms_max);
        let mut response = first;
        loop {
            let is_slow = match timeout(patience, sender.send(response.body.into())).await {
                Ok(Ok(())) => false,
                // Nobody listens any more.
                Ok(Err(_)) => break,
                Err(_) => true,
            };
            if is_slow {
                end.notify_one();
                break;
            }
            let Some(next) = response.next else { break };
            sleep(Duration::from_millis(limits.event_gap_ms)).await;
            if sender.is_closed() {
                break;
            }
            let asked = Request { seen: Some(next), ..request.clone() };
            match told(&line, &place, asked, None).await {
                Some(later) if later.status == 200 => response = later,
                _ => break,
            }
        }
        drop(own);
    });
    let (head, _) = answer.into_parts();
    hyper::Response::from_parts(head, Either::Right(Live(receiver)))
}

/// A body that is made while it is sent.
struct Live(mpsc::Receiver<Bytes>);

impl Body for Live {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| Some(Ok(Frame::data(bytes?))))
    }
}

/// An answer's body, which counts as long as any of it is to be sent.
struct Held {
    body: Vec<u8>,
    answers: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.answers.fetch_sub(self.body.len(), Ordering::Relaxed);
    }
}

/// The body, if there is room for it beside those that other clients have not taken; one alone always has.
fn held(body: Vec<u8>, shared: &Shared) -> Option<Bytes> {
    if body.len() <= shared.limits.small_answer_bytes_max {
        return Some(body.into());
    }
    let (answers, most) = (shared.answers.clone(), shared.limits.answers_bytes_max);
    let more = |held: usize| (held == 0 || held + body.len() <= most).then_some(held + body.len());
    answers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
    Some(Bytes::from_owner(Held { body, answers }))
}

fn shown(response: Response, shared: &Shared) -> Shown {
    let Response { status, headers, body, .. } = response.guarded();
    let Some(body) = held(body, shared) else {
        let why = "clients are taking too many answers already, and slowly";
        return shown(Response::error(503, "service_unavailable", why), shared);
    };
    let mut shown = hyper::Response::new(Either::Left(Full::new(body)));
    *shown.status_mut() =
        hyper::StatusCode::from_u16(status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            shown.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    shown
}

/// The same where the rest of what the client sends is not read.
fn closing(response: Response, shared: &Shared) -> Shown {
    let mut shown = shown(response, shared);
    shown.headers_mut().insert(hyper::header::CONNECTION, HeaderValue::from_static("close"));
    shown
}

/// A socket that is given up when its peer takes too little in the time that something waits for it to be taken. Any byte alone
/// would not do: a peer that takes one now and then keeps the rest of an answer, and the room it has.
struct Patient {
    stream: TcpStream,
    silence: Duration,
    /// Bytes that are to be taken while something waits for so long.
    taken_min: usize,
    /// Bytes taken since that was last judged.
    taken: usize,
    /// How long something waited since then, before what waits now.
    waited: Duration,
    /// Since when something waits to be taken.
    stuck_at: Option<Instant>,
    /// When it is judged again, if what waits now waits on.
    limit: Pin<Box<Sleep>>,
}

impl Patient {
    fn new(stream: TcpStream, silence: Duration, taken_min: usize) -> Patient {
        let limit = Box::pin(sleep(silence));
        Patient { stream, silence, taken_min, taken: 0, waited: Duration::ZERO, stuck_at: None, limit }
    }

    /// The outcome of a write: an error where the peer took fewer than `taken_min` bytes while the connection waited
    /// for `silence`.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        taken: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = &polled {
            self.taken = self.taken.saturating_add(done.as_ref().map_or(0, taken));
            self.waited += self.stuck_at.take().map_or(Duration::ZERO, |since| since.elapsed());
            return polled;
        }
        if self.stuck_at.is_none() {
            let now = Instant::now();
            self.stuck_at = Some(now);
            self.limit.as_mut().reset(now + self.silence.saturating_sub(self.waited));
        }
        while self.limit.as_mut().poll(context).is_ready() {
            if self.taken < self.taken_min {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let now = Instant::now();
            (self.taken, self.waited, self.stuck_at) = (0, Duration::ZERO, Some(now));
            self.limit.as_mut().reset(now + self.silence);
        }
        Poll::Pending
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, polled, |count| *count)
    }

    // Without this answers would be copied once more, into a buffer that no bound knows.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.judge(context, polled, |count| *count)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        let judged = self.judge(context, polled, |()| 0);
        if judged.is_ready() {
            // All that there was is taken: the next answer has its own time.
            (self.taken, self.waited) = (0, Duration::ZERO);
        }
        judged
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
