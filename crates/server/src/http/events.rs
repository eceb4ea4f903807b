//! Answers that go on, event by event.
//!
//! A client that listens has no place among those that ask: it has one among those that listen.

use super::answers::{Live, Shown, closing, shown};
use super::line::{Client, Line, told};
use super::listeners::Seat;
use http_body_util::Either;
use management::{Request, Response, Short};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Events of a stream that wait for the one before them to be sent.
const EVENTS_WAITING: usize = 1;

/// An answer that goes on: the first event, and others every so often until there are no more, nobody may be told any
/// more, or the client takes none.
pub fn live(first: Response, request: Request, client: &Arc<Client>, line: &Line) -> Shown {
    let asker = client.asker(&request);
    let is_administrator = first.next.as_ref().is_some_and(|seen| seen.is_administrator());
    let seat = match Seat::take(&asker, client.block, is_administrator, &line.shared.pools.listeners) {
        Ok(seat) => seat,
        Err(short) => {
            let (status, error, why) = match short {
                Short::Pool => (503, "service_unavailable", "as many clients listen to events as may"),
                Short::Share => (
                    429,
                    "too_many_requests",
                    "as many clients of this user, or from this address, listen to events as may",
                ),
            };
            return shown(Response::error(status, error, why), &asker, line.answers());
        }
    };
    let (sender, receiver) = mpsc::channel(EVENTS_WAITING);
    let (line, client) = (line.clone(), client.clone());
    let headers = Response { headers: first.headers.clone(), ..Response::empty(first.status) };
    let answer = closing(headers, &asker, line.answers());
    client.place.leave();
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
                client.end.notify_one();
                break;
            }
            let Some(next) = response.next else { break };
            sleep(Duration::from_millis(limits.event_gap_ms)).await;
            if sender.is_closed() {
                break;
            }
            let asked = Request { seen: Some(next), ..request.clone() };
            match told(&line, &client, asked, None).await {
                Some(later) if later.status == 200 => response = later,
                _ => break,
            }
        }
        drop(seat);
    });
    let (head, _) = answer.into_parts();
    hyper::Response::from_parts(head, Either::Right(Live::new(receiver)))
}
