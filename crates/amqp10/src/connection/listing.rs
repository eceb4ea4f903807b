//! Sessions and links as they are listed.

use super::Connection;
use crate::event::{LinkId, SessionId};
use crate::performative::Role;
use crate::session::LinkState;

/// The numbers of a session, for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionFigures {
    /// The channel the peer sends on.
    pub remote_channel: u16,
    /// The highest handle that both ends take.
    pub handle_max: u16,
    /// Transfer-id of the peer's next transfer.
    pub next_incoming_id: u32,
    /// Transfers that the peer may send.
    pub incoming_window: u32,
    /// Transfer-id of our next transfer.
    pub next_outgoing_id: u32,
    /// Transfers that the peer takes.
    pub remote_incoming_window: u32,
    /// Transfers that the peer said it could have under way, less those that came since.
    pub remote_outgoing_window: u32,
    /// Deliveries of ours that the peer has not settled.
    pub unsettled: usize,
}

/// The numbers of a link, for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFigures<'a> {
    /// The peer's handle of it.
    pub handle: u16,
    /// Its name.
    pub name: &'a str,
    /// Which end we are.
    pub role: Role,
    /// Bytes of a message that its receiver takes; none: of any size.
    pub message_bytes_max: Option<u32>,
    /// Deliveries that were sent on it.
    pub delivery_count: u32,
    /// Deliveries that its sender may send.
    pub credit: u32,
}

impl Connection {
    /// The numbers of a session, where there is one.
    pub fn session_figures(&self, session: SessionId) -> Option<SessionFigures> {
        let most = self.limits.links_max.clamp(1, 256) - 1;
        let session = self.session(session)?;
        Some(SessionFigures {
            remote_channel: session.remote_channel,
            handle_max: most.min(session.remote_handle_max),
            next_incoming_id: session.next_incoming_id,
            incoming_window: if session.is_blocked { 0 } else { session.incoming_window },
            next_outgoing_id: session.next_outgoing_id,
            remote_incoming_window: session.remote_incoming_window,
            remote_outgoing_window: session.remote_outgoing_end.wrapping_sub(session.next_incoming_id),
            unsettled: session.unsettled.len(),
        })
    }

    /// The numbers of a link, where it is attached.
    pub fn link_figures(&self, session: SessionId, link: LinkId) -> Option<LinkFigures<'_>> {
        let link = self.session(session)?.link(link).filter(|link| link.state == LinkState::Attached)?;
        Some(LinkFigures {
            handle: link.remote_handle,
            name: &link.name,
            role: link.role,
            message_bytes_max: Some(link.message_bytes_max).filter(|bytes| *bytes < u32::MAX),
            delivery_count: link.delivery_count,
            credit: link.credit,
        })
    }
}
