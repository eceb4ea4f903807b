//! Answers as people and programs read them: tables, JSON, CSV and RabbitMQ's plain text.

use crate::terms;
use clap::ValueEnum;
use serde_json::Value;
use std::fmt::Write;

/// How an answer is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Formatter {
    /// Tabs between columns
    Table,
    /// Lines around columns
    PrettyTable,
    /// One document
    Json,
    /// One document a row
    JsonStream,
    /// Quotes and commas
    Csv,
    /// Terms of Erlang
    Erlang,
    /// Words
    String,
}

/// A unit of sizes: its name and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    name: &'static str,
    bytes: u64,
}

/// The unit of sizes that is used unasked.
pub const GIGABYTE: Unit = Unit { name: "gb", bytes: 1_000_000_000 };

const UNITS: &[Unit] = &[
    Unit { name: "bytes", bytes: 1 },
    Unit { name: "kb", bytes: 1000 },
    Unit { name: "mb", bytes: 1_000_000 },
    Unit { name: "mib", bytes: 1 << 20 },
    GIGABYTE,
    Unit { name: "gib", bytes: 1 << 30 },
    Unit { name: "tb", bytes: 1_000_000_000_000 },
];

/// Reads a unit's name, in any case.
pub fn unit(name: &str) -> Result<Unit, String> {
    let found = UNITS.iter().find(|unit| unit.name.eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| "accepted values: bytes, kb, mb, mib, gb, gib, tb".to_owned())
}

/// How to show an answer.
pub struct Show {
    /// The shape.
    pub formatter: Formatter,
    /// Whether tables begin with the names of their columns.
    pub headers: bool,
    /// The unit of sizes in text.
    pub unit: Unit,
    /// The text before the answer, where a person reads.
    pub banner: Option<String>,
}

impl Show {
    /// The text before the answer.
    pub(crate) fn begin(&self) -> String {
        match (&self.banner, self.formatter) {
            (
                Some(banner),
                Formatter::Table | Formatter::PrettyTable | Formatter::String | Formatter::Erlang,
            ) => {
                format!("{banner}\n")
            }
            _ => String::new(),
        }
    }

    /// One sentence.
    pub fn message(&self, text: &str) -> String {
        match self.formatter {
            Formatter::Json | Formatter::JsonStream => {
                format!("{}\n", serde_json::json!({ "message": text }))
            }
            Formatter::Erlang => format!("{}{}\n", self.begin(), terms::term(&Value::from(text))),
            _ => format!("{}{text}\n", self.begin()),
        }
    }

    /// A list of objects, of which `columns` are shown.
    pub fn rows(&self, columns: &[String], rows: &Value) -> String {
        let rows: &[Value] = rows.as_array().map_or(&[], Vec::as_slice);
        let field = |row: &Value, column: &String| row.get(column).cloned().unwrap_or(Value::Null);
        let object = |row: &Value| {
            let fields = columns.iter().map(|column| (column.clone(), field(row, column)));
            Value::Object(base::brief::collect(fields)).to_string()
        };
        let cells = |row: &Value| columns.iter().map(|column| cell(column, &field(row, column))).collect();
        let mut text = self.begin();
        // As with RabbitMQ's tools, an empty table has no names of columns.
        if rows.is_empty() && !matches!(self.formatter, Formatter::Json | Formatter::Erlang) {
            return text;
        }
        match self.formatter {
            Formatter::Json => {
                let objects: Vec<String> = rows.iter().map(object).collect();
                text.push_str("[\n");
                if !objects.is_empty() {
                    text.push_str(&objects.join("\n,"));
                    text.push('\n');
                }
                text.push_str("]\n");
            }
            Formatter::JsonStream => rows.iter().for_each(|row| text.extend([object(row), "\n".into()])),
            Formatter::Csv => self.table(&mut text, columns, rows.iter().map(cells), &csv_line),
            Formatter::Table | Formatter::String => {
                self.table(&mut text, columns, rows.iter().map(cells), &|cells| cells.join("\t"));
            }
            Formatter::PrettyTable => pretty(&mut text, columns, &rows.iter().map(cells).collect::<Vec<_>>()),
            Formatter::Erlang => {
                let pair = |row: &Value, column: &String| terms::pair(column, &field(row, column));
                let term = |row: &Value| -> String {
                    let pairs: Vec<String> = columns.iter().map(|column| pair(row, column)).collect();
                    format!("[{}]", pairs.join(",\n  "))
                };
                let all: Vec<String> = rows.iter().map(term).collect();
                text.extend(["[", &all.join(",\n "), "]\n"]);
            }
        }
        text
    }

    fn table(
        &self,
        text: &mut String,
        columns: &[String],
        rows: impl Iterator<Item = Vec<String>>,
        line: &dyn Fn(&[String]) -> String,
    ) {
        if self.headers {
            text.extend([line(columns), "\n".into()]);
        }
        rows.for_each(|cells| text.extend([line(&cells), "\n".into()]));
    }

    /// Sizes by name, the largest first, and their shares.
    pub fn memory(&self, memory: &Value) -> String {
        let pools = pools(memory);
        let total: u64 = pools.iter().map(|(_, bytes)| bytes).sum();
        let share = |bytes: u64| (bytes as f64 / total.max(1) as f64 * 10_000.0).round() / 100.0;
        let mut text = self.begin();
        match self.formatter {
            Formatter::Json | Formatter::JsonStream => {
                let one = |(name, bytes): &(String, u64)| {
                    (name.clone(), serde_json::json!({ "bytes": bytes, "percentage": share(*bytes) }))
                };
                let _ = writeln!(text, "{}", Value::Object(base::brief::collect(pools.iter().map(one))));
            }
            Formatter::Csv => {
                let parts = ["percentage", "bytes"];
                let names = pools.iter().flat_map(|(name, _)| parts.map(|part| format!("{name}.{part}")));
                let values = pools.iter().flat_map(|(_, bytes)| [decimal(share(*bytes)), bytes.to_string()]);
                let (names, values): (Vec<String>, Vec<String>) = (names.collect(), values.collect());
                self.table(&mut text, &names, std::iter::once(values), &csv_line);
            }
            Formatter::Erlang => {
                let one = |(name, bytes): &(String, u64)| {
                    let sizes = format!("#{{bytes => {bytes},percentage => {}}}", decimal(share(*bytes)));
                    format!("{name} => {sizes}")
                };
                let all: Vec<String> = pools.iter().map(one).collect();
                text.extend(["#{", &all.join(",\n  "), "}\n"]);
            }
            Formatter::Table | Formatter::PrettyTable | Formatter::String => {
                for (name, bytes) in &pools {
                    let _ = writeln!(text, "{name}: {} ({}%)", self.size(*bytes), decimal(share(*bytes)));
                }
            }
        }
        text
    }

    fn size(&self, bytes: u64) -> String {
        if self.unit.bytes == 1 {
            return format!("{bytes} {}", self.unit.name);
        }
        let amount = (bytes as f64 / self.unit.bytes as f64 * 10_000.0).round() / 10_000.0;
        format!("{} {}", decimal(amount), self.unit.name)
    }

    /// The node's condition, in sections.
    pub fn status(&self, status: &Value) -> String {
        let mut text = self.begin();
        match self.formatter {
            Formatter::Json | Formatter::JsonStream => {
                let _ = writeln!(text, "{status}");
                return text;
            }
            Formatter::Erlang => {
                let _ = writeln!(text, "{}", terms::list(status));
                return text;
            }
            _ => {}
        }
        let word = |name: &str| match &status[name] {
            Value::String(word) => word.clone(),
            other => other.to_string(),
        };
        let number = |name: &str| status[name].as_u64().unwrap_or(0);
        let list = |name: &str| -> Vec<String> {
            let items = status[name].as_array().map_or(&[][..], Vec::as_slice);
            items.iter().map(|item| item.as_str().unwrap_or_default().to_owned()).collect()
        };
        let bullets = |name: &str| match &list(name)[..] {
            [] => vec!["(none)".to_owned()],
            items => items.iter().map(|item| format!(" * {item}")).collect(),
        };
        let mut section = |title: &str, lines: Vec<String>| {
            let _ = writeln!(text, "{title}\n\n{}\n", lines.join("\n"));
        };
        section(
            "Runtime",
            vec![
                format!("OS PID: {}", number("pid")),
                format!("OS: {}", word("os")),
                format!("Uptime (seconds): {}", number("uptime")),
                "Is under maintenance?: false".to_owned(),
                format!("RabbitMQ version: {}", word("rabbitmq_version")),
                format!("Product: {} {}", word("product_name"), word("product_version")),
                format!("Node name: {}", word("node")),
            ],
        );
        section("Data directory", vec![format!("Node data directory: {}", word("data_directory"))]);
        section("Config files", bullets("config_files"));
        section("Log file(s)", bullets("log_files"));
        section("Alarms", bullets("alarms"));
        let memory = &status["memory"];
        let used = memory["total"]["rss"].as_u64().unwrap_or(0);
        let limit = self.size(number("vm_memory_high_watermark_limit"));
        let mut lines = vec![
            format!("Total memory used: {}", self.size(used)),
            "Calculation strategy: rss".to_owned(),
            format!("Memory high watermark computed to: {limit}"),
            String::new(),
        ];
        lines.extend(pools(memory).iter().map(|(name, bytes)| format!("{name}: {}", self.size(*bytes))));
        section("Memory", lines);
        section(
            "Free Disk Space",
            vec![
                format!("Low free disk space watermark: {}", self.size(number("disk_free_limit"))),
                format!("Free disk space: {}", self.size(number("disk_free"))),
            ],
        );
        let total = |name: &str| status["totals"][name].as_u64().unwrap_or(0);
        section(
            "Totals",
            vec![
                format!("Connection count: {}", total("connection_count")),
                format!("Queue count: {}", total("queue_count")),
                format!("Virtual host count: {}", total("virtual_host_count")),
            ],
        );
        let listeners = status["listeners"].as_array().map_or(&[][..], Vec::as_slice);
        section("Listeners", listeners.iter().map(listener).collect());
        text
    }
}

/// Where the node listens, in words.
pub(crate) fn listener(row: &Value) -> String {
    let word = |name: &str| row[name].as_str().unwrap_or_default();
    let (interface, protocol, purpose) = (word("interface"), word("protocol"), word("purpose"));
    format!("Interface: {interface}, port: {}, protocol: {protocol}, purpose: {purpose}", row["port"])
}

/// Every pool and its bytes, the largest first.
fn pools(memory: &Value) -> Vec<(String, u64)> {
    let fields = memory.as_object().into_iter().flatten();
    let sizes = fields.filter_map(|(name, bytes)| Some((name.clone(), bytes.as_u64()?)));
    let mut pools: Vec<(String, u64)> = sizes.collect();
    base::brief::sort_by(&mut pools, |a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    pools
}

/// A number as Erlang prints it: always with a decimal.
fn decimal(number: f64) -> String {
    let text = number.to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

/// A value in a table. Tabs and line ends would break it.
pub(crate) fn cell(column: &str, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.escape_default_controls(),
        Value::Array(parts) if matches!(column, "host" | "peer_host") => address(parts),
        Value::Array(parts) if column == "tags" => {
            let words: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
            format!("[{}]", words.join(", "))
        }
        Value::Object(fields) if column == "effective_policy_definition" => {
            let pair = |(key, value): (&String, &Value)| match value {
                Value::String(text) => format!("{{<<{key:?}>>, {text}}}"),
                other => format!("{{<<{key:?}>>, {other}}}"),
            };
            match fields.is_empty() {
                true => "#{}".to_owned(),
                false => format!("[{}]", fields.iter().map(pair).collect::<Vec<_>>().join(", ")),
            }
        }
        Value::Object(fields) if column == "cluster_state" => {
            let pair = |(name, value): (&String, &Value)| format!("{{{name}, {}}}", bare(value));
            format!("[{}]", fields.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) if column == "metadata" => {
            let pair = |(name, value): (&String, &Value)| format!("{name} => {}", bare(value));
            format!("#{{{}}}", fields.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        Value::Array(parts) if column == "protocol" => {
            format!("{{{}}}", parts.iter().map(Value::to_string).collect::<Vec<_>>().join(","))
        }
        Value::Array(parts) if matches!(column, "members" | "online") => bare(&Value::Array(parts.clone())),
        other => nested(other),
    }
}

/// A value without quotes.
fn bare(value: &Value) -> String {
    match value {
        Value::String(text) => text.escape_default_controls(),
        Value::Array(parts) => format!("[{}]", parts.iter().map(bare).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// A value inside of another, as RabbitMQ's tools write it: a list of pairs, and an empty text as an empty list.
fn nested(value: &Value) -> String {
    match value {
        Value::Null => "undefined".to_owned(),
        Value::String(text) if text.is_empty() => "[]".to_owned(),
        Value::Array(parts) => format!("[{}]", parts.iter().map(nested).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let pair = |(name, value): (&String, &Value)| format!("{{{name:?},{}}}", nested(value));
            format!("[{}]", fields.iter().map(pair).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

trait EscapeControls {
    fn escape_default_controls(&self) -> String;
}

impl EscapeControls for String {
    fn escape_default_controls(&self) -> String {
        let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        self.chars().map(escape).collect()
    }
}

fn address(parts: &[Value]) -> String {
    let numbers: Vec<u16> = parts.iter().filter_map(|part| part.as_u64()?.try_into().ok()).collect();
    match numbers[..] {
        [a, b, c, d] => format!("{a}.{b}.{c}.{d}"),
        [a, b, c, d, e, f, g, h] => std::net::Ipv6Addr::new(a, b, c, d, e, f, g, h).to_string(),
        _ => String::new(),
    }
}

fn csv_line(cells: &[String]) -> String {
    let quoted = cells.iter().map(|cell| format!("\"{}\"", cell.replace('"', "\"\"")));
    quoted.collect::<Vec<_>>().join(",")
}

fn pretty(text: &mut String, columns: &[String], rows: &[Vec<String>]) {
    let longest = |index: usize| rows.iter().map(|row| row[index].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> =
        columns.iter().enumerate().map(|(index, name)| name.chars().count().max(longest(index))).collect();
    let rule = |left: &str, middle: &str, right: &str| {
        let bars: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}\n", bars.join(middle))
    };
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} "));
        format!("│{}│\n", padded.collect::<Vec<_>>().join("│"))
    };
    text.push_str(&rule("┌", "┬", "┐"));
    text.push_str(&line(columns));
    for row in rows {
        text.push_str(&rule("├", "┼", "┤"));
        text.push_str(&line(row));
    }
    text.push_str(&rule("└", "┴", "┘"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn show(formatter: Formatter) -> Show {
        Show { formatter, headers: true, unit: GIGABYTE, banner: Some("Listing ...".into()) }
    }

    #[test]
    fn rows_look_as_rabbitmqctl_shows_them() {
        let rows = json!([{"name": "zz", "messages": 0}, {"name": "p\t\"q", "messages": 1}]);
        let columns = ["name".to_owned(), "messages".to_owned()];
        let check = |formatter: Formatter, expected: &str| {
            assert_eq!(show(formatter).rows(&columns, &rows), expected, "{formatter:?}");
        };
        check(Formatter::Table, "Listing ...\nname\tmessages\nzz\t0\np\\t\"q\t1\n");
        check(
            Formatter::Json,
            "[\n{\"messages\":0,\"name\":\"zz\"}\n,{\"messages\":1,\"name\":\"p\\t\\\"q\"}\n]\n",
        );
        check(Formatter::Csv, "\"name\",\"messages\"\n\"zz\",\"0\"\n\"p\\t\"\"q\",\"1\"\n");
        let pretty = "Listing ...\n┌───────┬──────────┐\n│ name  │ messages │\n├───────┼──────────┤\n\
                      │ zz    │ 0        │\n├───────┼──────────┤\n│ p\\t\"q │ 1        │\n└───────┴──────────┘\n";
        check(Formatter::PrettyTable, pretty);
        let bare = Show { headers: false, banner: None, ..show(Formatter::Table) };
        assert_eq!(bare.rows(&columns, &json!([])), "");
        assert_eq!(show(Formatter::Json).rows(&columns, &json!([])), "[\n]\n");
    }

    #[test]
    fn addresses_and_tables_in_cells_are_readable() {
        let row = json!({"peer_host": [127, 0, 0, 1]});
        let queue = json!({"peer_host": row["peer_host"], "arguments": {"x-max": 1}, "ssl": false});
        let columns = ["peer_host", "arguments", "ssl"].map(str::to_owned);
        let bare = Show { headers: false, banner: None, ..show(Formatter::Table) };
        assert_eq!(bare.rows(&columns, &json!([queue])), "127.0.0.1\t[{\"x-max\",1}]\tfalse\n");
        let definition = json!({"effective_policy_definition": {"max-length": 7, "overflow": "drop-head"}});
        let columns_of = ["effective_policy_definition".to_owned()];
        assert_eq!(
            bare.rows(&columns_of, &json!([definition, {"effective_policy_definition": {}}])),
            "[{<<\"max-length\">>, 7}, {<<\"overflow\">>, drop-head}]\n#{}\n"
        );
        let json = bare_json().rows(&columns[..1], &json!([row]));
        assert_eq!(json, "[\n{\"peer_host\":[127,0,0,1]}\n]\n");
    }

    fn bare_json() -> Show {
        show(Formatter::Json)
    }

    #[test]
    fn memory_is_shown_in_shares() {
        let memory = json!({"total": {"rss": 4}, "small": 250_000_000u64, "large": 750_000_000u64});
        let text = show(Formatter::String).memory(&memory);
        assert_eq!(text, "Listing ...\nlarge: 0.75 gb (75.0%)\nsmall: 0.25 gb (25.0%)\n");
        let json = show(Formatter::Json).memory(&memory);
        let read: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["large"], json!({"bytes": 750_000_000u64, "percentage": 75.0}));
        let csv = show(Formatter::Csv).memory(&memory);
        assert!(csv.starts_with("\"large.percentage\",\"large.bytes\","), "{csv}");
        assert_eq!(unit("MB").map(|unit| unit.bytes), Ok(1_000_000));
        assert!(unit("stones").is_err());
    }

    #[test]
    fn status_has_its_sections() {
        let mut status =
            crate::Status { node_name: "rabbit@hare".into(), pid: 7, ..crate::Status::default() };
        status.alarms.push("memory".into());
        status.listeners.push(crate::Listener { port: 5672, protocol: "amqp".into(), ..Default::default() });
        let text = show(Formatter::String).status(&serde_json::to_value(status).unwrap());
        for part in
            ["OS PID: 7", "Alarms\n\n * memory\n", "Node name: rabbit@hare", "port: 5672, protocol: amqp"]
        {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }
}
