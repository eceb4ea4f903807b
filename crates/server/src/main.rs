//! The `leveret` binary: a node, its administration, and the load generator.
//!
//! The outermost room: the only one that knows sockets, threads, the clock, signals and real files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the shell is where these live")]

mod acceptor;
mod agent;
mod alarm;
mod allotment;
mod board;
mod breakdown;
mod certificate;
mod clock;
mod committer;
mod complaints;
mod config;
mod courtesy;
mod crowd;
mod daemon;
mod definitions;
mod descriptors;
mod desk;
mod disk;
mod door;
mod end;
mod entrance;
mod eviction;
mod exposure;
mod flushes;
mod gentle;
mod greeting;
mod handshake;
mod heap;
mod holder;
mod http;
mod idle;
mod keeper;
mod lanes;
mod layer;
mod leftovers;
mod line;
mod linger;
mod log;
mod mailbox;
mod manager;
mod membership;
mod news;
mod notify;
mod pages;
mod passwords;
mod pauses;
mod ports;
mod private;
mod private_key;
mod queue_names;
mod queue_orders;
mod reader;
mod rounds;
mod running;
mod seat;
mod seed;
mod several;
mod shard;
mod socket;
mod sweeper;
mod timers;
mod tls;
mod trail;
mod turns;

use crate::disk::{DiskOptions, RealDisk};
use crate::log::Output;
use crate::log::file::LogFile;
use clap::{CommandFactory, Parser, Subcommand};
use config::{Config, Loaded, Sources};
use ctl::shells::{self, Shell};
use end::End;
use log::Logger;
use log::level::Level;
use rustix::fs::Mode;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};

/// A message broker: RabbitMQ's protocols in front, one durable log behind.
#[derive(Parser)]
#[command(version, name = "leveret", after_help = EXAMPLES)]
struct Leveret {
    /// None: a node on a terminal, this help elsewhere
    #[command(subcommand)]
    command: Option<Command>,
}

/// Next steps, below the help.
const EXAMPLES: &str = "\
Examples:
  leveret                              A node: AMQP on port 5672, HTTP API on 15672, data in ./leveret-data
  leveret server --check-config --config rabbitmq.conf
                                       Whether the settings of a RabbitMQ can be used
  leveret server --config rabbitmq.conf --data-dir /srv/leveret
  leveret ctl add_user app secret      A user; 'leveret ctl help' has all commands, by subject
  leveret top                          Queues and rates of the node, live
  leveret bench quorum-amqp091         A load on a node of its own, and its figures

Called by the name of one of RabbitMQ's tools (rabbitmqctl, rabbitmq-diagnostics, ...), the program is that tool, and
as rabbitmq-server it is a node. Pages of a manual: leveret man FOLDER. Settings: those of rabbitmq.conf, also as
--set KEY=VALUE and as LEVERET_KEY in the environment.";

#[derive(Subcommand)]
enum Command {
    /// Runs a node in the foreground
    Server(Server),
    /// Runs the nodes of a cluster on this machine, to try it out
    Cluster(several::Several),
    /// Puts a load on a broker and says what it took
    Bench(Box<perf::Bench>),
    /// Asks a running node, or tells it what to do
    Ctl(ctl::command::Ctl),
    /// Shows what goes on in a running node, on a terminal
    Top(ctl::top::Top),
    /// Writes a script that completes command lines in a shell
    Completions {
        shell: Shell,
        /// Of the tool that is called so: rabbitmqctl, rabbitmq-diagnostics, ...
        #[arg(long, default_value = "leveret")]
        name: String,
    },
    /// Writes manual pages, of RabbitMQ's tool names too, into a folder
    Man { folder: PathBuf },
}

/// Advice for a node that may do everything on its machine.
const AS_ROOT: &str =
    "the node runs as root, which it does not need: give it a user of its own, as the packages do";

#[derive(Debug, Default, clap::Args)]
struct Server {
    /// Settings, in the syntax of rabbitmq.conf
    #[arg(long)]
    config: Option<PathBuf>,
    /// Where everything is kept
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// One more setting, which wins over files and environment
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Says whether the settings can be used, and ends
    #[arg(long)]
    check_config: bool,
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let called = words.first().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str());
    if called.is_some_and(|name| ctl::command::NAMES.contains(&name)) {
        return ExitCode::from(ctl::command::main(words));
    }
    if called == Some(ctl::admin::NAME) {
        return ExitCode::from(ctl::admin::main(words));
    }
    if called == Some(daemon::NAME) {
        return daemon::main(words);
    }
    let command = match Leveret::try_parse_from(&words) {
        Ok(read) => read.command,
        Err(error) if words.get(1).is_some_and(|word| word == "ctl") => {
            return ExitCode::from(ctl::command::explain(&error, &words));
        }
        Err(error) => error.exit(),
    };
    match command {
        None => without_words(),
        Some(command) => run(command),
    }
}

/// A node for somebody at a terminal; the help for a script, which did not mean to start one for good.
fn without_words() -> ExitCode {
    if std::io::stdout().is_terminal() {
        println!("{}", greeting::ON_TERMINAL);
        return serve(Server::default());
    }
    let _ = writeln!(std::io::stderr(), "{}", Leveret::command().render_help());
    ExitCode::from(ctl::exit::USAGE)
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::Server(server) => serve(server),
        Command::Cluster(cluster) => several::main(&cluster),
        Command::Bench(bench) => perf::main(&bench),
        Command::Ctl(ctl) => ExitCode::from(ctl::command::run(&ctl)),
        Command::Top(top) => ExitCode::from(ctl::top::main(&top)),
        Command::Completions { shell, name } => complete(shell, &name),
        Command::Man { folder } => write_pages(&folder),
    }
}

fn complete(shell: Shell, name: &str) -> ExitCode {
    let own = match name {
        "leveret" => Some(Leveret::command()),
        ctl::admin::NAME => Some(ctl::admin::Admin::command()),
        _ => ctl::command::tool(name),
    };
    let Some(command) = own else {
        let (admin, names) = (ctl::admin::NAME, ctl::command::NAMES.join(", "));
        eprintln!("leveret: no tool is called {name}: leveret, {admin}, {names}");
        return ExitCode::FAILURE;
    };
    // The reader of the pipe may have closed it.
    let _ = std::io::stdout().write_all(shells::completions(command, shell).as_bytes());
    ExitCode::SUCCESS
}

fn write_pages(folder: &Path) -> ExitCode {
    match shells::write_pages([Leveret::command(), ctl::admin::Admin::command()], folder) {
        Ok(count) => {
            println!("{count} pages in {}", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("leveret: manual pages cannot be written into {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

/// Says all that is to be said of the settings: what has no effect, what cannot be used, in files they name as well.
fn check(mut loaded: Loaded) -> ExitCode {
    let definitions = definitions::read(&loaded.config).map(drop).err();
    let tls = ports::problems_of_tls(&loaded.config);
    definitions.into_iter().chain(tls).for_each(|why| loaded.refuse(why));
    println!("{loaded}");
    if loaded.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn serve(server: Server) -> ExitCode {
    // Before anything is made: messages and hashes of passwords are for the node's user alone.
    rustix::process::umask(Mode::from_raw_mode(0o077));
    if let Err(why) = seed::hashes() {
        eprintln!("leveret: {why}");
        return ExitCode::FAILURE;
    }
    let is_check = server.check_config;
    let loaded = load(server);
    if is_check {
        return check(loaded);
    }
    let config = match loaded.usable() {
        Ok(config) => config,
        Err(problems) => {
            problems.iter().for_each(|problem| eprintln!("leveret: {problem}"));
            return ExitCode::FAILURE;
        }
    };
    let told = match claim(&config) {
        Ok(told) => told,
        Err(why) => {
            eprintln!("leveret: {why}");
            return ExitCode::FAILURE;
        }
    };
    let started =
        outputs(&config).and_then(|outputs| log::start_all(outputs).map_err(|error| error.to_string()));
    let (logger, writer) = match started {
        Ok(started) => started,
        Err(why) => {
            eprintln!("leveret: the log cannot be started: {why}");
            return ExitCode::FAILURE;
        }
    };
    if !config.dumps_core
        && let Err(error) = private::no_core()
    {
        logger.warning(format!("core files cannot be prevented: {error}"));
    }
    logger.info(format!("Starting Leveret {} (as RabbitMQ {})", greeting::VERSION, base::rabbitmq::VERSION));
    let files: Vec<String> = config.files.iter().map(|file| file.display().to_string()).collect();
    if !files.is_empty() {
        logger.info(format!("settings are read from {}", files.join(", ")));
    }
    if rustix::process::geteuid().is_root() {
        logger.warning(AS_ROOT);
    }
    config.warnings.iter().chain(&told).for_each(|warning| logger.warning(warning.as_str()));
    let (end, ends) = channel();
    let outcome = listen_for_signals(end.clone(), logger.clone())
        .and_then(|()| write_pid(&config))
        .and_then(|()| running::run(&config, &logger, end, &ends));
    if let Err(why) = &outcome {
        logger.log(Level::Critical, why.as_str());
    }
    drop(logger);
    writer.finish();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // The log on the console has said it.
            if !config.log.is_on_console() {
                eprintln!("leveret: {why}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Sees to it that the data folder is this node's before lines of the log go into it: another node's that runs there, or another
/// user's, is left as it is. What was mended of it.
fn claim(config: &Config) -> Result<Option<String>, String> {
    if !config.log_file().is_some_and(|file| file.starts_with(&config.data_dir)) {
        return Ok(None);
    }
    let disk = RealDisk::open(&config.data_dir, DiskOptions::default()).map_err(|error| error.to_string())?;
    Ok(disk.told().map(str::to_owned))
}

/// Where lines of the log go.
fn outputs(config: &Config) -> Result<Vec<Output>, String> {
    let log = &config.log;
    let mut outputs = Vec::new();
    if log.has_console {
        let to: Box<dyn Write + Send> =
            if log.is_stderr { Box::new(std::io::stderr()) } else { Box::new(std::io::stdout()) };
        outputs.push(Output { level: log.level_of(&log.console), format: log.console.format(), to });
    }
    if let Some(path) = config.log_file() {
        let file = LogFile::open(path.clone(), log.rotation.clone());
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        let level = log.level_of(&log.file_output);
        outputs.push(Output { level, format: log.file_output.format(), to: Box::new(file) });
    }
    Ok(outputs)
}

fn load(server: Server) -> Loaded {
    let read = |path: &Path| std::fs::read_to_string(path);
    let list = |path: &Path| {
        let entries = std::fs::read_dir(path)?;
        entries.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    let environment = std::env::vars_os();
    let text =
        environment.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    config::load(&Sources {
        file: server.config,
        data_dir: server.data_dir,
        settings: server.settings,
        environment: text.collect(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        read: &read,
        list: &list,
    })
}

fn write_pid(config: &Config) -> Result<(), String> {
    let Some(path) = &config.pid_file else { return Ok(()) };
    // The supervisor of the node may be another user.
    let written = private::write(path, format!("{}\n", std::process::id()).as_bytes(), 0o644);
    written.map_err(|error| format!("cannot write the pid file {}: {error}", path.display()))
}

/// SIGTERM and SIGINT end the node; SIGHUP, which a closing terminal sends to a node in the foreground, does too.
fn listen_for_signals(end: Sender<End>, logger: Logger) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("signals cannot be received: {error}");
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(failed)?;
    let wait = move || {
        for signal in signals.forever() {
            let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
            logger.info(format!("{name} received - shutting down"));
            if end.send(End::Asked).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map_err(failed)?;
    Ok(())
}
