//! The connections of a front as tools and HTTP list them, a few at a time, and the memory that they take.

use super::Frontend;
use super::connection::Connection;
use crate::tenants::row_of;
use base::Quantum;
use base::id::PortId;
use broker::catalog::{Catalog, VhostId};
use broker::ledger::Holding;
use broker::{
    ChannelTally, ConnectionRow, ConnectionSums, Depth, HeldCounts, OpenSums, Opened, SessionRow, Shard,
    TenantRow,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of memory of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionBytes {
    /// Output buffers.
    pub output: usize,
    /// All else.
    pub own: usize,
}

impl Frontend {
    /// Connections from a slot on, without passing over those before it.
    fn connections_from(&self, from: u32) -> impl Iterator<Item = (usize, &Connection)> {
        let slots = from as usize..self.connections.capacity();
        slots.filter_map(|slot| Some((slot, self.connections.get(slot)?)))
    }

    /// Connections as they are listed, as many of them as `quantum` allows from number `from` on. Where to go on, until all were
    /// looked at. `complete` adds the numbers of the socket in a slot; false: it has none, and its connection is not listed.
    pub fn rows_from(
        &self,
        shard: &Shard,
        from: u32,
        quantum: &mut Quantum<'_>,
        complete: impl Fn(u32, &mut ConnectionRow) -> bool,
        rows: &mut Vec<ConnectionRow>,
    ) -> Option<u32> {
        for (slot, connection) in self.connections_from(from) {
            if quantum.is_over() {
                return Some(slot as u32);
            }
            let mut row = self.row(shard, slot, connection);
            if complete(slot as u32, &mut row) {
                rows.push(row);
            }
            quantum.spend(1);
        }
        None
    }

    fn row(&self, shard: &Shard, slot: usize, connection: &Connection) -> ConnectionRow {
        let row = connection.adapter.row(shard.catalog()).named(&connection.peer.name);
        let holding = shard.holding(PortId::here(self.shard, slot as u32, connection.generation));
        ConnectionRow {
            id: (self.shard.0, slot as u32, connection.generation),
            channels: connection.adapter.channels() as u64,
            held: holding.map_or(0, Holding::held),
            held_back: connection.held_back(self.alarm),
            encryption: connection.peer.encryption.clone(),
            ..row
        }
    }

    /// Adds users to `rows`: the work that was done for them, and how often they were held back.
    fn tenants(&self, rows: &mut BTreeMap<Arc<str>, TenantRow>) {
        self.tenants.tell(rows);
        self.shares.owed().for_each(|(user, owed)| row_of(rows, user).owed += owed);
    }

    /// How often connections were held back since the node started, of all users together.
    pub fn held_back(&self) -> &HeldCounts {
        self.tenants.times()
    }

    /// Adds users and their connections to `rows`: as many connections as `quantum` allows are looked at, from number
    /// `from` on. Where to go on, until all were looked at.
    pub fn tenants_from(
        &self,
        from: u32,
        quantum: &mut Quantum<'_>,
        rows: &mut BTreeMap<Arc<str>, TenantRow>,
    ) -> Option<u32> {
        if from == 0 {
            self.tenants(rows);
        }
        for (slot, connection) in self.connections_from(from) {
            if quantum.is_over() {
                return Some(slot as u32);
            }
            let row = row_of(rows, &connection.account());
            row.connections += 1;
            if let Some(why) = connection.held_back(self.alarm) {
                row.held[why as usize] += 1;
            }
            quantum.spend(1);
        }
        None
    }

    /// Rows of connections' channels and consumers, of those that have any: as many connections as `quantum` allows are
    /// looked at, from number `from` on; one counts as many times as it has things open. Where to go on, until all were
    /// looked at.
    pub fn opened(
        &self,
        catalog: &Catalog,
        from: u32,
        quantum: &mut Quantum<'_>,
        rows: &mut Vec<Opened>,
    ) -> Option<u32> {
        for (slot, connection) in self.connections_from(from) {
            if quantum.is_over() {
                return Some(slot as u32);
            }
            let mut opened = Opened::default();
            connection.adapter.list(catalog, Depth::Whole, &mut opened);
            let has = opened.len();
            if !opened.is_empty() {
                let ConnectionRow { user, vhost, .. } = connection.adapter.row(catalog);
                let (connection, port) =
                    (connection.peer.name.to_string(), (slot as u32, connection.generation));
                rows.push(Opened { connection, port, user, vhost, ..opened });
            }
            quantum.spend(1 + has);
        }
        None
    }

    /// The sums of connections and of their channels and consumers, added to `sums`: as [`Frontend::opened`]. `traffic`
    /// tells of the socket in a slot the bytes it received and sent, and its calls.
    pub fn sums_from(
        &self,
        catalog: &Catalog,
        from: u32,
        quantum: &mut Quantum<'_>,
        traffic: impl Fn(u32) -> ConnectionSums,
        sums: &mut OpenSums,
    ) -> Option<u32> {
        let mut opened = Opened::default();
        for (slot, connection) in self.connections_from(from) {
            if quantum.is_over() {
                return Some(slot as u32);
            }
            opened.clear();
            connection.adapter.list(catalog, Depth::Numbers, &mut opened);
            sums.add(&opened);
            if connection.adapter.vhost().is_some() {
                let channels = connection.adapter.channels() as u64;
                sums.connections.merge(&ConnectionSums { connections: 1, channels, ..traffic(slot as u32) });
            }
            quantum.spend(1 + opened.len());
        }
        None
    }

    /// The sessions of a connection by its slot and its number there; none: it is not here, or its protocol has none.
    pub fn sessions(&self, catalog: &Catalog, (slot, generation): (u32, u32)) -> Option<Vec<SessionRow>> {
        let connection = self.connections.get(slot as usize)?;
        (connection.generation == generation).then(|| connection.adapter.sessions(catalog))?
    }

    /// The connection that holds most memory by the ledger: its slot and number, its name, and how many bytes. None: no
    /// connection holds any.
    pub fn largest_holder(&self, shard: &Shard) -> Option<((u32, u32), Arc<str>, u64)> {
        let (port, held) = shard.largest_holder()?;
        let connection = self.connections.get(port.slot as usize)?;
        let is_current = connection.generation == port.generation;
        is_current.then(|| ((port.slot, port.generation), connection.peer.name.clone(), held))
    }

    /// The number of a connection in its slot, and its virtual host; none while it is in none.
    pub fn whose(&self, slot: u32) -> Option<(u32, VhostId)> {
        let connection = self.connections.get(slot as usize)?;
        Some((connection.generation, connection.adapter.vhost()?))
    }

    /// The counts of channels, of those that have any; as [`Frontend::opened`].
    pub fn channel_tallies(
        &self,
        from: u32,
        quantum: &mut Quantum<'_>,
        tallies: &mut Vec<ChannelTally>,
    ) -> Option<u32> {
        for (slot, connection) in self.connections_from(from) {
            if quantum.is_over() {
                return Some(slot as u32);
            }
            let port = (slot as u32, connection.generation);
            let before = tallies.len();
            connection.adapter.tallies(|number, tally| tallies.push((port, number, tally)));
            quantum.spend(1 + tallies.len() - before);
        }
        None
    }

    /// Bytes of memory of connections, for callers that must not hold others up: of as many as `quantum` allows from
    /// number `from` on. Where to go on, until all were counted.
    pub fn memory_from(&self, from: u32, quantum: &mut Quantum<'_>) -> (ConnectionBytes, Option<u32>) {
        let mut bytes = ConnectionBytes::default();
        if from == 0 {
            bytes.own += self.connections.capacity() * size_of::<Connection>();
            bytes.own += self.scratch.clients.memory_bytes();
        }
        for (slot, connection) in self.connections_from(from) {
            if quantum.is_over() {
                return (bytes, Some(slot as u32));
            }
            bytes.own += connection.heap_bytes();
            bytes.output += connection.adapter.output_bytes();
            quantum.spend(1);
        }
        (bytes, None)
    }

    /// Bytes of memory of the connections, output apart.
    pub fn heap_bytes(&self) -> usize {
        let own = self.connections.capacity() * size_of::<Connection>();
        let each = self.connections.iter().map(|(_, connection)| connection.heap_bytes());
        own + self.scratch.clients.memory_bytes() + each.sum::<usize>()
    }
}
