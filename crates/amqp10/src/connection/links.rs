//! Attach, detach and credit (§2.6): the links of a connection's sessions.

use super::*;

impl Connection {
    pub(super) fn read_attach<'i>(
        &mut self,
        id: SessionId,
        handle: u32,
        attach: Attach<'i>,
    ) -> Result<Step<'i>, Broken> {
        let most = self.limits.links_max.clamp(1, 256);
        let name_bytes_max = self.limits.link_name_bytes_max;
        let message_bytes_max = self.limits.message_bytes_max;
        let frame_bytes = self.remote_frame_bytes;
        let Some(session) = self.sessions[usize::from(id.0)].as_deref_mut() else { return Ok(Step::Next) };
        if handle >= most.into() {
            let most = most - 1;
            let text = format!("link handle value ({handle}) exceeds maximum link handle value ({most})");
            return Err(Broken::Session(Fault::framing(text)));
        }
        if session.by_remote_handle(handle).is_some() {
            let text = format!("handle {handle} is already associated with a link");
            return Err(Broken::Session(Fault::new(condition::HANDLE_IN_USE, text)));
        }
        if attach.name.len() > name_bytes_max {
            let text = format!(
                "a link's name has {} bytes, at most {name_bytes_max} (leveret.link_name_bytes_max)",
                attach.name.len()
            );
            return Err(Broken::Session(Fault::new(condition::RESOURCE_LIMIT_EXCEEDED, text)));
        }
        let role = attach.role.other();
        // An answer to an attach of ours, or to one that we took back before it came.
        let is_ours = |link: &Link| {
            link.remote_handle == NO_HANDLE
                && matches!(link.state, LinkState::AttachSent | LinkState::DetachSent { .. })
                && link.role == role
                && *link.name == *attach.name
        };
        if let Some(at) = session.links.iter().position(is_ours) {
            let link = LinkId(at as u16);
            session.map_remote_handle(handle as u16, link);
            let slot = &mut session.links[at];
            if slot.state != LinkState::AttachSent {
                return Ok(Step::Next);
            }
            slot.state = LinkState::Attached;
            match role {
                Role::Receiver => {
                    slot.delivery_count = attach.initial_delivery_count.unwrap_or(0);
                    slot.settles = attach.sender_settle_mode;
                }
                // The answer's maximum message size goes to the owner, which decides about larger messages.
                Role::Sender => slot.limit(None, frame_bytes),
            }
            return Ok(Step::Tell(Event::Attach {
                session: id,
                link,
                is_answer: true,
                attach: Box::new(attach),
            }));
        }
        let Some(link) = session.free_link(Some(handle as u16), most) else {
            let text = format!("no handle left to answer handle {handle}");
            return Err(Broken::Session(Fault::new(condition::RESOURCE_LIMIT_EXCEEDED, text)));
        };
        session.map_remote_handle(handle as u16, link);
        let slot = &mut session.links[usize::from(link.0)];
        slot.state = LinkState::AttachReceived;
        slot.role = role;
        slot.drain = false;
        slot.credit = 0;
        slot.delivery_count = match role {
            Role::Receiver => attach.initial_delivery_count.unwrap_or(0),
            Role::Sender => 0,
        };
        match role {
            Role::Receiver => slot.message_bytes_max = saturated(message_bytes_max),
            Role::Sender => slot.limit(attach.max_message_size, frame_bytes),
        }
        slot.settles = attach.sender_settle_mode;
        slot.name = attach.name.into();
        Ok(Step::Tell(Event::Attach { session: id, link, is_answer: false, attach: Box::new(attach) }))
    }

    pub(super) fn read_detach<'i>(
        &mut self,
        id: SessionId,
        handle: u32,
        closed: bool,
        error: Option<Error<'i>>,
    ) -> Result<Step<'i>, Broken> {
        let Some(session) = self.sessions[usize::from(id.0)].as_deref_mut() else { return Ok(Step::Next) };
        // RabbitMQ passes over the detach of a link it does not know.
        let Some(link) = session.by_remote_handle(handle) else { return Ok(Step::Next) };
        self.give_up_partials(id, Some(link));
        let Some(session) = self.sessions[usize::from(id.0)].as_deref_mut() else { return Ok(Step::Next) };
        let state = session.links[usize::from(link.0)].state;
        session.write_settled(&mut self.output);
        session.free(link);
        match state {
            LinkState::DetachSent { is_asked: false } => return Ok(Step::Next),
            LinkState::DetachSent { is_asked: true } => {}
            // Attached and detached before we answered: there is no handle of ours to detach.
            LinkState::AttachReceived => {}
            _ => self.write(FRAME_AMQP, id.0, |encoder| {
                performative::write_detach(link.0.into(), closed, None, encoder);
            }),
        }
        Ok(Step::Tell(Event::Detach { session: id, link, closed, error }))
    }

    /// Attaches a link; `None` where the session is gone or takes no more. [`Event::Attach`] comes when the peer has answered.
    pub fn attach(&mut self, session: SessionId, attach: &Attach<'_>) -> Option<LinkId> {
        let message_bytes_max = attach.max_message_size.filter(|bytes| *bytes > 0);
        let message_bytes_max = message_bytes_max.unwrap_or(self.limits.message_bytes_max);
        let most = self.limits.links_max.clamp(1, 256);
        let (session, output) = self.session_mut(session)?;
        let link = session.free_link(None, most.min(session.remote_handle_max.saturating_add(1)))?;
        let slot = &mut session.links[usize::from(link.0)];
        slot.state = LinkState::AttachSent;
        slot.role = attach.role;
        slot.drain = false;
        slot.credit = 0;
        slot.delivery_count = attach.initial_delivery_count.unwrap_or(0);
        slot.message_bytes_max = saturated(message_bytes_max);
        slot.name = attach.name.into();
        let initial_delivery_count = (attach.role == Role::Sender).then_some(slot.delivery_count);
        let attach = Attach { initial_delivery_count, ..*attach };
        write_frame(output, session.id.0, |encoder| attach.write(link.0.into(), encoder));
        Some(link)
    }

    /// Answers the attach of a link. Name and role are the link's, not those of `attach`.
    pub fn answer_attach(&mut self, session: SessionId, link: LinkId, attach: &Attach<'_>) {
        let Some((session, output)) = self.session_mut(session) else { return };
        let channel = session.id.0;
        let Some(slot) = session.link_mut(link).filter(|slot| slot.state == LinkState::AttachReceived) else {
            return;
        };
        slot.state = LinkState::Attached;
        if let (Role::Receiver, Some(bytes @ 1..)) = (slot.role, attach.max_message_size) {
            slot.message_bytes_max = saturated(bytes);
        }
        let initial_delivery_count = (slot.role == Role::Sender).then_some(slot.delivery_count);
        let attach = Attach { name: &slot.name, role: slot.role, initial_delivery_count, ..*attach };
        write_frame(output, channel, |encoder| attach.write(link.0.into(), encoder));
    }

    /// Refuses a link (§2.6.3): answers its attach without our terminus, then detaches for good with the error.
    pub fn refuse_attach(&mut self, session: SessionId, link: LinkId, attach: &Attach<'_>, error: Error<'_>) {
        let role = self.session(session).and_then(|session| session.link(link)).map(|link| link.role);
        let refusal = match role {
            Some(Role::Receiver) => Attach { target: None, ..*attach },
            _ => Attach { source: None, ..*attach },
        };
        self.answer_attach(session, link, &refusal);
        self.detach_for(session, link, Some(error), true, false);
    }

    /// Detaches a link. [`Event::Detach`] comes when the peer has answered. Its unsettled deliveries are forgotten.
    pub fn detach(&mut self, session: SessionId, link: LinkId, error: Option<Error<'_>>, closed: bool) {
        self.detach_for(session, link, error, closed, true);
    }

    pub(super) fn detach_for(
        &mut self,
        session: SessionId,
        link: LinkId,
        error: Option<Error<'_>>,
        closed: bool,
        is_asked: bool,
    ) {
        self.give_up_partials(session, Some(link));
        let Some((session, output)) = self.session_mut(session) else { return };
        let is_up = |link: &&Link| matches!(link.state, LinkState::Attached | LinkState::AttachSent);
        if session.link(link).filter(is_up).is_none() {
            return;
        }
        session.write_settled(output);
        session.close_link(link, LinkState::DetachSent { is_asked });
        write_frame(output, session.id.0, |encoder| {
            performative::write_detach(link.0.into(), closed, error, encoder);
        });
    }

    /// As sender: bytes of a message that the peer takes on the link.
    pub fn message_bytes_max(&self, session: SessionId, link: LinkId) -> Option<u32> {
        self.session(session)?.link(link).map(|link| link.message_bytes_max)
    }

    /// The credit left to the sender of a link, and its delivery-count.
    #[inline]
    pub fn credit(&self, session: SessionId, link: LinkId) -> Option<(u32, u32)> {
        self.session(session)?.link(link).map(|link| (link.credit, link.delivery_count))
    }

    /// As sender: the delivery-count at which the receiver's credit is used up, and whether it drains.
    pub fn limit(&self, session: SessionId, link: LinkId) -> Option<(u32, bool)> {
        let link = self.session(session)?.link(link)?;
        Some((link.delivery_count.wrapping_add(link.credit), link.drain))
    }

    /// The name of a link and which end we are.
    pub fn link(&self, session: SessionId, link: LinkId) -> Option<(&str, Role)> {
        self.session(session)?.link(link).map(|link| (&*link.name, link.role))
    }

    /// As receiver: lets the sender send `credit` deliveries from now on; with `drain` it is to give back unused
    /// credit.
    #[inline]
    pub fn grant(&mut self, session: SessionId, link: LinkId, credit: u32, drain: bool) {
        let Some((session, output)) = self.session_mut(session) else { return };
        let Some(slot) = session.link_mut(link).filter(|slot| slot.role == Role::Receiver) else { return };
        if matches!(slot.state, LinkState::DetachSent { .. } | LinkState::AttachReceived) {
            return;
        }
        slot.credit = credit;
        slot.drain = drain;
        session.write_flow(output, Some((link, None)), false);
    }

    /// As sender: the next delivery may be sent though the receiver has taken its credit back: it was on its way by then.
    pub fn lend_credit(&mut self, session: SessionId, link: LinkId) {
        let Some((session, _)) = self.session_mut(session) else { return };
        if let Some(slot) = session.link_mut(link).filter(|slot| slot.state == LinkState::Attached) {
            slot.credit = slot.credit.max(1);
        }
    }

    /// As sender: tells the link's state, how much there is to send, and anything else.
    pub fn report(&mut self, session: SessionId, link: LinkId, available: Option<u32>, properties: Map<'_>) {
        let Some((session, output)) = self.session_mut(session) else { return };
        if session.link(link).is_some_and(|slot| slot.state == LinkState::Attached) {
            session.write_flow_with(output, Some((link, available)), false, properties);
        }
    }

    /// As sender: nothing is left to send to a receiver that drains, which uses up so much of its credit (§2.6.7). Where the
    /// receiver granted more meanwhile that stays, and where it granted less it hears of deliveries that never were all the
    /// same: a peer that counts the used credit counts them too.
    pub fn drained(&mut self, session: SessionId, link: LinkId, unused: u32, properties: Map<'_>) {
        let Some((session, output)) = self.session_mut(session) else { return };
        let Some(slot) = session.link_mut(link).filter(|slot| slot.state == LinkState::Attached) else {
            return;
        };
        slot.delivery_count = slot.delivery_count.wrapping_add(unused);
        slot.credit = slot.credit.saturating_sub(unused);
        session.write_flow_with(output, Some((link, Some(0))), false, properties);
        if let Some(slot) = session.link_mut(link) {
            // Credit granted since has its own end, where it is to be drained too.
            slot.drain &= slot.credit > 0;
        }
    }
}

/// Messages are below 4 GiB.
fn saturated(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
