//! The report of an import: entries that are refused, and those that came to be otherwise than they say.
//!
//! Every refusal names its list and its entry, and all of them are told at once: a file is mended in one go.

use crate::response::Response;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The header with remarks about entries that came to be otherwise than they say.
pub(crate) const REMARKS: &str = "leveret-remarks";

/// Bytes of a header with remarks.
const HEADER_BYTES_MAX: usize = 2000;

/// Bytes of the remarks on one entry: a value that is quoted may be as long as a body.
const SAID_BYTES_MAX: usize = 4096;

/// An entry of a list in a file of definitions, by which people find it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The list.
    pub list: &'static str,
    /// Its name, or another text that tells it from others of its list.
    pub name: String,
    /// Its virtual host; empty: it is in none.
    pub vhost: String,
}

impl Entry {
    /// `queues: 'q' in vhost '/'`.
    pub(crate) fn text(&self) -> String {
        let mut text = self.list.to_owned();
        if !self.name.is_empty() {
            text.push_str(": ");
            text.push_str(&self.name);
        }
        if !self.vhost.is_empty() {
            text.push_str(&format!(" in vhost '{}'", self.vhost));
        }
        text
    }

    fn with(&self, key: &str, said: &str) -> Value {
        let mut row = json!({ "list": self.list, "entry": self.name, key: said });
        if !self.vhost.is_empty() {
            row["vhost"] = self.vhost.as_str().into();
        }
        row
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Report {
    most: usize,
    refused: Vec<(Entry, String)>,
    refused_count: usize,
    remarks: Vec<(Entry, String)>,
    remarks_count: usize,
    taken: BTreeMap<&'static str, usize>,
}

impl Report {
    /// Of so many refusals and so many remarks each is told; further ones are counted.
    pub(crate) fn new(most: usize) -> Report {
        Report { most, ..Report::default() }
    }

    /// An entry is one that can be imported, as far as it has been looked at.
    pub(crate) fn take(&mut self, list: &'static str) {
        *self.taken.entry(list).or_default() += 1;
    }

    /// An entry cannot be imported.
    pub(crate) fn refuse(&mut self, entry: Entry, why: impl Into<String>) {
        self.refused_count += 1;
        if self.refused.len() < self.most {
            self.refused.push((entry, cut(why.into())));
        }
    }

    /// An entry came to be otherwise than it says.
    pub(crate) fn remark(&mut self, entry: Entry, what: impl Into<String>) {
        self.remarks_count += 1;
        if self.remarks.len() < self.most {
            self.remarks.push((entry, cut(what.into())));
        }
    }

    /// Nothing is refused.
    pub(crate) fn is_clean(&self) -> bool {
        self.refused_count == 0
    }

    /// How many entries are refused.
    pub(crate) fn refused_count(&self) -> usize {
        self.refused_count
    }

    /// Counts of imported entries, for the log.
    pub(crate) fn imported(&self) -> String {
        let counts = self.taken.iter().map(|(list, count)| format!("{list}: {count}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let refused = match self.refused_count {
            0 => String::new(),
            count => format!("; refused: {count}"),
        };
        format!("Imported definitions ({}{refused})", if counts.is_empty() { "nothing" } else { &counts[..] })
    }

    /// The remarks, one a line.
    pub(crate) fn lines(&self) -> Vec<String> {
        lines(&self.remarks, self.remarks_count)
    }

    /// The remarks as a header may have them; nothing where there are none.
    pub(crate) fn header(&self) -> Option<String> {
        if self.remarks_count == 0 {
            return None;
        }
        let text = self.lines().join("; ");
        let visible = text.chars().map(|letter| if (' '..='~').contains(&letter) { letter } else { '?' });
        Some(visible.take(HEADER_BYTES_MAX).collect())
    }

    fn remarked(&self) -> Vec<Value> {
        self.remarks.iter().map(|(entry, what)| entry.with("remark", what)).collect()
    }

    /// The answer where something is refused; `changed` says whether anything was.
    pub(crate) fn refusal(&self, changed: bool) -> Response {
        let refused: Vec<Value> = self.refused.iter().map(|(entry, why)| entry.with("reason", why)).collect();
        Response::json(
            400,
            &json!({
                "error": "bad_request",
                "reason": lines(&self.refused, self.refused_count).join("\n"),
                "refused": refused,
                "refused_count": self.refused_count,
                "remarks": self.remarked(),
                "imported": changed,
            }),
        )
    }

    /// The answer where nothing is refused and somebody wants to know more than that.
    pub(crate) fn told(&self, changed: bool) -> Response {
        Response::ok(&json!({
            "imported": changed,
            "entries": self.taken,
            "remarks": self.remarked(),
            "remarks_count": self.remarks_count,
        }))
    }
}

fn cut(mut said: String) -> String {
    if said.len() > SAID_BYTES_MAX {
        said.truncate(said.floor_char_boundary(SAID_BYTES_MAX));
        said.push_str(" ...");
    }
    said
}

fn lines(told: &[(Entry, String)], count: usize) -> Vec<String> {
    let line = |(entry, said): &(Entry, String)| format!("{}: {}", entry.text(), said.trim_end());
    let mut lines: Vec<String> = told.iter().map(line).collect();
    if count > told.len() {
        lines.push(format!("and {} more", count - told.len()));
    }
    lines
}

/// The reason in a refusal of a single thing.
pub(crate) fn reason(refused: &Response) -> String {
    let body: Value = serde_json::from_slice(&refused.body).unwrap_or_default();
    body["reason"].as_str().map_or_else(|| body["reason"].to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(list: &'static str, name: &str, vhost: &str) -> Entry {
        Entry { list, name: name.to_owned(), vhost: vhost.to_owned() }
    }

    #[test]
    fn all_refusals_are_told_up_to_a_bound() {
        let mut report = Report::new(2);
        assert!(report.is_clean());
        for (list, name, vhost) in [("users", "'u'", ""), ("queues", "'q'", "/"), ("queues", "'r'", "/")] {
            report.refuse(entry(list, name, vhost), "no\n");
        }
        let body: Value = serde_json::from_slice(&report.refusal(false).body).unwrap();
        assert_eq!(body["reason"], "users: 'u': no\nqueues: 'q' in vhost '/': no\nand 1 more");
        assert_eq!((body["refused_count"].as_u64(), body["refused"].as_array().unwrap().len()), (Some(3), 2));
        assert_eq!(
            body["refused"][1],
            json!({"list": "queues", "entry": "'q'", "vhost": "/", "reason": "no\n"})
        );
    }

    #[test]
    fn what_is_said_of_an_entry_is_bounded() {
        let mut report = Report::new(2);
        report.refuse(entry("queues", "'q'", "/"), "é".repeat(SAID_BYTES_MAX));
        let body: Value = serde_json::from_slice(&report.refusal(false).body).unwrap();
        let said = body["refused"][0]["reason"].as_str().unwrap();
        assert!(said.len() == SAID_BYTES_MAX + 4 && said.ends_with("é ..."));
    }

    #[test]
    fn remarks_fit_into_a_header() {
        let mut report = Report::new(1000);
        assert_eq!(report.header(), None);
        report.remark(entry("parameters", "'é\r\nx'", "v"), "kept");
        assert_eq!(report.header().unwrap(), "parameters: '???x' in vhost 'v': kept");
        for _ in 0..500 {
            report.remark(entry("parameters", "'p'", "v"), "kept");
        }
        assert_eq!(report.header().unwrap().len(), HEADER_BYTES_MAX);
    }
}
