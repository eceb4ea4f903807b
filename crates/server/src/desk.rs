//! Where the administration socket's questions are answered, from what the shards say.

use crate::alarm::{Meter, Watermarks};
use crate::board::Board;
use crate::clock::Clock;
use crate::config::{Config, Level, Limit, ShownSetting};
use crate::door::{CancelDelayed, Door, Letter, Part, Question, ResetOffset, Truncate};
use crate::heap;
use crate::log::Logger;
use crate::manager::Manager;
use crate::rows::{self, value};
use crate::running::End;
use crate::seed;
use broker::Shard;
use broker::access::{PasswordHash, authenticate};
use broker::catalog::{Catalog, Op, PolicyKind, QueueType, UserLimits, VhostLimits};
use broker::{Reply, StreamReply};
use ctl::{Change, definition};
use management::{Node, Which};
use node::turn::Raised;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// How long an answer of a shard is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Queues whose policies a shard looks up at once.
const QUEUES_LOOK: usize = 500;

/// See the module.
pub struct Desk<'a> {
    /// All shards' doors.
    pub doors: &'a [Door],
    /// Who answers what the HTTP API is asked.
    pub manager: &'a Manager<'a>,
    /// What dashboards are told.
    pub board: &'a Board,
    /// What the node was told.
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
    /// Who ends the node.
    pub end: Sender<End>,
}

impl Desk<'_> {
    /// What there is to say to a request.
    pub fn answer(&self, request: ctl::Request) -> ctl::Answer {
        match request {
            ctl::Request::Ping => Ok(serde_json::json!({
                "node": self.config.node_name,
                "pid": std::process::id(),
                "version": adapters::settings::VERSION,
                "state": ctl::RUNNING,
            })),
            ctl::Request::StopApp => {
                // One that ends already has heard.
                let _ = self.end.send(End::StopApp);
                Ok(serde_json::Value::Null)
            }
            ctl::Request::StartApp => Ok(serde_json::Value::Null),
            ctl::Request::Reset => Err(refusal(
                ctl::exit::USAGE,
                "Error: this command requires the 'rabbit' app to be stopped on the target node. Stop it with 'rabbitmqctl stop_app'."
                    .to_owned(),
            )),
            ctl::Request::Stop => {
                // One that ends already has heard.
                let _ = self.end.send(End::Asked);
                Ok(serde_json::Value::Null)
            }
            ctl::Request::Authenticate { user, password } => self.authenticate(user, password),
            ctl::Request::SetLogLevel { level } => {
                self.logger.set_level(Level::read(&level).map_err(unfit_word)?);
                Ok(serde_json::Value::Null)
            }
            ctl::Request::LogTail { lines } => json(&self.logger.last(lines as usize)),
            ctl::Request::LogSince { next } => {
                let (lines, next) = self.logger.since(next);
                Ok(serde_json::json!({ "lines": lines, "next": next }))
            }
            ctl::Request::MatchingPolicies { vhost, name, is_exchange } => {
                self.check_vhost(&vhost)?;
                let look =
                    move |catalog: &Catalog| rows::matching_policies(catalog, &vhost, &name, is_exchange);
                json(&self.manager.look(look).map_err(|_| busy())?)
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
                Ok(serde_json::Value::Null)
            }
            ctl::Request::Status => json(&self.status()?),
            ctl::Request::MemoryBreakdown => json(&self.memory()?),
            ctl::Request::ListDelayedMessages { vhost, queue, limit } => {
                let parts = self.ask(&Question::Delayed(vhost.clone(), queue.clone(), limit as usize))?;
                match parts.into_iter().find_map(|part| part.delayed) {
                    Some(rows) => json(&rows),
                    None => Err(self.no_queue(&vhost, &queue)),
                }
            }
            ctl::Request::CancelDelayedMessages { vhost, queue, ids } => {
                self.cancel_delayed(CancelDelayed { vhost, queue, ids })
            }
            ctl::Request::TruncateStream { vhost, stream, before } => {
                self.truncate(Truncate { vhost, stream, before })
            }
            ctl::Request::ResetOffset { vhost, stream, reference } => {
                self.reset_offset(ResetOffset { vhost, stream, reference })
            }
            ctl::Request::RestartStream { vhost, stream } => self.restart_stream(&vhost, &stream),
            ctl::Request::Top { asked } => json(&self.board.look(self.manager, &asked).map_err(|_| busy())?),
            ctl::Request::ListUsers => json(&self.access()?.users),
            ctl::Request::ListVhosts => json(&self.access()?.vhosts),
            ctl::Request::ListExchanges { vhost } => json(&self.first(Question::Exchanges(vhost))?.exchanges),
            ctl::Request::ListPolicies { vhost, is_operator } => {
                self.check_vhost(&vhost)?;
                json(&self.first(Question::Policies(vhost, kind(is_operator)))?.policies)
            }
            ctl::Request::ListUserLimits { user } => self.user_limits(user),
            ctl::Request::ListVhostLimits { vhost } => self.vhost_limits(vhost),
            ctl::Request::ListPermissions { vhost } => {
                let part = self.access()?;
                if part.vhosts.iter().all(|row| row.name != vhost) {
                    return Err(no_vhost(&vhost));
                }
                let rows = part.permissions.into_iter().filter(|row| row.vhost == vhost);
                json(&rows.collect::<Vec<_>>())
            }
            ctl::Request::ListUserPermissions { user } => {
                let part = self.access()?;
                if part.users.iter().all(|row| row.user != user) {
                    return Err(no_user(&user));
                }
                let rows = part.permissions.into_iter().filter(|row| row.user == user);
                json(&rows.collect::<Vec<_>>())
            }
            ctl::Request::ListTopicPermissions { vhost } => {
                let part = self.access()?;
                if part.vhosts.iter().all(|row| row.name != vhost) {
                    return Err(no_vhost(&vhost));
                }
                let rows = part.topic_permissions.into_iter().filter(|row| row.vhost == vhost);
                json(&rows.collect::<Vec<_>>())
            }
            ctl::Request::ListUserTopicPermissions { user } => {
                let part = self.access()?;
                if part.users.iter().all(|row| row.user != user) {
                    return Err(no_user(&user));
                }
                let rows = part.topic_permissions.into_iter().filter(|row| row.user == user);
                json(&rows.collect::<Vec<_>>())
            }
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
                json(&ctl::Response { status, body: String::from_utf8_lossy(&body).into_owned() })
            }
            ctl::Request::Change { change: Change::SetMemoryLimit { limit } } => {
                self.watermarks.set_memory(&limit).map_err(unfit_word)?;
                Ok(serde_json::Value::Null)
            }
            ctl::Request::Change { change: Change::SetDiskLimit { limit } } => {
                self.watermarks.set_disk(&limit).map_err(unfit_word)?;
                Ok(serde_json::Value::Null)
            }
            ctl::Request::Change { change } => self.change(change),
            ctl::Request::ListQueues { vhost, columns } => self.queues(&vhost, &columns),
        }
    }

    /// The queues of a virtual host, a part at a time: shards have other work.
    fn queues(&self, vhost: &str, columns: &[String]) -> ctl::Answer {
        let name = vhost.to_owned();
        let found = self.manager.look(move |catalog| catalog.vhost(&name)).map_err(|_| busy())?;
        let Some(id) = found else { return json(&[(); 0]) };
        let mut rows = self.manager.queue_rows(Which::Of(id), false).map_err(|_| busy())?;
        rows.sort_unstable_by(|a, b| a.definition.name.cmp(&b.definition.name));
        let mut told = Vec::new();
        if columns.iter().any(|column| column.contains("policy")) {
            for part in rows.chunks(QUEUES_LOOK) {
                let queues: Vec<_> = part.iter().map(|row| row.definition.clone()).collect();
                let look = move |catalog: &Catalog| -> Vec<rows::QueuePolicies> {
                    queues.iter().map(|queue| rows::policies_of(catalog, queue)).collect()
                };
                told.append(&mut self.manager.look(look).map_err(|_| busy())?);
            }
        }
        let node = &self.config.node_name;
        let row = |(at, row)| rows::queue(row, told.get(at), columns, node);
        Ok(rows.iter().enumerate().map(row).collect())
    }

    fn authenticate(&self, user: String, password: String) -> ctl::Answer {
        let (rules, name) = (self.manager.about.access.clone(), user.clone());
        let look =
            move |shard: &Shard| authenticate(shard.catalog(), &name, &password, true, &rules).map(drop);
        self.doors[0].look(PATIENCE, look).ok_or_else(busy)?.map_err(|denied| {
            let text = format!("Error:\nError: failed to authenticate user \"{user}\"\n{}", denied.reason);
            refusal(ctl::exit::DATA, text)
        })?;
        Ok(serde_json::Value::Null)
    }

    fn cancel_delayed(&self, asked: CancelDelayed) -> ctl::Answer {
        let (sender, receiver) = channel();
        for door in self.doors.iter() {
            door.letters.put(Letter::CancelDelayed(Box::new(asked.clone()), sender.clone()));
        }
        drop(sender);
        let answers = self.doors.iter().map(|_| receiver.recv_timeout(PATIENCE));
        let answers: Vec<Option<u64>> = answers.collect::<Result<_, _>>().map_err(|_| busy())?;
        match answers.into_iter().flatten().next() {
            Some(cancelled) => json(&cancelled),
            None => Err(self.no_queue(&asked.vhost, &asked.queue)),
        }
    }

    fn truncate(&self, asked: Truncate) -> ctl::Answer {
        self.check_vhost(&asked.vhost)?;
        let (sender, receiver) = channel();
        self.doors[0].letters.put(Letter::Truncate(Box::new(asked), sender));
        match receiver.recv_timeout(PATIENCE).map_err(|_| busy())? {
            Ok(Reply::Stream(StreamReply::Truncated(first_offset))) => json(&first_offset),
            Ok(_) => Ok(serde_json::Value::Null),
            Err(refused) => Err(refusal(ctl::exit::DATA, format!("Error:\n{}", refused.text))),
        }
    }

    /// Answers `true`; `false`: there is nothing to reset. Nothing: there is no such stream.
    fn reset_offset(&self, asked: ResetOffset) -> ctl::Answer {
        let name = asked.vhost.clone();
        let vhost = self.manager.look(move |catalog| catalog.vhost(&name)).map_err(|_| busy())?;
        let Some(vhost) = vhost else { return Ok(serde_json::Value::Null) };
        let Some(tracking) = self.manager.tracking(vhost, &asked.stream).map_err(|_| busy())? else {
            return Ok(serde_json::Value::Null);
        };
        if tracking.offsets.iter().all(|(reference, _)| *reference != asked.reference) {
            return Ok(false.into());
        }
        let (sender, receiver) = channel();
        self.doors[0].letters.put(Letter::ResetOffset(Box::new(asked), sender));
        match receiver.recv_timeout(PATIENCE).map_err(|_| busy())? {
            Ok(_) => Ok(true.into()),
            Err(_) => Ok(serde_json::Value::Null),
        }
    }

    /// Answers `true` once every shard has told its connections; `false`: there is no such stream.
    fn restart_stream(&self, vhost: &str, stream: &str) -> ctl::Answer {
        let (sender, receiver) = channel();
        for door in self.doors {
            let named = Box::new((vhost.to_owned(), stream.to_owned()));
            door.letters.put(Letter::RestartStream(named, sender.clone()));
        }
        let mut is_known = true;
        for _ in self.doors {
            is_known &= receiver.recv_timeout(PATIENCE).map_err(|_| busy())?;
        }
        Ok(is_known.into())
    }

    /// Why there is nothing to say of a queue: it is its virtual host that is not there, or itself.
    fn no_queue(&self, vhost: &str, queue: &str) -> ctl::Refusal {
        let missing = format!("Queue '{queue}' in virtual host '{vhost}' does not exist");
        self.check_vhost(vhost).err().unwrap_or_else(|| refusal(ctl::exit::DATA, missing))
    }

    /// Every shard's answer, in no order.
    fn ask(&self, question: &Question) -> Result<Vec<Part>, ctl::Refusal> {
        let (sender, receiver) = channel();
        for door in self.doors.iter() {
            door.letters.put(Letter::Ask(question.clone(), sender.clone()));
        }
        drop(sender);
        let answers = self.doors.iter().map(|_| receiver.recv_timeout(PATIENCE));
        answers.collect::<Result<_, _>>().map_err(|_| busy())
    }

    /// What the first shard knows of users and virtual hosts, as every shard does.
    fn access(&self) -> Result<Part, ctl::Refusal> {
        self.first(Question::Access)
    }

    /// The first shard's answer.
    fn first(&self, question: Question) -> Result<Part, ctl::Refusal> {
        let (sender, receiver) = channel();
        self.doors[0].letters.put(Letter::Ask(question, sender));
        receiver.recv_timeout(PATIENCE).map_err(|_| busy())
    }

    fn check_vhost(&self, name: &str) -> Result<(), ctl::Refusal> {
        let is_there = self.access()?.vhosts.iter().any(|row| row.name == name);
        if is_there { Ok(()) } else { Err(no_vhost(name)) }
    }

    fn user_limits(&self, user: Option<String>) -> ctl::Answer {
        let part = self.access()?;
        if let Some(user) = &user
            && part.users.iter().all(|row| row.user != *user)
        {
            return Err(no_user(user));
        }
        let asked =
            part.user_limits.into_iter().filter(|(name, _)| user.as_ref().is_none_or(|user| user == name));
        let row = |(user, limits): (String, UserLimits)| {
            let limits =
                object([("max-channels", limits.channels_max), ("max-connections", limits.connections_max)]);
            ctl::LimitsRow { user, limits, ..Default::default() }
        };
        json(&asked.map(row).collect::<Vec<_>>())
    }

    fn vhost_limits(&self, vhost: Option<String>) -> ctl::Answer {
        let part = self.access()?;
        if let Some(vhost) = &vhost
            && part.vhosts.iter().all(|row| row.name != *vhost)
        {
            return Err(no_vhost(vhost));
        }
        let asked = part
            .vhost_limits
            .into_iter()
            .filter(|(name, _)| vhost.as_ref().is_none_or(|vhost| vhost == name));
        let row = |(vhost, limits): (String, VhostLimits)| {
            let limits =
                object([("max-connections", limits.connections_max), ("max-queues", limits.queues_max)]);
            ctl::LimitsRow { vhost, limits, ..Default::default() }
        };
        json(&asked.map(row).collect::<Vec<_>>())
    }

    /// Has the catalog changed, and waits until that is on disk.
    fn change(&self, change: Change) -> ctl::Answer {
        let part = self.access()?;
        let wanted = match &change {
            Change::ChangePassword { user, .. }
            | Change::SetUserTags { user, .. }
            | Change::SetUserLimits { user, .. }
            | Change::ClearUserLimits { user, .. }
            | Change::SetPermissions { user, .. }
            | Change::SetTopicPermissions { user, .. } => Some(user),
            _ => None,
        };
        if let Some(user) = wanted
            && part.users.iter().all(|row| row.user != *user)
        {
            return Err(no_user(user));
        }
        let has_vhost = |vhost: &str| part.vhosts.iter().any(|row| row.name == vhost);
        match &change {
            Change::SetPermissions { vhost, .. }
            | Change::ClearPermissions { vhost, .. }
            | Change::SetTopicPermissions { vhost, .. }
            | Change::UpdateVhost { vhost, .. }
            | Change::DeleteVhost { vhost }
            | Change::SetVhostLimits { vhost, .. }
            | Change::Trace { vhost, .. }
            | Change::SetPolicy { vhost, .. }
                if !has_vhost(vhost) =>
            {
                let refused = no_vhost(vhost);
                // As RabbitMQ's tool ends.
                let is_deletion = matches!(change, Change::DeleteVhost { .. });
                let code = if is_deletion { refused.code } else { ctl::exit::UNAVAILABLE };
                let text = if is_deletion { refused.message } else { format!("Error:\n{}", refused.message) };
                return Err(refusal(code, text));
            }
            Change::AddUser { user, .. } if part.users.iter().any(|row| row.user == *user) => {
                return Err(refusal(ctl::exit::SOFTWARE, format!("Error:\nUser \"{user}\" already exists")));
            }
            // What is not there is gone.
            Change::DeleteUser { user } | Change::ClearPermissions { user, .. }
                if part.users.iter().all(|row| row.user != *user) =>
            {
                return Ok(serde_json::Value::Null);
            }
            _ => {}
        }
        // The code that RabbitMQ's tool ends with when the node refuses it.
        let refused_code = match change {
            Change::AddVhost { .. } => ctl::exit::USAGE,
            Change::DeleteVhost { .. } => ctl::exit::DATA,
            _ => ctl::exit::UNAVAILABLE,
        };
        let (sender, receiver) = channel();
        self.doors[0].letters.put(Letter::Request(Box::new(self.request_of(change, &part)?), sender));
        match receiver.recv_timeout(PATIENCE).map_err(|_| busy())? {
            Ok(_) => Ok(serde_json::Value::Null),
            Err(refused) => Err(refusal(refused_code, format!("Error:\n{}", refused.text))),
        }
    }

    /// The same request in the catalog's words.
    fn request_of(&self, change: Change, part: &Part) -> Result<Op, ctl::Refusal> {
        let hash = |password: &str| {
            let salt = seed::salt().map_err(|why| refusal(ctl::exit::SOFTWARE, why))?;
            Ok::<_, ctl::Refusal>(Some(PasswordHash::new(password, salt)))
        };
        Ok(match change {
            Change::AddUser { user, password } => {
                Op::AddUser { name: user.into(), password: hash(&password)?, tags: Vec::new() }
            }
            Change::DeleteUser { user } => Op::DeleteUser { name: user.into() },
            Change::ChangePassword { user, password } => {
                Op::ChangePassword { name: user.into(), password: hash(&password)? }
            }
            Change::SetUserTags { user, tags } => Op::SetUserTags { name: user.into(), tags: boxed(tags) },
            Change::SetPermissions { user, vhost, configure, write, read } => Op::SetPermissions {
                user: user.into(),
                vhost: vhost.into(),
                configure: configure.into(),
                write: write.into(),
                read: read.into(),
            },
            Change::ClearPermissions { user, vhost } => {
                Op::ClearPermissions { user: user.into(), vhost: vhost.into() }
            }
            Change::SetTopicPermissions { user, vhost, exchange, write, read } => Op::SetTopicPermissions {
                user: user.into(),
                vhost: vhost.into(),
                exchange: exchange.into(),
                write: write.into(),
                read: read.into(),
            },
            Change::ClearTopicPermissions { user, vhost, exchange } => Op::ClearTopicPermissions {
                user: user.into(),
                vhost: vhost.into(),
                exchange: exchange.map(String::into_boxed_str),
            },
            Change::AddVhost { vhost, default_queue_type, description, tags } => {
                let mut defaults = self.config.defaults_of_vhost(&vhost, &mut seed::sure_salt);
                if let Some(name) = default_queue_type {
                    defaults.queue_type = queue_type(&name)?;
                }
                defaults.about.description = description.into();
                defaults.about.tags = boxed(tags);
                Op::AddVhost { name: vhost.into(), defaults }
            }
            Change::UpdateVhost { vhost, description, tags, default_queue_type, protected_from_deletion } => {
                Op::UpdateVhost {
                    name: vhost.into(),
                    description: description.map(String::into_boxed_str),
                    tags: tags.map(boxed),
                    queue_type: default_queue_type.map(|name| queue_type(&name)).transpose()?,
                    is_protected: protected_from_deletion,
                }
            }
            Change::DeleteVhost { vhost } => Op::DeleteVhost { name: vhost.into() },
            Change::SetVhostLimits { vhost, definition } => {
                let [connections, queues] = definition::vhost(&definition).map_err(unfit)?;
                let limits =
                    VhostLimits { connections_max: connections.over(None), queues_max: queues.over(None) };
                Op::SetVhostLimits { vhost: vhost.into(), limits }
            }
            Change::Trace { vhost, on } => Op::Trace { vhost: vhost.into(), on },
            Change::SetMemoryLimit { .. } | Change::SetDiskLimit { .. } => {
                return Err(refusal(ctl::exit::SOFTWARE, "not a change of the catalog".into()));
            }
            Change::SetUserLimits { user, definition } => {
                let [connections, channels] = definition::user(&definition).map_err(unfit)?;
                let UserLimits { connections_max, channels_max } = limits_of(part, &user);
                let limits = UserLimits {
                    connections_max: connections.over(connections_max),
                    channels_max: channels.over(channels_max),
                };
                Op::SetUserLimits { user: user.into(), limits }
            }
            Change::ClearUserLimits { user, limit } => {
                let mut limits = limits_of(part, &user);
                if matches!(&*limit, "all" | "max-connections") {
                    limits.connections_max = None;
                }
                if matches!(&*limit, "all" | "max-channels") {
                    limits.channels_max = None;
                }
                Op::SetUserLimits { user: user.into(), limits }
            }
            Change::SetPolicy { is_operator, vhost, name, pattern, apply_to, priority, definition } => {
                let definition = definition::object(&definition).map_err(unfit)?;
                Op::SetPolicy {
                    kind: kind(is_operator),
                    vhost: vhost.into(),
                    name: name.into(),
                    pattern: pattern.into(),
                    apply_to: apply_to.into(),
                    priority,
                    definition: definition.iter().map(|(key, json)| (key.as_bytes(), value(json))).collect(),
                }
            }
            Change::ClearPolicy { is_operator, vhost, name } => {
                Op::ClearPolicy { kind: kind(is_operator), vhost: vhost.into(), name: name.into() }
            }
        })
    }

    fn memory(&self) -> Result<ctl::Memory, ctl::Refusal> {
        let told = self.manager.memory().map_err(|_| busy())?;
        let total = [("rss", told.resident), ("allocated", told.allocated), ("erlang", told.in_use)];
        let named = |(name, bytes): (&str, u64)| (name.to_owned(), bytes);
        Ok(ctl::Memory {
            total: total.into_iter().map(named).collect(),
            pools: told.pools.into_iter().map(named).collect(),
        })
    }

    fn status(&self) -> Result<ctl::Status, ctl::Refusal> {
        let mut totals = ctl::Totals::default();
        for part in self.ask(&Question::Totals)?.into_iter().filter_map(|part| part.totals) {
            totals.connection_count += part.connection_count;
            totals.queue_count = part.queue_count;
            totals.virtual_host_count = part.virtual_host_count;
        }
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
            rabbitmq_version: adapters::settings::VERSION.into(),
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

fn boxed(texts: Vec<String>) -> Vec<Box<str>> {
    texts.into_iter().map(String::into_boxed_str).collect()
}

fn queue_type(name: &str) -> Result<QueueType, ctl::Refusal> {
    QueueType::from_name(name).ok_or_else(|| unfit(format!("Unsupported default queue type: '{name}'")))
}

/// Whose policies are meant.
fn kind(is_operator: bool) -> PolicyKind {
    if is_operator { PolicyKind::Operator } else { PolicyKind::User }
}

/// Limits that are there, as a JSON object.
fn object(limits: [(&str, Option<u32>); 2]) -> String {
    let given = limits.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?.into())));
    serde_json::Value::Object(given.collect()).to_string()
}

/// A fault of a request that was never put to the catalog.
fn unfit(why: String) -> ctl::Refusal {
    refusal(ctl::exit::UNAVAILABLE, format!("Error:\n{why}"))
}

/// What is wrong with a word of the command line.
fn unfit_word(why: String) -> ctl::Refusal {
    refusal(ctl::exit::DATA, format!("Error (argument validation): Bad argument: {why}"))
}

fn refusal(code: u8, message: String) -> ctl::Refusal {
    ctl::Refusal { code, message }
}

fn busy() -> ctl::Refusal {
    refusal(ctl::exit::UNAVAILABLE, "the node is busy: a shard did not answer in time".into())
}

fn no_user(name: &str) -> ctl::Refusal {
    refusal(ctl::exit::NO_USER, format!("Error:\nUser \"{name}\" does not exist"))
}

fn no_vhost(name: &str) -> ctl::Refusal {
    refusal(ctl::exit::DATA, format!("Virtual host '{name}' does not exist"))
}

fn limits_of(part: &Part, user: &str) -> UserLimits {
    part.user_limits.iter().find(|(name, _)| name == user).map(|(_, limits)| *limits).unwrap_or_default()
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn json(value: &impl serde::Serialize) -> ctl::Answer {
    let failed =
        |error: serde_json::Error| ctl::Refusal { code: ctl::exit::SOFTWARE, message: error.to_string() };
    serde_json::to_value(value).map_err(failed)
}
