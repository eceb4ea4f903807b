//! Words that go on telling: lines of the log and events of the broker, as they come, until their time is over or somebody ends
//! the tool.
#![allow(clippy::disallowed_methods, reason = "a tool is a process of its own: it waits")]

use crate::request::{Refusal, Request};
use crate::session::{Session, done, failed};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::time::{Duration, Instant};

/// Milliseconds between two looks at new lines.
const LOOK_MS: u64 = 200;

/// Events that are taken at once.
const EVENTS_MAX: u32 = 500;

/// Milliseconds after which the node forgets a listener that has gone without a word.
const FORGOTTEN_MS: u64 = 60_000;

/// Where the broker tells of its events.
const EXCHANGE: &str = "amq.rabbitmq.event";

/// Words that go on telling.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum StreamingWord {
    /// Lines of the log as they are written
    LogTailStream {
        #[command(flatten)]
        until: UntilWords,
    },
    /// Events of the broker as they happen, one JSON document a line
    ConsumeEventStream {
        #[command(flatten)]
        until: UntilWords,
        /// Those with a kind that matches, by * for one word and # for any: queue.*, user.#
        #[arg(long, default_value = "#")]
        pattern: String,
    },
}

/// How long.
#[derive(Debug, Args)]
pub(crate) struct UntilWords {
    /// Seconds; without it until somebody ends the tool
    #[arg(short, long)]
    duration: Option<u32>,
}

impl UntilWords {
    /// Calls `look` again and again.
    fn go_on(&self, mut look: impl FnMut() -> Result<(), Refusal>) -> Result<(), Refusal> {
        let began = Instant::now();
        let length = self.duration.map(|seconds| Duration::from_secs(seconds.into()));
        loop {
            look()?;
            if length.is_some_and(|length| began.elapsed() >= length) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(LOOK_MS));
        }
    }
}

pub(crate) fn run(word: &StreamingWord, session: &Session<'_>) -> Result<String, Refusal> {
    let node = session.node()?;
    match word {
        StreamingWord::LogTailStream { until } => {
            let show = session.announce(format!("Streaming logs from node {node} ..."));
            write(&show.begin())?;
            session.take_announced();
            let mut next = None;
            until.go_on(|| {
                let told = session.ask(&Request::LogSince { next })?;
                next = told["next"].as_u64();
                let lines = told["lines"].as_array().into_iter().flatten().filter_map(Value::as_str);
                write(&lines.map(|line| format!("{line}\n")).collect::<String>())
            })?;
        }
        StreamingWord::ConsumeEventStream { until, pattern } => {
            let show = session.announce(format!("Streaming events from node {node} ..."));
            // Standard output is for the documents alone.
            eprint!("{}", show.begin());
            session.take_announced();
            let events = Events::begin(session, pattern)?;
            let told = until.go_on(|| write(&events.take()?));
            events.end();
            told?;
        }
    }
    Ok(String::new())
}

/// Writes to standard output; a reader that closes the pipe ends the command.
fn write(text: &str) -> Result<(), Refusal> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(failed)
}

/// A queue of events, which the node deletes by itself where nobody else does.
struct Events<'a> {
    session: &'a Session<'a>,
    vhost: String,
    queue: String,
}

impl<'a> Events<'a> {
    fn begin(session: &'a Session<'a>, pattern: &str) -> Result<Events<'a>, Refusal> {
        let vhost = vhost(session)?;
        let events = Events { session, vhost, queue: format!("leveret.events.{}", std::process::id()) };
        let body =
            json!({ "durable": false, "auto_delete": true, "arguments": { "x-expires": FORGOTTEN_MS } });
        done(session.api("PUT", &["queues", &events.vhost, &events.queue], "", Some(&body))?)?;
        let path = ["bindings", &events.vhost, "e", EXCHANGE, "q", &events.queue];
        let bound = session.api("POST", &path, "", Some(&json!({ "routing_key": pattern }))).and_then(done);
        if let Err(refusal) = bound {
            events.end();
            return Err(refusal);
        }
        Ok(events)
    }

    /// The events so far, one line each.
    fn take(&self) -> Result<String, Refusal> {
        let body = json!({ "count": EVENTS_MAX, "ackmode": "ack_requeue_false", "encoding": "auto" });
        let path = ["queues", &self.vhost, &self.queue, "get"];
        let got = done(self.session.api("POST", &path, "", Some(&body))?)?;
        let got: Value = serde_json::from_str(&got.body).unwrap_or_default();
        let own = |message: &&Value| message["properties"]["headers"]["name"] != *self.queue;
        let messages = got.as_array().into_iter().flatten().filter(own);
        Ok(messages.map(|message| format!("{}\n", event(message))).collect())
    }

    fn end(&self) {
        // Where it cannot be deleted now it goes by itself.
        let _ = self.session.api("DELETE", &["queues", &self.vhost, &self.queue], "", None);
    }
}

/// The virtual host that events are told in.
fn vhost(session: &Session<'_>) -> Result<String, Refusal> {
    let exchanges = session.get(&["exchanges"])?;
    let mut found = exchanges.as_array().into_iter().flatten().filter(|row| row["name"] == EXCHANGE);
    let vhost = found.next().and_then(|row| row["vhost"].as_str());
    vhost
        .map(str::to_owned)
        .ok_or_else(|| failed(format!("there is no exchange {EXCHANGE}: default_vhost is gone")))
}

/// An event as RabbitMQ's tool writes it: its kind, its time, and its fields.
fn event(message: &Value) -> Value {
    let properties = &message["properties"];
    let mut event = Map::new();
    event.insert("event".to_owned(), message["routing_key"].clone());
    let headers = properties["headers"].as_object().into_iter().flatten();
    for (name, value) in headers {
        match name.as_str() {
            "timestamp_in_ms" => drop(event.insert("timestamp".to_owned(), value.clone())),
            name => drop(event.insert(name.to_owned(), value.clone())),
        }
    }
    event.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_kind_its_time_and_what_is_told() {
        let message = json!({
            "routing_key": "queue.created", "payload": "",
            "properties": { "timestamp": 7, "headers": { "timestamp_in_ms": 7001, "name": "q", "durable": true } },
        });
        let expected = json!({ "event": "queue.created", "timestamp": 7001, "name": "q", "durable": true });
        assert_eq!(event(&message), expected);
        assert_eq!(event(&json!({ "routing_key": "x" })), json!({ "event": "x" }));
    }
}
