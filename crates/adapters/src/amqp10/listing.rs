//! Consumers, sessions and links as they are listed.

use super::link::{ConsumerAt, End, Link};
use super::{Adapter, address};
use ::amqp10::{Role, SenderSettleMode, SessionId};
use broker::catalog::Catalog;
use broker::{ConsumerRow, Depth, LinkEnd, LinkRow, Opened, SessionRow};

impl Adapter {
    /// Lists all that is open, into `opened`.
    pub(crate) fn list(&self, catalog: &Catalog, depth: Depth, opened: &mut Opened) {
        let links = self.sessions.iter().flat_map(|session| &session.links);
        opened.senders = links.filter(|link| link.is_publishing()).count() as u32;
        for (handle, ConsumerAt { session: id, link, at, .. }) in self.consumers.iter() {
            let session = self.sessions.get(*id);
            let found = session.and_then(|session| session.links.iter().find(|own| own.id == *link));
            let (Some(at), Some(End::Source { settled, .. })) = (at, found.map(|link| &link.end)) else {
                continue;
            };
            let Some(queue) = catalog.queue(at.queue).cloned() else { continue };
            let tag = if depth == Depth::Whole { format!("ctag-{}", link.0) } else { String::new() };
            opened.consumers.push(ConsumerRow {
                handle,
                tag,
                queue,
                channel: id.0,
                settles: !settled,
                exclusive: false,
                prefetch: 0,
                arguments: None,
            });
        }
    }

    /// Its sessions, with the links of each.
    pub(crate) fn session_rows(&self, catalog: &Catalog) -> Vec<SessionRow> {
        let own = self.sessions.iter().filter_map(|session| {
            let figures = self.machine.session_figures(session.id)?;
            let links = session.links.iter().filter_map(|link| self.link_row(catalog, session.id, link));
            Some(SessionRow {
                channel: figures.remote_channel,
                handle_max: figures.handle_max,
                next_incoming_id: figures.next_incoming_id,
                incoming_window: figures.incoming_window,
                next_outgoing_id: figures.next_outgoing_id,
                remote_incoming_window: figures.remote_incoming_window,
                remote_outgoing_window: figures.remote_outgoing_window,
                unsettled: figures.unsettled,
                links: links.collect(),
            })
        });
        own.collect()
    }

    fn link_row(&self, catalog: &Catalog, session: SessionId, link: &Link) -> Option<LinkRow> {
        let figures = self.machine.link_figures(session, link.id)?;
        let incoming = |unconfirmed| LinkEnd::Incoming {
            settles: match link.particulars.sender_settle_mode {
                SenderSettleMode::Unsettled => "unsettled",
                SenderSettleMode::Settled => "settled",
                SenderSettleMode::Mixed => "mixed",
            },
            unconfirmed,
        };
        let outgoing = |queue, settled| LinkEnd::Outgoing {
            queue,
            settled,
            filter: link.particulars.filter.clone(),
            has_timed_out: link.particulars.has_timed_out,
        };
        let end = match &link.end {
            End::Target { credit, .. } => incoming(credit.unconfirmed()),
            End::Coordinator => incoming(0),
            End::Management if figures.role == Role::Receiver => incoming(0),
            End::Management => outgoing(String::new(), true),
            End::Source { consumer, settled, .. } => {
                outgoing(self.source_queue(catalog, *consumer, link), *settled)
            }
        };
        Some(LinkRow {
            handle: figures.handle,
            name: figures.name.to_owned(),
            address: link.particulars.address.as_deref().map(str::to_owned),
            message_bytes_max: figures.message_bytes_max,
            delivery_count: figures.delivery_count,
            credit: figures.credit,
            is_management: matches!(link.end, End::Management),
            end,
        })
    }

    /// The name of a receiver's queue: where it takes replies, the one that its address has.
    fn source_queue(&self, catalog: &Catalog, consumer: u32, link: &Link) -> String {
        let at = self.consumers.get(consumer).and_then(|consumer| consumer.at);
        let name = match at {
            Some(at) => catalog.queue(at.queue).map(|queue| queue.name.clone()),
            None => link.particulars.address.as_deref().and_then(|own| address::queue(own).ok()),
        };
        name.map(|name| name.to_string()).unwrap_or_default()
    }
}
