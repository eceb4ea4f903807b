//! The watch over a node that runs: memory, the disk, and whoever wants the node to end.

use super::{Running, Then};
use crate::alarm::{Alarms, Meter};
use crate::complaints::Complaints;
use crate::config::Config;
use crate::door::Letter;
use crate::end::End;
use crate::eviction;
use crate::heap::{self, Thrift};
use crate::log::level::Level;
use node::turn::Raised;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// The time until memory is looked at again when the connection that held most was closed.
const EVICTED: Duration = Duration::from_millis(50);

impl Running {
    /// Watches memory and disk until the node is to end, and calls `also` as often.
    pub(super) fn watch(
        &self,
        config: &Config,
        ends: &Receiver<End>,
        also: impl Fn(),
    ) -> Result<Then, String> {
        let (memory_limit, disk_limit) = self.watermarks.bytes();
        let mut alarms = Alarms::new(memory_limit, disk_limit, &config.node_name);
        let meter = Meter::new(&config.data_dir);
        let interval = Duration::from_millis(config.sample_interval_ms);
        let mut lines = Vec::new();
        let mut thrift = Thrift::default();
        // A look that a message asks for ends no interval: only one that comes of itself does.
        let (mut is_interval, mut has_evicted) = (true, false);
        let mut shortages = 0;
        let mut complaints = Complaints::default();
        let mut asked = None;
        loop {
            (alarms.memory_limit, alarms.disk_limit) = self.watermarks.bytes();
            self.ledger.set_watermark(self.watermarks.shared_bytes());
            if alarms.raised().memory || (is_interval && thrift.is_due(heap::used_ns())) {
                heap::trim();
            }
            match meter.sample() {
                Ok(mut sample) => {
                    if let Ok(free) = self.committer.disk().free_bytes() {
                        sample.disk_free = free;
                    }
                    // Shards have seen each for themselves, and hear from here that it is over.
                    let seen = std::mem::replace(&mut shortages, self.committer.shortages());
                    if self.committer.lacks_space() {
                        sample.disk_free = 0;
                    }
                    if alarms.judge(sample, &mut lines) || seen != shortages {
                        self.announce(alarms.raised());
                    }
                    if is_interval && config.alarm_refuses_growth && alarms.is_far_beyond(sample) {
                        let line = eviction::evict_largest(&self.doors);
                        has_evicted = line.is_some();
                        lines.extend(line.map(|line| (Level::Warning, line)));
                    }
                }
                Err(error) => self.logger.warning(format!("memory and disk cannot be measured: {error}")),
            }
            if let Some(asked) = asked.take() {
                // One that no longer waits has its answer from the next look.
                let _ = Sender::send(&asked, ());
            }
            lines.drain(..).for_each(|(level, text): (Level, String)| self.logger.log(level, text));
            also();
            if let Some(line) = complaints.due(self.clock.now().mono_ns, broker::access::given_up) {
                self.logger.warning(line);
            }
            // The others wait no longer than it takes to see that there is room again.
            let soon = std::mem::take(&mut has_evicted).then_some(EVICTED);
            let call = ends.recv_timeout(soon.map_or(interval, |soon| soon.min(interval)));
            is_interval = call.is_err() && soon.is_none();
            match call {
                Ok(End::Asked) => return Ok(Then::End),
                Ok(End::StopApp) => return Ok(Then::Wait),
                Ok(End::Anew) => return Ok(Then::Anew),
                Ok(End::Failed(why)) => return Err(why),
                Ok(End::Judge(answer)) => asked = Some(answer),
                Ok(End::Look | End::StartApp) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("nobody is left to end the node".into()),
            }
        }
    }

    fn announce(&self, raised: Raised) {
        self.raised.store(u8::from(raised.memory) | u8::from(raised.disk) << 1, Ordering::Relaxed);
        self.doors.iter().for_each(|door| door.letters.put(Letter::Node(node::turn::Letter::Alarm(raised))));
    }
}
