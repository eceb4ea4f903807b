//! The node as the management HTTP API asks it: letters to the shards, and what the system says.

use crate::agent;
use crate::alarm::{Meter, Raised, Watermarks};
use crate::clock::Clock;
use crate::config::Config;
use crate::door::{Door, Letter, Question};
use crate::seed;
use broker::access::{AccessRules, SALT};
use broker::catalog::{Catalog, Op, VhostDefaults};
use broker::{ListedTo, QueueRow, Shard};
use management::{About, Action, Busy, Condition, ConnectionRow, Login, Node, Outcome, Trouble, Which};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long an answer of a shard is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Queues a shard looks at in one turn: it takes well under a millisecond.
const QUEUES_TURN: usize = 2000;

/// See the module.
pub struct Manager<'a> {
    /// All shards' doors.
    pub doors: &'a [Door],
    /// What the node was told.
    pub config: &'a Config,
    /// The alarms that hold.
    pub raised: &'a (dyn Fn() -> Raised + Sync),
    /// When alarms are raised.
    pub watermarks: &'a Watermarks,
    /// Since when it runs.
    pub clock: Clock,
    /// What does not change.
    pub about: About,
    /// Whose turn it is to serve a connection.
    pub next: AtomicUsize,
}

impl Manager<'_> {
    /// What does not change while the node runs.
    pub fn about(config: &Config, listeners: &[ctl::Listener], access: std::sync::Arc<AccessRules>) -> About {
        let listener = |own: &ctl::Listener| management::Listener {
            address: if own.interface == "[::]" { "::".to_owned() } else { own.interface.clone() },
            port: own.port,
            protocol: own.protocol.clone(),
            backlog: config.socket.backlog,
        };
        About {
            node: config.node_name.clone(),
            cluster: config.cluster_name.clone().unwrap_or_else(|| config.node_name.clone()),
            version: adapters::settings::VERSION.to_owned(),
            product: "Leveret".to_owned(),
            product_version: env!("CARGO_PKG_VERSION").to_owned(),
            listeners: listeners.iter().map(listener).collect(),
            config_files: config.files.iter().map(|path| path.display().to_string()).collect(),
            data_dir: std::path::absolute(&config.data_dir)
                .unwrap_or_else(|_| config.data_dir.clone())
                .display()
                .to_string(),
            pid: std::process::id(),
            processors: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
            access,
            permits_transient_queues: config.permits_transient_queues,
            permits_global_qos: config.permits_global_qos,
            permits_address_v1: config.permits_address_v1,
            connections_max: config.connection_max.map(u64::from),
            consumer_timeout_ms: config.consumer_timeout_ms,
            limits: management::Limits {
                body_bytes_max: config.http_body_bytes_max as usize,
                ..management::Limits::default()
            },
        }
    }

    fn look_at<T: Send + 'static>(
        &self,
        door: &Door,
        look: impl FnOnce(&Shard) -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let (sender, receiver) = channel();
        door.letters.put(Letter::Look(Box::new(move |shard| {
            // Who asked may have given up.
            let _ = sender.send(look(shard));
        })));
        receiver.recv_timeout(PATIENCE).map_err(|_| Busy)
    }

    fn next_door(&self) -> &Door {
        &self.doors[self.next.fetch_add(1, Ordering::Relaxed) % self.doors.len()]
    }
}

impl Node for Manager<'_> {
    fn about(&self) -> &About {
        &self.about
    }

    fn condition(&self) -> Condition {
        let (memory_limit, disk_limit) = self.watermarks.bytes();
        let sample = Meter::new(&self.config.data_dir).sample();
        let raised = (self.raised)();
        let files = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        Condition {
            uptime_ms: self.clock.now().mono_ns / base::time::NS_PER_MS,
            memory_used: sample.as_ref().map_or(0, |sample| sample.memory_used),
            memory_limit,
            is_memory_alarm: raised.memory,
            disk_free: sample.map_or(0, |sample| sample.disk_free),
            disk_limit,
            is_disk_alarm: raised.disk,
            files: [files, most.unwrap_or(u64::MAX)],
        }
    }

    fn look<T: Send + 'static>(&self, look: impl FnOnce(&Catalog) -> T + Send + 'static) -> Result<T, Busy> {
        self.look_at(&self.doors[0], move |shard| look(shard.catalog()))
    }

    fn queues(&self, which: Which) -> Result<Vec<QueueRow>, Busy> {
        let mut rows = Vec::new();
        for door in self.doors {
            let mut from = Some(ListedTo::default());
            while let Some(at) = from {
                let which = which.clone();
                let (next, mut found) = self.look_at(door, move |shard| {
                    let mut found = Vec::new();
                    let next = shard.queue_rows_from(at, QUEUES_TURN, |queue| which.has(queue), &mut found);
                    (next, found)
                })?;
                rows.append(&mut found);
                from = next;
            }
        }
        Ok(rows)
    }

    fn connections(&self) -> Result<Vec<ConnectionRow>, Busy> {
        let (sender, receiver) = channel();
        for door in self.doors {
            door.letters.put(Letter::Ask(Question::Connections, sender.clone()));
        }
        drop(sender);
        let parts = self.doors.iter().map(|_| receiver.recv_timeout(PATIENCE).map_err(|_| Busy));
        let parts: Vec<_> = parts.collect::<Result<_, _>>()?;
        Ok(parts.into_iter().flat_map(|part| part.connections).map(connection).collect())
    }

    fn close_connection(&self, name: &str, reason: &str) -> Result<bool, Busy> {
        let (sender, receiver) = channel();
        for door in self.doors {
            let asked = Box::new((name.to_owned(), reason.to_owned()));
            door.letters.put(Letter::CloseConnection(asked, sender.clone()));
        }
        drop(sender);
        let answers = self.doors.iter().map(|_| receiver.recv_timeout(PATIENCE).map_err(|_| Busy));
        Ok(answers.collect::<Result<Vec<bool>, _>>()?.contains(&true))
    }

    fn wish(&self, op: Op) -> Result<(), Trouble> {
        let (sender, receiver) = channel();
        self.doors[0].letters.put(Letter::Wish(Box::new(op), sender));
        match receiver.recv_timeout(PATIENCE).map_err(|_| Busy)? {
            Ok(_) => Ok(()),
            Err(refusal) => Err(Trouble::Refused(refusal)),
        }
    }

    fn act(&self, login: &Login, vhost: &str, action: Action) -> Result<Outcome, Trouble> {
        agent::act(self.next_door(), login, vhost, &action)
    }

    fn vhost_defaults(&self, name: &str) -> VhostDefaults {
        self.config.vhost_defaults.of(name)
    }

    fn salt(&self) -> Result<[u8; SALT], Busy> {
        let bits = seed::random_bits().map_err(|_| Busy)?;
        let mut salt = [0; SALT];
        salt.copy_from_slice(&bits.to_le_bytes()[..SALT]);
        Ok(salt)
    }
}

fn connection(row: ctl::ConnectionRow) -> ConnectionRow {
    let protocol = match &*row.protocol {
        "{0,9,1}" => "AMQP 0-9-1",
        "{1,0}" => "AMQP 1-0",
        "{'Web AMQP',{0,9,1}}" => "Web AMQP 0-9-1",
        "{'Web AMQP',{1,0}}" => "Web AMQP 1-0",
        "{<<\"stream\">>,[]}" => "stream",
        other => other,
    };
    let has_certificate = !row.peer_cert_subject.is_empty();
    ConnectionRow {
        protocol: protocol.to_owned(),
        name: row.name,
        given_name: row.given_name,
        user: row.user,
        vhost: row.vhost,
        state: row.state,
        channels: row.channels,
        host: row.host,
        port: row.port,
        peer_host: row.peer_host,
        peer_port: row.peer_port,
        received: row.recv_oct,
        sent: row.send_oct,
        connected_at: row.connected_at,
        encryption: row.ssl.then_some([row.ssl_protocol, row.ssl_key_exchange, row.ssl_cipher, row.ssl_hash]),
        certificate: has_certificate.then_some([
            row.peer_cert_subject,
            row.peer_cert_issuer,
            row.peer_cert_validity,
        ]),
    }
}
