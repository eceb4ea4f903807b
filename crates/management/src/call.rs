//! A request of a user that was let in, with the node to ask: all that a handler is given.
//!
//! What changes something goes by way of it, so that the change is in the log with its user.

use crate::caller::Caller;
use crate::node::{Action, Begun, Node, Outcome, Trouble};
use crate::request::Request;
use crate::response::Response;
use crate::trail;
use broker::access::{Access, Resource};
use broker::catalog::Op;

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

    /// Has this line in the log, with the user.
    pub(crate) fn tell(&self, line: &str) {
        self.node.log(trail::signed(line, &self.caller.login.user));
    }

    /// As [`Node::request`], and the change is in the log.
    ///
    /// # Errors
    /// As there; then the log has nothing of it.
    pub(crate) fn request(&self, op: Op) -> Result<(), Trouble> {
        let lines = trail::of_request(&op);
        self.node.request(op)?;
        lines.iter().for_each(|line| self.tell(line));
        Ok(())
    }

    /// As [`Node::begin_request`], and the change is in the log once somebody knows that it is made.
    pub(crate) fn begin_request(&self, op: Op) -> Begun<'_> {
        let lines = trail::of_request(&op);
        let begun = self.node.begin_request(op);
        Box::new(move || {
            begun()?;
            lines.iter().for_each(|line| self.tell(line));
            Ok(())
        })
    }

    /// As [`Node::act`] in the name of the user, and what an administrator does is in the log.
    ///
    /// # Errors
    /// As there; then the log has nothing of it.
    pub(crate) fn act(&self, vhost: &str, action: Action) -> Result<Outcome, Trouble> {
        // Bodies of messages are not copied for a line that they are not in.
        let told = match &action {
            Action::Publish(_) | Action::DeclareQueue { .. } | Action::DeclareExchange { .. } => None,
            action => Some(action.clone()),
        };
        let outcome = self.node.act(&self.caller.login, vhost, action)?;
        if let Some(line) = told.and_then(|action| trail::of_action(vhost, &action, &outcome)) {
            self.tell(&line);
        }
        Ok(outcome)
    }
}
