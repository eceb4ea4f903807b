//! An attach that names something which is not there, on a node of several: it waits until the node's copy of the catalog is no
//! older than the attach, and is looked at again.
//!
//! Another node may have made it a moment ago.

use super::Adapter;
use super::pending::Waiting;
use super::refused::Refused;
use crate::context::Context;
use ::amqp10::{Attach, LinkId, SessionId, condition};

/// Bytes of an attach that waits, at most: a longer one is refused at once.
const KEPT_BYTES_MAX: usize = 16 << 10;

impl Adapter {
    /// The attach is looked at once more, later, for what it was refused for. False: it is not, and the refusal holds.
    pub(super) fn waits_to_look(
        &mut self,
        context: &mut Context<'_>,
        at: (SessionId, LinkId),
        attach: &Attach<'_>,
        refused: &Refused,
    ) -> bool {
        if !context.shard.is_one_of_several() || refused.condition != condition::NOT_FOUND {
            return false;
        }
        let kept = attach.to_bytes();
        if kept.len() > KEPT_BYTES_MAX || Attach::from_bytes(&kept).is_none() {
            return false;
        }
        let token = self.tokens.next();
        self.requests.wait(token, at, Waiting::LookAgain(kept.into()));
        context.shard.ask_to_look_again(context.now, context.port, token);
        true
    }

    /// The copy is new enough.
    pub(super) fn look_again(
        &mut self,
        context: &mut Context<'_>,
        (session, link): (SessionId, LinkId),
        attach: &[u8],
    ) {
        let attach = Attach::from_bytes(attach).expect("it was read before it was kept");
        if self.session(session).is_some()
            && let Err(refused) = self.attached(context, session, link, &attach)
        {
            self.refuse(context, (session, link), attach.name, attach.role.other(), &refused);
        }
    }
}
