//! The refusal of a change for which no node led the catalog in time, in RabbitMQ's words.
//!
//! As a three-node RabbitMQ 4.3.6 was seen to say it of its metadata store: `docs/compatibility/rabbitmq-cluster.md`.

use super::arguments::is_type;
use super::{Actor, Catalog, Op, QueueType, Reason, Refusal, ReplyCode};

impl Catalog {
    /// See the module. `node`: the name of the node that says so.
    pub(crate) fn timed_out(&self, node: &str, by: &Actor, op: &Op) -> Refusal {
        let vhost = self.vhost_name(by.vhost);
        let text = match op {
            Op::DeclareQueue { name, arguments, .. } => {
                let usual = self.vhost_definition(by.vhost).map(|vhost| vhost.default_queue_type);
                let is_quorum = is_type(arguments, usual.unwrap_or_default(), QueueType::Quorum);
                let kind = if is_quorum { "quorum queue" } else { "queue" };
                format!(
                    "Could not declare {kind} '{name}' in vhost '{vhost}' on node '{node}' because the metadata store \
                     operation timed out"
                )
            }
            Op::DeclareExchange { name, .. } => {
                format!(
                    "failed to declare exchange '{name}' in vhost '{vhost}' because the operation timed out"
                )
            }
            Op::DeleteExchange { name, .. } => {
                format!("failed to delete exchange '{name}' in vhost '{vhost}' due to a timeout")
            }
            Op::DeleteQueue { .. } => {
                "The operation to delete the queue from the metadata store timed out".to_owned()
            }
            Op::BindQueue { .. } | Op::BindExchange { .. } => {
                "Could not add binding due to timeout".to_owned()
            }
            Op::UnbindQueue { .. } | Op::UnbindExchange { .. } => {
                "Could not remove binding due to timeout".to_owned()
            }
            _ => "the metadata store operation timed out".to_owned(),
        };
        Refusal::new(ReplyCode::InternalError, Reason::NoLeader, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Change, VhostDefinition, VhostId};
    use base::id::{PortId, QueueId};
    use routing::{Arguments, Value};
    use std::sync::Arc;

    #[test]
    fn it_is_said_as_rabbitmq_says_it() {
        let mut catalog = Catalog::default();
        let vhost = VhostDefinition {
            id: VhostId(0),
            name: "/".into(),
            default_queue_type: QueueType::Classic,
            about: None,
        };
        catalog.apply(&Change::AddVhost(Arc::new(vhost)));
        let by = Actor::internal(VhostId(0), PortId::default());
        let check = |op: Op, expected: &str| {
            let refusal = catalog.timed_out("rabbit@one", &by, &op);
            assert_eq!(refusal.to_string(), format!("INTERNAL_ERROR - {expected}"));
        };
        let queue = |arguments: Arguments| Op::DeclareQueue {
            name: "q".into(),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments,
            random: [0; 16],
        };
        let quorum = [(&b"x-queue-type"[..], Value::Text(b"quorum".as_slice().into()))].into_iter().collect();
        check(
            queue(Arguments::default()),
            "Could not declare queue 'q' in vhost '/' on node 'rabbit@one' because the metadata store operation timed out",
        );
        check(
            queue(quorum),
            "Could not declare quorum queue 'q' in vhost '/' on node 'rabbit@one' because the metadata store operation timed out",
        );
        check(
            Op::DeleteExchange { name: "x".into(), if_unused: false },
            "failed to delete exchange 'x' in vhost '/' due to a timeout",
        );
        check(
            Op::DeleteQueue { id: QueueId(1) },
            "The operation to delete the queue from the metadata store timed out",
        );
        let (queue, exchange, key, arguments) = ("q".into(), "x".into(), "k".into(), Arguments::default());
        check(Op::BindQueue { queue, exchange, key, arguments }, "Could not add binding due to timeout");
    }
}
