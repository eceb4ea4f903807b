//! The engine's view of the executor: time, sleep, tasks, channels.

use crate::executor::{EPOCH_NS, Executor};
use crate::watch;
use openraft::AsyncRuntime;
use openraft_rt_tokio::{TokioMpsc, TokioMutex, TokioOneshot};
use rand::rngs::SmallRng;
use std::fmt;
use std::future::Future;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A moment of the executor's clock. Differences end at nothing: the engine subtracts leases from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(u64);

impl Time {
    /// Monotonic nanoseconds, as the executor was told them.
    pub(crate) fn ns(self) -> u64 {
        self.0.saturating_sub(EPOCH_NS)
    }

    #[cfg(test)]
    pub(crate) fn now_ns() -> u64 {
        Time(Executor::current().now()).ns()
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.ns())
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(nanoseconds(duration)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, duration: Duration) -> Time {
        Time(self.0.saturating_sub(nanoseconds(duration)))
    }
}

impl SubAssign<Duration> for Time {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl openraft::Instant for Time {
    fn now() -> Time {
        Time(Executor::current().now())
    }
}

/// Ready when the executor's clock has come to a time.
pub(crate) struct Sleep {
    at: u64,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let executor = Executor::current();
        if executor.now() >= self.at {
            if let Some(timer) = self.timer.take() {
                executor.clear_timer(self.at, timer);
            }
            return Poll::Ready(());
        }
        self.timer = Some(executor.set_timer(self.at, self.timer, context.waker()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer
            && let Some(executor) = Executor::try_current()
        {
            executor.clear_timer(self.at, timer);
        }
    }
}

/// The time was over.
#[derive(Debug)]
pub(crate) struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time was over")
    }
}

/// A future that has so much time.
pub(crate) struct Timeout<F> {
    future: Pin<Box<F>>,
    sleep: Sleep,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Pin::new(&mut self.sleep).poll(context).map(|()| Err(Elapsed)),
        }
    }
}

/// The task went without an end.
#[derive(Debug)]
pub(crate) struct Dropped;

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task went without an end")
    }
}

/// The result of a task.
pub(crate) struct JoinHandle<T>(oneshot::Receiver<T>);

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, Dropped>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map_err(|_| Dropped)
    }
}

/// The current executor of the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runtime;

impl AsyncRuntime for Runtime {
    type JoinError = Dropped;
    type JoinHandle<T: 'static> = JoinHandle<T>;
    type Sleep = Sleep;
    type Instant = Time;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R>> = Timeout<T>;
    type ThreadLocalRng = SmallRng;
    type Mpsc = TokioMpsc;
    type Watch = watch::Watched;
    type Oneshot = TokioOneshot;
    type Mutex<T: 'static> = TokioMutex<T>;

    fn new(_threads: usize) -> Runtime {
        Runtime
    }

    fn block_on<F, T>(&mut self, _future: F) -> T
    where
        F: Future<Output = T>,
    {
        // The engine calls it in tests of its own alone.
        unreachable!("nothing waits in here")
    }

    fn spawn<T>(future: T) -> JoinHandle<T::Output>
    where
        T: Future + 'static,
        T::Output: 'static,
    {
        let (sender, receiver) = oneshot::channel();
        Executor::current().spawn(async move {
            let _nobody_may_wait = sender.send(future.await);
        });
        JoinHandle(receiver)
    }

    fn sleep(duration: Duration) -> Sleep {
        let executor = Executor::current();
        let at = executor.now().saturating_add(nanoseconds(duration));
        Sleep { at: executor.on_grid(at), timer: None }
    }

    fn sleep_until(deadline: Time) -> Sleep {
        Sleep { at: Executor::current().on_grid(deadline.0), timer: None }
    }

    fn timeout<R, F: Future<Output = R>>(duration: Duration, future: F) -> Timeout<F> {
        Timeout { future: Box::pin(future), sleep: Runtime::sleep(duration) }
    }

    fn timeout_at<R, F: Future<Output = R>>(deadline: Time, future: F) -> Timeout<F> {
        Timeout { future: Box::pin(future), sleep: Runtime::sleep_until(deadline) }
    }

    fn is_panic(_error: &Dropped) -> bool {
        false
    }

    fn thread_rng() -> SmallRng {
        rand::SeedableRng::seed_from_u64(Executor::current().bits())
    }
}
