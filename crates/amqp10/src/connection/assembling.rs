//! Messages that come in in several frames (§2.6.14), one at a time on a link, kept until they are whole.
//!
//! Invariant: `assembling_bytes` is the room that all of them take up, counted as it comes and goes.

use super::deliveries::{begin_delivery, check_settled, too_large};
use super::*;

impl Connection {
    /// A frame of a delivery of several.
    pub(super) fn read_part<'i>(
        &mut self,
        ours: u16,
        id: LinkId,
        transfer: &hot::Transfer<'i>,
        transaction: Option<&[u8]>,
        payload: &[u8],
    ) -> Result<Step<'i>, Broken> {
        let Some(session) = self.sessions[usize::from(ours)].as_deref_mut() else { return Ok(Step::Next) };
        let session_id = session.id;
        let link = &mut session.links[usize::from(id.0)];
        if transfer.aborted {
            // Its credit counts as used by the sender (§2.6.14): an aborted delivery advances its delivery-count.
            match link.partial.take() {
                Some(partial) => self.assembling_bytes -= partial.bytes.capacity() as u32,
                None => _ = begin_delivery(link, id, transfer, 0)?,
            }
            let credit = link.credit;
            return Ok(Step::Tell(Event::Aborted { session: session_id, link: id, credit }));
        }
        if link.partial.is_none() {
            let (tag, _) = begin_delivery(link, id, transfer, payload.len())?;
            let mut partial = Partial {
                delivery_id: transfer.delivery_id.unwrap_or(0),
                tag: [0; _],
                tag_len: tag.len() as u8,
                format: transfer.format.unwrap_or(0),
                settled: false,
                transaction: transaction.map(Box::from),
                bytes: Vec::new(),
            };
            partial.tag[..tag.len()].copy_from_slice(tag);
            link.partial = Some(Box::new(partial));
        }
        let bytes_max = link.message_bytes_max;
        let Some(partial) = &mut link.partial else { return Ok(Step::Next) };
        if transfer.delivery_id.is_some_and(|delivery_id| delivery_id != partial.delivery_id) {
            let text = format!("delivery {} is not complete", partial.delivery_id);
            return Err(Broken::Session(Fault::new(condition::NOT_ALLOWED, text)));
        }
        // The delivery-tag and message-format of the first transfer may be left out by later ones but not changed
        // (§2.7.5).
        let other_tag = transfer.tag.is_some_and(|tag| *tag != partial.tag[..partial.tag_len.into()]);
        if other_tag || transfer.format.is_some_and(|format| format != partial.format) {
            let field = if other_tag { "delivery-tag" } else { "message-format" };
            let text = format!("{field} differs from that of the delivery's first transfer");
            return Err(Broken::Link(id, Fault::new(condition::INVALID_FIELD, text)));
        }
        partial.settled |= transfer.settled.unwrap_or(false);
        if partial.bytes.len() + payload.len() > bytes_max as usize {
            return Err(Broken::Session(too_large(partial.bytes.len() + payload.len(), bytes_max)));
        }
        let room = partial.bytes.capacity();
        // Capacities are at most three times as much, and are counted in 32 bits.
        let assembly_bytes_max = self.limits.assembly_bytes_max.min(1 << 30);
        if room - partial.bytes.len() < payload.len()
            && self.assembling_bytes as usize + partial.bytes.len() + payload.len() > assembly_bytes_max
        {
            let text = format!("over {assembly_bytes_max} bytes of incomplete messages");
            return Err(Broken::Session(Fault::new(condition::RESOURCE_LIMIT_EXCEEDED, text)));
        }
        partial.bytes.extend_from_slice(payload);
        self.assembling_bytes += (partial.bytes.capacity() - room) as u32;
        if transfer.more {
            return Ok(match self.assembling_bytes.checked_sub(self.granted_bytes) {
                None | Some(0) => Step::Next,
                Some(bytes) => Step::Tell(Event::Assembling { session: session_id, bytes: bytes as usize }),
            });
        }
        let (credit, settled) = (link.credit, partial.settled);
        check_settled(link, id, settled)?;
        let Some(partial) = link.partial.take() else { return Ok(Step::Next) };
        self.assembling_bytes -= partial.bytes.capacity() as u32;
        Ok(Step::Tell(Event::Assembled(Assembled { session: session_id, link: id, credit, partial })))
    }

    /// A link goes, or all of a session: messages that have begun to come in there are given up.
    pub(super) fn give_up_partials(&mut self, session: SessionId, link: Option<LinkId>) {
        let Some(session) = self.sessions.get_mut(usize::from(session.0)).and_then(Option::as_deref_mut)
        else {
            return;
        };
        let links = match link {
            Some(LinkId(at)) => session.links.get_mut(usize::from(at)).map(std::slice::from_mut),
            None => Some(&mut session.links[..]),
        };
        let partials = links.unwrap_or_default().iter_mut().filter_map(|link| link.partial.take());
        self.assembling_bytes -= partials.map(|partial| partial.bytes.capacity() as u32).sum::<u32>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    const LIMITS: Limits = Limits {
        frame_bytes_before_open: 8192,
        frame_bytes_max: 2048,
        sessions_max: 3,
        links_max: 4,
        link_name_bytes_max: 100,
        incoming_window_max: 8,
        message_bytes_max: 3000,
        assembly_bytes_max: 7000,
        unsettled_max: 16,
        handshake_ms: 10_000,
        close_ms: 10_000,
        idle_ms: 30_000,
    };

    /// SASL and open as a good client sends them.
    const GREETING: &[u8] = b"AMQP\x03\x01\0\0\0\0\0\x13\x02\x01\0\0\0\x53\x41\xc0\x06\x01\xa3\x03ANY\
AMQP\0\x01\0\0\0\0\0\x19\x02\0\0\0\0\x53\x10\xc0\x0c\x03\xa1\x01c\xa1\x01h\x70\0\0\x02\0";

    fn frame(channel: u8, code: u8, count: u8, fields: &[u8], payload: usize) -> Vec<u8> {
        let mut frame = ((14 + fields.len() + payload) as u32).to_be_bytes().to_vec();
        frame.extend([2, 0, 0, channel, 0x00, 0x53, code, 0xc0, fields.len() as u8 + 1, count]);
        frame.extend_from_slice(fields);
        frame.resize(frame.len() + payload, 9);
        frame
    }

    fn begin(channel: u8) -> Vec<u8> {
        frame(channel, 0x11, 4, &[0x40, 0x43, 0x52, 9, 0x52, 9], 0)
    }

    fn attach(channel: u8, handle: u8) -> Vec<u8> {
        frame(channel, 0x12, 3, &[0xa1, 1, b'a' + handle, 0x52, handle, 0x42], 0)
    }

    /// A frame of one of several messages, mostly; or something that has to do with whether they go on.
    fn any_frame() -> impl Strategy<Value = Vec<u8>> {
        (0u8..100, 0u8..3, 0u8..4, 0usize..1200).prop_map(|(what, channel, handle, len)| match what {
            0..4 => begin(channel),
            4..8 => attach(channel, handle),
            8..13 => frame(channel, 0x16, 2, &[0x52, handle, 0x41], 0),
            13..16 => frame(channel, 0x17, 0, &[], 0),
            _ => {
                let is = |is| if is { 0x41 } else { 0x42 };
                let (id, more, aborted) = (u8::from(what == 99), is(what < 75), is(what < 20));
                let fields =
                    [0x52, handle, 0x52, id, 0xa0, 1, id, 0x43, 0x42, more, 0x40, 0x40, 0x40, aborted];
                frame(channel, 0x14, 10, &fields, len)
            }
        })
    }

    proptest! {
        #[test]
        fn the_room_is_that_of_all_that_has_begun(
            frames in prop::collection::vec((any_frame(), 0u8..100), 0..120),
        ) {
            let config = Config { limits: Arc::new(LIMITS), mechanisms: &["PLAIN"], first_id: 0 };
            let mut server = Connection::server(config, Now::default());
            server.ration();
            let mut granted = 0;
            let links = (0..2).flat_map(|channel| (0..4).map(move |handle| attach(channel, handle)));
            let opened = [GREETING.to_vec(), begin(0), begin(1)].into_iter().chain(links);
            for (bytes, end) in opened.map(|bytes| (bytes, 99)).chain(frames) {
                let mut input = Input::new(&bytes);
                while let Some(event) = server.poll_event(Now::default(), &mut input) {
                    match event {
                        Event::SaslInit { .. } => server.sasl_outcome(SaslCode::Ok),
                        Event::Open(_) => server.open(&Open::new("server")),
                        Event::Assembling { bytes, .. } => {
                            granted += bytes;
                            server.grant_room(bytes);
                        }
                        Event::Attach { session, link, attach, .. } => {
                            server.answer_attach(session, link, &attach);
                            server.grant(session, link, 5, false);
                        }
                        _ => {}
                    }
                }
                match end {
                    0 => server.end(SessionId(0), None),
                    1 => server.detach(SessionId(1), LinkId(0), None, true),
                    2 => server.close(None),
                    _ => {}
                }
                let links = server.sessions.iter().flatten().flat_map(|session| &session.links);
                let partials = links.filter_map(|link| link.partial.as_ref());
                let room = partials.map(|partial| partial.bytes.capacity()).sum::<usize>();
                prop_assert_eq!(server.assembling_bytes as usize, room);
                granted -= server.take_spare_room();
                prop_assert_eq!(granted, room);
            }
        }
    }
}
