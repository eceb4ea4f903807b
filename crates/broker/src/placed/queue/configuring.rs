//! Records that set which properties of its messages a queue's machine keeps, and that annotate messages already in a
//! queue.
//!
//! Rare, all of it. Not here: the decisions (the catalog's rules, consumers' words, [`crate::placed::queue::weighing`]).

use crate::log::{AtQueue, Brings};
use base::Now;
use message::record::{Annotate, Configure, Deduplicate};
use queue::{Priorities, Settings, WindowSettings};

impl AtQueue<'_> {
    /// From here on a queue's machine keeps the properties of its messages that these settings name.
    #[cold]
    pub(crate) fn append_settings(&mut self, now: Now, settings: Settings) {
        let queue = self.queue.definition.id;
        let priority_max = match settings.priorities {
            Priorities::UpTo(max) => Some(max),
            Priorities::None | Priorities::Strict => None,
        };
        let Settings { ttl_ms, sizes, .. } = settings;
        let configure = Configure { queue, ttl_ms, priority_max, sizes, at_ms: now.wall_ms };
        self.commons.pipeline.append(now, Brings::NOTHING, |records| configure.write(records));
    }

    /// Positions of a queue are to have these annotations.
    pub(crate) fn append_annotate(&mut self, now: Now, annotate: &Annotate<'_>) {
        self.commons.pipeline.append(now, Brings::NOTHING, |records| annotate.write(records));
    }

    /// From here on a queue passes over messages it has seen.
    #[cold]
    pub(crate) fn append_window(&mut self, now: Now, window: WindowSettings) {
        let queue = self.queue.definition.id;
        let WindowSettings { keys_max, ttl_ms } = window;
        let deduplicate = Deduplicate { queue, keys_max, ttl_ms, at_ms: now.wall_ms };
        self.commons.pipeline.append(now, Brings::NOTHING, |records| deduplicate.write(records));
    }
}
