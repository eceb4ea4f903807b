//! Requests on their way to the threads that answer them: a line for each lane, in which users take turns.

use super::asker::{Asker, Service};
use super::bodies::Piece;
use super::compress;
use super::room::Work;
use broker::access::Trial;
use management::{Compared, Lane, Node, Request, Response, Rota};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// A request and where its answer goes.
///
/// The places are its own until it is answered: a client that goes before that leaves room for others only once nothing
/// is kept or done for it any more, so that the bound of clients is a bound of waiting work.
pub struct Job {
    pub(super) service: Service,
    pub(super) request: Box<Request>,
    pub(super) answer: oneshot::Sender<Response>,
    /// Its client's place among the connections.
    pub(super) _work: Work,
    /// Its body's room, if that is large.
    pub(super) _room: Option<Piece>,
}

/// The requests of one lane that wait for a thread: at most one of each connection.
pub struct LaneLine {
    state: Mutex<State>,
    /// There may be a request, or none will be any more.
    called: Condvar,
}

struct State {
    rota: Rota<Asker, Job>,
    /// Nobody is left to send any.
    is_closed: bool,
}

impl LaneLine {
    fn new(lane: Lane) -> LaneLine {
        let state = State { rota: Rota::new(lane.at_once_max()), is_closed: false };
        LaneLine { state: Mutex::new(state), called: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a request answered; where nobody is left to send any, one that comes back is dropped.
    fn push(&self, asker: Asker, job: Job) {
        let mut state = self.state();
        if !state.is_closed {
            state.rota.push(asker, job);
            self.called.notify_one();
        }
    }

    /// The next request, once there is one, whose turn lasts until [`LaneLine::end`]; none: nobody is left to send any.
    pub(super) fn take(&self) -> Option<(Asker, Job)> {
        let mut state = self.state();
        loop {
            if let Some(next) = state.rota.pop() {
                return Some(next);
            }
            if state.is_closed && state.rota.is_empty() {
                return None;
            }
            state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The turn of a request is over.
    pub(super) fn end(&self, asker: &Asker) {
        self.state().rota.end(asker);
        self.called.notify_one();
    }

    fn close(&self) {
        self.state().is_closed = true;
        self.called.notify_all();
    }

    /// How many requests wait.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.state().rota.len()
    }

    /// A request that waits, if there is one, whose turn is over at once.
    #[cfg(test)]
    pub fn try_take(&self) -> Option<Job> {
        let (asker, job) = self.state().rota.pop()?;
        self.end(&asker);
        Some(job)
    }
}

/// Where the requests of each lane come out.
pub type Lanes = Arc<[LaneLine; Lane::ALL.len()]>;

/// The end at which requests go in. When the last is gone the lanes are closed.
#[derive(Clone)]
pub struct Queues(Arc<Ends>);

struct Ends(Lanes);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.iter().for_each(LaneLine::close);
    }
}

impl Queues {
    /// Queues, and of each lane where its requests come out.
    pub fn new() -> (Queues, Lanes) {
        let lanes = Arc::new(Lane::ALL.map(LaneLine::new));
        (Queues(Arc::new(Ends(lanes.clone()))), lanes)
    }

    /// Has a request answered.
    pub fn send(&self, asker: Asker, job: Job) {
        let asker = match asker {
            Asker::Block(block) if job.service == Service::Metrics && job.request.searches() => {
                Asker::Searching(block)
            }
            asker => asker,
        };
        self.0.0[lane(job.service, &job.request) as usize].push(asker, job);
    }
}

/// The lane of a request. Requests on the port of metrics, which asks for no login, have one of their own: they hold up
/// no other port.
pub fn lane(service: Service, request: &Request) -> Lane {
    match service {
        Service::Api => Lane::of(request),
        Service::Metrics => Lane::Metrics,
    }
}

/// Answers the requests of a lane until nobody is left to send any. Once `is_over` none is begun.
pub fn work(node: &impl Node, lanes: &Lanes, lane: Lane, is_over: impl Fn() -> bool) {
    let gzip_bytes_min = node.about().limits.gzip_bytes_min;
    let handle = |job: &Job| match job.service {
        Service::Api => management::handle(node, &job.request),
        Service::Metrics => management::metrics(node, &job.request),
    };
    work_by(handle, |trial, then| node.compare(trial, then), gzip_bytes_min, lanes, lane, is_over);
}

/// The same, where `handle` answers. A request whose password is to be compared first is put aside for `compare`: the
/// thread goes on with others, which may be many, for few passwords are compared at a time.
pub(super) fn work_by(
    handle: impl Fn(&Job) -> Response,
    compare: impl Fn(Box<Trial>, Compared),
    gzip_bytes_min: usize,
    lanes: &Lanes,
    lane: Lane,
    is_over: impl Fn() -> bool,
) {
    let line = &lanes[lane as usize];
    while let Some((asker, mut job)) = next(line, &is_over) {
        let mut response = handle(&job);
        // It counts for this once: a user that is gone by its next turn is not let in.
        job.request.tried = None;
        if let Some(trial) = response.trial.take()
            && !is_over()
        {
            line.end(&asker);
            let lanes = lanes.clone();
            let then = move |tried| {
                job.request.tried = Some(Box::new(tried));
                lanes[lane as usize].push(asker, job);
            };
            compare(trial, Box::new(then));
            continue;
        }
        if let Some(rest) = response.rest.take()
            && !is_over()
        {
            job.request.moving = Some(rest);
            line.end(&asker);
            line.push(asker, job);
            continue;
        }
        // Here, so that the thread that reads and writes for all clients has no such work.
        let response = match job.request.takes_gzip {
            true => compress::compressed(response, gzip_bytes_min),
            false => response,
        };
        line.end(&asker);
        // The client may be gone.
        let _ = job.answer.send(response);
    }
}

/// The next request whose answer somebody waits for; none: nobody is left to send any. The others are dropped, and all
/// are once `is_over`.
pub(super) fn next(line: &LaneLine, is_over: impl Fn() -> bool) -> Option<(Asker, Job)> {
    loop {
        let (asker, job) = line.take()?;
        if !job.answer.is_closed() && !is_over() {
            return Some((asker, job));
        }
        line.end(&asker);
    }
}
