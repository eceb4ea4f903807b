//! The hostile tenant in a world: he and his virtual host are made, his connections come and go, and he acts.

use crate::tenant::{TENANT, TenantClient};
use crate::world::World;
use adapters::{NODE_SLOT, Protocol};
use base::id::{PortId, ShardId};
use broker::access::{PasswordHash, SALT};
use broker::catalog::{Actor, Op, PolicyKind, UserLimits, VhostDefaults, VhostId};

/// Bytes that his connections may hold: few, so that some of his commands are refused.
const MEMORY_BYTES_MAX: u64 = 200_000;

impl World {
    /// The tenant and his virtual host are asked for.
    pub fn add_tenant(&mut self) {
        let defaults = VhostDefaults::default();
        let password = Some(PasswordHash::new(TENANT, [7; SALT]));
        let all = || ".*".into();
        let limits = UserLimits { memory_bytes_max: Some(MEMORY_BYTES_MAX), ..UserLimits::default() };
        let ops = [
            Op::AddVhost { name: TENANT.into(), defaults },
            Op::AddUser { name: TENANT.into(), password, tags: Vec::new() },
            Op::SetPermissions {
                user: TENANT.into(),
                vhost: TENANT.into(),
                configure: all(),
                write: all(),
                read: all(),
            },
            Op::SetUserLimits { user: TENANT.into(), limits },
        ];
        self.ask_as_node(ops);
    }

    /// The node itself asks for something, and does not wait for the outcome.
    fn ask_as_node(&mut self, ops: impl IntoIterator<Item = Op>) {
        let World { node, now, .. } = self;
        let home = &mut node.berths[0].home;
        let port = PortId::here(ShardId(0), NODE_SLOT, 3);
        home.shard.open_port(port, Actor::internal(VhostId::default(), port));
        for op in ops {
            home.shard.request(*now, port, 1, op);
        }
        home.shard.close_port(*now, port);
    }

    /// Bytes move between one of the tenant's connections and the node.
    pub fn exchange_tenant(&mut self, at: usize, all: bool) {
        let World { tenant, net, now, dice, .. } = self;
        let Some(client) = &mut tenant[at] else { return };
        client.exchange(*now, all, dice, net);
        if client.is_over {
            tenant[at] = None;
        }
    }

    /// His connections are gone.
    pub fn vanish_tenant(&mut self) {
        let World { tenant, net, .. } = self;
        tenant.iter_mut().filter_map(Option::take).for_each(|mut client| client.vanish(net));
    }

    /// A connection of his more, if he may have one.
    fn connect_tenant(&mut self) {
        let Some(at) = self.tenant.iter().position(Option::is_none) else { return };
        let line = self.net.open(self.here());
        let shard = self.dice.below(self.node.berths.len() as u64) as usize;
        self.note(format!("the tenant connects to shard {shard}"));
        self.tenant[at] = Some(TenantClient::new(line, self.now));
        self.node.accept(shard, line, Protocol::Amqp);
    }

    /// The tenant does something.
    pub fn tenant_acts(&mut self) {
        if self.dice.one_in(6) {
            self.connect_tenant();
        }
        if self.dice.one_in(25) {
            self.set_policy();
        }
        let at = self.dice.below(self.tenant.len() as u64) as usize;
        let World { tenant, dice, net, tally, .. } = self;
        let Some(client) = &mut tenant[at] else { return };
        tally.hostile += 1;
        if dice.one_in(40) {
            client.vanish(net);
            tenant[at] = None;
        } else {
            client.command(dice, net);
        }
    }

    /// A policy over all his queues and exchanges, or one less.
    fn set_policy(&mut self) {
        let name: Box<str> = format!("p{}", self.dice.below(6)).into();
        let (kind, vhost) = (PolicyKind::User, Box::from(TENANT));
        let op = match self.dice.below(4) {
            0 => Op::ClearPolicy { kind, vhost, name },
            at => Op::SetPolicy {
                kind,
                vhost,
                name,
                pattern: ["h(q|x)[0-9]+$", "(.*)*hq.*1", ".*"][at as usize - 1].into(),
                apply_to: "all".into(),
                priority: self.dice.below(5) as i64,
                definition: [(b"max-length".to_vec(), routing::Value::long(25))].into_iter().collect(),
            },
        };
        self.ask_as_node([op]);
    }
}
