//! A token was set: the permissions of all links of the connection are checked anew.
//!
//! As in RabbitMQ permissions are asked when a link is attached, and again when its connection has new credentials. A
//! session with a link that may no more ends; without access to the virtual host the connection ends.

use super::super::Adapter;
use super::super::link::{Aim, End, Link};
use super::super::refused::Refused;
use super::super::session::Session;
use crate::context::{Context, Gravity};
use ::amqp10::{Error, condition};
use broker::access::{Access, Resource, open_vhost};

impl Adapter {
    /// Checks the permissions of every link anew.
    #[cold]
    pub(super) fn check_links(&mut self, context: &mut Context<'_>) {
        let Some(actor) = &self.actor else { return };
        let catalog = context.shard.catalog();
        let vhost = super::vhost_name(catalog, actor);
        if let Err(refusal) = open_vhost(catalog, &actor.user, vhost) {
            let why = Refused::from(refusal).text;
            let text = format!("access to vhost {vhost} failed for new credential: {why}");
            self.note(context, Gravity::Error, format!("error: {text}"));
            self.stay();
            self.machine.close(Some(Error::new(condition::UNAUTHORIZED_ACCESS, &text)));
            return;
        }
        let mut refused = Vec::new();
        for session in self.sessions.iter_mut() {
            let Session { id, publisher, links, .. } = session;
            let access = publisher.access();
            access.forget();
            let mut may = |link: &Link| match &link.end {
                End::Target { aim: Aim::To(to) | Aim::Stamped(to), .. } => {
                    access.check(catalog, Access::Write, Resource::Exchange(&to.exchange))
                }
                End::Target { aim: Aim::Subject(exchange), .. } => {
                    access.check(catalog, Access::Write, Resource::Exchange(exchange))
                }
                End::Source { consumer, .. } => {
                    let at = self.consumers.get(*consumer).and_then(|consumer| consumer.at);
                    match at.and_then(|at| catalog.queue(at.queue)) {
                        Some(queue) => access.check(catalog, Access::Read, Resource::Queue(&queue.name)),
                        // Where replies go is its own.
                        None => Ok(()),
                    }
                }
                // Asked message by message, and request by request.
                End::Target { aim: Aim::Each, .. } | End::Management | End::Coordinator => Ok(()),
            };
            let (senders, receivers): (Vec<&Link>, Vec<&Link>) =
                links.iter().partition(|link| link.is_publishing());
            if let Some(refusal) = senders.into_iter().chain(receivers).find_map(|link| may(link).err()) {
                refused.push((*id, Refused::from(refusal)));
            }
        }
        for (id, Refused { condition, text, .. }) in refused {
            self.end_session(context, id, condition, &text);
        }
    }
}
