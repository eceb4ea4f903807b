//! Transfers and dispositions (§2.6.12): the traffic over links, both ways.

use super::*;

impl Connection {
    #[inline]
    pub(super) fn read_transfer<'i>(&mut self, channel: u16, fields: &'i [u8]) -> Result<Step<'i>, Broken> {
        let (transfer, payload) = hot::Transfer::read(fields)?;
        let ours = self.remote_channels.get(usize::from(channel)).copied().unwrap_or(NO_HANDLE);
        let Some(session) =
            self.sessions.get_mut(usize::from(ours)).and_then(|session| session.as_deref_mut())
        else {
            return Ok(Step::Next);
        };
        if session.state != SessionState::Mapped {
            return Ok(Step::Next);
        }
        let flows = session.incoming_window;
        session.count_incoming(&mut self.output).map_err(Broken::Session)?;
        if session.incoming_window > flows {
            self.frames_out = self.frames_out.wrapping_add(1);
        }
        let unattached = || {
            // RabbitMQ looks for the handle among the links it receives on, and so says the same of all others.
            let text = format!("Unknown link handle: {}", transfer.handle);
            Err(Broken::Session(Fault::new(condition::UNATTACHED_HANDLE, text)))
        };
        let Some(id) = session.by_remote_handle(transfer.handle) else { return unattached() };
        let session_id = session.id;
        let link = &mut session.links[usize::from(id.0)];
        if matches!(link.state, LinkState::DetachSent { .. }) {
            return Ok(Step::Next);
        }
        if link.role != Role::Receiver || link.state != LinkState::Attached {
            return unattached();
        }
        // Other states on a transfer are for links that resume, which none of ours does (§2.6.13).
        let transaction = match Outcome::read(transfer.state)? {
            Some(Outcome::Transactional { id, .. }) => Some(id),
            Some(Outcome::Other(_)) => {
                let fault = Fault::new(condition::NOT_IMPLEMENTED, "a transfer with a state of unknown type");
                return Err(Broken::Link(id, fault));
            }
            _ => None,
        };
        if transfer.more || link.partial.is_some() || transfer.aborted {
            return self.read_part(ours, id, &transfer, transaction, payload);
        }
        let (tag, credit) = begin_delivery(link, id, &transfer, payload.len())?;
        check_settled(link, id, transfer.settled.unwrap_or(false))?;
        let delivery = Transfer {
            session: session_id,
            link: id,
            delivery_id: transfer.delivery_id.unwrap_or(0),
            tag,
            format: transfer.format.unwrap_or(0),
            settled: transfer.settled.unwrap_or(false),
            credit,
            payload,
        };
        Ok(Step::Tell(match transaction {
            None => Event::Transfer(delivery),
            Some(transaction) => Event::Posted { transfer: delivery, transaction },
        }))
    }

    #[inline]
    pub(super) fn read_disposition<'i>(
        &mut self,
        channel: u16,
        fields: &'i [u8],
    ) -> Result<Step<'i>, Broken> {
        let disposition = hot::Disposition::read(fields)?;
        let Some(session) = self.by_remote_channel(channel) else { return Ok(Step::Next) };
        if session.state != SessionState::Mapped {
            return Ok(Step::Next);
        }
        Ok(Step::Tell(Event::Disposition(Disposition {
            session: session.id,
            role: disposition.role.other(),
            first: disposition.first,
            last: disposition.last,
            settled: disposition.settled,
            outcome: disposition.state,
        })))
    }

    /// [`Connection::transfer`] for rare cases: it stays where it is, so that the one place that delivers all the time
    /// gets a copy made for it.
    ///
    /// # Errors
    /// As there.
    #[cold]
    #[inline(never)]
    pub fn transfer_rare(
        &mut self,
        session: SessionId,
        link: LinkId,
        delivery: &Delivery<'_>,
    ) -> Result<u32, NotSent> {
        self.transfer(session, link, delivery)
    }

    /// Sends a delivery: answers its delivery-id. Takes it also while the peer's window is shut, see
    /// [`Connection::queued`].
    #[inline(always)]
    pub fn transfer(
        &mut self,
        session: SessionId,
        link: LinkId,
        delivery: &Delivery<'_>,
    ) -> Result<u32, NotSent> {
        let frame_bytes = self.remote_frame_bytes as usize;
        let (session, output) = self.session_mut(session).ok_or(NotSent::Detached)?;
        session.transfer(output, frame_bytes, link, delivery)
    }

    /// Posts a delivery in a transaction of the peer's (§4.4.1): answers its delivery-id. Takes only deliveries of one
    /// frame, and only while the peer's window is open.
    ///
    /// # Errors
    /// As [`Connection::transfer`]; [`NotSent::NoCredit`] also for deliveries it does not take.
    #[cold]
    #[inline(never)]
    pub fn post(
        &mut self,
        session: SessionId,
        link: LinkId,
        delivery: &Delivery<'_>,
        transaction: &[u8],
    ) -> Result<u32, NotSent> {
        let frame_bytes = self.remote_frame_bytes as usize;
        let (session, output) = self.session_mut(session).ok_or(NotSent::Detached)?;
        session.post(output, frame_bytes, link, delivery, transaction)
    }

    /// The deliveries a session has room for. Stop sending those without room until [`Event::Window`], [`Event::Flow`],
    /// [`Event::Disposition`] or the end of a link makes some.
    #[inline]
    pub fn room(&self, session: SessionId) -> Room {
        self.session(session).map_or(Room::Anything, |session| session.room())
    }

    /// Deliveries of a session that wait for the peer's window: stop sending until [`Event::Window`] or [`Event::Flow`].
    #[inline]
    pub fn queued(&self, session: SessionId) -> usize {
        self.session(session).map_or(0, |session| session.queued_len())
    }

    /// As sender: the deliveries `first` to `last` are over. Tells those that were not yet, in runs of one link and
    /// consecutive tokens, in order.
    #[inline]
    pub fn settle(&mut self, session: SessionId, first: u32, last: u32, each: impl FnMut(Run)) {
        if let Some((session, _)) = self.session_mut(session) {
            session.unsettled.settle(first, last, each);
        }
    }

    /// As sender: tells the state of the deliveries of a link that have a token of `first..=last` and that the peer has not
    /// settled, without settling them (§2.6.12).
    pub fn tell_state(
        &mut self,
        session: SessionId,
        link: LinkId,
        first: u64,
        last: u64,
        state: &Outcome<'_>,
    ) {
        if let Some((session, output)) = self.session_mut(session) {
            session.write_settled(output);
            let channel = session.id.0;
            let is_meant = |of, token| of == link.0 && (first..=last).contains(&token);
            session.unsettled.find(is_meant, |first, last| {
                let disposition =
                    hot::Disposition { role: Role::Sender, first, last, settled: false, state: Some(*state) };
                disposition.write(channel, output.own());
            });
        }
    }

    /// As sender: settles with this outcome the deliveries whose links and tokens are meant and that the peer has not
    /// settled. Tells them in runs, in order.
    pub fn settle_where(
        &mut self,
        session: SessionId,
        is_meant: impl Fn(u16, u64) -> bool,
        outcome: &Outcome<'_>,
        mut each: impl FnMut(Run),
    ) {
        if let Some((session, output)) = self.session_mut(session) {
            session.write_settled(output);
            let channel = session.id.0;
            let mut found = Vec::new();
            session.unsettled.find(is_meant, |first, last| found.push((first, last)));
            for (first, last) in found {
                let state = Some(*outcome);
                let disposition = hot::Disposition { role: Role::Sender, first, last, settled: true, state };
                disposition.write(channel, output.own());
                session.unsettled.settle(first, last, &mut each);
            }
        }
    }

    /// As sender: tells link and token of the deliveries `first` to `last` that the peer has not settled, in order.
    pub fn look_at(&self, session: SessionId, first: u32, last: u32, each: impl FnMut(u16, u64)) {
        if let Some(session) = self.session(session) {
            session.unsettled.look(first, last, each);
        }
    }

    /// Deliveries of a session that the peer has not settled.
    pub fn unsettled(&self, session: SessionId) -> usize {
        self.session(session).map_or(0, |session| session.unsettled.len())
    }

    /// As receiver: settles the deliveries `first` to `last`. Ranges of the same outcome that follow on each other go out as
    /// one when [`Connection::flush`] or [`Connection::output_mut`] is called.
    #[inline]
    pub fn settle_incoming(&mut self, session: SessionId, first: u32, last: u32, outcome: &Outcome<'_>) {
        if let Some((session, output)) = self.session_mut(session) {
            session.settle_incoming(output, first, last, outcome);
        }
    }

    /// Tells a state of deliveries without the joining of [`Connection::settle_incoming`]: as sender to answer a receiver
    /// that waits for us to settle, as receiver to tell a state before settling.
    pub fn dispose(
        &mut self,
        session: SessionId,
        role: Role,
        first: u32,
        last: u32,
        settled: bool,
        outcome: Option<&Outcome<'_>>,
    ) {
        if let Some((session, output)) = self.session_mut(session) {
            session.write_settled(output);
            let disposition = hot::Disposition { role, first, last, settled, state: outcome.copied() };
            disposition.write(session.id.0, output.own());
        }
    }
}

/// The first frame of a delivery: checks it and counts its credit. Answers its tag and the credit left.
#[inline]
pub(super) fn begin_delivery<'i>(
    link: &mut Link,
    id: LinkId,
    transfer: &hot::Transfer<'i>,
    payload: usize,
) -> Result<(&'i [u8], u32), Broken> {
    let tag = transfer.tag.unwrap_or(&[]);
    if transfer.delivery_id.is_none() || tag.len() > crate::limits::TAG_BYTES_MAX {
        let text = if tag.is_empty() { "transfer without delivery-id" } else { "delivery-tag over 32 bytes" };
        return Err(Broken::Session(Fault::new(condition::INVALID_FIELD, text)));
    }
    if transfer.settles_second && !transfer.settled.unwrap_or(false) {
        // No link of ours is attached so, and then no transfer may ask for it (§2.7.5).
        let text = "rcv-settle-mode second not supported";
        return Err(Broken::Link(id, Fault::new(condition::NOT_IMPLEMENTED, text)));
    }
    if link.credit == 0 {
        let text = "insufficient link credit for a delivery";
        return Err(Broken::Link(id, Fault::new(condition::TRANSFER_LIMIT_EXCEEDED, text)));
    }
    if payload > link.message_bytes_max as usize {
        return Err(Broken::Session(too_large(payload, link.message_bytes_max)));
    }
    link.credit -= 1;
    link.delivery_count = link.delivery_count.wrapping_add(1);
    Ok((tag, link.credit))
}

/// Whether a delivery came as its link was attached: all settled, or none (§2.7.5).
#[inline]
pub(super) fn check_settled(link: &Link, id: LinkId, settled: bool) -> Result<(), Broken> {
    if link.takes(settled) {
        return Ok(());
    }
    let mode = if settled { "unsettled" } else { "settled" };
    let text = format!(
        "sender settle mode is '{mode}' but transfer settled flag is interpreted as being '{settled}'"
    );
    Err(Broken::Link(id, Fault::new(condition::INVALID_FIELD, text)))
}

/// Ends the session, as RabbitMQ does, though the condition is a link's (§2.8.19).
#[cold]
pub(super) fn too_large(size: usize, most: u32) -> Fault {
    let text = format!("message size ({size} bytes) > maximum message size ({most} bytes)");
    Fault::new(condition::MESSAGE_SIZE_EXCEEDED, text)
}
