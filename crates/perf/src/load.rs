//! One run of a case: queues made, ends connected, started together, watched, counted.

use crate::content;
use crate::control::Control;
use crate::end::{Consumer, End, Publisher, Role, latencies};
use crate::meter::Meter;
use crate::options::{Argument, Bench, Placement, Protocol, QueueType, Transport};
use crate::process::{Process, Usage};
use crate::progress::Progress;
use crate::run::{Figures, Latency, Resident, Writing};
use crate::scenario::{Case, Filters, Spread};
use crate::stamp::{Findings, Seen};
use crate::stream::Stream;
use crate::trial::{Look, Step, Trial, Verdict, Witness};
use crate::uri::Uri;
use crate::wire::amqp10::Amqp10;
use crate::wire::amqp091::Amqp091;
use crate::wire::stream::Streaming;
use crate::wire::{Purpose, Target, Wire};
use crate::worker::{News, Worker, process_cpu_ns};
use message::amqp091::{TableWriter, Value};
use std::net::TcpStream;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How often memory is looked at, and the stop of a run that stands still is considered.
const WATCH: Duration = Duration::from_millis(100);

/// How long connecting and readying may take, all ends together.
pub const READY: Duration = Duration::from_secs(120);

/// Where a load goes.
#[derive(Debug)]
pub struct Aim<'a> {
    /// The command line.
    pub bench: &'a Bench,
    /// The broker: an address for each transport.
    pub uris: &'a [Uri],
    /// The address through which queues and the like are set up.
    pub setup: &'a Uri,
    /// The broker's process, where it is known.
    pub process: Option<&'a mut Process>,
    /// Connections to the broker so far wait in turn for its shards; so many shards has it.
    pub shards: u32,
}

impl<'a> Aim<'a> {
    /// Where `transport` leads.
    ///
    /// # Errors
    /// The broker's address by it is not known.
    pub fn uri(&self, transport: Transport) -> Result<&'a Uri, String> {
        let uri = self.uris.iter().find(|uri| uri.transport == transport);
        uri.ok_or_else(|| format!("the broker has no listener for {}", transport.name()))
    }
}

/// Which ends take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Both,
    Publishers,
    Consumers,
}

/// Runs `case` once; a backlog gives two sets of figures, one for building and one for draining.
///
/// # Errors
/// In words for people: the broker could not be reached or ended the run. Broken promises are not errors but findings.
pub fn run(case: &Case, aim: &mut Aim<'_>, progress: &mut Progress) -> Result<Vec<Figures>, String> {
    let names = queue_names(case, aim.bench);
    let exchange = format!("{}-copies", prefix(aim.bench));
    let mut control = Control::open(aim.setup)?;
    if aim.bench.queue.is_none() {
        control.delete_queues(&names)?;
    }
    let mut arguments = aim.bench.arguments.clone();
    arguments.extend(case.fairness.map(|rule| ("x-fairness".to_owned(), Argument::Text(rule.to_owned()))));
    control.declare_queues(&names, case.queue_type, &arguments)?;
    if aim.bench.queue.is_some() {
        control.purge_queues(&names)?;
    }
    match &case.filters {
        Some(filters) => bind_by_content(&mut control, filters, &names, &exchange)?,
        None if case.spread == Spread::Copy => {
            control.declare_exchange(&exchange, "fanout")?;
            control.bind_queues(&names, &exchange)?;
        }
        None => {}
    }
    let parts: &[Part] = if case.is_backlog { &[Part::Publishers, Part::Consumers] } else { &[Part::Both] };
    let mut figures = Vec::new();
    let mut result = Ok(());
    for &part in parts {
        let phase = match case.protocol {
            Protocol::Amqp091 => phase::<Amqp091>(case, part, &names, &exchange, aim, progress),
            Protocol::Amqp10 => phase::<Amqp10>(case, part, &names, &exchange, aim, progress),
            Protocol::Stream => phase::<Streaming>(case, part, &names, &exchange, aim, progress),
        };
        match phase {
            Ok(phase) => figures.push(phase),
            Err(why) => {
                result = Err(why);
                break;
            }
        }
    }
    // Messages that were read from a stream stay there.
    if result.is_ok()
        && case.queue_type != QueueType::Stream
        && let Some(last) = figures.last_mut()
    {
        last.findings.left_over = left_over(&mut control, &names)?;
    }
    if !aim.bench.keep && aim.bench.queue.is_none() {
        control.delete_queues(&names)?;
        if case.spread == Spread::Copy {
            control.delete_exchange(&exchange)?;
        }
        if case.filters.is_some() {
            control.delete_queues(&[CHOSEN.to_owned()])?;
        }
    }
    control.close();
    result.map(|()| figures)
}

/// The queue of the messages that filters choose beside the load; it keeps one.
const CHOSEN: &str = "leveret-bench-chosen";

/// Binds the load's queue to an exchange that looks into messages, and another queue by as many filters.
fn bind_by_content(
    control: &mut Control,
    filters: &Filters,
    names: &[String],
    exchange: &str,
) -> Result<(), String> {
    control.delete_exchange(exchange)?;
    control.declare_exchange(exchange, "x-content")?;
    let said = |filter: &str| {
        let fields = TableWriter::fields(|table| table.put(b"x-filter", Value::Text(filter.as_bytes())));
        (String::new(), fields)
    };
    match filters.of_all {
        false => control.bind_queues(names, exchange)?,
        true => {
            for name in names {
                control.bind_by(name, exchange, &[said(content::OF_ALL)])?;
            }
        }
    }
    control.delete_queues(&[CHOSEN.to_owned()])?;
    let one = [("x-max-length".to_owned(), Argument::Number(1))];
    control.declare_queues(&[CHOSEN.to_owned()], QueueType::Classic, &one)?;
    let all = content::filters(filters.count).into_iter().chain(content::unindexable(filters.unindexable));
    let all: Vec<_> = all.map(|filter| said(&filter)).collect();
    control.bind_by(CHOSEN, exchange, &all)
}

fn prefix(bench: &Bench) -> &str {
    bench.queue.as_deref().unwrap_or("leveret-bench")
}

fn queue_names(case: &Case, bench: &Bench) -> Vec<String> {
    let prefix = prefix(bench);
    match case.queues {
        1 => vec![prefix.to_owned()],
        queues => (0..queues).map(|queue| format!("{prefix}-{queue}")).collect(),
    }
}

/// Messages that are still ready in the queues after everything was consumed and settled: there should be none.
fn left_over(control: &mut Control, names: &[String]) -> Result<u64, String> {
    // The last settlements may still be on their way, and some brokers count with a delay.
    for _ in 0..50 {
        let count = control.message_count(names)?;
        if count == 0 {
            return Ok(0);
        }
        thread::sleep(Duration::from_millis(100));
    }
    control.message_count(names)
}

/// Opens sockets in the order in which a broker hands them to its shards.
struct Doors<'a> {
    uri: &'a Uri,
    protocol: Protocol,
    placement: Placement,
    shards: u32,
    /// Connections made since the control connection, that one included.
    opened: u32,
    fillers: Vec<TcpStream>,
}

impl Doors<'_> {
    /// A socket that lands `shard` shards behind the control connection's, where that matters.
    fn open(&mut self, shard: u32) -> Result<Stream<TcpStream>, String> {
        while self.placement != Placement::Any && self.opened % self.shards != shard % self.shards {
            let filler = connect(self.uri)?;
            self.fillers.push(filler);
            self.opened += 1;
        }
        self.opened += 1;
        let socket = connect(self.uri)?;
        socket.set_nonblocking(true).map_err(|error| error.to_string())?;
        Stream::new(socket, self.uri, self.protocol)
    }
}

/// A TCP connection to the broker.
///
/// # Errors
/// In words for people.
pub fn connect(uri: &Uri) -> Result<TcpStream, String> {
    let socket = TcpStream::connect((uri.host.as_str(), uri.port))
        .map_err(|error| format!("no connection to {}:{}: {error}", uri.host, uri.port))?;
    socket.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(socket)
}

/// Which queues consumer `consumer` of `case` consumes from.
fn queues_of(case: &Case, consumer: u32) -> Vec<usize> {
    if case.consumers <= case.queues {
        (0..case.queues)
            .filter(|queue| queue % case.consumers == consumer)
            .map(|queue| queue as usize)
            .collect()
    } else {
        vec![(consumer % case.queues) as usize]
    }
}

/// Nothing seen yet of `case`.
fn seen(case: &Case) -> Seen {
    // The messages of each reader of a stream are told apart as if each had a queue of its own.
    let (is_copied, queues) = match case.spread {
        Spread::Turn => (false, case.queues),
        Spread::Copy => (true, case.queues),
        Spread::Readers => (true, case.consumers),
    };
    let priorities = u64::from(case.priorities.max(1));
    Seen::new(case.publishers as usize, queues as usize, is_copied, priorities)
}

fn phase<W: Wire>(
    case: &Case,
    part: Part,
    names: &[String],
    exchange: &str,
    aim: &mut Aim<'_>,
    progress: &mut Progress,
) -> Result<Figures, String> {
    // Where consumers come later, the number of messages that they must see is known when the publishers are done.
    let is_late = matches!(case.trial, Trial::Drain { .. });
    let due = match part {
        Part::Publishers => 0,
        _ if is_late => u64::MAX,
        _ => case.deliveries(),
    };
    let meter = Meter::new(due).map_err(|error| error.to_string())?;
    let bench = aim.bench;
    let uri = aim.uri(case.transport)?;
    let mut doors = Doors {
        uri,
        protocol: case.protocol,
        placement: bench.placement,
        shards: aim.shards,
        opened: 1,
        fillers: Vec::new(),
    };
    let worker =
        |is_publishing| Worker::<W> { streams: Vec::new(), ends: Vec::new(), is_publishing, lead: case.lead };
    let (mut publishing, mut consuming) = (worker(true), worker(false));
    let with_control = u32::from(bench.placement == Placement::Spread);
    if part != Part::Consumers {
        for index in 0..case.publishers {
            let stream = doors.open(with_control)?;
            let targets = match case.spread {
                Spread::Turn | Spread::Readers => names.iter().cloned().map(Target::Queue).collect(),
                Spread::Copy => vec![Target::Exchange(exchange.to_owned())],
            };
            let is_confirmed = case.protocol == Protocol::Amqp10 || case.confirm_window > 0;
            let purpose = Purpose::Publish {
                targets,
                is_confirmed,
                is_durable: case.is_durable,
                size: case.size,
                priorities: case.priorities,
                is_content: case.is_content(),
                headers: Vec::new(),
            };
            let rate = case.rate.map(|rate| rate as f64 / f64::from(case.publishers));
            let window = u64::from(case.confirm_window);
            let publisher = Publisher::new(index as u16, case.quota_of(index), window, is_confirmed, rate);
            publishing
                .ends
                .push(End::new(W::new(meter.now(), uri, purpose)?, Role::Publisher(Box::new(publisher))));
            publishing.streams.push(stream);
        }
    }
    let consume = |consuming: &mut Worker<W>, doors: &mut Doors<'_>| -> Result<(), String> {
        for index in 0..case.consumers {
            let stream = doors.open(2 * with_control)?;
            let queues = queues_of(case, index);
            let purpose = Purpose::Consume {
                queues: queues.iter().map(|&queue| names[queue].clone()).collect(),
                credit: case.credit,
                is_replay: case.has_choosy_readers && case.is_backlog,
                selector: match case.selectors {
                    Some(count) if count > 0 => Some(content::of_desk(index % count)),
                    _ => case.has_choosy_readers.then(|| content::of_reader(index)),
                },
            };
            let queues = if case.spread == Spread::Readers { vec![index as usize] } else { queues };
            let mut consumer =
                Consumer::new(seen(case), queues, case.size as usize, u64::from(case.ack_every));
            consumer.is_content = case.is_content();
            consuming
                .ends
                .push(End::new(W::new(meter.now(), uri, purpose)?, Role::Consumer(Box::new(consumer))));
            consuming.streams.push(stream);
        }
        Ok(())
    };
    if part != Part::Publishers && !is_late {
        consume(&mut consuming, &mut doors)?;
    }
    if bench.one_thread {
        publishing.ends.append(&mut consuming.ends);
        publishing.streams.append(&mut consuming.streams);
    }
    let workers: Vec<Worker<W>> =
        [publishing, consuming].into_iter().filter(|worker| !worker.ends.is_empty()).collect();
    let count = workers.len();
    let (sender, news) = mpsc::channel();
    thread::scope(|scope| {
        let start = |worker: Worker<W>| {
            let (meter, sender) = (&meter, sender.clone());
            scope.spawn(move || worker.run(meter, &sender))
        };
        let mut threads: Vec<_> = workers.into_iter().map(start).collect();
        let fillers = std::mem::take(&mut doors.fillers);
        let come = || {
            let mut late = worker(false);
            consume(&mut late, &mut doors)?;
            threads.push(start(late));
            Ok(())
        };
        let cast = Cast { workers: count, fillers, trial: case.trial, come };
        let watched = watch(&meter, &news, cast, aim, progress);
        meter.stop();
        let mut ends = Vec::new();
        for thread in threads {
            ends.extend(thread.join().map_err(|_| "a client thread panicked".to_owned())?);
        }
        count_up(case, part, &meter, &ends, watched)
    })
}

/// The findings of [`watch`] about the run.
struct Watched {
    before: Option<Usage>,
    after: Option<Usage>,
    rss_peak: u64,
    client_cpu_ns: u64,
    writing: Option<Writing>,
    failure: Option<String>,
    verdict: Option<Verdict>,
}

/// The workers and other parts of a run.
struct Cast<F> {
    /// Those that are there from the beginning.
    workers: usize,
    /// Connections that only kept places until all others were made.
    fillers: Vec<TcpStream>,
    trial: Trial,
    /// Starts one worker more, the consumers that come when the trial says so.
    come: F,
}

/// Waits until all workers are ready, starts them, and watches until they are done.
fn watch(
    meter: &Meter,
    news: &mpsc::Receiver<News>,
    cast: Cast<impl FnMut() -> Result<(), String>>,
    aim: &mut Aim<'_>,
    progress: &mut Progress,
) -> Watched {
    let Cast { workers, fillers, trial, mut come } = cast;
    let mut watched = Watched {
        before: None,
        after: None,
        rss_peak: 0,
        client_cpu_ns: 0,
        writing: None,
        failure: None,
        verdict: None,
    };
    let deadline = Instant::now() + READY;
    for _ in 0..workers {
        match news.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(News::Ready) => {}
            Ok(News::Failed(why)) => {
                watched.failure = Some(why);
                return watched;
            }
            Ok(News::Done { .. }) | Err(_) => {
                watched.failure = Some("the connections were not ready in time".to_owned());
                return watched;
            }
        }
    }
    drop(fillers);
    let mut witness = Witness::new(trial);
    let mut usage = || aim.process.as_deref_mut().and_then(|process| process.usage().ok());
    watched.before = usage();
    let own_before_ns = process_cpu_ns();
    meter.go();
    let started = Instant::now();
    let stall = Duration::from_secs(u64::from(aim.bench.stall_seconds));
    let mut moved_at = Instant::now();
    let mut moved = 0;
    let mut left = workers;
    while left > 0 {
        match news.recv_timeout(WATCH) {
            Ok(News::Done { cpu_ns }) => {
                watched.client_cpu_ns += cpu_ns;
                left -= 1;
                // Publishers have done their part before the readers of their messages.
                if watched.writing.is_none()
                    && let (Some(before), Some(now)) = (watched.before, usage())
                {
                    let client_ns = process_cpu_ns() - own_before_ns;
                    watched.writing = Some(Writing::between(started.elapsed(), before, now, client_ns));
                }
                if trial.ends_publishing() {
                    // The publishers, for which the consumers wait.
                    meter.no_more_comes();
                }
            }
            Ok(News::Failed(why)) => {
                watched.failure = Some(why);
                break;
            }
            Ok(News::Ready) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if left == 0 {
            break;
        }
        let now_moved = meter.published.get() + meter.confirmed.get() + meter.consumed.get();
        if now_moved != moved {
            moved = now_moved;
            moved_at = Instant::now();
        } else if moved_at.elapsed() > stall {
            watched.failure = Some(format!("nothing moved for {} s", stall.as_secs()));
            break;
        }
        let usage = usage();
        watched.rss_peak = watched.rss_peak.max(usage.map_or(0, |usage| usage.rss));
        progress.show(meter, watched.before, usage);
        let look = Look {
            seconds: started.elapsed().as_secs_f64(),
            published: meter.published.get(),
            consumed: meter.consumed.get(),
            resident: usage.map(|usage| usage.rss),
        };
        match witness.see(look) {
            Step::GoOn => {}
            Step::StartConsumers => match come() {
                Ok(()) => left += 1,
                Err(why) => {
                    watched.failure = Some(why);
                    break;
                }
            },
            Step::EndPublishing => meter.enough(),
        }
    }
    watched.after = usage();
    watched.verdict = witness.verdict();
    progress.end();
    watched
}

/// Adds up the counts of the ends.
fn count_up<W: Wire>(
    case: &Case,
    part: Part,
    meter: &Meter,
    ends: &[End<W>],
    watched: Watched,
) -> Result<Figures, String> {
    let (mut delivery, mut confirm) = (latencies(), latencies());
    let mut published: Vec<u64> = (0..case.publishers).map(|index| case.quota_of(index)).collect();
    let mut findings = Findings::default();
    let mut refusal = None;
    let mut seen: Option<Seen> = None;
    for end in ends {
        match &end.role {
            Role::Publisher(publisher) => {
                published[usize::from(publisher.index)] = publisher.published;
                findings.refused += publisher.refused;
                findings.unconfirmed += end.unconfirmed();
                refusal = refusal.or_else(|| publisher.refusal.clone());
                confirm.add(&publisher.latency).map_err(|error| error.to_string())?;
            }
            Role::Consumer(consumer) => {
                delivery.add(&consumer.latency).map_err(|error| error.to_string())?;
                let all = seen.get_or_insert_with(|| self::seen(case));
                all.merge(&consumer.seen);
            }
        }
    }
    if let Some(seen) = seen {
        // Of those who choose, as many came as were due: else the run did not end.
        let due = if case.has_choosy_readers { vec![0; published.len()] } else { published };
        findings = findings.plus(seen.findings(&due));
    }
    let (before, after) = (watched.before, watched.after);
    if let Some(why) = watched.failure {
        return Err(format!(
            "{why} (published {}, confirmed {}, delivered {} of {})",
            meter.published.get(),
            meter.confirmed.get(),
            meter.consumed.get(),
            if meter.due() == u64::MAX { meter.published.get() } else { meter.due() },
        ));
    }
    let consumed = meter.consumed.get();
    // Those who choose look at all.
    let looked_at =
        if case.has_choosy_readers && part != Part::Publishers { case.messages } else { consumed };
    let messages = meter.published.get().max(looked_at);
    let publish_seconds = meter.publish_span_ns() as f64 / 1e9;
    let consume_seconds = meter.consume_span_ns() as f64 / 1e9;
    Ok(Figures {
        part: match part {
            Part::Both => "",
            Part::Publishers => "build",
            Part::Consumers => "drain",
        },
        published: meter.published.get(),
        confirmed: meter.confirmed.get(),
        consumed,
        publish_seconds,
        consume_seconds,
        in_per_second: crate::run::rate(meter.published.get(), publish_seconds),
        out_per_second: crate::run::rate(consumed, consume_seconds),
        body_bytes: case.size,
        // Each part has a clock of its own, and how long a backlog lay is no figure of the broker's.
        delivery: Latency::of(&delivery).filter(|_| part == Part::Both),
        confirm: Latency::of(&confirm),
        cpu: before.zip(after).map(|(before, after)| crate::run::Cpu::between(before, after, messages)),
        resident: before.zip(after).map(|(before, after)| Resident {
            before: before.rss,
            peak: watched.rss_peak.max(after.rss).max(before.rss),
            after: after.rss,
        }),
        writing: watched.writing.filter(|_| case.spread == Spread::Readers),
        client_ns_per_message: watched.client_cpu_ns as f64 / messages.max(1) as f64,
        findings,
        refusal,
        verdict: watched.verdict,
    })
}
