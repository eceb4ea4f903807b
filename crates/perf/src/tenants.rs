//! A load beside a tenant: the latencies of one user's messages, alone and while another user asks for as much dear work as
//! the broker does for him.
//!
//! The load is a bystander: few messages a second, confirmed, consumed and looked at like those of any other scenario. The
//! tenant publishes transient messages at full speed over a few connections, each in turn to a fanout exchange with many queues,
//! through patterns of a topic exchange that all match, and past the arguments of a headers exchange. His queues keep one message
//! each, so that the work is all there is of him. Both share this process and its machine with the broker: what a
//! tenant costs is the difference of two runs, and the processors that both need are a part of it.

use crate::control::Control;
use crate::end::{End, Publisher, Role};
use crate::load::{self, Aim, READY, connect};
use crate::meter::Meter;
use crate::options::{Argument, Protocol, QueueType};
use crate::progress::Progress;
use crate::run::{Figures, Latency};
use crate::scenario::Case;
use crate::stamp::STAMP;
use crate::stream::Stream;
use crate::table::{count, table};
use crate::uri::Uri;
use crate::users::{BYSTANDER, PASSWORD, TENANT};
use crate::wire::amqp091::Amqp091;
use crate::wire::{Purpose, Target, Wire};
use crate::worker::{News, Worker};
use message::amqp091::{TableWriter, Value};
use serde::Serialize;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The tenant's exchanges, and how the names of his queues begin.
const WIDE: &str = "leveret-bench-tenant-wide";
const PATTERNS: &str = "leveret-bench-tenant-patterns";
const HEADERS: &str = "leveret-bench-tenant-headers";
const QUEUE: &str = "leveret-bench-tenant";

/// Queues that each message to the wide exchange goes to.
const QUEUES: usize = 100;

/// Patterns, and words of each between its first and its last.
const PATTERN_COUNT: usize = 100;
const WORDS: usize = 22;

/// Bindings by headers, and arguments of each.
const HEADER_BINDINGS: usize = 200;
const ARGUMENTS: usize = 20;

/// Messages that each connection of the tenant may have unconfirmed.
const WINDOW: u64 = 100;

/// The load in one run, alone or beside the tenant.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// Which run, from 1 on.
    pub run: u32,
    /// The figures of the load.
    pub figures: Figures,
    /// Processors that the broker used meanwhile, where its process is known.
    pub broker_cores: Option<f64>,
    /// The work of the tenant; none: the load was alone.
    pub tenant: Option<Done>,
}

/// The work of the tenant beside a load.
#[derive(Clone, Debug, Serialize)]
pub struct Done {
    /// His connections.
    pub connections: u32,
    /// His messages that were confirmed.
    pub confirmed: u64,
    /// His messages that were refused or returned: there should be none.
    pub refused: u64,
    /// How long it took, connecting not counted.
    pub seconds: f64,
}

/// Measures `case` alone and beside the tenant, in turn, as often as the command line says.
///
/// # Errors
/// In words for people: the broker could not be reached, or ended a run.
pub fn run(case: &Case, aim: &mut Aim<'_>, progress: &mut Progress) -> Result<Vec<Beside>, String> {
    let bench = aim.bench;
    let local =
        |user: &str| Uri { user: user.to_owned(), password: PASSWORD.to_owned(), ..aim.uris[0].clone() };
    let (bystander, tenant) = match (&bench.uri, &bench.tenant) {
        (Some(uri), Some(tenant)) => (uri.clone(), tenant.clone()),
        _ => (local(BYSTANDER), local(TENANT)),
    };
    let mut control = Control::open(&tenant)?;
    make(&mut control)?;
    let uris = [bystander];
    let mut all = Vec::new();
    for run in 0..bench.warmup_runs + bench.runs {
        for is_beside in [false, true] {
            progress.label(format!("run {}, {}", run + 1, name(is_beside)));
            let process = aim.process.as_deref_mut();
            let mut own = Aim { bench, uris: &uris, setup: &uris[0], process, shards: aim.shards };
            let (figures, done) = match is_beside {
                true => {
                    beside(case, &tenant, &mut own, progress).map(|(figures, done)| (figures, Some(done)))?
                }
                false => (alone(case, &mut own, progress)?, None),
            };
            let lasted = figures.publish_seconds.max(figures.consume_seconds);
            let broker_cores = figures.cpu.map(|cpu| cpu.total_ns as f64 / 1e9 / lasted.max(1e-9));
            if run >= bench.warmup_runs {
                all.push(Beside { run: run + 1 - bench.warmup_runs, figures, broker_cores, tenant: done });
            }
        }
    }
    if !bench.keep {
        control.delete_queues(&queues())?;
        for exchange in [WIDE, PATTERNS, HEADERS] {
            control.delete_exchange(exchange)?;
        }
    }
    control.close();
    Ok(all)
}

fn name(is_beside: bool) -> &'static str {
    if is_beside { "beside a tenant" } else { "alone" }
}

fn queues() -> Vec<String> {
    (0..QUEUES).map(|number| format!("{QUEUE}-{number}")).collect()
}

/// Makes the tenant's objects.
fn make(control: &mut Control) -> Result<(), String> {
    let queues = queues();
    control.delete_queues(&queues)?;
    let one = [("x-max-length".to_owned(), Argument::Number(1))];
    control.declare_queues(&queues, QueueType::Classic, &one)?;
    for (exchange, kind) in [(WIDE, "fanout"), (PATTERNS, "topic"), (HEADERS, "headers")] {
        control.declare_exchange(exchange, kind)?;
    }
    control.bind_queues(&queues, WIDE)?;
    let patterns: Vec<_> = (0..PATTERN_COUNT).map(|number| (pattern(number), Vec::new())).collect();
    control.bind_by(&queues[0], PATTERNS, &patterns)?;
    let headers: Vec<_> = (0..HEADER_BINDINGS).map(|number| (String::new(), arguments(number))).collect();
    control.bind_by(&queues[0], HEADERS, &headers)
}

/// A pattern whose words the key leads all through.
fn pattern(number: usize) -> String {
    let words: Vec<&str> = (0..WORDS).map(|at| if number >> (at % 8) & 1 == 1 { "a" } else { "*" }).collect();
    format!("#.{}.z", words.join("."))
}

/// The key that all patterns match.
fn key() -> String {
    format!("{}.z", vec!["a"; WORDS].join("."))
}

/// The arguments of a binding by headers: all but the last are those of each message.
fn arguments(number: usize) -> Vec<u8> {
    TableWriter::fields(|table| {
        table.put(b"x-match", Value::Text(b"all"));
        put_headers(table, number);
    })
}

fn put_headers(table: &mut TableWriter<'_>, number: usize) {
    for at in 0..ARGUMENTS - 1 {
        table.put(format!("h{at}").as_bytes(), Value::I64(at as i64));
    }
    table.put(b"number", Value::I64(number as i64));
}

fn alone(case: &Case, aim: &mut Aim<'_>, progress: &mut Progress) -> Result<Figures, String> {
    load::run(case, aim, progress)?.pop().ok_or_else(|| "the load gave no figures".to_owned())
}

/// Measures `case` while the tenant publishes.
fn beside(
    case: &Case,
    tenant: &Uri,
    aim: &mut Aim<'_>,
    progress: &mut Progress,
) -> Result<(Figures, Done), String> {
    let connections = aim.bench.tenant_connections;
    let meter = Meter::new(u64::MAX).map_err(|error| error.to_string())?;
    let worker = worker(tenant, connections, &meter)?;
    let (sender, news) = mpsc::channel();
    thread::scope(|scope| {
        let meter = &meter;
        let thread = scope.spawn(move || worker.run(meter, &sender));
        let measured = measure(case, meter, &news, aim, progress);
        meter.stop();
        let ends = thread.join().map_err(|_| "the tenant's thread panicked".to_owned())?;
        let (figures, confirmed, lasted) = measured?;
        let refused = |end: &End<Amqp091>| match &end.role {
            Role::Publisher(publisher) => publisher.refused,
            Role::Consumer(_) => 0,
        };
        let refused = ends.iter().map(refused).sum();
        Ok((figures, Done { connections, confirmed, refused, seconds: lasted.as_secs_f64() }))
    })
}

/// The load, from when the tenant begins, and how much he had confirmed at its end.
fn measure(
    case: &Case,
    meter: &Meter,
    news: &mpsc::Receiver<News>,
    aim: &mut Aim<'_>,
    progress: &mut Progress,
) -> Result<(Figures, u64, Duration), String> {
    match news.recv_timeout(READY) {
        Ok(News::Ready) => {}
        Ok(News::Failed(why)) => return Err(format!("the tenant: {why}")),
        _ => return Err("the tenant: the connections were not ready in time".to_owned()),
    }
    meter.go();
    let start = Instant::now();
    let figures = alone(case, aim, progress);
    let (confirmed, lasted) = (meter.confirmed.get(), start.elapsed());
    // A tenant who is gone leaves the load alone, whatever became of it.
    match news.try_recv() {
        Ok(News::Failed(why)) => Err(format!("the tenant: {why}")),
        _ => Ok((figures?, confirmed, lasted)),
    }
}

/// The tenant's connections.
fn worker(uri: &Uri, connections: u32, meter: &Meter) -> Result<Worker<Amqp091>, String> {
    let mut worker = Worker { streams: Vec::new(), ends: Vec::new(), is_publishing: true, lead: None };
    for index in 0..connections {
        let socket = connect(uri)?;
        socket.set_nonblocking(true).map_err(|error| error.to_string())?;
        worker.streams.push(Stream::new(socket, uri, Protocol::Amqp091)?);
        let purpose = Purpose::Publish {
            targets: vec![
                Target::Exchange(WIDE.to_owned()),
                Target::Key(PATTERNS.to_owned(), key()),
                Target::Exchange(HEADERS.to_owned()),
            ],
            is_confirmed: true,
            is_durable: false,
            size: STAMP as u32,
            priorities: 0,
            is_content: false,
            headers: TableWriter::fields(|table| put_headers(table, 0)),
        };
        let publisher = Publisher::new(index as u16, u64::MAX, WINDOW, true, None);
        let wire = Amqp091::new(meter.now(), uri, purpose)?;
        worker.ends.push(End::new(wire, Role::Publisher(Box::new(publisher))));
    }
    Ok(worker)
}

/// The table for people, and what the tenant did.
pub fn text(all: &[Beside]) -> String {
    let header = [
        "load",
        "in/s",
        "confirm p50 us",
        "p99",
        "p99.9",
        "longest",
        "delivery p50 us",
        "p99",
        "p99.9",
        "longest",
        "broker CPU",
        "tenant in/s",
    ];
    let line = |beside: &Beside| {
        let figures = &beside.figures;
        let per_second = |done: &Done| count(done.confirmed as f64 / done.seconds.max(1e-9));
        let mut line = vec![
            format!("{}, run {}", name(beside.tenant.is_some()), beside.run),
            count(figures.in_per_second),
        ];
        line.extend(latencies(figures.confirm));
        line.extend(latencies(figures.delivery));
        line.push(beside.broker_cores.map_or("-".to_owned(), |cores| format!("{:.0} %", cores * 100.0)));
        line.push(beside.tenant.as_ref().map_or("-".to_owned(), per_second));
        line
    };
    let mut text = table(&header, &all.iter().map(line).collect::<Vec<_>>());
    for beside in all {
        let findings = &beside.figures.findings;
        if findings.is_violation() {
            let found = serde_json::to_string(findings).unwrap_or_default();
            text.push_str(&format!(
                "VIOLATED   {}, run {}: {found}\n",
                name(beside.tenant.is_some()),
                beside.run
            ));
        }
        if let Some(done) = beside.tenant.as_ref().filter(|done| done.refused > 0) {
            text.push_str(&format!(
                "run {}: {} messages of the tenant were refused\n",
                beside.run, done.refused
            ));
        }
    }
    text
}

fn latencies(latency: Option<Latency>) -> [String; 4] {
    let told =
        |of: fn(&Latency) -> u64| latency.as_ref().map_or("-".to_owned(), |latency| of(latency).to_string());
    [
        told(|latency| latency.p50_us),
        told(|latency| latency.p99_us),
        told(|latency| latency.p999_us),
        told(|latency| latency.max_us),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_differ_and_match_the_key() {
        let mut patterns: Vec<String> = (0..PATTERN_COUNT).map(pattern).collect();
        patterns.sort();
        patterns.dedup();
        assert_eq!(patterns.len(), PATTERN_COUNT);
        let key = key();
        for pattern in &patterns {
            let words = pattern.split('.').skip(1).zip(key.split('.'));
            assert!(words.clone().all(|(own, word)| own == "*" || own == word), "{pattern}");
            assert_eq!(words.count(), WORDS + 1, "{pattern}");
            assert!(pattern.len() <= 255, "{pattern}");
        }
    }

    #[test]
    fn a_message_has_the_headers_of_one_binding() {
        let of_message = TableWriter::fields(|table| put_headers(table, 0));
        let is_all_of = |number| arguments(number).ends_with(&of_message);
        assert!(is_all_of(0) && !is_all_of(1));
    }
}
