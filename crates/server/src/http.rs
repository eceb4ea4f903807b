//! The listener of the management HTTP API: requests in, answers of [`management::handle`] out.
//!
//! A thread of its own reads and writes on a current-thread runtime; what takes a shard's answer is done by two more, and
//! health checks by a third, so that nobody who asks holds up who sends or takes bytes. All sleep while nobody asks anything. Bounds are
//! [`management::Limits`]: a client that is too slow, or sends too much, is closed.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use management::{Limits, Node, Request, Response};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::{Instant, Sleep, sleep, timeout};

/// Threads that answer.
pub const WORKERS: usize = 2;

/// Milliseconds without accepting after the process ran out of descriptors.
const PAUSE_MS: u64 = 100;

/// Bytes in which room for bodies is counted.
const BODY_UNIT: usize = 1024;

/// What is served on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The management API.
    Api,
    /// Metrics.
    Metrics,
}

/// A request and where its answer goes.
pub struct Job {
    service: Service,
    request: Box<Request>,
    answer: oneshot::Sender<Response>,
}

/// Where requests wait for a thread that answers.
#[derive(Clone)]
pub struct Queues {
    /// All but health checks.
    pub usual: Sender<Job>,
    /// Health checks, which wait for nobody who asks more: whoever gets none in time takes the node for dead.
    pub checks: Sender<Job>,
}

/// Answers requests until nobody is left to send any.
pub fn work(node: &impl Node, jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { service, request, answer }) = job else { return };
        let response = match service {
            Service::Api => management::handle(node, &request),
            Service::Metrics => management::metrics(node, &request),
        };
        // Who asked may be gone.
        let _ = answer.send(response);
    }
}

/// Serves on these listeners until `stop` is notified.
///
/// # Errors
/// What the system said.
pub fn serve(
    listeners: Vec<(Service, std::net::TcpListener)>,
    limits: Limits,
    jobs: &Queues,
    stop: &Notify,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let room = Arc::new(Semaphore::new(limits.connections_max));
        let bodies = Arc::new(Semaphore::new(limits.bodies_bytes_max / BODY_UNIT));
        for (service, listener) in listeners {
            listener.set_nonblocking(true)?;
            let line = Line { service, jobs: jobs.clone(), bodies: bodies.clone() };
            tokio::spawn(accept(TcpListener::from_std(listener)?, limits, room.clone(), line));
        }
        stop.notified().await;
        Ok(())
    })
}

/// Where the requests of a port go.
#[derive(Clone)]
struct Line {
    service: Service,
    jobs: Queues,
    /// Room for bodies, in units of [`BODY_UNIT`].
    bodies: Arc<Semaphore>,
}

impl Line {
    fn queue(&self, request: &Request) -> &Sender<Job> {
        let is_check = matches!(&request.path[..], [api, health, ..] if api == "api" && health == "health");
        if is_check { &self.jobs.checks } else { &self.jobs.usual }
    }
}

async fn accept(listener: TcpListener, limits: Limits, room: Arc<Semaphore>, jobs: Line) {
    // The semaphore is never closed.
    while let Ok(place) = room.clone().acquire_owned().await {
        let Ok((stream, from)) = listener.accept().await else {
            sleep(Duration::from_millis(PAUSE_MS)).await;
            continue;
        };
        let jobs = jobs.clone();
        tokio::spawn(async move {
            let _place = place;
            converse(stream, from, limits, jobs).await;
        });
    }
}

async fn converse(stream: TcpStream, from: SocketAddr, limits: Limits, jobs: Line) {
    let silence = Duration::from_millis(limits.silence_ms_max);
    let is_loopback = from.ip().to_canonical().is_loopback();
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let answer = service_fn(|request| {
        let jobs = jobs.clone();
        async move { Ok::<_, Infallible>(answer(request, is_loopback, limits, jobs).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(silence)
        .max_buf_size(limits.head_bytes_max)
        .serve_connection(TokioIo::new(Patient::new(stream, silence)), answer);
    // A client that breaks off, or is too slow, is nobody's fault.
    let _ = connection.await;
}

async fn answer(
    request: hyper::Request<Incoming>,
    is_loopback: bool,
    limits: Limits,
    jobs: Line,
) -> hyper::Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let Some(mut request) = Request::new(head.method.as_str(), target, Vec::new(), is_loopback) else {
        return closing(Response::error(400, "bad_request", "the path or the query cannot be decoded"));
    };
    let text = |name: HeaderName| head.headers.get(name)?.to_str().ok().map(str::to_owned);
    request.authorization = text(AUTHORIZATION);
    request.reason = text(HeaderName::from_static("x-reason"));
    let is_small = body.size_hint().upper().is_some_and(|size| size <= limits.first_body_bytes_max as u64);
    let silence = Duration::from_millis(limits.silence_ms_max);
    let mut place = None;
    if !is_small {
        // Whoever may not ask this is told so before anything is kept of what they send.
        let asked = Request { awaits_body: true, ..request.clone() };
        let response = done(&jobs, asked).await;
        if response.status != 100 {
            return closing(response);
        }
        let length = body.size_hint().upper().and_then(|length| usize::try_from(length).ok());
        let length = length.unwrap_or(usize::MAX).min(limits.body_bytes_max).min(limits.bodies_bytes_max);
        let units = u32::try_from(length / BODY_UNIT).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        match timeout(silence, jobs.bodies.clone().acquire_many_owned(units)).await {
            Ok(Ok(room)) => place = Some(room),
            _ => {
                return closing(Response::error(
                    503,
                    "service_unavailable",
                    "too many bodies are on their way",
                ));
            }
        }
    }
    request.body = match timeout(silence, Limited::new(body, limits.body_bytes_max).collect()).await {
        Ok(Ok(body)) => body.to_bytes().into(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return closing(Response::error(413, "payload_too_large", "the body is too large"));
        }
        Ok(Err(_)) => return closing(Response::error(400, "bad_request", "the body cannot be read")),
        Err(_) => return closing(Response::error(408, "request_timeout", "the body did not come in time")),
    };
    let response = done(&jobs, request).await;
    drop(place);
    shown(response)
}

/// What one of the workers answers.
async fn done(line: &Line, request: Request) -> Response {
    let (sender, receiver) = oneshot::channel();
    let job = Job { service: line.service, request: Box::new(request), answer: sender };
    let is_sent = line.queue(&job.request).send(job).is_ok();
    let response = if is_sent { receiver.await.ok() } else { None };
    response.unwrap_or_else(|| Response::error(503, "service_unavailable", "the node is stopping"))
}

fn shown(response: Response) -> hyper::Response<Full<Bytes>> {
    let mut shown = hyper::Response::new(Full::new(Bytes::from(response.body)));
    *shown.status_mut() =
        hyper::StatusCode::from_u16(response.status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &response.headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            shown.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    shown
}

/// The same where the rest of what the client sends is not read.
fn closing(response: Response) -> hyper::Response<Full<Bytes>> {
    let mut shown = shown(response);
    shown.headers_mut().insert(hyper::header::CONNECTION, HeaderValue::from_static("close"));
    shown
}

/// A socket that is given up when its peer takes nothing for too long.
struct Patient {
    stream: TcpStream,
    silence: Duration,
    /// Since when nothing could be written, with what has to come.
    limit: Pin<Box<Sleep>>,
    is_stuck: bool,
}

impl Patient {
    fn new(stream: TcpStream, silence: Duration) -> Patient {
        Patient { stream, silence, limit: Box::pin(sleep(silence)), is_stuck: false }
    }

    fn judge<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.is_stuck = false;
            return polled;
        }
        if !std::mem::replace(&mut self.is_stuck, true) {
            self.limit.as_mut().reset(Instant::now() + self.silence);
        }
        match self.limit.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
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
        self.judge(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream as Client;
    use std::sync::mpsc::channel;

    /// What comes back for bytes, from a listener whose worker answers every request with its body's length.
    fn told(limits: Limits, sent: &[&[u8]]) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("bound");
        let (usual, asked) = channel::<Job>();
        let jobs = Queues { checks: usual.clone(), usual };
        let stop = Notify::new();
        std::thread::scope(|threads| {
            threads.spawn(|| serve(vec![(Service::Api, listener)], limits, &jobs, &stop).expect("serves"));
            threads.spawn(move || {
                let next = || asked.recv_timeout(Duration::from_secs(5));
                while let Ok(Job { request, answer, .. }) = next() {
                    let status = if request.awaits_body { 100 } else { 200 };
                    let body = request.body.len().to_string().into_bytes();
                    let _ = answer.send(Response { status, headers: Vec::new(), body });
                }
            });
            let mut client = Client::connect(address).expect("connects");
            for bytes in sent {
                // The other side may have closed already.
                let _ = client.write_all(bytes);
            }
            let mut text = Vec::new();
            client.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
            let _ = client.read_to_end(&mut text);
            stop.notify_one();
            String::from_utf8_lossy(&text).into_owned()
        })
    }

    #[test]
    fn bodies_have_a_bound() {
        let limits = Limits { body_bytes_max: 100_000, ..Limits::default() };
        let check = |length: usize, sent: usize, status: &str| {
            let head = format!(
                "PUT /api/x HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
            );
            let text = told(limits, &[head.as_bytes(), &vec![b'x'; sent]]);
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{length}: {text}");
            text
        };
        assert!(check(5, 5, "200").ends_with("\r\n\r\n5"));
        assert!(check(100_000, 100_000, "200").ends_with("\r\n\r\n100000"));
        check(100_001, 100_001, "413");
    }

    #[test]
    fn health_checks_wait_for_nobody() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("bound");
        let ((usual, _waiting), (checks, asked)) = (channel::<Job>(), channel::<Job>());
        let (jobs, stop) = (Queues { usual, checks }, Notify::new());
        std::thread::scope(|threads| {
            threads.spawn(|| {
                serve(vec![(Service::Api, listener)], Limits::default(), &jobs, &stop).expect("serves")
            });
            let ask = |path: &str| {
                let mut client = Client::connect(address).expect("connects");
                write!(client, "GET {path} HTTP/1.1\r\nhost: h\r\n\r\n").expect("sends");
                client
            };
            let _others = ["/api/queues", "/api/overview", "/healthy"].map(ask);
            let _own = ask("/api/health/checks/local-alarms");
            let Job { request, .. } = asked.recv_timeout(Duration::from_secs(20)).expect("comes");
            assert_eq!(request.path, ["api", "health", "checks", "local-alarms"]);
            assert!(asked.try_recv().is_err());
            stop.notify_one();
        });
    }

    #[test]
    fn bodies_share_a_bound() {
        let limits = Limits { bodies_bytes_max: 50 << 10, silence_ms_max: 1500, ..Limits::default() };
        let head = |length: usize| format!("PUT /x HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("bound");
        let (usual, asked) = channel::<Job>();
        let (came, has_come) = channel();
        let (jobs, stop) = (Queues { checks: usual.clone(), usual }, Notify::new());
        let hear = |mut client: Client| {
            client.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
            let mut line = [0; 12];
            client.read_exact(&mut line).expect("is answered");
            String::from_utf8_lossy(&line[9..]).into_owned()
        };
        std::thread::scope(|threads| {
            threads.spawn(|| serve(vec![(Service::Api, listener)], limits, &jobs, &stop).expect("serves"));
            threads.spawn(move || {
                // The first has its answer when all have asked.
                let mut held = Vec::new();
                while let Ok(Job { request, answer, .. }) = asked.recv_timeout(Duration::from_secs(5)) {
                    let status = if request.awaits_body { 100 } else { 200 };
                    let response = Response { status, headers: Vec::new(), body: Vec::new() };
                    if request.body.is_empty() {
                        drop(answer.send(response))
                    } else {
                        {
                            held.push((answer, response));
                            came.send(()).expect("is heard")
                        }
                    }
                }
                held.into_iter().for_each(|(answer, response)| drop(answer.send(response)));
            });
            let put = |length: usize| {
                let mut client = Client::connect(address).expect("connects");
                client.write_all(head(length).as_bytes()).expect("sends");
                client.write_all(&vec![b'x'; length]).expect("sends");
                client
            };
            let first = put(40 << 10);
            has_come.recv_timeout(Duration::from_secs(20)).expect("comes");
            let (second, small) = (put(40 << 10), put(10));
            assert_eq!(hear(second), "503", "there is no room for both");
            assert_eq!((hear(first), hear(small)), ("200".to_owned(), "200".to_owned()));
            stop.notify_one();
        });
    }

    #[test]
    fn what_is_no_request_is_refused_and_who_is_slow_is_closed() {
        let limits = Limits { silence_ms_max: 200, head_bytes_max: 8192, ..Limits::default() };
        assert!(told(limits, &[b"GET /api/%zz HTTP/1.1\r\nhost: h\r\n\r\n"]).starts_with("HTTP/1.1 400"));
        assert!(told(limits, &[b"nonsense\r\n\r\n"]).starts_with("HTTP/1.1 400"));
        let head = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(10_000));
        assert!(told(limits, &[head.as_bytes()]).starts_with("HTTP/1.1 431"));
        assert_eq!(told(limits, &[b"GET /api/x HT"]), "");
        let half = b"PUT /api/x HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nx";
        assert!(told(limits, &[half]).starts_with("HTTP/1.1 408"));
    }
}
