//! A node that was stopped but for its process, as `rabbitmqctl stop_app` has it: it listens on its administration socket alone,
//! where it is started again, made anew or ended.
//!
//! Everything else went the way of a clean stop, and comes back the way of a start. Where that fails it waits on, and tells why. The
//! data folder stays locked meanwhile: its content is still this node's.

use crate::config::Config;
use crate::disk::{DiskOptions, RealDisk};
use crate::end::End;
use crate::log::Logger;
use crate::log::level::Level;
use crate::notify::{self, News};
use crate::trail;
use ctl::client::SOCKET_NAME;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// Commands that need the stopped parts are refused so, as by RabbitMQ's tools.
const STOPPED: &str = "Error: this command requires the 'rabbit' app to be running on the target node. Start it with 'rabbitmqctl \
                       start_app'.";

/// The line of the log behind a reset.
const RESET: &str = "reset: all that was declared and stored is gone";

/// The answerer of the administration socket while nothing else of the node runs.
struct Idle<'a> {
    config: &'a Config,
    logger: &'a Logger,
    end: &'a Sender<End>,
    /// The locked data folder, or why it could not be locked.
    disk: Result<RealDisk, String>,
    /// Why the node could not start when it was asked to last.
    failed: Mutex<Option<String>>,
}

/// Waits until the node is to go on: true; or to end. `failed`: why it could not go on before.
///
/// # Errors
/// Why it cannot be asked for either.
pub fn wait(
    config: &Config,
    logger: &Logger,
    end: &Sender<End>,
    ends: &Receiver<End>,
    failed: Option<String>,
) -> Result<bool, String> {
    let disk = RealDisk::open(&config.data_dir, DiskOptions::default()).map_err(|error| error.to_string());
    if let Err(why) = &disk {
        logger.warning(format!("the data folder is not locked while the node is stopped: {why}"));
    }
    let idle = Idle { config, logger, end, disk, failed: Mutex::new(failed) };
    let socket = config.data_dir.join(SOCKET_NAME);
    let control = ctl::server::listen(&socket)
        .map_err(|error| format!("cannot listen on {}: {error}", socket.display()))?;
    logger.info("stopped but for the process: start_app goes on");
    notify::tell(News::Idle, logger);
    let is_over = AtomicBool::new(false);
    let limits = ctl::Limits::default();
    std::thread::scope(|threads| {
        let answer = || {
            let is_over = || is_over.load(Ordering::SeqCst);
            ctl::server::serve(&control, &limits, is_over, |request| idle.answer(request));
        };
        let spawned = Builder::new().name("ctl".into()).spawn_scoped(threads, answer);
        spawned.map_err(|error| format!("the node cannot be asked to go on: {error}"))?;
        let goes_on = loop {
            match ends.recv() {
                Ok(End::StartApp) => break true,
                Ok(End::Asked) | Err(_) => break false,
                // Requests that were still sent to the stopped node.
                Ok(End::StopApp | End::Look | End::Judge(_) | End::Anew | End::Failed(_)) => {}
            }
        };
        is_over.store(true, Ordering::SeqCst);
        if ctl::server::wake(&socket).is_err() {
            let _ = socket2::SockRef::from(&control).shutdown(std::net::Shutdown::Both);
        }
        Ok(goes_on)
    })
}

impl Idle<'_> {
    fn answer(&self, request: ctl::Request) -> ctl::Answer {
        let say = |what: End| {
            // One that ends already has heard.
            let _ = self.end.send(what);
            Ok(Value::Null)
        };
        match request {
            ctl::Request::Ping => Ok(json!({
                "node": self.config.node_name,
                "pid": std::process::id(),
                "version": base::rabbitmq::VERSION,
                "state": ctl::STOPPED,
                "failed": *self.failed(),
            })),
            ctl::Request::Stop => {
                trail::tell(self.logger, trail::STOP);
                say(End::Asked)
            }
            ctl::Request::StartApp => {
                // The next question about a failure is about this start.
                *self.failed() = None;
                trail::tell(self.logger, trail::START_APP);
                say(End::StartApp)
            }
            ctl::Request::StopApp => Ok(Value::Null),
            ctl::Request::Reset => self.reset(),
            ctl::Request::LogTail { lines } => Ok(json!(self.logger.last(lines as usize))),
            ctl::Request::LogSince { next } => {
                let (lines, next) = self.logger.since(next);
                Ok(json!({ "lines": lines, "next": next }))
            }
            _ => Err(ctl::Refusal { code: ctl::exit::USAGE, message: STOPPED.to_owned() }),
        }
    }

    /// No state here is broken by a thread that panicked.
    fn failed(&self) -> MutexGuard<'_, Option<String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all there is: the next start is a first one.
    fn reset(&self) -> ctl::Answer {
        let wiped = match &self.disk {
            Ok(disk) => disk.wipe().map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        match wiped {
            Ok(()) => {
                trail::tell_at(self.logger, Level::Warning, RESET);
                Ok(Value::Null)
            }
            Err(why) => Err(ctl::Refusal {
                code: ctl::exit::UNAVAILABLE,
                message: format!("Error:\nnot all could be removed: {why}"),
            }),
        }
    }
}
