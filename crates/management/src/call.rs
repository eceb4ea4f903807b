//! A request of a user that was let in, with the node to ask: all that a handler is given.

use crate::caller::Caller;
use crate::node::Node;
use crate::request::Request;
use crate::response::Response;
use broker::access::{Access, Resource};

/// A request of a user that was let in.
pub(crate) struct Call<'a, N> {
    /// The node to ask.
    pub node: &'a N,
    /// The request.
    pub request: &'a Request,
    /// The user of the request.
    pub caller: Caller,
}

impl<N: Node> Call<'_, N> {
    /// Whether the user has this permission on a queue, or a stream, that may not be there.
    ///
    /// # Errors
    /// The response to a user that has not.
    pub(crate) fn check_access(&self, vhost: &str, access: Access, queue: &str) -> Result<(), Response> {
        let (vhost, queue) = (self.caller.vhost(vhost)?, queue.to_owned());
        if self.caller.login.is_own {
            return Ok(());
        }
        let user = self.caller.login.user.clone();
        let may = self.node.look(move |catalog| {
            let own = catalog.permissions(vhost, &user);
            own.is_some_and(|own| own.allow(access, Resource::Queue(&queue)))
        })?;
        if may { Ok(()) } else { Err(Response::not_authorised("Access refused.")) }
    }
}
