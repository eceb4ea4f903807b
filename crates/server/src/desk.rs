//! Where the administration socket's questions are answered, from what the shards say.

use crate::alarm::{self, Meter, Raised};
use crate::clock::Clock;
use crate::config::{Config, Limit};
use crate::door::{Door, Letter, Part, Question};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

/// See the module.
pub struct Desk<'a> {
    /// All shards' doors.
    pub doors: &'a [Door],
    /// What the node was told.
    pub config: &'a Config,
    /// Where it listens.
    pub ports: &'a [ctl::Listener],
    /// The alarms that hold.
    pub raised: &'a (dyn Fn() -> Raised + Sync),
    /// Since when it runs.
    pub clock: Clock,
}

impl Desk<'_> {
    /// What there is to say to a request.
    pub fn answer(&self, request: ctl::Request) -> ctl::Answer {
        match request {
            ctl::Request::Ping => Ok(serde_json::Value::Null),
            ctl::Request::Status => json(&self.status()?),
            ctl::Request::MemoryBreakdown => json(&self.memory()?),
            ctl::Request::ListConnections => {
                let parts = self.ask(&Question::Connections)?;
                json(&parts.into_iter().flat_map(|part| part.connections).collect::<Vec<_>>())
            }
            ctl::Request::ListQueues { vhost } => {
                let parts = self.ask(&Question::Queues(vhost))?;
                let mut rows: Vec<_> = parts.into_iter().flat_map(|part| part.queues).collect();
                rows.sort_by(|a, b| a.name.cmp(&b.name));
                json(&rows)
            }
        }
    }

    /// Every shard's answer, in no order.
    fn ask(&self, question: &Question) -> Result<Vec<Part>, ctl::Refusal> {
        let (sender, receiver) = channel();
        for door in self.doors.iter() {
            door.letters.put(Letter::Ask(question.clone(), sender.clone()));
        }
        drop(sender);
        let patience = Duration::from_secs(10);
        let answers = self.doors.iter().map(|_| receiver.recv_timeout(patience));
        answers.collect::<Result<_, _>>().map_err(|_| ctl::Refusal {
            code: ctl::exit::UNAVAILABLE,
            message: "the node is busy: a shard did not answer in time".into(),
        })
    }

    fn memory(&self) -> Result<ctl::Memory, ctl::Refusal> {
        let mut memory = ctl::Memory::default();
        for (name, bytes) in self.ask(&Question::Memory)?.into_iter().flat_map(|part| part.memory) {
            *memory.pools.entry(name.to_owned()).or_insert(0) += bytes;
        }
        let named: u64 = memory.pools.values().sum();
        if let Ok(sample) = Meter::new(&self.config.data_dir).sample() {
            memory.total.insert("rss".into(), sample.memory_used);
            memory.pools.insert("other".into(), sample.memory_used.saturating_sub(named));
        }
        Ok(memory)
    }

    fn status(&self) -> Result<ctl::Status, ctl::Refusal> {
        let mut totals = ctl::Totals::default();
        for part in self.ask(&Question::Totals)?.into_iter().filter_map(|part| part.totals) {
            totals.connection_count += part.connection_count;
            totals.queue_count = part.queue_count;
            totals.virtual_host_count = part.virtual_host_count;
        }
        let alarms = alarm::of_config(self.config);
        let sample = Meter::new(&self.config.data_dir).sample();
        let (setting, value) = match self.config.memory_limit {
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
            vm_memory_high_watermark_limit: alarms.memory_limit,
            vm_memory_high_watermark_setting: [(setting.to_owned(), value)].into(),
            disk_free_limit: alarms.disk_limit,
            disk_free: sample.map_or(0, |sample| sample.disk_free),
            totals,
        })
    }
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn json(value: &impl serde::Serialize) -> ctl::Answer {
    let failed =
        |error: serde_json::Error| ctl::Refusal { code: ctl::exit::SOFTWARE, message: error.to_string() };
    serde_json::to_value(value).map_err(failed)
}
