//! Output that a connection's client has not read, and input that is not done with: both are counted in the ledger of
//! memory, consumers pause and input is left alone where there is much.

use super::Frontend;
use super::connection::{Backlog, Connection, Waits};
use crate::connection::Adapter;
use crate::context::Context;
use crate::settings::Settings;
use base::Now;
use base::id::PortId;
use broker::catalog::ReplyCode;
use broker::ledger::Kind;
use broker::{Event, Events, Shard};

impl Connection {
    /// Counts its output. Whether the ledger has no room for more of it.
    #[cold]
    fn count_output(&mut self, shard: &mut Shard, port: PortId, settings: &Settings) -> bool {
        let output = self.adapter.output();
        let (len, kept) = (output.len(), output.kept_bytes());
        let is_light = self.backlog != Backlog::Paused
            && len <= settings.output_counted_min
            && kept <= 4 * settings.output_counted_min;
        self.backlog = match self.backlog {
            Backlog::Paused => Backlog::Paused,
            _ if is_light => Backlog::Light,
            _ => Backlog::Counted,
        };
        let Some(holding) = shard.holding_mut(port) else { return false };
        holding.set(Kind::Output, if is_light { 0 } else { kept });
        // They are part of the output by now.
        holding.give_all(Kind::Replies);
        !is_light && holding.is_unread()
    }

    /// Counts its output. Whether it is so much that its consumers, which went on, are to pause.
    #[cold]
    pub(super) fn weigh_output(&mut self, shard: &mut Shard, port: PortId, settings: &Settings) -> bool {
        let is_full = self.count_output(shard, port, settings);
        let len = self.adapter.output_len();
        let has_much = match self.adapter {
            Adapter::Stream(_) => len > settings.output_bytes_low,
            _ => len > settings.output_bytes_max,
        };
        let pauses = has_much || is_full && len > settings.unread_full_bytes_max;
        if self.backlog == Backlog::Paused || !pauses {
            return false;
        }
        self.backlog = Backlog::Paused;
        true
    }

    /// Some of its output, which is counted, went out. Whether its consumers, which paused, are to go on.
    #[cold]
    fn lighten(&mut self, shard: &mut Shard, port: PortId, settings: &Settings) -> bool {
        let is_full = self.count_output(shard, port, settings);
        let low = match self.adapter {
            _ if is_full => settings.unread_full_bytes_max / 4,
            Adapter::Stream(_) => settings.output_bytes_low / 4,
            _ => settings.output_bytes_low,
        };
        let goes_on = self.backlog == Backlog::Paused && self.adapter.output_len() <= low;
        if goes_on {
            self.backlog = Backlog::Counted;
            self.count_output(shard, port, settings);
        }
        goes_on
    }

    /// Counts what its channels, consumers and the like take, which is much, or was. Where an account is overdrawn by more of
    /// that than before, the connection is closed.
    #[cold]
    pub(super) fn weigh_tables(&mut self, context: &mut Context<'_>, bytes: usize) {
        let has_more = self.count_tables(context, bytes);
        let holding = context.shard.holding(context.port).filter(|_| has_more);
        let Some(full) = holding.and_then(|holding| holding.overdrawn()) else { return };
        let what = format!("{bytes} bytes of channels, consumers and unsettled deliveries");
        let refusal = full.refuse(ReplyCode::ResourceError, &what);
        self.adapter.event(context, &Event::Close { refusal }, &Events::default());
        let left = self.adapter.table_bytes();
        self.count_tables(context, left);
    }

    /// Whether more is counted than before.
    fn count_tables(&mut self, context: &mut Context<'_>, bytes: usize) -> bool {
        let Some(holding) = context.shard.holding_mut(context.port) else { return false };
        let before = holding.held_of(Kind::Tables) as usize;
        let counted = if bytes > context.settings.tables_counted_min { bytes } else { 0 };
        if counted != before {
            holding.set(Kind::Tables, counted);
            self.adapter.set_counts_tables(counted > 0);
        }
        counted > before
    }

    /// Whether it has so much to send that nothing more of it is heard.
    #[inline]
    pub(super) fn is_unread(&self, context: &Context<'_>) -> bool {
        let len = self.adapter.output_len();
        len > context.settings.unread_bytes_max
            || self.backlog != Backlog::Light && self.is_short(context, len)
    }

    /// Whether it has more to send than it may have while there is no room for more.
    #[cold]
    fn is_short(&self, context: &Context<'_>, len: usize) -> bool {
        let is_full = || context.shard.holding(context.port).is_some_and(|holding| holding.is_unread());
        len > context.settings.unread_full_bytes_max && is_full()
    }
}

impl Frontend {
    /// Some output did not go out, as the peer takes no more for now: it is counted where it is more than a little.
    #[inline]
    pub fn unsent(&mut self, now: Now, shard: &mut Shard, slot: u32) {
        let connection = &self.connections[slot as usize];
        if connection.backlog != Backlog::Light
            || connection.adapter.output_len() > self.settings.output_counted_min
        {
            self.weigh(now, shard, slot);
        }
    }

    #[cold]
    fn weigh(&mut self, now: Now, shard: &mut Shard, slot: u32) {
        let connection = &mut self.connections[slot as usize];
        let port = PortId::here(self.shard, slot, connection.generation);
        if connection.weigh_output(shard, port, &self.settings) {
            self.with(now, shard, slot, |connection, context| connection.adapter.set_paused(context, true));
        }
    }

    /// Some output went out: consumers that had paused because of it go on, and so does the input that was left alone.
    pub fn sent(&mut self, now: Now, shard: &mut Shard, slot: u32) {
        let connection = &mut self.connections[slot as usize];
        if connection.backlog != Backlog::Light {
            self.lighten(now, shard, slot);
        }
        let connection = &mut self.connections[slot as usize];
        if connection.waits == Waits::ForPeer {
            connection.adapter.note_alive();
            let len = connection.adapter.output_len();
            let half = match connection.backlog {
                Backlog::Light => self.settings.unread_bytes_max / 2,
                Backlog::Counted | Backlog::Paused => self.resume_bytes(shard, slot),
            };
            if len <= half {
                let connection = &mut self.connections[slot as usize];
                connection.hold(now, Waits::ForBroker);
                if !connection.is_dirty {
                    connection.is_dirty = true;
                    self.dirty.push(slot);
                }
            }
        }
    }

    /// So many bytes of memory keep input of a connection that is not done with. Where an account is overdrawn, and they do not
    /// wait to be heard, the connection is closed.
    #[cold]
    pub fn keep_input(&mut self, now: Now, shard: &mut Shard, slot: u32, bytes: usize) {
        let connection = &self.connections[slot as usize];
        let port = PortId::here(self.shard, slot, connection.generation);
        let Some(holding) = shard.holding_mut(port) else { return };
        let before = holding.held_of(Kind::Input) as usize;
        holding.set(Kind::Input, bytes);
        if bytes <= before || bytes <= self.settings.input_full_bytes_max || connection.waits != Waits::No {
            return;
        }
        if let Some(full) = holding.overdrawn() {
            let refusal = full.refuse(ReplyCode::ResourceError, &format!("input of {bytes} bytes"));
            let event = Event::Close { refusal };
            self.with(now, shard, slot, |connection, context| {
                connection.adapter.event(context, &event, &Events::default());
            });
        }
    }

    /// The memory of a connection's output may have been given back.
    pub fn cooled(&mut self, now: Now, shard: &mut Shard, slot: u32) {
        if self.connections[slot as usize].backlog != Backlog::Light {
            self.lighten(now, shard, slot);
        }
    }

    #[cold]
    fn lighten(&mut self, now: Now, shard: &mut Shard, slot: u32) {
        let connection = &mut self.connections[slot as usize];
        let port = PortId::here(self.shard, slot, connection.generation);
        if connection.lighten(shard, port, &self.settings) {
            self.with(now, shard, slot, |connection, context| connection.adapter.set_paused(context, false));
        }
    }

    /// Bytes left to send at which a connection is heard again.
    #[cold]
    fn resume_bytes(&self, shard: &Shard, slot: u32) -> usize {
        let generation = self.connections[slot as usize].generation;
        let holding = shard.holding(PortId::here(self.shard, slot, generation));
        match holding.is_some_and(|holding| holding.is_unread()) {
            true => self.settings.unread_full_bytes_max / 2,
            false => self.settings.unread_bytes_max / 2,
        }
    }
}
