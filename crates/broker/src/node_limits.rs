//! How many virtual hosts, exchanges and queues a node may have: asked of what was planned, before it is done.

use crate::catalog::{Catalog, Change, Object, Reason, Refusal};
use crate::limits::Limits;

impl Limits {
    /// Whether the node may have what these changes add. It is asked last, so that what is wrong for other reasons is
    /// refused for those; what is there already stays, however much it is.
    pub(crate) fn check(&self, catalog: &Catalog, changes: &[Change]) -> Result<(), Refusal> {
        let refused = |object, text: String| Err(Refusal::precondition(Reason::LimitReached(object), text));
        let is_full = |most: Option<u64>, count: usize| most.filter(|most| count as u64 >= *most);
        let (mut added_exchanges, mut added_queues) = (0, 0);
        for change in changes {
            match change {
                Change::AddVhost(vhost) => {
                    if let Some(most) = is_full(self.vhosts_max, catalog.vhosts().count()) {
                        let name = &vhost.name;
                        return refused(
                            Object::VirtualHost,
                            format!("cannot create vhost '{name}': vhost limit of {most} is reached"),
                        );
                    }
                }
                Change::AddExchange(exchange) => {
                    let count = catalog.exchange_count() + added_exchanges;
                    if let Some(most) = is_full(self.exchanges_max, count) {
                        let named = catalog.exchange_named(exchange.vhost, &exchange.name);
                        return refused(
                            Object::Exchange,
                            format!("cannot declare {named}: exchange limit of {most} is reached"),
                        );
                    }
                    added_exchanges += 1;
                }
                Change::AddQueue(queue) => {
                    if let Some(most) = is_full(self.queues_max, catalog.queue_count() + added_queues) {
                        let name = &queue.name;
                        return refused(
                            Object::Queue,
                            format!(
                                "cannot declare queue '{name}': queue limit in cluster ({most}) is reached"
                            ),
                        );
                    }
                    added_queues += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Actor, FirstContent, Op, Places, VhostDefaults, VhostId};
    use base::id::PortId;

    fn filled() -> Catalog {
        let mut catalog = Catalog::default();
        let by = Actor::internal(VhostId::default(), PortId::default());
        for op in FirstContent::guest([0; crate::access::SALT]).requests() {
            let plan = catalog.plan(&by, &op, Places::default()).expect("sound");
            plan.changes.iter().for_each(|change| drop(catalog.apply(change)));
        }
        catalog
    }

    #[test]
    fn nothing_is_added_beyond_what_a_node_may_have() {
        let catalog = filled();
        let by = Actor::internal(VhostId(0), PortId::default());
        let exchanges = catalog.exchange_count() as u64;
        let vhost = Op::AddVhost { name: "v".into(), defaults: VhostDefaults::default() };
        let exchange = Op::DeclareExchange {
            name: "e".into(),
            kind: "fanout".into(),
            passive: false,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Default::default(),
        };
        let queue = Op::DeclareQueue {
            name: "q".into(),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Default::default(),
            random: [0; 16],
        };
        let check = |op: &Op, limits: Limits, expected: Option<&str>| {
            let plan = catalog.plan(&by, op, Places::default()).expect("nothing else is wrong");
            let refused = limits.check(&catalog, &plan.changes).err();
            assert_eq!(refused.map(|refusal| refusal.reply_text()).as_deref(), expected);
        };
        let limits = Limits::default();
        let vhosts = |most| Limits { vhosts_max: Some(most), ..limits };
        check(&vhost, vhosts(2), None);
        let text = "PRECONDITION_FAILED - cannot create vhost 'v': vhost limit of 1 is reached";
        check(&vhost, vhosts(1), Some(text));
        let of_exchanges = |most| Limits { exchanges_max: Some(most), ..limits };
        check(&exchange, of_exchanges(exchanges + 1), None);
        let text = format!(
            "PRECONDITION_FAILED - cannot declare exchange 'e' in vhost '/': exchange limit of {exchanges} is reached"
        );
        check(&exchange, of_exchanges(exchanges), Some(&text));
        // A virtual host comes with all its exchanges or not at all.
        check(&vhost, of_exchanges(2 * exchanges), None);
        let plan = catalog.plan(&by, &vhost, Places::default()).expect("nothing else is wrong");
        assert!(of_exchanges(2 * exchanges - 1).check(&catalog, &plan.changes).is_err());
        let queues = |most| Limits { queues_max: Some(most), ..limits };
        check(&queue, queues(1), None);
        let text = "PRECONDITION_FAILED - cannot declare queue 'q': queue limit in cluster (0) is reached";
        check(&queue, queues(0), Some(text));
        // So does a super stream.
        let partitions = vec![("p-0".into(), "0".into()), ("p-1".into(), "1".into())];
        let arguments = Default::default();
        let super_stream = Op::MakeSuperStream { name: "s".into(), partitions, arguments };
        check(&super_stream, queues(2), None);
        let text = "PRECONDITION_FAILED - cannot declare queue 'p-1': queue limit in cluster (1) is reached";
        check(&super_stream, queues(1), Some(text));
    }
}
