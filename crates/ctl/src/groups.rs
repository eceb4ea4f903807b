//! The words about readers of streams: offsets that are kept for consumers, and groups of which one is active at a
//! time, as `rabbitmq-streams` has them.

use crate::listing::{choose, words};
use crate::request::Refusal;
use crate::session::{Session, failed, missing, reason};
use crate::show::Formatter;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Bytes of a consumer's name, as the stream protocol has it.
const REFERENCE_BYTES_MAX: usize = 255;

/// Words about readers of streams.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum GroupWord {
    /// Has a consumer of a stream begin anew: the offset that is kept for it is 0 again
    ResetOffset {
        #[command(flatten)]
        readers: ReaderWords,
    },
    /// Groups of consumers of streams of which one is active at a time
    ListStreamConsumerGroups {
        #[command(flatten)]
        whole: WholeWords,
        /// Columns to show: stream, reference, partition_index, consumers
        columns: Vec<String>,
    },
    /// Consumers of such a group
    ListStreamGroupConsumers {
        #[command(flatten)]
        readers: ReaderWords,
        #[command(flatten)]
        whole: WholeWords,
        /// Columns to show: subscription_id, connection_name, state
        columns: Vec<String>,
    },
    /// Has a consumer of such a group be active; one always is
    ActivateStreamConsumer {
        #[command(flatten)]
        readers: ReaderWords,
    },
}

/// The readers of a stream under one name.
#[derive(Debug, Args)]
pub(crate) struct ReaderWords {
    #[arg(long)]
    stream: String,
    /// The name of the consumer, or of the group
    #[arg(long)]
    reference: String,
}

/// Whether a list shows all there is.
#[derive(Debug, Args)]
pub(crate) struct WholeWords {
    /// All columns
    #[arg(short = 'V', long)]
    verbose: bool,
}

impl WholeWords {
    /// The columns of `all` to show.
    fn choose(&self, all: &[&str], columns: &[String]) -> Result<Vec<String>, Refusal> {
        choose(all, all, if self.verbose { &[] } else { columns })
    }
}

const GROUP: [&str; 4] = ["stream", "reference", "partition_index", "consumers"];

const CONSUMER: [&str; 3] = ["subscription_id", "connection_name", "state"];

pub(crate) fn run(word: &GroupWord, session: &Session<'_>) -> Result<String, Refusal> {
    let vhost = session.vhost();
    match word {
        GroupWord::ResetOffset { readers: ReaderWords { stream, reference } } => {
            let show = session.announce("Resetting stored offset ...");
            if reference.len() > REFERENCE_BYTES_MAX {
                return Err(failed("The reference is too long"));
            }
            let path = ["x", "streams", vhost, stream, "offsets", reference];
            let response = session.api("DELETE", &path, "", None)?;
            match (response.status, &*reason(&response)) {
                (404, "Not Found" | "vhost_not_found") => Err(failed("The stream does not exist")),
                _ => {
                    response.changed()?;
                    Ok(if session.is_quiet() { show.begin() } else { show.message("Done") })
                }
            }
        }
        GroupWord::ListStreamConsumerGroups { whole, columns } => {
            let columns = whole.choose(&GROUP, columns)?;
            let show = session.show(Formatter::PrettyTable, "Listing stream consumer groups ...");
            let mut rows = Vec::new();
            for ((stream, reference), consumers) in groups(session, vhost)? {
                rows.push(json!({
                    "stream": stream,
                    "reference": reference,
                    "partition_index": partition(session, vhost, &stream)?,
                    "consumers": consumers.len(),
                }));
            }
            Ok(show.rows(&columns, &rows.into()))
        }
        GroupWord::ListStreamGroupConsumers { readers, whole, columns } => {
            let columns = whole.choose(&CONSUMER, columns)?;
            let show = session.show(Formatter::PrettyTable, "Listing group consumers ...");
            let consumers = group(session, readers)?;
            let row = |consumer: &Value| {
                let state = if consumer["active"] == true { "active" } else { "waiting" };
                json!({
                    "subscription_id": consumer["subscription_id"],
                    "connection_name": consumer["connection_details"]["name"],
                    "state": format!("{state} (connected)"),
                })
            };
            Ok(show.rows(&columns, &consumers.iter().map(row).collect()))
        }
        GroupWord::ActivateStreamConsumer { readers } => {
            let show = session.announce("Activating a consumer in the group ...");
            group(session, readers)?;
            Ok(show.message("OK"))
        }
    }
}

/// Consumers of a virtual host in groups with one active at a time, by their streams and names.
fn groups(session: &Session<'_>, vhost: &str) -> Result<BTreeMap<(String, String), Vec<Value>>, Refusal> {
    let mut groups: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    let consumers = session.find(&["stream", "consumers", vhost])?.ok_or_else(missing)?;
    for consumer in consumers.as_array().into_iter().flatten() {
        let properties = &consumer["properties"];
        if properties["single-active-consumer"] == "true" {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let key = (text(&consumer["queue"]["name"]), text(&properties["name"]));
            groups.entry(key).or_default().push(consumer.clone());
        }
    }
    Ok(groups)
}

fn group(session: &Session<'_>, readers: &ReaderWords) -> Result<Vec<Value>, Refusal> {
    let ReaderWords { stream, reference } = readers;
    let found = groups(session, session.vhost())?.remove(&(stream.clone(), reference.clone()));
    found.ok_or_else(|| failed("The group does not exist"))
}

/// Which of a super stream's a stream is; -1: of none.
fn partition(session: &Session<'_>, vhost: &str, stream: &str) -> Result<i64, Refusal> {
    let bindings = session.find(&["queues", vhost, stream, "bindings"])?.unwrap_or_default();
    let places = bindings.as_array().into_iter().flatten();
    Ok(places.filter_map(|own| own["arguments"]["x-stream-partition-order"].as_i64()).next().unwrap_or(-1))
}

/// A message of a queue as `rabbitmq-queues peek` shows it: names and values, in its order.
pub(crate) fn peeked(message: &Value) -> Vec<(String, Value)> {
    let mut rows = Vec::new();
    let mut put = |name: &str, value: &Value| rows.push((name.to_owned(), value.clone()));
    let properties = &message["properties"];
    for name in words(&[
        "app_id",
        "user_id",
        "type",
        "timestamp",
        "message_id",
        "expiration",
        "reply_to",
        "correlation_id",
        "priority",
        "delivery_mode",
        "content_encoding",
        "content_type",
    ]) {
        if let Some(value) = properties.get(&name) {
            put(&name, value);
        }
    }
    put("routing_keys", &json!([message["routing_key"]]));
    put("exchange", &message["exchange"]);
    put("payload (max 64 bytes)", &message["payload"]);
    for (name, value) in properties["headers"].as_object().into_iter().flatten() {
        put(&format!("header.{name}"), value);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_shown_by_names_and_values() {
        let message = json!({
            "exchange": "x", "routing_key": "k", "payload": "body", "redelivered": false,
            "properties": { "delivery_mode": 2, "content_type": "text/plain", "headers": { "h": 1 } },
        });
        let expected = [
            ("delivery_mode", json!(2)),
            ("content_type", json!("text/plain")),
            ("routing_keys", json!(["k"])),
            ("exchange", json!("x")),
            ("payload (max 64 bytes)", json!("body")),
            ("header.h", json!(1)),
        ];
        assert_eq!(peeked(&message), expected.map(|(name, value)| (name.to_owned(), value)));
        // One without properties has an empty list of them.
        let bare = json!({ "exchange": "", "routing_key": "q", "payload": "", "properties": [] });
        assert_eq!(peeked(&bare).len(), 3);
    }
}
