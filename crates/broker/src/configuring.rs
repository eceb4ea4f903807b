//! What queues are told to keep of their messages, and what is said of messages later: the records of it, and what they do.
//!
//! Rare, all of it. Not here: who decides (the catalog's rules, consumers' words, [`crate::weighing`]).

use crate::features::settings_of;
use crate::log::{Brings, Log};
use base::Now;
use base::id::QueueId;
use message::record::{Annotate, Configure, Deduplicate, Weigh};
use queue::{Priorities, Settings, WindowSettings};

impl Log {
    /// From here on a queue's machine keeps of its messages what these settings say.
    #[cold]
    pub(crate) fn append_settings(&mut self, now: Now, queue: QueueId, settings: Settings) {
        let priority_max = match settings.priorities {
            Priorities::UpTo(max) => Some(max),
            Priorities::None | Priorities::Strict => None,
        };
        let Settings { ttl_ms, sizes, .. } = settings;
        let configure = Configure { queue, ttl_ms, priority_max, sizes, at_ms: now.wall_ms };
        self.pipeline.append(now, Brings::NOTHING, |records| configure.write(records));
    }

    /// Positions of a queue are to have these annotations.
    pub(crate) fn append_annotate(&mut self, now: Now, annotate: &Annotate<'_>) {
        self.pipeline.append(now, Brings::NOTHING, |records| annotate.write(records));
    }

    /// From here on a queue passes over messages it has seen.
    #[cold]
    pub(crate) fn append_window(&mut self, now: Now, queue: QueueId, window: WindowSettings) {
        let WindowSettings { keys_max, ttl_ms } = window;
        let deduplicate = Deduplicate { queue, keys_max, ttl_ms, at_ms: now.wall_ms };
        self.pipeline.append(now, Brings::NOTHING, |records| deduplicate.write(records));
    }

    /// A record of the kind that all these but annotations have.
    #[cold]
    pub(crate) fn apply_configure(&mut self, record: &[u8]) {
        if let Some(Deduplicate { queue, keys_max, ttl_ms, .. }) = Deduplicate::read(record) {
            let keys_max = keys_max.min(WindowSettings::KEYS_MAX);
            if let Some((_, queue)) = self.queue_mut(queue) {
                queue.fifo.deduplicate(WindowSettings { keys_max, ttl_ms });
            }
            return;
        }
        if let Some(weigh) = Weigh::read(record) {
            let Some((slot, queue)) = self.queue_mut(weigh.queue) else { return };
            queue.fifo.weigh(weigh.range, weigh.sizes());
            // There may be too much in it, now that it is known.
            self.mark_dirty(slot);
            return;
        }
        let configure = Configure::read(record).expect("a committed batch holds whole records");
        let Some((slot, queue)) = self.queue_mut(configure.queue) else { return };
        queue.fifo.configure(settings_of(&configure, queue.fifo.settings()));
        if queue.fifo.to_weigh().is_some() {
            self.mark_dirty(slot);
        }
    }

    /// Positions have annotations.
    #[cold]
    pub(crate) fn apply_annotate(&mut self, record: &[u8]) {
        let annotate = Annotate::read(record).expect("a committed batch holds whole records");
        let Some((_, queue)) = self.queue_mut(annotate.queue) else { return };
        queue.fifo.annotated(annotate.range, &annotate.annotations.into());
    }
}
