//! A node that was stopped but for its process, as `rabbitmqctl stop_app` has it: it listens on its administration socket alone,
//! where it is started again, made anew or ended.
//!
//! Everything else went the way of a clean stop, and comes back the way of a start.

use crate::config::{Config, Level};
use crate::disk::{DiskOptions, RealDisk};
use crate::log::Logger;
use crate::running::End;
use ctl::client::SOCKET_NAME;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread::Builder;

/// Words that need what is stopped are refused so, as by RabbitMQ's tools.
const STOPPED: &str = "Error: this command requires the 'rabbit' app to be running on the target node. Start it with 'rabbitmqctl \
                       start_app'.";

/// Waits until the node is to go on: true; or to end.
///
/// # Errors
/// Why it cannot be asked for either.
pub fn wait(
    config: &Config,
    logger: &Logger,
    end: &Sender<End>,
    ends: &Receiver<End>,
) -> Result<bool, String> {
    let socket = config.data_dir.join(SOCKET_NAME);
    let control = ctl::server::listen(&socket)
        .map_err(|error| format!("cannot listen on {}: {error}", socket.display()))?;
    logger.info("stopped but for the process: start_app goes on");
    let is_over = AtomicBool::new(false);
    let limits = ctl::Limits::default();
    std::thread::scope(|threads| {
        let answer = || {
            let is_over = || is_over.load(Ordering::SeqCst);
            ctl::server::serve(&control, &limits, is_over, |request| answer(config, logger, end, request));
        };
        let spawned = Builder::new().name("ctl".into()).spawn_scoped(threads, answer);
        spawned.map_err(|error| format!("the node cannot be asked to go on: {error}"))?;
        let goes_on = loop {
            match ends.recv() {
                Ok(End::StartApp) => break true,
                Ok(End::Asked) | Err(_) => break false,
                // What was still said to the node that was stopped.
                Ok(End::StopApp | End::Look | End::Judge(_) | End::Failed(_)) => {}
            }
        };
        is_over.store(true, Ordering::SeqCst);
        if ctl::server::wake(&socket).is_err() {
            let _ = socket2::SockRef::from(&control).shutdown(std::net::Shutdown::Both);
        }
        Ok(goes_on)
    })
}

fn answer(config: &Config, logger: &Logger, end: &Sender<End>, request: ctl::Request) -> ctl::Answer {
    let say = |what: End| {
        // One that ends already has heard.
        let _ = end.send(what);
        Ok(Value::Null)
    };
    match request {
        ctl::Request::Ping => Ok(json!({
            "node": config.node_name,
            "pid": std::process::id(),
            "version": base::rabbitmq::VERSION,
            "state": ctl::STOPPED,
        })),
        ctl::Request::Stop => say(End::Asked),
        ctl::Request::StartApp => say(End::StartApp),
        ctl::Request::StopApp => Ok(Value::Null),
        ctl::Request::Reset => reset(config, logger),
        ctl::Request::LogTail { lines } => Ok(json!(logger.last(lines as usize))),
        ctl::Request::LogSince { next } => {
            let (lines, next) = logger.since(next);
            Ok(json!({ "lines": lines, "next": next }))
        }
        _ => Err(ctl::Refusal { code: ctl::exit::USAGE, message: STOPPED.to_owned() }),
    }
}

/// Forgets all there is: the next start is a first one.
fn reset(config: &Config, logger: &Logger) -> ctl::Answer {
    let opened = RealDisk::open(&config.data_dir, DiskOptions::default()).map_err(|error| error.to_string());
    match opened.and_then(|disk| disk.wipe().map_err(|error| error.to_string())) {
        Ok(()) => {
            logger.log(Level::Warning, "reset: all that was declared and stored is gone");
            Ok(Value::Null)
        }
        Err(why) => Err(ctl::Refusal {
            code: ctl::exit::UNAVAILABLE,
            message: format!("Error:\nnot all could be removed: {why}"),
        }),
    }
}
