//! Connections whose input is left alone, and when they go on: alarms, congestion, output that is not read, and shares of
//! their users.

use super::connection::{Connection, Waits};
use super::{Frontend, Taken};
use crate::alarm::Alarm;
use crate::shares::TurnWork;
use base::Now;
use broker::{HeldBack, Shard};

impl Frontend {
    /// Hands in bytes of the peer: the kept rest, if any, and those that came behind it.
    pub fn input(&mut self, now: Now, shard: &mut Shard, slot: u32, bytes: &[u8]) -> Taken {
        let alarm = self.alarm;
        let is_held = alarm.is_some() || shard.is_congested();
        let units = shard.turn_work();
        shard.work().allow(units);
        if !self.shares.is_empty() && !self.has_share(now, shard, slot) {
            return Taken { consumed: 0, is_waiting: true };
        }
        let taken = self.take_in(now, shard, slot, (bytes, is_held));
        if shard.has_worked_enough() && !self.is_over(slot) && (!taken.is_waiting || self.is_unfinished(slot))
        {
            self.wait_for_share(now, slot);
            return Taken { is_waiting: true, ..taken };
        }
        taken
    }

    /// A connection's user may spend something in this turn, which is allowed; or else the connection waits. One that is
    /// not open yet may be, and may ask for much, before its input ends.
    #[cold]
    fn has_share(&mut self, now: Now, shard: &mut Shard, slot: u32) -> bool {
        let connection = &self.connections[slot as usize];
        self.scratch.is_stranger = connection.user().is_none();
        let allowance = self.shares.allowance(&connection.account(), shard.turn_work());
        shard.work().allow(allowance);
        if allowance == 0 {
            self.wait_for_share(now, slot);
        }
        allowance > 0
    }

    #[cold]
    fn wait_for_share(&mut self, now: Now, slot: u32) {
        let connection = &mut self.connections[slot as usize];
        connection.adapter.set_reading(now, false);
        if std::mem::replace(&mut connection.waits, Waits::ForShare) != Waits::ForShare {
            let account = connection.account();
            // A user alone waits for nobody: the next turn comes at once.
            if self.shares.has_others(&account) {
                let note = self.tenants.held(now, &account, HeldBack::Share);
                self.notes.extend(note);
            }
            self.shares.wait(&account, slot);
        }
    }

    /// Work was done for a connection: its user owes it.
    #[cold]
    pub(super) fn charge(&mut self, shard: &mut Shard, slot: u32) {
        let spent = shard.work().take();
        let account = self.connections[slot as usize].account();
        self.shares.charge(&account, spent);
        self.tenants.spent(&account, spent);
    }

    /// The shares of a turn are there: connections go on that waited for them.
    #[cold]
    pub(super) fn share_anew(&mut self, units: u32) {
        let mut go_on = Vec::new();
        self.shares.begin_turn(units, &mut go_on);
        for slot in go_on {
            let waits = |own: &&mut Connection| own.waits == Waits::ForShare;
            let Some(connection) = self.connections.get_mut(slot as usize).filter(waits) else { continue };
            // From here on it is a connection like those the broker made wait, and nothing keeps it.
            connection.waits = Waits::ForBroker;
            if !connection.is_dirty {
                connection.is_dirty = true;
                self.dirty.push(slot);
            }
        }
    }

    /// The connection has a command that is done in part: its input is to be handed in again, kept or not, when it no
    /// longer waits.
    #[cold]
    pub fn is_unfinished(&self, slot: u32) -> bool {
        self.connections[slot as usize].adapter.is_unfinished()
    }

    /// Users have shares, as some of them did dear work.
    #[inline]
    pub fn is_sharing(&self) -> bool {
        !self.shares.is_empty()
    }

    /// The units that connections had of the last turn in which they had some.
    pub fn last_turn_work(&self) -> TurnWork {
        self.shares.last()
    }

    /// Units that connections ever had.
    pub fn work(&self) -> u64 {
        self.shares.total()
    }

    fn take_in(&mut self, now: Now, shard: &mut Shard, slot: u32, (bytes, is_held): (&[u8], bool)) -> Taken {
        let (alarm, waited) = (self.alarm, self.connections[slot as usize].waits);
        let taken = self.with(now, shard, slot, |connection, context| {
            if connection.adapter.is_over() {
                return Taken { consumed: bytes.len(), is_waiting: false };
            }
            let mut waits = connection.waits_anyhow(context);
            if waits == Waits::ForBroker && connection.adapter.go_on(context) {
                waits = connection.waits_anyhow(context);
            }
            if is_held && waits == Waits::No {
                waits = connection.waits_as_publisher(context, alarm);
            }
            if waits != Waits::No {
                connection.hold(now, waits);
                return Taken { consumed: 0, is_waiting: true };
            }
            let mut greeting = 0;
            if alarm.is_some() || connection.is_blocked {
                greeting = connection.meet(context, alarm, bytes);
            }
            let Connection { adapter, peer, .. } = connection;
            let consumed = greeting + adapter.input(context, peer, &bytes[greeting..]);
            let mut waits = connection.waits_anyhow(context);
            if waits == Waits::No && connection.is_blocked && connection.adapter.is_publishing() {
                waits = Waits::ForAlarm;
            }
            if waits != Waits::No {
                connection.hold(now, waits);
            }
            Taken { consumed, is_waiting: waits != Waits::No }
        });
        if taken.is_waiting && waited == Waits::No {
            self.note_held(now, slot);
        }
        taken
    }

    /// A connection is held back from now on: it counts for its user.
    #[cold]
    fn note_held(&mut self, now: Now, slot: u32) {
        let connection = &self.connections[slot as usize];
        if let Some(why) = connection.held_back(self.alarm) {
            let note = self.tenants.held(now, &connection.account(), why);
            self.notes.extend(note);
        }
    }

    /// An alarm was raised, changed or cleared: whether publishers are blocked, and why.
    pub fn set_alarm(&mut self, now: Now, shard: &mut Shard, alarm: Option<Alarm>) {
        if self.alarm == alarm {
            return;
        }
        self.alarm = alarm;
        let slots: Vec<u32> = self.connections.iter().map(|(slot, _)| slot as u32).collect();
        for slot in slots {
            self.with(now, shard, slot, |connection, context| {
                let alarm = alarm.filter(|alarm| connection.heeds(*alarm));
                if !connection.adapter.is_greeting() {
                    connection.is_blocked = alarm.is_some();
                    connection.adapter.set_blocked(context, alarm);
                }
            });
        }
    }

    /// The broker is no longer congested: connections held for it go on, and those that kept credit back grant it.
    pub fn release_held(&mut self) {
        for (slot, connection) in &mut self.connections {
            let is_held = matches!(connection.waits, Waits::ForBroker | Waits::ForFlow | Waits::ForAlarm);
            if (is_held || connection.adapter.is_due()) && !connection.is_dirty {
                connection.is_dirty = true;
                self.dirty.push(slot as u32);
            }
        }
    }
}
