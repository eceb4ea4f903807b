//! The answers to the administration socket's requests, from the shards' own.

use crate::alarm::{Meter, Watermarks};
use crate::board::Board;
use crate::clock::Clock;
use crate::config::{Config, Limit, ShownSetting};
use crate::door::{Door, Letter, Room};
use crate::end::End;
use crate::heap;
use crate::lanes::Lanes;
use crate::log::Logger;
use crate::log::level::Level;
use crate::manager::Manager;
use crate::seat;
use crate::trail;
use base::id::{LogId, NodeNo, ShardId};
use broker::Shard;
use broker::access::{Claim, Judged};
use broker::catalog::Catalog;
use management::Node;
use node::turn::Raised;
use serde_json::Value;
use std::path::Path;
use std::string::FromUtf8Error;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// The answer to questions about other nodes where there are none.
const ALONE: &str = "Error: this node is alone: no log of it has replicas on other nodes";

/// How long an answer of a shard is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
pub struct Desk<'a> {
    /// All shards' doors.
    pub doors: &'a [Door],
    /// The management of the node, which the HTTP API uses as well.
    pub manager: &'a Manager<'a>,
    /// The pages of dashboards.
    pub board: &'a Board,
    /// The lanes to other nodes, where there are any.
    pub lanes: Option<&'a Lanes>,
    /// The node's configuration.
    pub config: &'a Config,
    /// Where it listens.
    pub ports: &'a [ctl::Listener],
    /// The alarms that hold.
    pub raised: &'a (dyn Fn() -> Raised + Sync),
    /// When alarms are raised.
    pub watermarks: &'a Watermarks,
    /// Since when it runs.
    pub clock: Clock,
    /// The log.
    pub logger: &'a Logger,
    /// The channel on which the node is told to end.
    pub end: Sender<End>,
}

impl Desk<'_> {
    /// Answers a request.
    pub fn answer(&self, request: ctl::Request) -> ctl::Answer {
        match request {
            ctl::Request::Ping => Ok(serde_json::json!({
                "node": self.config.node_name,
                "pid": std::process::id(),
                "version": base::rabbitmq::VERSION,
                "state": ctl::RUNNING,
            })),
            ctl::Request::StopApp => {
                trail::tell(self.logger, trail::STOP_APP);
                // One that ends already has heard.
                let _ = self.end.send(End::StopApp);
                Ok(Value::Null)
            }
            ctl::Request::StartApp => Ok(Value::Null),
            ctl::Request::Reset => Err(refusal(
                ctl::exit::USAGE,
                "Error: this command requires the 'rabbit' app to be stopped on the target node. Stop it with 'rabbitmqctl stop_app'."
                    .to_owned(),
            )),
            ctl::Request::Stop => {
                trail::tell(self.logger, trail::STOP);
                // One that ends already has heard.
                let _ = self.end.send(End::Asked);
                Ok(Value::Null)
            }
            ctl::Request::Authenticate { user, password } => self.authenticate(user, password),
            ctl::Request::SetLogLevel { level } => {
                trail::set_level(self.logger, Level::read(&level).map_err(unfit_word)?);
                Ok(Value::Null)
            }
            ctl::Request::MoveLog { log, shard } => self.move_log(LogId(log), ShardId(shard)),
            ctl::Request::Replicas => self.replicas(),
            ctl::Request::GiveLead { log, node } => self.give_lead(LogId(log), NodeNo(node)),
            ctl::Request::LogTail { lines } => json(&self.logger.last(lines as usize)),
            ctl::Request::LogSince { next } => {
                let (lines, next) = self.logger.since(next);
                Ok(serde_json::json!({ "lines": lines, "next": next }))
            }
            ctl::Request::Environment => {
                let row = |setting: &ShownSetting| ctl::SettingRow {
                    key: setting.key.clone(),
                    value: setting.value.clone(),
                    from: setting.from.clone(),
                };
                json(&self.config.shown.iter().map(row).collect::<Vec<_>>())
            }
            ctl::Request::Trim => {
                heap::trim();
                trail::tell(self.logger, trail::TRIM);
                Ok(Value::Null)
            }
            ctl::Request::Status => json(&self.status()?),
            ctl::Request::MemoryBreakdown => json(&self.memory()?),
            ctl::Request::Top { asked } => json(&self.board.look(self.manager, &asked).map_err(|_| busy())?),
            ctl::Request::Api { method, target, body, reason } => {
                let request = management::Request::new(&method, &target, body.into_bytes(), true);
                let Some(mut request) = request else {
                    let why = "the path or the query cannot be decoded";
                    return Err(refusal(ctl::exit::USAGE, why.to_owned()));
                };
                (request.is_own, request.reason) = (true, reason);
                // Nobody logs in for either here.
                let answered = match target.split('?').next() {
                    Some("/metrics") => management::metrics(self.manager, &request),
                    _ => management::handle(self.manager, &request),
                };
                let management::Response { status, body, .. } = answered;
                let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
                // A list of all queues is many MiB: it is not copied.
                let body = String::from_utf8(body).unwrap_or_else(lossy);
                let fields = [("status", Value::from(status)), ("body", Value::from(body))];
                Ok(Value::Object(base::brief::collect(
                    fields.into_iter().map(|(name, value)| (name.to_owned(), value)),
                )))
            }
            ctl::Request::SetMemoryLimit { limit } => {
                self.watermarks.set_memory(&limit).map_err(unfit_word)?;
                let (bytes, total) = (self.watermarks.bytes().0, self.watermarks.total());
                trail::tell(self.logger, &trail::memory_limit(bytes, total));
                self.judge()
            }
            ctl::Request::SetDiskLimit { limit } => {
                self.watermarks.set_disk(&limit).map_err(unfit_word)?;
                trail::tell(self.logger, &trail::disk_limit(self.watermarks.bytes().1));
                self.judge()
            }
        }
    }

    /// The replicas of this node, and its lanes to others.
    fn replicas(&self) -> ctl::Answer {
        let Some(lanes) = self.lanes else { return Err(refusal(ctl::exit::DATA, ALONE.to_owned())) };
        let logs = self.config.logs.unwrap_or_default();
        let mut replicas = Vec::new();
        for door in self.doors {
            let rows = move |room: &Room<'_>| {
                room.replicas.map(|replicas| seat::rows(replicas, logs)).unwrap_or_default()
            };
            replicas.extend(door.visit(PATIENCE, rows).ok_or_else(busy)?);
        }
        base::brief::sort_by_key(&mut replicas, |row| row.log);
        json(&serde_json::json!({ "replicas": replicas, "lanes": lanes.rows(), "dropped": lanes.dropped() }))
    }

    /// The shard that has the log knows whether it leads.
    fn give_lead(&self, log: LogId, to: NodeNo) -> ctl::Answer {
        let Some(lanes) = self.lanes else { return Err(refusal(ctl::exit::DATA, ALONE.to_owned())) };
        if lanes.met().iter().all(|met| met.number != to) {
            return Err(refusal(ctl::exit::DATA, format!("Error: no other node has the number {}", to.0)));
        }
        let mut led = false;
        for door in self.doors {
            let (sender, receiver) = channel();
            door.letters.put(Letter::GiveLead(log, to, sender));
            led |= receiver.recv_timeout(PATIENCE).map_err(|_| busy())?;
        }
        Ok(Value::Bool(led))
    }

    /// Shard 0 plans the moves of logs.
    fn move_log(&self, log: LogId, to: ShardId) -> ctl::Answer {
        if self.lanes.is_some() {
            let why = "Error: logs that nodes agree on stay at their shard so far";
            return Err(refusal(ctl::exit::DATA, why.to_owned()));
        }
        let (sender, receiver) = channel();
        self.doors[0].letters.put(Letter::MoveLog(log, to, sender));
        let answer = receiver.recv_timeout(PATIENCE).map_err(|_| busy())?;
        answer.map_err(|why| refusal(ctl::exit::DATA, format!("Error: {why}")))?;
        trail::tell(self.logger, &trail::moved_log(log.0, to.0));
        Ok(Value::Null)
    }

    fn authenticate(&self, user: String, password: String) -> ctl::Answer {
        let name = user.clone();
        let look = move |shard: &Shard| Claim::new(shard.catalog(), &name, &password, true);
        let claim = self.doors[0].look(PATIENCE, look).ok_or_else(busy)?;
        // An administrator is no guesser.
        let about = &self.manager.about;
        let outcome = match claim.judge(self.clock.now(), &about.guard, None, &about.access) {
            Judged::Done(found) => found,
            Judged::Trial(trial) => self.manager.carry_out(trial).map_err(|_| busy())?,
        };
        let denied = outcome.as_ref().err().map(|denied| &*denied.reason);
        trail::authenticated(self.logger, &user, denied);
        outcome.map_err(|denied| {
            let text = format!("Error:\nError: failed to authenticate user \"{user}\"\n{}", denied.reason);
            refusal(ctl::exit::DATA, text)
        })?;
        Ok(Value::Null)
    }

    /// Limits were changed: answers once publishers are held, or let go, by the new ones. Whoever sets one relies on it from then on.
    fn judge(&self) -> ctl::Answer {
        let (sender, receiver) = channel();
        self.end.send(End::Judge(sender)).map_err(|_| busy())?;
        receiver.recv_timeout(PATIENCE).map_err(|_| busy())?;
        Ok(Value::Null)
    }

    fn memory(&self) -> Result<ctl::Memory, ctl::Refusal> {
        let told = self.manager.memory().map_err(|_| busy())?;
        let total = [("rss", told.resident), ("allocated", told.allocated), ("erlang", told.in_use)];
        let named = |(name, bytes): (&str, u64)| (name.to_owned(), bytes);
        Ok(ctl::Memory {
            total: base::brief::collect(total.into_iter().map(named)),
            pools: base::brief::collect(told.pools.into_iter().map(named)),
        })
    }

    fn status(&self) -> Result<ctl::Status, ctl::Refusal> {
        let counts = |catalog: &Catalog| [catalog.queue_count() as u64, catalog.vhosts().count() as u64];
        let [queue_count, virtual_host_count] = self.manager.look(counts).map_err(|_| busy())?;
        let connection_count = self.manager.connection_count().map_err(|_| busy())?;
        let totals = ctl::Totals { connection_count, queue_count, virtual_host_count };
        let (memory_limit, disk_limit) = self.watermarks.bytes();
        let sample = Meter::new(&self.config.data_dir).sample();
        let (setting, value) = match self.watermarks.memory() {
            Limit::Share(share) => ("relative", share),
            Limit::Bytes(bytes) => ("absolute", bytes as f64),
        };
        Ok(ctl::Status {
            node_name: self.config.node_name.clone(),
            pid: std::process::id(),
            os: "Linux".into(),
            rabbitmq_version: base::rabbitmq::VERSION.into(),
            product_name: "Leveret".into(),
            product_version: env!("CARGO_PKG_VERSION").into(),
            erlang_version: String::new(),
            uptime: self.clock.now().mono_ns / 1_000_000_000,
            alarms: (self.raised)().names(),
            listeners: self.ports.to_vec(),
            config_files: self.config.files.iter().map(|path| path.display().to_string()).collect(),
            data_directory: absolute(&self.config.data_dir),
            log_files: vec!["<stdout>".into()],
            memory: self.memory()?,
            vm_memory_high_watermark_limit: memory_limit,
            vm_memory_high_watermark_setting: [(setting.to_owned(), value)].into(),
            disk_free_limit: disk_limit,
            disk_free: sample.map_or(0, |sample| sample.disk_free),
            totals,
        })
    }
}

/// The refusal of a word of the command line that does not fit.
fn unfit_word(why: String) -> ctl::Refusal {
    refusal(ctl::exit::DATA, format!("Error (argument validation): Bad argument: {why}"))
}

fn refusal(code: u8, message: String) -> ctl::Refusal {
    ctl::Refusal { code, message }
}

fn busy() -> ctl::Refusal {
    refusal(ctl::exit::UNAVAILABLE, "the node is busy: a shard did not answer in time".into())
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn json(value: &impl serde::Serialize) -> ctl::Answer {
    let failed =
        |error: serde_json::Error| ctl::Refusal { code: ctl::exit::SOFTWARE, message: error.to_string() };
    serde_json::to_value(value).map_err(failed)
}
