//! Whether a user may do something with a queue or an exchange, and which pattern says so:
//! `GET /api/x/permissions/VHOST/USER/test`.

use crate::call::Call;
use crate::node::Node;
use crate::response::{Answer, Response};
use base::id::PortId;
use broker::access::{Access, Resource};
use broker::catalog::{Actor, Catalog, Refusal, VhostId};
use serde_json::{Value, json};

/// The question: may that user do that?
struct Question {
    vhost: VhostId,
    user: String,
    access: Access,
    name: String,
    is_exchange: bool,
    routing_key: Option<String>,
}

/// See the module.
pub(crate) fn test<N: Node>(call: &Call<'_, N>, vhost: &str, user: &str) -> Answer {
    let asked = |key: &str| call.request.asked(key).map(str::to_owned);
    let access = match call.request.asked("access") {
        Some("configure") => Access::Configure,
        Some("write") => Access::Write,
        Some("read") => Access::Read,
        Some(other) => {
            return Err(Response::bad_request(format!(
                "access is none of configure, write and read: {other}"
            )));
        }
        None => return Err(Response::missing_key("access")),
    };
    let (name, is_exchange) = match (asked("queue"), asked("exchange")) {
        (Some(queue), None) => (queue, false),
        (None, Some(exchange)) => (crate::exchanges::named(&exchange).to_owned(), true),
        (Some(_), Some(_)) => {
            return Err(Response::bad_request("queue and exchange: either one or the other"));
        }
        (None, None) => return Err(Response::missing_key("queue")),
    };
    let (vhost, user) = (call.caller.vhost(vhost)?, user.to_owned());
    let question = Question { vhost, user, access, name, is_exchange, routing_key: asked("routing_key") };
    let told = call.node.look(move |catalog| question.answer(catalog))?;
    told.map(|told| Response::ok(&told)).ok_or_else(Response::not_found)
}

/// The words of a refusal, without its code's name.
fn told(refusal: &Refusal) -> String {
    let text = refusal.to_string();
    text.split_once(" - ").map_or_else(|| text.clone(), |(_, words)| words.to_owned())
}

impl Question {
    /// None: there is no such user.
    fn answer(&self, catalog: &Catalog) -> Option<Value> {
        catalog.user(&self.user)?;
        let actor = Actor::new(self.user.as_str().into(), self.vhost, PortId::default());
        let resource = match self.is_exchange {
            true => Resource::Exchange(&self.name),
            false => Resource::Queue(&self.name),
        };
        let own = catalog.permissions(self.vhost, &self.user);
        let pattern = own.map(|own| match self.access {
            Access::Configure => own.configure.source(),
            Access::Write => own.write.source(),
            Access::Read => own.read.source(),
        });
        let mut refusal = catalog.check_access(&actor, self.access, resource).err();
        let mut topic_pattern = None;
        let exchange = catalog.exchange(self.vhost, self.name.as_bytes()).filter(|_| self.is_exchange);
        if let (Some(exchange), Some(key)) = (exchange, &self.routing_key) {
            let exchange = &exchange.definition;
            let all = catalog.topic_permissions(self.vhost);
            let mut all = all.filter(|one| *one.user == *self.user && one.exchange == exchange.name);
            topic_pattern = all.next().and_then(|one| match self.access {
                Access::Configure => None,
                Access::Write => Some(one.write.clone()),
                Access::Read => Some(one.read.clone()),
            });
            let by_topic = catalog.check_topic_access(&actor, self.access, exchange, key.as_bytes());
            refusal = refusal.or(by_topic.err());
        }
        Some(json!({
            "allowed": refusal.is_none(),
            "reason": refusal.map(|refusal| told(&refusal)),
            "pattern": pattern,
            "topic_pattern": topic_pattern,
            "has_permissions": own.is_some(),
        }))
    }
}
