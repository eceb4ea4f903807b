//! The figures of a measurement: a table for people, one JSON object for programs.

use crate::idle::Idle;
use crate::large::Large;
use crate::machine::Machine;
use crate::nodes::{self, Floor, Killed};
use crate::options::Placement;
use crate::probe::Probe;
use crate::replay::{self, Replay};
use crate::run::{Figures, Latency, Writing, median};
use crate::scenario::Case;
use crate::small_chunks::{self, Cell};
use crate::table::{count, table};
use crate::tenants::{self, Beside};
use serde::Serialize;
use std::fmt::Write;

/// Everything one call of the load generator measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// The broker under load: its address, or that it was one of our own.
    pub broker: String,
    /// Where the connections landed.
    pub placement: Placement,
    /// The machine.
    pub machine: Machine,
    /// Why the figures deserve doubt.
    pub warnings: Vec<String>,
    /// The rates of the bare disk, where they were asked for.
    pub probe: Option<Probe>,
    /// The rows.
    pub rows: Vec<Row>,
    /// The figures of idle connections.
    pub idle: Vec<Idle>,
    /// The figures of small chunks.
    pub cells: Vec<Cell>,
    /// The figures of a large stream.
    pub large: Vec<Large>,
    /// The figures of replays.
    pub replays: Vec<Replay>,
    /// The figures of a load alone and beside a tenant.
    pub tenants: Vec<Beside>,
    /// The runs in which the node that led the queue was killed.
    pub kills: Vec<Killed>,
    /// The times below which several nodes cannot agree on one message.
    pub floor: Option<Floor>,
}

/// One case, or one part of it, with all its runs.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name among the others.
    pub label: String,
    /// The load.
    pub case: Case,
    /// The run in the middle.
    pub median: Figures,
    /// All that count, in their order.
    pub runs: Vec<Figures>,
}

impl Row {
    /// A row of `runs` of one part of `case`; at least one run.
    pub fn new(case: &Case, runs: Vec<Figures>) -> Row {
        let median = median(&runs).clone();
        let part = median.part;
        let label = if part.is_empty() { case.label.clone() } else { format!("{}, {part}", case.label) };
        Row { label, case: case.clone(), median, runs }
    }
}

impl Report {
    /// Whether any promise was broken, or the demand of any trial missed, in any run.
    pub fn is_violation(&self) -> bool {
        let is_broken = |row: &Row| row.runs.iter().any(Figures::is_violation);
        self.rows.iter().any(is_broken)
            || self.idle.iter().any(|idle| idle.dropped > 0)
            || self.tenants.iter().any(|beside| beside.figures.is_violation())
            || self.kills.iter().any(Killed::is_violation)
    }

    /// One JSON object.
    ///
    /// # Errors
    /// A figure is no JSON number.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// The table with the lines around it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let [one, five, fifteen] = self.machine.load_average;
        let machine = &self.machine;
        let _ = writeln!(text, "scenario   {}", self.scenario);
        let _ = writeln!(text, "broker     {}", self.broker);
        let _ = writeln!(
            text,
            "machine    {} x {}, Linux {}",
            machine.processors, machine.processor, machine.kernel
        );
        let _ = writeln!(text, "load       {one:.2} {five:.2} {fifteen:.2}");
        for warning in &self.warnings {
            let _ = writeln!(text, "warning    {warning}");
        }
        if let Some(probe) = &self.probe {
            self.write_probe(probe, &mut text);
        }
        if !self.rows.is_empty() {
            text.push('\n');
            text.push_str(&table(
                &self.header(),
                &self.rows.iter().map(|row| self.line(row)).collect::<Vec<_>>(),
            ));
        }
        self.write_remarks(&mut text);
        if !self.cells.is_empty() {
            text.push('\n');
            text.push_str(&small_chunks::text(&self.cells));
        }
        if !self.replays.is_empty() {
            text.push('\n');
            text.push_str(&replay::text(&self.replays));
        }
        if !self.tenants.is_empty() {
            text.push('\n');
            text.push_str(&tenants::text(&self.tenants));
        }
        text.push_str(&nodes::text(self.floor.as_ref(), &self.kills));
        for large in &self.large {
            text.push('\n');
            text.push_str(&large.text());
        }
        for idle in &self.idle {
            text.push('\n');
            text.push_str(&idle.text());
        }
        for row in &self.rows {
            for (index, run) in row.runs.iter().enumerate().filter(|(_, run)| run.findings.is_violation()) {
                let found = serde_json::to_string(&run.findings).unwrap_or_default();
                let _ = writeln!(text, "VIOLATED   {}, run {}: {found}", row.label, index + 1);
                if let Some(refusal) = &run.refusal {
                    let _ = writeln!(text, "           the broker said: {refusal}");
                }
            }
        }
        text
    }

    /// Remarks that compare rows, or a row with the disk, which the table cannot show.
    fn write_remarks(&self, text: &mut String) {
        for (index, row) in self.rows.iter().enumerate() {
            for verdict in row.runs.iter().filter_map(|run| run.verdict.as_ref()) {
                let word = match verdict.is_held {
                    Some(true) => ": held",
                    Some(false) => ": MISSED",
                    None => "",
                };
                let _ = writeln!(text, "{}: {}{word}", row.label, verdict.text);
            }
            if row.median.part == "build"
                && let Some(resident) = row.median.resident
            {
                let grown = resident.peak.saturating_sub(resident.before);
                let each = grown as f64 / row.median.published.max(1) as f64;
                let _ = writeln!(
                    text,
                    "{}: memory grew by {} MB, {each:.1} bytes a message",
                    row.label,
                    grown >> 20
                );
            }
            self.write_readers(row, text);
            let plain = self.rows.iter().find(|plain| row.case.is_carried_twin_of(&plain.case));
            if let Some(plain) = plain
                && let (Some(carried), Some(cpu)) = (row.median.cpu, plain.median.cpu)
            {
                let ratio = carried.ns_per_message / cpu.ns_per_message.max(1.0);
                let _ = writeln!(text, "{}: {ratio:.2} times the CPU of plain TCP", row.label);
            }
            let Some(twin) = self.rows.get(index + 1).filter(|twin| twin.case.is_twin_of(&row.case)) else {
                continue;
            };
            let mut lesser = twin.median.bytes_per_second();
            if let Some(probe) = &self.probe {
                lesser = lesser.min(probe.bytes_per_second());
            }
            let share = 100.0 * row.median.bytes_per_second() / lesser.max(1.0);
            let what = if self.probe.is_some() { "the lesser of transient and disk" } else { "transient" };
            let _ = writeln!(text, "{}: {share:.0} % of {what}", row.label);
        }
    }

    /// How a stream's writer fares with so many readers.
    fn write_readers(&self, row: &Row, text: &mut String) {
        let (label, figures) = (&row.label, &row.median);
        if let Some(Writing { seconds, broker_cores, client_cores, grown }) = figures.writing {
            let _ = writeln!(
                text,
                "{label}: while it was written, {seconds:.2} s, the broker used {broker_cores:.2} processors and the load \
                 generator {client_cores:.2}; its memory grew by {} MB",
                grown >> 20
            );
        }
        let Some(least) = self.rows.iter().find(|least| row.case.has_more_readers_than(&least.case)) else {
            return;
        };
        let share = 100.0 * figures.in_per_second / least.median.in_per_second.max(1.0);
        let readers = least.case.consumers;
        let _ = write!(text, "{label}: the publisher keeps {share:.0} % of its rate with {readers}");
        if let Some(resident) = figures.resident {
            let grown = resident.peak.saturating_sub(resident.before) >> 20;
            let _ = write!(text, "; memory grew by {grown} MB at most");
        }
        text.push('\n');
    }

    fn write_probe(&self, probe: &Probe, text: &mut String) {
        let how = if probe.is_direct { "O_DIRECT" } else { "buffered (no O_DIRECT here)" };
        let rows: Vec<String> = probe
            .rows
            .iter()
            .map(|row| {
                let size = row.size >> 10;
                format!("{size} KiB {:.0} us {:.0} MB/s", row.p50_us, row.bytes_per_second / 1e6)
            })
            .collect();
        let _ = writeln!(text, "disk       {how} + fdatasync: {}", rows.join(", "));
    }

    fn header(&self) -> Vec<&'static str> {
        let mut header = vec!["case", "in/s", "out/s", "MB/s"];
        if self.probe.is_some() {
            header.push("of disk");
        }
        header.extend(["latency us p50", "p99", "p99.9", "confirm us p50", "p99", "CPU ns/msg", "user"]);
        header.extend(["runs", "RSS MB", "peak", "client ns/msg"]);
        header
    }

    fn line(&self, row: &Row) -> Vec<String> {
        let figures = &row.median;
        let mut line = vec![
            row.label.clone(),
            count(figures.in_per_second),
            count(figures.out_per_second),
            format!("{:.1}", figures.bytes_per_second() / 1e6),
        ];
        if let Some(probe) = &self.probe {
            line.push(format!("{:.0} %", 100.0 * figures.bytes_per_second() / probe.bytes_per_second()));
        }
        let of = |latency: &Option<Latency>, which: fn(&Latency) -> u64| match latency {
            Some(latency) => which(latency).to_string(),
            None => "-".to_owned(),
        };
        line.push(of(&figures.delivery, |latency| latency.p50_us));
        line.push(of(&figures.delivery, |latency| latency.p99_us));
        line.push(of(&figures.delivery, |latency| latency.p999_us));
        line.push(of(&figures.confirm, |latency| latency.p50_us));
        line.push(of(&figures.confirm, |latency| latency.p99_us));
        match figures.cpu {
            Some(cpu) => {
                line.push(format!("{:.0}", cpu.ns_per_message));
                line.push(format!("{:.0} %", cpu.user_share * 100.0));
            }
            None => line.extend(["-".to_owned(), "-".to_owned()]),
        }
        line.push(spread(&row.runs));
        match figures.resident {
            Some(resident) => {
                line.push((resident.after >> 20).to_string());
                line.push((resident.peak >> 20).to_string());
            }
            None => line.extend(["-".to_owned(), "-".to_owned()]),
        }
        line.push(format!("{:.0}", figures.client_ns_per_message));
        line
    }
}

/// How many runs, and between which bounds their CPU per message lay.
fn spread(runs: &[Figures]) -> String {
    let cpu = runs.iter().filter_map(|run| run.cpu).map(|cpu| cpu.ns_per_message);
    let (least, most) = cpu.fold((f64::MAX, 0.0f64), |(least, most), ns| (least.min(ns), most.max(ns)));
    match runs.len() {
        1 => "1".to_owned(),
        count if least > most => count.to_string(),
        count => format!("{count}: {least:.0}-{most:.0}"),
    }
}
