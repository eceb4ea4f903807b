//! A method that names a queue which is not there, on a node of several: it waits until the node's copy of the catalog is no
//! older than the method, and is looked at again.
//!
//! Another node may have made the queue a moment ago. Not here: publishes, which go nowhere then, as where nothing is bound.

use super::Adapter;
use super::pending::BrokerRequest;
use crate::context::Context;
use ::amqp091::Method;
use ::amqp091::method::MethodId;
use broker::catalog::{Object, Reason, Refusal};

/// Bytes of class and number in front of a method's arguments.
const ID_BYTES: usize = 4;

impl Adapter {
    /// The method is looked at once more, later, for what it was refused for. False: it is not, and the refusal holds.
    pub(super) fn waits_to_look(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        method: &Method<'_>,
        refusal: &Refusal,
    ) -> bool {
        if !self.may_look_again(context) || refusal.reason != Reason::NotFound(Object::Queue) {
            return false;
        }
        let mut bytes = Vec::new();
        method.encode(&mut bytes);
        let request = BrokerRequest::LookAgain(bytes.into());
        let token = self.requests.wait(number, method.id(), false, request);
        context.shard.ask_to_look_again(context.now, context.port, token);
        true
    }

    /// That something is not there is said by a copy of the catalog that may be too old.
    pub(super) fn may_look_again(&self, context: &Context<'_>) -> bool {
        context.shard.is_one_of_several() && !self.has_looked
    }

    /// The copy is new enough.
    pub(super) fn look_again(&mut self, context: &mut Context<'_>, number: u16, id: MethodId, bytes: &[u8]) {
        if self.channels.get(number).is_none() {
            return;
        }
        let arguments = bytes.get(ID_BYTES..).unwrap_or_default();
        let Some(Ok(method)) = Method::decode(id, arguments) else { return };
        self.has_looked = true;
        let asked = self.ask(context, number, &method);
        self.has_looked = false;
        if let Err(refusal) = asked {
            self.refuse(context, number, &refusal, id);
        }
    }
}
