//! The user a connection acts for, once it is open, and the streams and exchanges that user may use.

use crate::context::Context;
use base::id::PortId;
use broker::access::{Access, Resource};
use broker::catalog::{Actor, QueueDefinition};
use std::sync::Arc;

/// The user of a connection. Before the connection is open there is none, and nothing is permitted.
#[derive(Debug, Default)]
pub(super) struct Rights(Option<Actor>);

impl Rights {
    /// Those of a connection that was opened for this user.
    pub(super) fn of(actor: Actor) -> Rights {
        Rights(Some(actor))
    }

    /// The user.
    pub(super) fn actor(&self) -> Option<&Actor> {
        self.0.as_ref()
    }

    /// The connection is at home at another shard, by another port.
    pub(super) fn move_to(&mut self, port: PortId) {
        if let Some(actor) = &mut self.0 {
            actor.port = port;
        }
    }

    /// Whether the client may do this with the stream of this name, be it there or not.
    pub(super) fn may(&self, context: &Context<'_>, access: Access, name: &[u8]) -> bool {
        self.may_with(context, access, name, Resource::Queue)
    }

    /// The same of an exchange.
    pub(super) fn may_exchange(&self, context: &Context<'_>, access: Access, name: &[u8]) -> bool {
        self.may_with(context, access, name, Resource::Exchange)
    }

    fn may_with<'n>(
        &self,
        context: &Context<'_>,
        access: Access,
        name: &'n [u8],
        resource: impl FnOnce(&'n str) -> Resource<'n>,
    ) -> bool {
        let (Some(actor), Ok(name)) = (&self.0, str::from_utf8(name)) else { return false };
        context.shard.catalog().check_access(actor, access, resource(name)).is_ok()
    }

    /// The stream of this name.
    pub(super) fn stream(&self, context: &Context<'_>, name: &[u8]) -> Option<Arc<QueueDefinition>> {
        let vhost = self.0.as_ref()?.vhost;
        let found = context.shard.catalog().queue_by_name(vhost, name)?;
        found.is_stream().then(|| found.clone())
    }
}
