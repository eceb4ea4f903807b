//! Setting and clearing policies.

use super::policy_keys::check_definition;
use super::wire::LIMITS;
use super::{
    Actor, ApplyTo, Catalog, Change, DefaultPolicy, Object, Op, Plan, PolicyDefinition, PolicyKind, Reason,
    Refusal, VhostId, plan::check_length,
};
use crate::access::Pattern;
use routing::{Arguments, Value};
use std::sync::Arc;

impl Catalog {
    /// Operator policies are for administrators, the others also for users with the tag `policymaker`.
    pub(super) fn check_policymaker(&self, by: &Actor, kind: PolicyKind) -> Result<(), Refusal> {
        let is_policymaker = || self.user(&by.user).is_some_and(|user| user.has_tag("policymaker"));
        if kind == PolicyKind::User && is_policymaker() {
            return Ok(());
        }
        self.check_administrator(by)
    }

    pub(super) fn set_policy(&self, by: &Actor, op: &Op) -> Result<Plan, Refusal> {
        let Op::SetPolicy { kind, vhost, name, pattern, apply_to, priority, definition } = op else {
            unreachable!("called for policies alone");
        };
        let (kind, priority) = (*kind, *priority);
        self.check_policymaker(by, kind)?;
        let vhost = self.known_vhost(vhost)?;
        check_length("policy name", name)?;
        self.check_policy_count(vhost, kind, name)?;
        let policy = PolicyRequest { kind, name, pattern, apply_to, priority, definition };
        let change = policy.change(vhost)?;
        if let Change::SetPolicy(policy) = &change
            && policy.pattern.backtracks()
        {
            // It may take many steps for a name.
            self.check_administrator(by)?;
        }
        Ok(Plan::one(change))
    }

    pub(super) fn clear_policy(
        &self,
        by: &Actor,
        kind: PolicyKind,
        vhost: &str,
        name: &str,
    ) -> Result<Plan, Refusal> {
        self.check_policymaker(by, kind)?;
        let missing = || Refusal::not_found(Object::Policy, "Parameter does not exist");
        let vhost = self.vhost(vhost).ok_or_else(missing)?;
        let policies = self.host(vhost).map(|host| &host.policies);
        let policy = policies.and_then(|policies| policies.get(kind, name)).ok_or_else(missing)?;
        Ok(Plan::one(Change::ClearPolicy { vhost, kind, name: policy.name.clone() }))
    }

    fn check_policy_count(&self, vhost: VhostId, kind: PolicyKind, name: &str) -> Result<(), Refusal> {
        let Some(host) = self.host(vhost) else { return Ok(()) };
        if host.policies.of(kind).len() < LIMITS.policies_max || host.policies.get(kind, name).is_some() {
            return Ok(());
        }
        let most = LIMITS.policies_max;
        let vhost = &host.definition.name;
        Err(Refusal::precondition(
            Reason::LimitReached(Object::Policy),
            format!("vhost '{vhost}' has as many policies as it may: {most}"),
        ))
    }
}

/// A policy as it is asked for.
struct PolicyRequest<'a> {
    kind: PolicyKind,
    name: &'a str,
    pattern: &'a str,
    apply_to: &'a str,
    priority: i64,
    definition: &'a Arguments,
}

impl PolicyRequest<'_> {
    /// Has the policy in a virtual host.
    fn change(&self, vhost: VhostId) -> Result<Change, Refusal> {
        let PolicyRequest { kind, name, pattern, apply_to, priority, definition } = *self;
        // Everything that is wrong is said at once, in RabbitMQ's order.
        let wrong = check_definition(definition, kind).err();
        let apply_to = ApplyTo::from_name(apply_to).ok_or_else(|| {
            format!(
                "apply-to '{apply_to}' unrecognised; should be one of: 'queues', 'classic_queues',  \
                 'quorum_queues', 'streams', 'exchanges', or 'all'"
            )
        });
        let pattern = Pattern::new(pattern)
            .map_err(|bad| format!("pattern should be regular expression but is invalid: {}", bad.why));
        let (apply_to, pattern) = match (wrong, apply_to, pattern) {
            (None, Ok(apply_to), Ok(pattern)) => (apply_to, pattern),
            (wrong, apply_to, pattern) => {
                let wrong = [wrong, apply_to.err(), pattern.err()].into_iter().flatten();
                let lines: String = wrong.map(|text| text + "\n").collect();
                return Err(Refusal::precondition(
                    Reason::Invalid(Object::Policy),
                    format!("Validation failed\n\n{lines}"),
                ));
            }
        };
        let (name, definition) = (name.into(), definition.clone());
        let policy = PolicyDefinition { vhost, kind, name, pattern, apply_to, priority, definition };
        Ok(Change::SetPolicy(Arc::new(policy)))
    }
}

/// An operator's policy that a new virtual host begins with.
pub(super) fn default_policy(vhost: VhostId, policy: &DefaultPolicy) -> Result<Change, Refusal> {
    let DefaultPolicy { name, pattern, apply_to, definition } = policy;
    check_length("policy name", name)?;
    PolicyRequest { kind: PolicyKind::Operator, name, pattern, apply_to, priority: 0, definition }
        .change(vhost)
}

/// Whether an operator's policy may set a key to this.
///
/// # Errors
/// Why not, for people.
pub fn check_operator_key(key: &str, value: &Value) -> Result<(), String> {
    let definition = [(key.as_bytes(), value.clone())].into_iter().collect();
    check_definition(&definition, PolicyKind::Operator)
}
