//! Words to those who wait for something of a log that is stopped for damage.

use crate::catalog::Refusal;
use crate::event::Event;
use crate::mail::{Fate, Waiter};
use crate::post::Post;
use crate::request::QueueCommand;
use base::hash::SetById;
use base::id::{LogId, PortId};

/// Publishers that wait for records in a log that is stopped, or on their way to it, are told as those that publish to it afterwards,
/// which closes connections; messages of the broker's own stay where they were.
#[cold]
pub(crate) fn refuse_stopped(post: &mut Post, log: LogId, waiters: &[Waiter]) {
    let mut closed = SetById::<PortId>::default();
    for waiter in waiters {
        if waiter.is_own() {
            post.answer(waiter, Fate::Stopped);
        } else if closed.insert(waiter.port) {
            post.event(waiter.port, Event::Close { refusal: Refusal::log_stopped(log) });
        }
    }
}

/// A command is for a log that is stopped: the disk stays as it is. A client that waits for an answer hears so, and the rest, as
/// settles, is lost.
#[cold]
pub(crate) fn answer_stopped(post: &mut Post, log: LogId, port: PortId, command: &QueueCommand) {
    if let Some(token) = command.token() {
        post.reply(port, token, Err(Refusal::log_stopped(log)));
    } else if matches!(command, QueueCommand::Credit { drain, echo, .. } if *drain || *echo) {
        // No answer that it waits for could say why.
        post.event(port, Event::Close { refusal: Refusal::log_stopped(log) });
    }
}
