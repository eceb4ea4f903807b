//! Answers on their way to clients, which share a bound: one for each interface, of which a client has a part.

use super::asker::{Asker, Service, listed};
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame};
use hyper::header::{HeaderName, HeaderValue};
use management::{Limits, Pool, PoolRow, Response};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// An answer: whole, or piece by piece as things happen.
pub type Shown = hyper::Response<Either<Full<Bytes>, Live>>;

/// A body that is made while it is sent.
pub struct Live(mpsc::Receiver<Bytes>);

impl Live {
    /// One whose pieces come out here.
    pub fn new(pieces: mpsc::Receiver<Bytes>) -> Live {
        Live(pieces)
    }
}

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

/// Bytes of answers of an interface that clients have not taken.
#[derive(Clone)]
pub struct Answers {
    pool: Arc<Mutex<Pool<Asker>>>,
    /// Bytes up to which an answer does not count.
    small_max: usize,
}

impl Answers {
    /// None yet, of this interface.
    pub fn new(service: Service, limits: &Limits) -> Answers {
        let most = match service {
            Service::Api => limits.answers_bytes_max,
            Service::Metrics => limits.metrics_answers_bytes_max,
        };
        let pool = Arc::new(Mutex::new(Pool::new(most, most / limits.user_share)));
        Answers { pool, small_max: limits.small_answer_bytes_max }
    }

    /// As they are listed.
    pub fn row(&self, name: &'static str) -> PoolRow {
        self.with(|pool| listed(name, pool))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Pool<Asker>) -> T) -> T {
        work(&mut self.pool.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An answer's body, which counts as long as any of it is to be sent.
struct Held {
    body: Vec<u8>,
    answers: Answers,
    asker: Asker,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.answers.with(|pool| pool.give(&self.asker, self.body.len()));
    }
}

/// The body, if there is room for it beside those that are not taken yet; one alone always has.
fn held(body: Vec<u8>, asker: &Asker, answers: &Answers) -> Option<Bytes> {
    if body.len() <= answers.small_max {
        return Some(body.into());
    }
    let answers = answers.clone();
    let taken = answers.with(|pool| pool.take_whole(asker, body.len()).inspect_err(|_| pool.refuse(asker)));
    taken.ok()?;
    Some(Bytes::from_owner(Held { body, answers, asker: asker.clone() }))
}

/// A response as it is sent.
pub fn shown(response: Response, asker: &Asker, answers: &Answers) -> Shown {
    let Response { status, headers, body, .. } = response.guarded();
    let Some(body) = held(body, asker, answers) else {
        let why = "clients are taking too many answers already, and slowly";
        return shown(Response::error(503, "service_unavailable", why), asker, answers);
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
pub fn closing(response: Response, asker: &Asker, answers: &Answers) -> Shown {
    let mut shown = shown(response, asker, answers);
    shown.headers_mut().insert(hyper::header::CONNECTION, HeaderValue::from_static("close"));
    shown
}
