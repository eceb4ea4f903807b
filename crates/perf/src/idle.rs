//! Idle connections: how fast they open, the cost of each for the broker, and whether all stay.

use crate::crew::Crew;
use crate::hold::Plan;
use crate::load::Aim;
use crate::options::{Protocol, Transport};
use crate::process::Usage;
use crate::progress::Progress;
use serde::Serialize;
use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

/// How often is looked whether all are still there.
const TICK: Duration = Duration::from_millis(100);

/// How long opening all may stand still.
const STALL: Duration = Duration::from_secs(20);

/// The cost of idle connections of one protocol.
#[derive(Clone, Debug, Serialize)]
pub struct Idle {
    /// Their protocol.
    pub protocol: Protocol,
    /// Its transport.
    pub transport: Transport,
    /// How many were opened.
    pub connections: u64,
    /// By so many processes.
    pub clients: u32,
    /// How long that took.
    pub open_seconds: f64,
    /// How long they were held.
    pub idle_seconds: u32,
    /// Heartbeat asked for, seconds.
    pub heartbeat: u16,
    /// How many broke meanwhile.
    pub dropped: u64,
    /// The first reason for a break.
    pub why: Option<String>,
    /// The broker, where its process is known: before, with all open, and after the idle time.
    pub broker: Option<[Usage; 3]>,
}

impl Idle {
    /// Connections opened per second.
    pub fn opens_per_second(&self) -> f64 {
        self.connections as f64 / self.open_seconds.max(1e-9)
    }

    /// Lines for people.
    pub fn text(&self) -> String {
        let name = match self.protocol {
            Protocol::Amqp091 => "0-9-1, 2 channels each",
            Protocol::Amqp10 => "1.0, 2 sessions each",
            Protocol::Stream => "stream protocol",
        };
        let mut text = format!(
            "{} connections ({name}, {}, heartbeat {} s, {} client processes): opened {:.0} per second, held {} s, dropped {}\n",
            self.connections,
            self.transport.name(),
            self.heartbeat,
            self.clients,
            self.opens_per_second(),
            self.idle_seconds,
            self.dropped,
        );
        if let Some(why) = &self.why {
            let _ = writeln!(text, "  the first one broke because: {why}");
        }
        if let Some([before, open, end]) = self.broker {
            let count = self.connections.max(1) as f64;
            let each = |usage: Usage| usage.rss.saturating_sub(before.rss) as f64 / count;
            let _ = writeln!(
                text,
                "  broker RSS {} MB before, {} MB open ({:.0} B each), {} MB after idling ({:.0} B each)",
                before.rss >> 20,
                open.rss >> 20,
                each(open),
                end.rss >> 20,
                each(end),
            );
            let opening_ns = open.cpu_ns.saturating_sub(before.cpu_ns) as f64;
            let idling_ns = end.cpu_ns.saturating_sub(open.cpu_ns) as f64;
            let _ = writeln!(
                text,
                "  broker CPU {:.0} us to open one, {:.2} % of a core while idle",
                opening_ns / count / 1000.0,
                idling_ns / 1e7 / f64::from(self.idle_seconds.max(1)),
            );
        }
        text
    }
}

/// Opens `connections`, holds them and lets them go.
///
/// # Errors
/// In words for people: the broker could not be reached, or not all could be opened.
pub fn run(
    protocol: Protocol,
    transport: Transport,
    connections: u64,
    aim: &mut Aim<'_>,
    progress: &mut Progress,
) -> Result<Idle, String> {
    let bench = aim.bench;
    let uri = aim.uri(transport)?;
    let plan = Plan {
        protocol,
        connections,
        threads: bench.client_threads,
        heartbeat: bench.heartbeat,
        uri: uri.clone(),
    };
    let mut usage = || aim.process.as_deref_mut().and_then(|process| process.usage().ok());
    let before = usage();
    let mut crew = Crew::ready(&plan, bench.clients)?;
    let start = Instant::now();
    crew.go()?;
    let open_seconds = wait_until_open(&crew, start, connections, progress);
    let open = usage();
    if open_seconds.is_some() {
        let until = Instant::now() + Duration::from_secs(u64::from(bench.idle_seconds));
        while Instant::now() < until {
            thread::sleep(TICK);
            progress.say(&format!("{connections} connections idle, {} dropped", crew.count().dropped));
        }
    }
    let end = usage();
    let count = crew.count();
    let why = crew.stop()?;
    progress.end();
    let Some(open_seconds) = open_seconds else {
        let why = why.unwrap_or_else(|| "nothing moved any more".to_owned());
        return Err(format!("only {} of {connections} connections opened: {why}", count.open));
    };
    Ok(Idle {
        protocol,
        transport,
        connections,
        clients: bench.clients,
        open_seconds,
        idle_seconds: bench.idle_seconds,
        heartbeat: bench.heartbeat,
        dropped: count.dropped,
        why,
        broker: before.zip(open).zip(end).map(|((before, open), end)| [before, open, end]),
    })
}

/// How long it took from `start` until all were open, seconds; `None` if that stood still.
fn wait_until_open(crew: &Crew, start: Instant, connections: u64, progress: &mut Progress) -> Option<f64> {
    let (mut last, mut moved_at) = (0, Instant::now());
    loop {
        let count = crew.count();
        if count.open == connections {
            return Some(start.elapsed().as_secs_f64());
        }
        if count.open != last {
            (last, moved_at) = (count.open, Instant::now());
        } else if moved_at.elapsed() > STALL || count.dropped > 0 || crew.is_short() {
            return None;
        }
        progress.say(&format!("{} of {connections} connections open", count.open));
        thread::sleep(Duration::from_millis(2));
    }
}
