//! The answers of the node of these tests.

use super::*;

/// Where the last held message of a queue ends.
pub(super) const HELD_END: u64 = 250;

impl Node for Bench {
    fn about(&self) -> &About {
        &self.about
    }

    fn condition(&self) -> Condition {
        Condition { is_memory_alarm: true, ..Condition::default() }
    }

    fn vitals(&self) -> Condition {
        Condition { memory_used: 7, memory_limit: 9, ..self.condition() }
    }

    fn standings(&self) -> Result<Vec<Standing>, Busy> {
        let row = |row: QueueRow| Standing {
            // Nobody consumes from queues of such names.
            consumers: if row.definition.name.starts_with("alone") { 0 } else { row.consumers },
            definition: row.definition,
            ready: row.ready,
            unsettled: row.unsettled,
            held_since_ns: Some(0),
        };
        Ok(self.queues(Which::All, false)?.into_iter().map(row).collect())
    }

    fn queue_sums(&self) -> Result<MapById<VhostId, QueueSums>, Busy> {
        let mut sums = MapById::<VhostId, QueueSums>::default();
        for row in self.queues(Which::All, false)? {
            let sum = sums.entry(row.definition.vhost).or_default();
            sum.queues += 1;
            sum.ready += row.ready;
            sum.unsettled += row.unsettled;
            sum.consumers += u64::from(row.consumers);
            sum.written += crate::stats::disk_writes(&row.definition, &row.tally);
        }
        Ok(sums)
    }

    fn look<T: Send + 'static>(&self, look: impl FnOnce(&Catalog) -> T + Send + 'static) -> Result<T, Busy> {
        *self.looks.lock().unwrap() += 1;
        Ok(look(&self.catalog.lock().unwrap()))
    }

    fn turns(&self) -> Result<Vec<Turns>, Busy> {
        Ok(vec![Turns { groups: [1; TURN_BOUNDS_US.len() + 1], ..Turns::default() }])
    }

    fn queues(&self, which: Which, _is_sampled: bool) -> Result<Vec<QueueRow>, Busy> {
        let mut own: Vec<_> = self.catalog.lock().unwrap().queues().cloned().collect();
        own.retain(|queue| which.has(queue));
        self.rows_of(&own)
    }

    fn each_queue(&self, which: Which, each: impl FnMut(&QueueRow)) -> Result<(), Busy> {
        self.queues(which, true)?.iter().for_each(each);
        Ok(())
    }

    fn queue_names(&self) -> Result<Arc<[Arc<QueueDefinition>]>, Busy> {
        let mut own: Vec<_> = self.catalog.lock().unwrap().queues().cloned().collect();
        own.sort_by_key(|queue| (queue.vhost_name.clone(), queue.name.clone()));
        Ok(own.into())
    }

    fn queue_order<E>(
        &self,
        _column: &str,
        sort: impl FnOnce() -> Result<Vec<Arc<QueueDefinition>>, E>,
    ) -> Result<Arc<[Arc<QueueDefinition>]>, E> {
        Ok(sort()?.into())
    }

    fn rows_of(&self, queues: &[Arc<QueueDefinition>]) -> Result<Vec<QueueRow>, Busy> {
        self.shown.lock().unwrap().push(queues.len());
        let row = |queue: &Arc<QueueDefinition>| QueueRow {
            definition: queue.clone(),
            ready: 2,
            ready_bytes: None,
            sample: broker::Sample { bytes_mean: Some(50.0), head_timestamp_s: None },
            unsettled: 1,
            delayed: 0,
            selectors: 0,
            unmatched: 0,
            transient: 1,
            leases_over: None,
            barriers: None,
            returned: 0,
            dying: 0,
            quorum: (*queue.name == *"quorum").then(|| QuorumRow {
                priorities: vec![(1, 1), (4, 1)],
                delivery_limit: Some(20),
                retry: None,
            }),
            consumers: 3,
            memory_bytes: 100,
            tally: tally(),
            head: 7,
            end: 10,
            stream: None,
            active: None,
        };
        Ok(queues.iter().map(row).collect())
    }

    fn pulses(&self, queues: Vec<(VhostId, String)>) -> Result<Vec<Option<Pulse>>, Busy> {
        let catalog = self.catalog.lock().unwrap();
        let tally = self.survey.lock().unwrap().vhosts.values().next().copied().unwrap_or_default();
        let own = |(vhost, name): &(VhostId, String)| {
            let pulse = Pulse { tally, ready: 2, unsettled: 1, consumers: 3 };
            catalog.queue_by_name(*vhost, name.as_bytes()).map(|_| pulse)
        };
        Ok(queues.iter().map(own).collect())
    }

    fn connections(&self) -> Result<Vec<ConnectionRow>, Busy> {
        Ok(self.connections.lock().unwrap().clone())
    }

    fn connection_count(&self) -> Result<u64, Busy> {
        Ok(self.connections.lock().unwrap().len() as u64)
    }

    fn certificate_ends_s(&self) -> Vec<u64> {
        // Forty days from now.
        vec![1_000_000 + 40 * 86_400]
    }

    fn now_s(&self) -> u64 {
        1_000_000
    }

    fn now_ms(&self) -> u64 {
        1_000_000_000
    }

    fn uptime_ms(&self) -> u64 {
        *self.uptime_ms.lock().unwrap()
    }

    fn reload_certificates(&self) -> Result<usize, String> {
        *self.acted.lock().unwrap() += 1;
        Ok(1)
    }

    fn opened(&self) -> Result<Vec<(u16, Opened)>, Busy> {
        Ok(self.opened.lock().unwrap().clone())
    }

    fn open_sums(&self) -> Result<OpenSums, Busy> {
        let mut sums = OpenSums::default();
        self.opened()?.iter().for_each(|(_, opened)| sums.add(opened));
        for row in self.connections()?.iter().filter(|row| !row.user.is_empty()) {
            let ConnectionRow { channels, received, sent, calls, .. } = *row;
            sums.connections.merge(&ConnectionSums { connections: 1, channels, received, sent, calls });
        }
        Ok(sums)
    }

    fn sessions(&self, connection: ConnectionId) -> Result<Option<Vec<SessionRow>>, Busy> {
        let connections = self.connections.lock().unwrap();
        let is_there = connections.iter().any(|row| row.id == connection && row.protocol.contains("1-0"));
        Ok(is_there.then(|| self.sessions.lock().unwrap().clone()))
    }

    fn survey(&self) -> Result<Survey, Busy> {
        Ok(self.survey.lock().unwrap().clone())
    }

    fn history<T>(&self, look: impl FnOnce(&History) -> T) -> T {
        look(&self.history.lock().unwrap())
    }

    fn tenants(&self) -> Result<Vec<TenantRow>, Busy> {
        *self.listed.lock().unwrap() += 1;
        Ok(self.tenants.lock().unwrap().clone())
    }

    fn held_back(&self) -> Result<HeldCounts, Busy> {
        let mut sum = TenantRow::default();
        self.tenants.lock().unwrap().iter().for_each(|row| sum.merge(row));
        Ok(sum.times)
    }

    fn pools(&self) -> Vec<PoolRow> {
        self.pools.lock().unwrap().clone()
    }

    fn logins(&self) -> [u64; 2] {
        *self.logins.lock().unwrap()
    }

    fn now(&self) -> Now {
        Now::default()
    }

    fn login_tried(&self, is_refused: bool) {
        let mut logins = self.logins.lock().unwrap();
        logins[0] += 1;
        logins[1] += u64::from(is_refused);
    }

    fn forget_history(&self) {
        *self.history.lock().unwrap() = History::default();
    }

    fn forget_logins(&self, logins: Vec<[u64; 2]>) {
        *self.forgotten.lock().unwrap() = logins;
    }

    fn forgotten_logins(&self) -> Vec<[u64; 2]> {
        self.forgotten.lock().unwrap().clone()
    }

    fn tracking(&self, _vhost: VhostId, stream: &str) -> Result<Option<Tracking>, Busy> {
        let tracking = Tracking { offsets: vec![("c".into(), 7)], writers: vec![("p".into(), 9)] };
        Ok((stream == "s").then_some(tracking))
    }

    fn memory(&self) -> Result<Memory, Busy> {
        let pools =
            vec![("binary", 1000), ("queue_procs", 500), ("allocated_unused", 300), ("other_system", 200)];
        Ok(Memory { pools, in_use: 1500, allocated: 1800, resident: 2000 })
    }

    fn writing(&self) -> Writing {
        Writing { syncs: 3, sync_ns: 2_000_000, ..Writing::default() }
    }

    fn close_connection(&self, name: &str, reason: &str) -> Result<bool, Busy> {
        assert_eq!(reason, "Closed via management plugin");
        self.connections.lock().unwrap().retain(|row| row.name != name);
        Ok(true)
    }

    fn request(&self, op: Op) -> Result<(), Trouble> {
        self.plan(&Actor::internal(VhostId::default(), PORT), &op)
    }

    fn act(&self, login: &Login, vhost: &str, action: Action) -> Result<Outcome, Trouble> {
        // There are messages at 100 and 101.
        let is_missing = |position: &u64| !(100..=101).contains(position);
        *self.acted.lock().unwrap() += 1;
        let id = self.catalog.lock().unwrap().vhost(vhost).unwrap();
        let actor = Actor::new(login.user.as_str().into(), id, PORT);
        let op = match action {
            Action::DeclareQueue { name, durable, auto_delete, arguments } => Op::DeclareQueue {
                name: name.into(),
                passive: false,
                durable,
                exclusive: false,
                auto_delete,
                arguments: broker::fields::arguments(&Table::new(&arguments).unwrap()),
                random: [0; 16],
            },
            Action::DeclareExchange { name, kind, durable, auto_delete, internal, .. } => {
                Op::DeclareExchange {
                    name: name.into(),
                    kind: kind.into(),
                    passive: false,
                    durable,
                    auto_delete,
                    internal,
                    arguments: Default::default(),
                }
            }
            Action::DeleteExchange { name, if_unused } => Op::DeleteExchange { name: name.into(), if_unused },
            Action::Bind { on, source, destination, to_exchange: false, key, arguments } => {
                let (queue, exchange, key) = (destination.into(), source.into(), key.into());
                let arguments = broker::fields::arguments(&Table::new(&arguments).unwrap());
                match on {
                    true => Op::BindQueue { queue, exchange, key, arguments },
                    false => Op::UnbindQueue { queue, exchange, key, arguments },
                }
            }
            Action::Peek { from, skip, count, .. } => {
                assert!(count > 0, "nobody is asked for nothing");
                let skip = skip + from.saturating_sub(100) as u32;
                let got = |at: u32| Got {
                    redelivered: false,
                    exchange: "x".into(),
                    key: at.to_string(),
                    left: 0,
                    position: Some(100 + u64::from(at)),
                    properties: vec![0, 0],
                    body: b"body".to_vec(),
                };
                return Ok(Outcome::Got((skip..(skip + count).min(2)).map(got).collect()));
            }
            Action::Search(search) => {
                // The first hundred are looked at, and every tenth is wanted.
                let crate::ReadFrom::Offset(from) = search.from else { panic!("not here: {search:?}") };
                let end = search.end.min(from + 100);
                let wanted = (from..end).filter(|at| at % 10 == 0).take(search.count as usize);
                let got = |at: u64| Got {
                    redelivered: false,
                    exchange: "x".into(),
                    key: at.to_string(),
                    left: 0,
                    position: Some(at),
                    properties: vec![0, 0],
                    body: search.condition.clone().into_bytes(),
                };
                let messages = wanted.map(got).collect();
                let next = (end < search.end).then_some(end);
                return Ok(Outcome::Found(Found { messages, looked_at: end - from, next }));
            }
            Action::Move { goal, positions, pace, .. } => {
                let unplaced = u32::from(goal == Goal::Origin);
                let missing = positions.iter().flatten().copied().filter(is_missing).collect::<Vec<_>>();
                let moved = match positions {
                    Some(positions) => (positions.len() - missing.len()) as u32,
                    None => pace.count.min(pace.among),
                };
                let trouble = (goal == Goal::Exchange { exchange: "gone".into(), key: "k".into() })
                    .then(|| Trouble::Refused(Refusal::missing(Object::Exchange, "gone", "v")));
                let is_over = pace.count == u32::MAX;
                return Ok(Outcome::Moved { moved, unplaced, missing, is_over, trouble });
            }
            Action::Discard { positions, held, .. } => {
                // Messages that are not ready are held.
                let missing = positions.iter().copied().filter(|at| is_missing(at) && !held);
                let missing: Vec<u64> = missing.collect();
                let deleted = (positions.len() - missing.len()) as u32;
                return Ok(Outcome::Discarded { deleted, missing });
            }
            Action::Publish(_) => return Ok(Outcome::Published(false)),
            Action::Purge { .. } => return Ok(Outcome::Done),
            Action::DeleteQueue { name, .. } => {
                let catalog = self.catalog.lock().unwrap();
                Op::DeleteQueue { id: catalog.queue_by_name(id, name.as_bytes()).unwrap().id }
            }
            other => panic!("not here: {other:?}"),
        };
        self.plan(&actor, &op).map(|()| Outcome::Done)
    }

    fn begin_request(&self, op: Op) -> Begun<'_> {
        self.begun(self.request(op))
    }

    fn begin_act(&self, login: &Login, vhost: &str, action: Action) -> Begun<'_> {
        self.begun(self.act(login, vhost, action).map(drop))
    }

    fn ready_from(
        &self,
        _vhost: VhostId,
        _queue: &str,
        begin: Begin,
        most: u64,
    ) -> Result<Option<(u64, u64)>, Busy> {
        // There are messages at 100 and 101.
        let from = match begin {
            Begin::At(QueueSeq(position)) => position,
            Begin::Last(count) => 102 - count.min(2),
        };
        Ok(Some((from, 102u64.saturating_sub(from).min(2).min(most))))
    }

    fn truncate_stream(&self, vhost: &str, stream: &str, before: u64) -> Result<u64, Trouble> {
        match (vhost, stream) {
            ("/", "events") => Ok(before / 10 * 10),
            _ => Err(Trouble::Refused(Refusal::missing(Object::Queue, stream, vhost))),
        }
    }

    fn delayed(&self, _vhost: &str, queue: &str, count_max: usize) -> Result<Option<Delayed>, Busy> {
        let all = (3..9).map(|id| (1000 + id, QueueSeq(id)));
        Ok((queue == "q").then(|| all.take(count_max).collect()))
    }

    fn held(
        &self,
        _vhost: VhostId,
        queue: &str,
        from: QueueSeq,
        count_max: usize,
    ) -> Result<Option<Vec<HeldRow>>, Busy> {
        let all = (3..9).map(|position| HeldRow {
            position,
            port: PortId::here(ShardId(0), if position == 8 { 9 } else { 0 }, 1),
            handle: position as u32,
            since_ns: (position == 3).then_some(0),
            redelivered: position == 4,
        });
        let all = all.filter(|row| row.position >= from.0);
        Ok((queue == "q").then(|| all.take(count_max).collect()))
    }

    fn held_end(&self, _vhost: VhostId, queue: &str) -> Result<Option<u64>, Busy> {
        Ok((queue != "none").then_some(HELD_END))
    }

    fn log_lines(&self, next: Option<u64>) -> (Vec<(&'static str, String)>, u64) {
        let lines = self.lines.lock().unwrap();
        let from = next.unwrap_or(0) as usize;
        let level = |line: &String| if line.contains("Deleted") { "warning" } else { "info" };
        (lines.iter().skip(from).map(|line| (level(line), line.clone())).collect(), lines.len() as u64)
    }

    fn cancel_delayed(&self, _vhost: &str, queue: &str, ids: Vec<u64>) -> Result<Option<u64>, Busy> {
        Ok((queue == "q").then(|| ids.iter().filter(|id| (3..9).contains(*id)).count() as u64))
    }

    fn reset_offset(&self, _vhost: &str, _stream: &str, _reference: &str) -> Result<(), Trouble> {
        *self.acted.lock().unwrap() += 1;
        Ok(())
    }

    fn restart_stream(&self, _vhost: &str, stream: &str) -> Result<bool, Busy> {
        Ok(stream == "s")
    }

    fn vhost_defaults(&self, _: &str) -> VhostDefaults {
        VhostDefaults::default()
    }

    fn log(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }

    fn hash(&self, password: &str, hashing: Hashing) -> Result<PasswordHash, Busy> {
        Ok(hashing.hash(password, [7; LONG_SALT]))
    }

    fn carry_out(&self, trial: Box<Trial>) -> Result<Tried, Busy> {
        Ok(trial.carry_out(self.now(), &self.about.guard, &self.about.access))
    }

    fn compare(&self, trial: Box<Trial>, then: Compared) {
        then(trial.carry_out(self.now(), &self.about.guard, &self.about.access));
    }
}
