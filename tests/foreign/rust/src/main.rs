//! Clients written in Rust against a broker: `foreign lapin|fe2o3-amqp|rust-stream --uri URI`, one JSON result a line.
//!
//! A case ends after a while whatever it does; every case that was selected yields one result.

mod amqp;
mod lapin_cases;
mod stream_cases;

use serde_json::json;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const WAIT: Duration = Duration::from_secs(15);
pub const QUIET: Duration = Duration::from_millis(250);
/// How the reason begins why a case was not tried.
pub const SKIP: &str = "skipped: ";
const CASE: Duration = Duration::from_secs(40);

/// Why a case failed.
pub type Outcome<T = ()> = Result<T, String>;
type Act = fn() -> Pin<Box<dyn Future<Output = Outcome>>>;

/// A case: the trial, and the answer that the broker is to give.
pub struct Case {
    pub name: &'static str,
    pub behaviour: &'static str,
    pub answer: &'static str,
    pub act: Act,
}

/// Where the broker is, and the relay before it.
#[derive(Debug, Default)]
pub struct Options {
    pub uri: String,
    only: String,
    pub relay: Option<u16>,
    cut: Option<u16>,
    pub stream_port: u16,
    /// Where a broker speaks to stream clients over TLS, and the folder of its certificates.
    pub stream_tls: Option<u16>,
    pub certificates: String,
}

static OPTIONS: OnceLock<Options> = OnceLock::new();
static NUMBERS: AtomicU32 = AtomicU32::new(1);

pub fn options() -> &'static Options {
    OPTIONS.get().expect("set when the program begins")
}

/// An error of any library, in words.
pub trait Say<T> {
    fn say(self, what: &str) -> Outcome<T>;
}

impl<T, E: Debug> Say<T> for Result<T, E> {
    fn say(self, what: &str) -> Outcome<T> {
        self.map_err(|error| format!("{what}: {error:?}"))
    }
}

pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> Outcome<T> {
    tokio::time::timeout(WAIT, future).await.map_err(|_| format!("{what}: nothing after {WAIT:?}"))
}

pub fn equal<T: PartialEq + Debug>(seen: T, expected: T, what: &str) -> Outcome {
    if seen == expected { Ok(()) } else { Err(format!("{what}: saw {seen:?}, expected {expected:?}")) }
}

pub fn fresh(word: &str) -> String {
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    format!("foreign.rust.{word}.{:x}.{number}", std::process::id())
}

/// The broker's URI, through the relay.
pub fn relayed() -> Outcome<String> {
    let port = options().relay.ok_or("needs --relay and --cut")?;
    let (login, _) = options().uri.split_once('@').ok_or("a URI without a login")?;
    Ok(format!("{login}@127.0.0.1:{port}"))
}

/// Resets all connections through the relay.
pub async fn cut() -> Outcome {
    let port = options().cut.ok_or("needs --relay and --cut")?;
    let knock = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.say("cut")?;
    soon("the cut", knock.readable()).await?.say("cut")
}

fn main() {
    let mut words = std::env::args().skip(1);
    let suite = words.next().unwrap_or_default();
    let cases = match suite.as_str() {
        "lapin" => lapin_cases::cases(),
        "fe2o3-amqp" => amqp::cases(),
        "rust-stream" => stream_cases::cases(),
        _ => {
            eprintln!("usage: foreign lapin|fe2o3-amqp|rust-stream --uri URI");
            std::process::exit(64);
        }
    };
    OPTIONS.set(parse(words)).expect("set once");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut failed = false;
    for case in cases {
        let name = format!("{suite}.{}", case.name);
        if !matches(&options().only, &name) {
            continue;
        }
        let begin = Instant::now();
        let done = runtime.block_on(async { tokio::time::timeout(CASE, (case.act)()).await });
        let why = match done {
            Ok(Ok(())) => String::new(),
            Ok(Err(why)) => why.chars().take(500).collect(),
            Err(_) => format!("no end after {CASE:?}"),
        };
        let (status, why) = match why.strip_prefix(SKIP) {
            Some(why) => ("skipped", why),
            None if why.is_empty() => ("ok", ""),
            None => ("failed", &*why),
        };
        failed |= status == "failed";
        let result = json!({
            "name": name,
            "status": status,
            "why": why,
            "behaviour": case.behaviour,
            "answer": case.answer,
            "seconds": begin.elapsed().as_secs_f64(),
        });
        println!("{result}");
    }
    std::process::exit(i32::from(failed));
}

fn parse(mut words: impl Iterator<Item = String>) -> Options {
    let mut options = Options {
        uri: "amqp://guest:guest@127.0.0.1:5672".to_owned(),
        only: "*".to_owned(),
        stream_port: 5552,
        ..Options::default()
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match word.as_str() {
            "--uri" => options.uri = value(),
            "--only" => options.only = value(),
            "--stream-port" => options.stream_port = value().parse().unwrap_or(options.stream_port),
            "--stream-tls" => options.stream_tls = value().parse().ok(),
            "--certificates" => options.certificates = value(),
            "--relay" => options.relay = value().parse().ok(),
            "--cut" => options.cut = value().parse().ok(),
            "--full" | "--later" => {} // there is one form, and all of it is due
            "--seed" | "--admin" => drop(value()), // nothing is random; for other suites
            _ => {
                eprintln!("unknown option {word}");
                std::process::exit(64);
            }
        }
    }
    options
}

/// `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(after, &rest[at..]))
        }),
    }
}
