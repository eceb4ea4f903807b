//! The effect of a policy, before it is saved: `POST /api/x/policies/VHOST/NAME/preview`.
//!
//! Names are compared here, and not where connections wait: a pattern may be dear. What counts for each thing now is looked
//! up in the catalog, some at a time.

use crate::body::Body;
use crate::call::Call;
use crate::node::Node;
use crate::policies;
use crate::response::{Answer, Response};
use base::id::PortId;
use broker::catalog::{
    Actor, Change, ExchangeDefinition, Places, PolicyDefinition, PolicyKind, QueueDefinition, VhostId,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Things that are looked up at a time.
const LOOK: usize = 500;

/// Things that are told of one by one.
const EXAMPLES: usize = 100;

/// A thing that policies are for, with the policy that counts for it now.
enum Thing {
    Queue(Arc<QueueDefinition>, Option<Arc<PolicyDefinition>>),
    Exchange(Arc<ExchangeDefinition>, Option<Arc<PolicyDefinition>>),
}

/// The effect of a policy, added up.
#[derive(Default)]
struct Preview {
    matched: u64,
    governed: u64,
    released: u64,
    replaces: BTreeMap<Box<str>, u64>,
    yields_to: BTreeMap<Box<str>, u64>,
    examples: Vec<Value>,
}

impl Preview {
    fn add(&mut self, policy: &PolicyDefinition, thing: &Thing) {
        let (is_match, now, kind, name, of) = match thing {
            Thing::Queue(queue, now) => {
                (policy.is_for_queue(queue), now, "queue", &queue.name, queue.queue_type.name())
            }
            Thing::Exchange(exchange, now) => {
                (policy.is_for_exchange(exchange), now, "exchange", &exchange.name, exchange.kind.name())
            }
        };
        let was_own = now.as_ref().is_some_and(|now| now.name == policy.name);
        if !is_match {
            self.released += u64::from(was_own);
            if !was_own {
                return;
            }
        }
        self.matched += u64::from(is_match);
        // One that counts more stays, if it is another.
        let stronger = now.as_ref().filter(|now| !was_own && now.comes_before(policy));
        let then = match (is_match, stronger) {
            (true, None) => Some(&policy.name),
            (true, Some(now)) => Some(&now.name),
            (false, _) => None,
        };
        match (is_match, stronger, now) {
            (true, Some(stronger), _) => *self.yields_to.entry(stronger.name.clone()).or_default() += 1,
            (true, None, now) => {
                self.governed += 1;
                if let Some(now) = now.as_ref().filter(|_| !was_own) {
                    *self.replaces.entry(now.name.clone()).or_default() += 1;
                }
            }
            (false, ..) => {}
        }
        if self.examples.len() < EXAMPLES {
            self.examples.push(json!({
                "kind": kind,
                "name": **name,
                "type": of,
                "policy_now": now.as_ref().map(|now| &*now.name),
                // The next policy of a thing that one lets go of is not looked for.
                "policy_then": then,
            }));
        }
    }

    fn told(&self) -> Value {
        let counts = |all: &BTreeMap<Box<str>, u64>| -> Vec<Value> {
            all.iter().map(|(policy, count)| json!({ "policy": **policy, "count": count })).collect()
        };
        json!({
            "matched": self.matched,
            "governed": self.governed,
            "released": self.released,
            "replaces": counts(&self.replaces),
            "yields_to": counts(&self.yields_to),
            "examples": self.examples,
        })
    }
}

/// `POST /api/x/{policies,operator-policies}/VHOST/NAME/preview`.
pub(crate) fn preview<N: Node>(call: &Call<'_, N>, kind: PolicyKind, vhost: &str, name: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    let wanted = policies::wanted(kind, vhost, name, &body)?;
    policies::check_pattern(call, &wanted)?;
    let id = call.caller.vhost(vhost)?;
    let (plan, exchanges) = call.node.look(move |catalog| {
        let plan = catalog.plan(&Actor::internal(id, PortId::default()), &wanted, Places::default());
        let with_policy = |exchange: &Arc<ExchangeDefinition>| {
            let own = catalog.exchange_policies(exchange);
            let now = match kind {
                PolicyKind::User => own.user,
                PolicyKind::Operator => own.operator,
            };
            Thing::Exchange(exchange.clone(), now.cloned())
        };
        (plan, catalog.exchanges(id).into_iter().map(with_policy).collect::<Vec<_>>())
    })?;
    let plan = plan.map_err(|refusal| Response::refused(&refusal))?;
    let policy = plan.changes.into_iter().find_map(|change| match change {
        Change::SetPolicy(policy) => Some(policy),
        _ => None,
    });
    let policy = policy.ok_or_else(Response::not_found)?;
    let mut preview = Preview::default();
    exchanges.iter().for_each(|thing| preview.add(&policy, thing));
    each_queue(call, kind, id, |thing| preview.add(&policy, thing))?;
    Ok(Response::ok(&preview.told()))
}

/// Has `each` look at the queues of a virtual host, by name.
fn each_queue<N: Node>(
    call: &Call<'_, N>,
    kind: PolicyKind,
    vhost: VhostId,
    mut each: impl FnMut(&Thing),
) -> Result<(), Response> {
    let all = call.node.queue_names()?;
    let own: Vec<Arc<QueueDefinition>> = all.iter().filter(|queue| queue.vhost == vhost).cloned().collect();
    for some in own.chunks(LOOK) {
        let some = some.to_vec();
        let found: Vec<Thing> = call.node.look(move |catalog| {
            let with_policy = |queue: Arc<QueueDefinition>| {
                let own = catalog.queue_policies(&queue);
                let now = match kind {
                    PolicyKind::User => own.user,
                    PolicyKind::Operator => own.operator,
                };
                let now = now.cloned();
                Thing::Queue(queue, now)
            };
            some.into_iter().map(with_policy).collect()
        })?;
        found.iter().for_each(&mut each);
    }
    Ok(())
}
