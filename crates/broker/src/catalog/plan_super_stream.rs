//! Making a super stream: an exchange, its streams, and the bindings between them, all of them or none.
//!
//! In one plan, so that it does not matter whether the client stays for the answer. Deleting one needs no plan of its
//! own: the streams left when that is cut short are deleted by name.

use super::partitions::PARTITION_ORDER;
use super::plan::check_length;
use super::plan_queue::RESERVED_AT_ONCE;
use super::{Actor, Binding, Catalog, Change, Destination, Op, Places, Plan, QueueDefinition, Refusal};
use crate::access::{Access, Resource};
use base::id::QueueId;
use routing::{Arguments, ExchangeId, Value};
use std::sync::Arc;

/// The argument that tells the exchange of a super stream from others.
const SUPER_STREAM: &[u8] = b"x-super-stream";

impl Catalog {
    /// Nothing changes where its exchange or one of its streams is there already, or two of them have one name.
    pub(super) fn make_super_stream(&self, by: &Actor, op: &Op, places: Places) -> Result<Plan, Refusal> {
        let Op::MakeSuperStream { name, partitions, arguments } = op else {
            unreachable!("called for super streams alone");
        };
        let mut names: Vec<&str> = partitions.iter().map(|(partition, _)| &**partition).collect();
        base::brief::sort(&mut names);
        if self.exchange(by.vhost, name.as_bytes()).is_some()
            || names.iter().any(|name| self.queue_by_name(by.vhost, name.as_bytes()).is_some())
            || names.windows(2).any(|two| two[0] == two[1])
        {
            return Ok(Plan::nothing());
        }
        let own: Arguments = [(SUPER_STREAM, Value::Bool(true))].into_iter().collect();
        let mut changes = self.declare_exchange(by, name, "direct", [true, false, false], &own)?.changes;
        self.check_access(by, Access::Read, Resource::Exchange(name))?;
        let (source, first) = (ExchangeId(self.next_exchange), self.next_queue);
        let end = first.saturating_add(partitions.len() as u64);
        if end > self.reserved_queues {
            let below = end.saturating_add(RESERVED_AT_ONCE);
            changes.push(Change::ReserveQueueIds { below, may_be_used: false });
        }
        let mut bindings = Vec::with_capacity(partitions.len());
        for (order, (partition, key)) in partitions.iter().enumerate() {
            let declare = Op::DeclareQueue {
                name: partition.clone(),
                passive: false,
                durable: true,
                exclusive: false,
                auto_delete: false,
                arguments: arguments.clone(),
                random: [0; 16],
            };
            let planned = self.declare_queue(by, &declare, places)?.queue.expect("what is declared is told");
            // Those before it are not there yet.
            self.check_queue_limit(by.vhost, partition, order)?;
            self.check_access(by, Access::Write, Resource::Queue(partition))?;
            check_length("binding key", key)?;
            let id = QueueId(first.saturating_add(order as u64));
            changes.push(Change::AddQueue(Arc::new(QueueDefinition { id, ..(*planned).clone() })));
            bindings.push(Change::Bind(Arc::new(Binding {
                source,
                destination: Destination::Queue(id),
                key: (**key).into(),
                arguments: [(PARTITION_ORDER, Value::long(order as i64))].into_iter().collect(),
                durable: true,
            })));
        }
        changes.append(&mut bindings);
        Ok(Plan { changes, ..Plan::default() })
    }
}
