//! Files that may read the text of a refusal.
//!
//! The text is for the peer: it is read where an answer is encoded. All else goes by the refusal's reason or code, so that
//! no decision depends on how a sentence is worded.

use crate::text;

/// Files that encode answers, and for which protocol.
const ENCODES: &[(&str, &str)] = &[
    ("crates/adapters/src/amqp091/mod.rs", "channel.close and connection.close"),
    ("crates/adapters/src/amqp10/refused.rs", "an error's description"),
    ("crates/broker/src/catalog/refusal.rs", "the text itself"),
    ("crates/broker/src/peers/codec/refusal.rs", "an answer to another node"),
    ("crates/management/src/import.rs", "the report of an import"),
    ("crates/management/src/response.rs", "the reason in an answer of the HTTP API"),
    ("crates/node/src/first.rs", "the reason why a first start fails"),
];

/// Words that show that the text is read, in halves so that this file passes its own check.
const READERS: [&str; 3] =
    [concat!("peer_", "text"), concat!(".reply_", "text()"), concat!("Refusal::reply_", "text")];

/// Every line of the product's code that reads the text of a refusal where nothing is encoded, and every encoder that does
/// not read it any more. Tests compare what they like.
pub fn complaints(files: &[(String, String)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, text) in files.iter().filter(|(name, text)| text::product(name, text).is_some()) {
        let mut readings =
            text::code(name, text).filter(|(_, line)| READERS.iter().any(|reader| line.contains(reader)));
        if ENCODES.iter().any(|(place, _)| name == place) {
            if readings.next().is_none() {
                complaints.push(format!("{name}: reads no refusal's text: see crates/xtask/src/refusals.rs"));
            }
            continue;
        }
        complaints.extend(readings.map(|(number, _)| {
            format!(
                "{name}:{number}: reads a refusal's text, which encoders alone do: go by its reason, or see \
                 crates/xtask/src/refusals.rs"
            )
        }));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, expected: usize) {
        assert_eq!(complaints(&[(name.to_owned(), text.to_owned())]).len(), expected, "{name}: {text}");
    }

    #[test]
    fn the_text_is_read_by_encoders_alone() {
        let plain = concat!("let text = refusal.peer_", "text();");
        let cut = concat!("if refusal.reply_", "text().len() > 7 {");
        let by_path = concat!("refused.map(Refusal::reply_", "text)");
        for reading in [plain, cut, by_path, concat!("refused.map(Refusal::peer_", "text)")] {
            check("crates/adapters/src/amqp10/links.rs", reading, 1);
            check("crates/management/src/definitions.rs", reading, 1);
            check("crates/adapters/src/amqp10/refused.rs", reading, 0);
            check("crates/adapters/src/amqp091/mod.rs", reading, 0);
            check("crates/broker/tests/shard.rs", reading, 0);
            check("crates/broker/src/catalog/tests/access.rs", reading, 0);
            check("crates/broker/src/node_limits.rs", &format!("#[cfg(test)]\n{reading}"), 0);
            check("crates/broker/src/node_limits.rs", &format!("{reading}\n#[cfg(test)]\n{reading}"), 1);
            check("crates/broker/src/node_limits.rs", &format!("    /// {reading}"), 0);
        }
        // A field of a frame is no refusal's.
        check("crates/perf/src/client.rs", concat!("close.reply_", "text"), 0);
    }

    #[test]
    fn an_encoder_that_reads_nothing_leaves_the_list() {
        check("crates/management/src/import.rs", "fn refuse() {}", 1);
    }
}
