//! Records that set which properties of its messages a queue's machine keeps, and that annotate messages already in a
//! queue.
//!
//! Rare, all of it. Not here: the decisions (the catalog's rules, consumers' words, [`crate::placed::queue::weighing`]).

use crate::catalog::{QueueDefinition, QueueRules, QueueType};
use crate::log::{Brings, Commons};
use crate::placed::queue::at::AtQueue;
use crate::turn::Turn;
use base::Now;
use base::id::QueueId;
use message::record::{Annotate, Configure, Deduplicate};
use queue::{Priorities, Settings, WindowSettings};

impl AtQueue<'_> {
    /// From now on the queue goes by these rules. What its machine records of that is appended.
    pub(crate) fn go_by(&mut self, turn: &mut Turn<'_>, rules: QueueRules) {
        let queue = &mut *self.queue;
        let settings = rules.settings(queue.definition());
        // A record of other settings may be on its way to the machine.
        let asked = queue.features.as_ref().map(|features| features.rules.settings(queue.definition()));
        if settings != queue.fifo.settings() || asked.is_some_and(|asked| asked != settings) {
            self.append_settings(turn.now, settings);
        }
        if let Some(window) = rules.window
            && self.queue.fifo.window() != Some(window)
        {
            self.append_window(turn.now, window);
        }
        let queue = &mut *self.queue;
        let machine_rules = rules.machine_rules();
        // That no features are kept says little of its machine, which has a delivery limit without any.
        let is_plain = rules == QueueRules::default() && queue.features.is_none();
        if is_plain && machine_rules == queue.fifo.rules() {
            if queue.has_clock() {
                // Messages with a time of their own were found at the start.
                self.mark_dirty();
            }
            return;
        }
        if queue.features.is_some() || !rules.is_usual() {
            let features = queue.features_mut(turn.now);
            if rules.expires_ms.is_some() && features.rules.expires_ms.is_none() {
                features.used_at_ms = turn.now.wall_ms;
            }
            features.rules = rules;
        }
        let had_lease_ms = queue.fifo.rules().lease_ms;
        queue.fifo.set_rules(machine_rules, &mut self.commons.effects);
        if machine_rules.lease_ms != had_lease_ms {
            self.change_lease(turn);
        }
        self.carry_out(turn, None);
        // Handing out is also when the timer is set.
        self.mark_dirty();
    }

    /// From here on a queue's machine keeps the properties of its messages that these settings name.
    #[cold]
    pub(crate) fn append_settings(&mut self, now: Now, settings: Settings) {
        self.commons.append_settings(now, self.queue.id, settings);
    }

    /// Positions of a queue are to have these annotations.
    pub(crate) fn append_annotate(&mut self, now: Now, annotate: &Annotate<'_>) {
        self.commons.pipeline.append(now, Brings::NOTHING, |records| annotate.write(records));
    }

    /// From here on a queue passes over messages it has seen.
    #[cold]
    pub(crate) fn append_window(&mut self, now: Now, window: WindowSettings) {
        self.commons.append_window(now, self.queue.id, window);
    }
}

impl Commons {
    /// As [`AtQueue::append_settings`], for a queue that may be owned elsewhere.
    fn append_settings(&mut self, now: Now, queue: QueueId, settings: Settings) {
        let priority_max = match settings.priorities {
            Priorities::UpTo(max) => Some(max),
            Priorities::None | Priorities::Strict => None,
        };
        let Settings { ttl_ms, sizes, .. } = settings;
        let configure = Configure { queue, ttl_ms, priority_max, sizes, at_ms: now.wall_ms };
        self.pipeline.append(now, Brings::NOTHING, |records| configure.write(records));
    }

    /// As [`AtQueue::append_window`], for a queue that may be owned elsewhere.
    fn append_window(&mut self, now: Now, queue: QueueId, window: WindowSettings) {
        let WindowSettings { keys_max, ttl_ms } = window;
        let deduplicate = Deduplicate { queue, keys_max, ttl_ms, at_ms: now.wall_ms };
        self.pipeline.append(now, Brings::NOTHING, |records| deduplicate.write(records));
    }

    /// The settings of what a queue keeps of messages that come from here on, where its machine is not looked at.
    #[cold]
    pub(crate) fn append_rules(&mut self, now: Now, definition: &QueueDefinition, rules: &QueueRules) {
        if definition.queue_type == QueueType::Stream {
            return;
        }
        self.append_settings(now, definition.id, rules.settings(definition));
        rules.window.into_iter().for_each(|window| self.append_window(now, definition.id, window));
    }
}
