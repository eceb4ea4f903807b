//! One session (§2.5) and its links (§2.6): windows, handles, credit, and the deliveries under way in both directions.
//!
//! A session writes its frames into the output it is given; it knows neither the connection's state nor an address.
//! Invariants: `remote_handles` and `links` agree; each entry of `unsettled` belongs to a link that is attached; only a
//! session whose window is shut or that has a delivery of several frames has anything `queued`.

use crate::error::{Fault, condition};
use crate::event::{LinkFlow, LinkId, SessionId};
use crate::hot::{self, Flow, TRANSFER_HEADER_MAX};
use crate::limits::TAG_BYTES_MAX;
use crate::performative::{Outcome, Role, SenderSettleMode, descriptor};
use crate::unsettled::Unsettled;
use base::memory::Memory;
use base::output::Output;
use message::amqp10::{Encoder, Map, Value};
use std::collections::VecDeque;
use std::ops::Range;

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// We began; the peer has not answered.
    BeginSent,
    /// Both have begun.
    Mapped,
    /// We ended; the peer has not answered. The owner hears of the answer only if it asked for the end.
    EndSent { is_asked: bool },
}

/// Where a link is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// There is none.
    Free,
    /// We attached; the peer has not answered.
    AttachSent,
    /// The peer attached; we have not answered.
    AttachReceived,
    /// Both have attached.
    Attached,
    /// We detached; the peer has not answered.
    DetachSent { is_asked: bool },
}

/// A delivery that is coming in in several frames.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Partial {
    pub delivery_id: u32,
    pub tag: [u8; TAG_BYTES_MAX],
    pub tag_len: u8,
    pub format: u32,
    pub settled: bool,
    /// The transaction it belongs to.
    pub transaction: Option<Box<[u8]>>,
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub state: LinkState,
    /// Ours.
    pub role: Role,
    /// `NO_HANDLE`: the peer has not attached.
    pub remote_handle: u16,
    /// The receiver asked to drain.
    pub drain: bool,
    pub delivery_count: u32,
    /// Deliveries the sender may send.
    pub credit: u32,
    /// The largest message, in bytes: as receiver the one we take, as sender the one the peer takes. 4 GiB - 1: of any
    /// size, no message of ours is larger.
    pub message_bytes_max: u32,
    /// As sender: up to this size a frame goes out as it is, be it for the peer's frames or for its messages.
    pub frame_bytes_max: u32,
    /// As receiver: how deliveries may come, see [`Link::takes`].
    pub settles: SenderSettleMode,
    pub name: Box<str>,
    pub partial: Option<Box<Partial>>,
}

pub(crate) const NO_HANDLE: u16 = u16::MAX;

impl Link {
    /// As receiver: whether a delivery may come settled, or unsettled (§2.8.2).
    #[inline]
    pub fn takes(&self, settled: bool) -> bool {
        // The modes are numbered 0 for unsettled, 1 for settled, 2 for both.
        self.settles as u8 != u8::from(!settled)
    }

    /// As sender: the peer takes frames of `frame_bytes` and messages of `message_bytes`; 0 or none: of any size
    /// (§2.7.3).
    pub fn limit(&mut self, message_bytes: Option<u64>, frame_bytes: u32) {
        let message_bytes = message_bytes.filter(|bytes| *bytes > 0).unwrap_or(u64::MAX);
        self.message_bytes_max = u32::try_from(message_bytes).unwrap_or(u32::MAX);
        self.frame_bytes_max = frame_bytes.min(self.message_bytes_max);
    }
}

/// A delivery waiting for the peer's window, or the rest of one.
#[derive(Debug)]
pub(crate) struct Queued {
    link: u16,
    tag: [u8; TAG_BYTES_MAX],
    tag_len: u8,
    is_settled: bool,
    is_begun: bool,
    delivery_id: u32,
    own: Vec<u8>,
    own_sent: usize,
    body: Option<(Memory, Range<usize>)>,
}

/// Settled incoming deliveries, not written yet because more may follow on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    first: u32,
    last: u32,
    is_accepted: bool,
}

/// The body of an outgoing delivery.
#[derive(Clone, Debug)]
pub enum Body<'a> {
    /// To be copied.
    Bytes(&'a [u8]),
    /// To be referred to where it is long.
    Memory(&'a Memory, Range<usize>),
}

impl Body<'_> {
    #[inline]
    fn len(&self) -> usize {
        match self {
            Body::Bytes(bytes) => bytes.len(),
            Body::Memory(_, range) => range.len(),
        }
    }
}

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Delivery<'a> {
    /// The delivery-tag for the receiver: at most 32 bytes, unique among the link's unsettled ones.
    pub tag: &'a [u8],
    /// No disposition is expected.
    pub settled: bool,
    /// The owner's own number for it, told again when it is settled.
    pub token: u64,
    /// The sections in front of the body, in order.
    pub head: &'a [&'a [u8]],
    /// The body.
    pub body: Body<'a>,
}

impl Delivery<'_> {
    /// Bytes of the message, all sections.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.head.iter().map(|piece| piece.len()).sum::<usize>() + self.body.len()
    }
}

/// Why a delivery was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// There is no such session or no such sending link any more.
    Detached,
    /// The link has no credit.
    NoCredit,
    /// The peer leaves too many deliveries unsettled (`Limits::unsettled_max`), and this one is not settled in advance. The link's
    /// credit is as before.
    TooManyUnsettled,
    /// The message is larger than the link's receiver takes. Ids and credit it used up are not given back: the session
    /// is to be ended, as RabbitMQ does.
    TooLarge,
}

/// The deliveries a session has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    /// Nothing: the peer's window is shut, or one of its deliveries has been unsettled for so long that ids run out.
    Nothing,
    /// Deliveries settled in advance: the peer leaves about as much unsettled as it may.
    Settled,
    /// Anything.
    Anything,
}

impl Room {
    /// Whether there is room for deliveries that are settled in advance, or that are not.
    #[inline]
    pub fn takes(self, settled: bool) -> bool {
        match self {
            Room::Nothing => false,
            Room::Settled => settled,
            Room::Anything => true,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Session {
    pub state: SessionState,
    pub id: SessionId,
    /// The channel the peer sends on; meaningless before it has begun.
    pub remote_channel: u16,
    /// The highest handle the peer takes.
    pub remote_handle_max: u16,
    /// Transfer-id of the peer's next transfer.
    pub next_incoming_id: u32,
    /// Transfers the peer may send by our last word to it.
    pub incoming_window: u32,
    pub incoming_window_max: u32,
    /// The window is shut to the peer; the rest it had may still be used up.
    pub is_blocked: bool,
    pub next_outgoing_id: u32,
    /// Transfers the peer takes.
    pub remote_incoming_window: u32,
    /// Transfer-id at which the peer's outgoing window ended when it last told of it.
    pub remote_outgoing_end: u32,
    pub unsettled: Unsettled,
    pub unsettled_max: usize,
    pub links: Vec<Link>,
    /// Our handle of each of the peer's.
    pub remote_handles: Vec<u16>,
    settled: Option<Settled>,
    #[allow(clippy::box_collection)]
    // Hardly ever there: eight bytes instead of thirty-two in every session.
    queued: Option<Box<VecDeque<Queued>>>,
}

impl Session {
    pub fn new(
        id: SessionId,
        state: SessionState,
        first_id: u32,
        window_max: u32,
        unsettled_max: u32,
    ) -> Session {
        Session {
            state,
            id,
            remote_channel: id.0,
            remote_handle_max: u16::MAX - 1,
            next_incoming_id: 0,
            incoming_window: window_max,
            incoming_window_max: window_max,
            is_blocked: false,
            next_outgoing_id: first_id,
            remote_incoming_window: 0,
            remote_outgoing_end: 0,
            unsettled: Unsettled::new(first_id),
            unsettled_max: unsettled_max as usize,
            links: Vec::new(),
            remote_handles: Vec::new(),
            settled: None,
            queued: None,
        }
    }

    /// The session is over but for the peer's answer: nothing is kept for it.
    pub fn forget_all(&mut self) {
        self.links = Vec::new();
        self.remote_handles = Vec::new();
        self.unsettled = Unsettled::new(self.unsettled.next_id());
        self.settled = None;
        self.queued = None;
    }

    /// A slot for a new link: `wanted` if it is free, else the lowest that is.
    pub fn free_link(&mut self, wanted: Option<u16>, most: u16) -> Option<LinkId> {
        let is_free =
            |links: &[Link], at: usize| links.get(at).is_none_or(|link| link.state == LinkState::Free);
        let at = match wanted {
            Some(wanted) if is_free(&self.links, wanted.into()) => wanted,
            _ => (0..most).find(|at| is_free(&self.links, (*at).into()))?,
        };
        while self.links.len() <= at.into() {
            self.links.push(Link {
                state: LinkState::Free,
                role: Role::Sender,
                remote_handle: NO_HANDLE,
                drain: false,
                delivery_count: 0,
                credit: 0,
                message_bytes_max: 0,
                frame_bytes_max: 0,
                settles: SenderSettleMode::Mixed,
                name: Box::default(),
                partial: None,
            });
        }
        Some(LinkId(at))
    }

    #[inline]
    pub fn link(&self, link: LinkId) -> Option<&Link> {
        self.links.get(usize::from(link.0)).filter(|link| link.state != LinkState::Free)
    }

    #[inline]
    pub fn link_mut(&mut self, link: LinkId) -> Option<&mut Link> {
        self.links.get_mut(usize::from(link.0)).filter(|link| link.state != LinkState::Free)
    }

    /// The link of one of the peer's handles.
    #[inline]
    pub fn by_remote_handle(&self, handle: u32) -> Option<LinkId> {
        self.remote_handles.get(handle as usize).filter(|link| **link != NO_HANDLE).map(|link| LinkId(*link))
    }

    pub fn map_remote_handle(&mut self, handle: u16, link: LinkId) {
        if self.remote_handles.len() <= handle.into() {
            self.remote_handles.resize(usize::from(handle) + 1, NO_HANDLE);
        }
        self.remote_handles[usize::from(handle)] = link.0;
        self.links[usize::from(link.0)].remote_handle = handle;
    }

    /// The link does not send or receive any more, and has no `partial`; its slot stays taken until [`Session::free`].
    pub fn close_link(&mut self, link: LinkId, state: LinkState) {
        self.unsettled.forget_link(link.0);
        if let Some(queued) = &mut self.queued {
            queued.retain(|queued| queued.link != link.0);
            if queued.is_empty() {
                self.queued = None;
            }
        }
        if let Some(link) = self.link_mut(link) {
            assert!(link.partial.is_none(), "it is counted still");
            link.state = state;
            link.credit = 0;
        }
    }

    /// The link is gone.
    pub fn free(&mut self, link: LinkId) {
        self.close_link(link, LinkState::Free);
        let Some(slot) = self.links.get_mut(usize::from(link.0)) else { return };
        let handle = std::mem::replace(&mut slot.remote_handle, NO_HANDLE);
        slot.name = Box::default();
        if let Some(mapped) = self.remote_handles.get_mut(usize::from(handle)) {
            *mapped = NO_HANDLE;
        }
        while self.links.last().is_some_and(|link| link.state == LinkState::Free) {
            self.links.pop();
        }
    }

    /// A transfer came in: counts it against the window, and says so to the peer at half.
    #[inline]
    pub fn count_incoming(&mut self, output: &mut Output) -> Result<(), Fault> {
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        if self.incoming_window == 0 {
            return Err(Fault::new(condition::WINDOW_VIOLATION, "incoming window violation"));
        }
        self.incoming_window -= 1;
        if self.incoming_window <= self.incoming_window_max / 2 && !self.is_blocked {
            self.write_flow(output, None, false);
        }
        Ok(())
    }

    /// Writes a flow: the session's state, and a link's if one is named. Opens the window as far as it goes.
    pub fn write_flow(&mut self, output: &mut Output, link: Option<(LinkId, Option<u32>)>, echo: bool) {
        self.write_flow_with(output, link, echo, Map::default());
    }

    /// As [`Session::write_flow`], with properties.
    pub fn write_flow_with(
        &mut self,
        output: &mut Output,
        link: Option<(LinkId, Option<u32>)>,
        echo: bool,
        properties: Map<'_>,
    ) {
        if !self.is_blocked {
            self.incoming_window = self.incoming_window_max;
        }
        let mut flow = Flow {
            next_incoming_id: (self.state != SessionState::BeginSent).then_some(self.next_incoming_id),
            incoming_window: if self.is_blocked { 0 } else { self.incoming_window },
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: u32::MAX,
            echo,
            properties,
            ..Flow::default()
        };
        if let Some((id, available)) = link
            && let Some(link) = self.link(id)
        {
            // Deliveries that wait for the peer's window come behind this flow: the peer has not seen them and is to
            // have credit for them.
            let waiting = self.queued.as_ref().map_or(0, |queued| {
                queued.iter().filter(|it| it.link == id.0 && !it.is_begun).count() as u32
            });
            flow.handle = Some(id.0.into());
            flow.delivery_count = Some(link.delivery_count.wrapping_sub(waiting));
            flow.link_credit = Some(link.credit.saturating_add(waiting));
            flow.drain = link.drain;
            flow.available = available;
        }
        flow.write(self.id.0, output.own());
    }

    /// The peer's flow: opens our window; answers the link part, if there is one.
    pub fn read_flow<'a>(
        &mut self,
        flow: &Flow<'a>,
        output: &mut Output,
        frame_bytes_max: usize,
    ) -> Result<Option<LinkFlow<'a>>, Fault> {
        // Transfers under way to the peer. One that claims to have more than we sent has none under way.
        let under_way =
            self.next_outgoing_id.wrapping_sub(flow.next_incoming_id.unwrap_or(self.next_outgoing_id));
        let under_way = if (under_way as i32) < 0 { 0 } else { under_way };
        self.remote_incoming_window = flow.incoming_window.saturating_sub(under_way);
        self.next_incoming_id = flow.next_outgoing_id;
        self.remote_outgoing_end = flow.next_outgoing_id.wrapping_add(flow.outgoing_window);
        self.send_queued(output, frame_bytes_max);
        let Some(handle) = flow.handle else {
            if flow.echo {
                self.write_flow(output, None, false);
            }
            return Ok(None);
        };
        let Some(id) = self.by_remote_handle(handle) else {
            let text = format!("Unattached link handle: {handle}");
            return Err(Fault::new(condition::UNATTACHED_HANDLE, text));
        };
        let session = self.id;
        let link = &mut self.links[usize::from(id.0)];
        if matches!(link.state, LinkState::DetachSent { .. }) {
            return Ok(None);
        }
        match link.role {
            Role::Sender => {
                // §2.6.7: link-credit(snd) := delivery-count(rcv) + link-credit(rcv) - delivery-count(snd).
                let seen = flow.delivery_count.unwrap_or(link.delivery_count);
                let used = link.delivery_count.wrapping_sub(seen);
                let used = if (used as i32) < 0 { 0 } else { used };
                if let Some(link_credit) = flow.link_credit {
                    link.credit = link_credit.saturating_sub(used);
                }
                link.drain = flow.drain;
            }
            Role::Receiver => {
                // The sender's count moves ahead of ours when it has used credit up without sending (drain).
                let count = flow.delivery_count.unwrap_or(link.delivery_count);
                let ahead = count.wrapping_sub(link.delivery_count);
                if (ahead as i32) > 0 {
                    link.delivery_count = count;
                    link.credit = link.credit.saturating_sub(ahead);
                }
                if link.drain && link.credit == 0 {
                    link.drain = false;
                }
            }
        }
        let event = LinkFlow {
            session,
            link: id,
            role: link.role,
            credit: link.credit,
            delivery_count: flow.delivery_count.unwrap_or(link.delivery_count),
            link_credit: flow.link_credit.unwrap_or(0),
            available: flow.available,
            drain: flow.drain,
            echo: flow.echo,
            properties: flow.properties,
        };
        if flow.echo && event.role == Role::Receiver {
            self.write_flow(output, Some((id, None)), false);
        }
        Ok(Some(event))
    }

    /// Sends a delivery, or queues it while the peer's window is shut.
    #[inline(always)]
    pub fn transfer(
        &mut self,
        output: &mut Output,
        frame_bytes_max: usize,
        link: LinkId,
        delivery: &Delivery<'_>,
    ) -> Result<u32, NotSent> {
        let slot = self.links.get_mut(usize::from(link.0)).ok_or(NotSent::Detached)?;
        if slot.state != LinkState::Attached || slot.role != Role::Sender {
            return Err(NotSent::Detached);
        }
        if slot.credit == 0 {
            return Err(NotSent::NoCredit);
        }
        if !self.unsettled.has_room(delivery.settled, self.unsettled_max) {
            return Err(NotSent::TooManyUnsettled);
        }
        slot.credit -= 1;
        slot.delivery_count = slot.delivery_count.wrapping_add(1);
        let id = match delivery.settled {
            true => self.unsettled.skip(),
            false => self.unsettled.push(link.0, delivery.token),
        };
        if self.remote_incoming_window > 0 && self.queued.is_none() {
            let mut header = [0; TRANSFER_HEADER_MAX];
            let (channel, handle) = (self.id.0, link.0 as u8);
            let len =
                hot::transfer_header(&mut header, channel, handle, id, delivery.tag, delivery.settled, false);
            let size = len + delivery.bytes();
            if size <= slot.frame_bytes_max as usize {
                header[..4].copy_from_slice(&(size as u32).to_be_bytes());
                let own = output.own();
                own.reserve(size.min(base::output::REFERENCE_MIN));
                own.extend_from_slice(&header[..len]);
                delivery.head.iter().for_each(|piece| own.extend_from_slice(piece));
                match &delivery.body {
                    Body::Bytes(bytes) => own.extend_from_slice(bytes),
                    Body::Memory(memory, range) => output.extend_from(memory, range.clone()),
                }
                self.remote_incoming_window -= 1;
                self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
                return Ok(id);
            }
        }
        self.queue(link, id, delivery)?;
        self.send_queued(output, frame_bytes_max);
        Ok(id)
    }

    /// Sends a delivery of one frame within a transaction.
    pub fn post(
        &mut self,
        output: &mut Output,
        frame_bytes_max: usize,
        link: LinkId,
        delivery: &Delivery<'_>,
        transaction: &[u8],
    ) -> Result<u32, NotSent> {
        let slot = self.links.get_mut(usize::from(link.0)).ok_or(NotSent::Detached)?;
        if slot.state != LinkState::Attached || slot.role != Role::Sender {
            return Err(NotSent::Detached);
        }
        if !self.unsettled.has_room(delivery.settled, self.unsettled_max) {
            return Err(NotSent::TooManyUnsettled);
        }
        let mut frame = Vec::with_capacity(128);
        let write = |id: u32, frame: &mut Vec<u8>| {
            let [high, low] = self.id.0.to_be_bytes();
            frame.extend_from_slice(&[0, 0, 0, 0, 2, 0, high, low]);
            let mut encoder = Encoder::new(frame);
            encoder.descriptor(descriptor::TRANSFER.into());
            let mut list = encoder.list();
            encoder.uint(link.0.into());
            list.field(&encoder);
            encoder.uint(id);
            list.field(&encoder);
            encoder.binary(delivery.tag);
            list.field(&encoder);
            encoder.uint(0);
            list.field(&encoder);
            encoder.boolean(delivery.settled);
            list.field(&encoder);
            (0..2).for_each(|_| list.skip(&mut encoder));
            Outcome::Transactional { id: transaction, outcome: Value::Null }.write(&mut encoder);
            list.field(&encoder);
            encoder.close(list);
        };
        // As long as it can get.
        write(u32::MAX, &mut frame);
        let payload = delivery.bytes();
        if payload > slot.message_bytes_max as usize {
            return Err(NotSent::TooLarge);
        }
        let is_open = self.remote_incoming_window > 0 && self.queued.is_none();
        if slot.credit == 0 || !is_open || frame.len() + payload > frame_bytes_max {
            return Err(NotSent::NoCredit);
        }
        slot.credit -= 1;
        slot.delivery_count = slot.delivery_count.wrapping_add(1);
        let id = match delivery.settled {
            true => self.unsettled.skip(),
            false => self.unsettled.push(link.0, delivery.token),
        };
        frame.clear();
        write(id, &mut frame);
        let size = (frame.len() + payload) as u32;
        frame[..4].copy_from_slice(&size.to_be_bytes());
        output.extend(&frame);
        delivery.head.iter().for_each(|piece| output.extend(piece));
        match &delivery.body {
            Body::Bytes(bytes) => output.extend(bytes),
            Body::Memory(memory, range) => output.extend_from(memory, range.clone()),
        }
        self.remote_incoming_window -= 1;
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
        Ok(id)
    }

    #[cold]
    fn queue(&mut self, link: LinkId, delivery_id: u32, delivery: &Delivery<'_>) -> Result<(), NotSent> {
        if delivery.bytes() > self.links[usize::from(link.0)].message_bytes_max as usize {
            return Err(NotSent::TooLarge);
        }
        let mut own = delivery.head.concat();
        let body = match &delivery.body {
            Body::Bytes(bytes) => {
                own.extend_from_slice(bytes);
                None
            }
            Body::Memory(memory, range) => Some(((*memory).clone(), range.clone())),
        };
        let mut tag = [0; TAG_BYTES_MAX];
        let tag_len = delivery.tag.len().min(TAG_BYTES_MAX);
        tag[..tag_len].copy_from_slice(&delivery.tag[..tag_len]);
        self.queued.get_or_insert_default().push_back(Queued {
            link: link.0,
            tag,
            tag_len: tag_len as u8,
            is_settled: delivery.settled,
            is_begun: false,
            delivery_id,
            own,
            own_sent: 0,
            body,
        });
        Ok(())
    }

    /// Sends the queued deliveries as far as the peer's window allows.
    #[inline]
    pub fn send_queued(&mut self, output: &mut Output, frame_bytes_max: usize) {
        if self.queued.is_some() {
            self.send_frames(output, frame_bytes_max);
        }
    }

    #[cold]
    fn send_frames(&mut self, output: &mut Output, frame_bytes_max: usize) {
        let Some(queued) = &mut self.queued else { return };
        while self.remote_incoming_window > 0
            && let Some(front) = queued.front_mut()
        {
            let mut header = [0; TRANSFER_HEADER_MAX];
            let (channel, handle) = (self.id.0, front.link as u8);
            let own_left = front.own.len() - front.own_sent;
            let left = own_left + front.body.as_ref().map_or(0, |(_, range)| range.len());
            let mut write_header = |more| match front.is_begun {
                true => hot::continuation_header(&mut header, channel, handle, more),
                false => {
                    let tag = &front.tag[..front.tag_len.into()];
                    hot::transfer_header(
                        &mut header,
                        channel,
                        handle,
                        front.delivery_id,
                        tag,
                        front.is_settled,
                        more,
                    )
                }
            };
            let mut len = write_header(false);
            let more = len + left > frame_bytes_max;
            if more {
                len = write_header(true);
            }
            let payload = left.min(frame_bytes_max - len);
            header[..4].copy_from_slice(&((len + payload) as u32).to_be_bytes());
            output.extend(&header[..len]);
            let from_own = own_left.min(payload);
            output.extend(&front.own[front.own_sent..front.own_sent + from_own]);
            front.own_sent += from_own;
            if let Some((memory, range)) = &mut front.body
                && payload > from_own
            {
                let end = range.start + (payload - from_own);
                output.extend_from(memory, range.start..end);
                range.start = end;
            }
            front.is_begun = true;
            self.remote_incoming_window -= 1;
            self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
            if !more {
                queued.pop_front();
            }
        }
        if queued.is_empty() {
            self.queued = None;
        }
    }

    /// The deliveries there is room for. An eighth of the unsettled ones allowed is left for those on their way to the
    /// link when that is said.
    #[inline]
    pub fn room(&self) -> Room {
        if self.queued_len() > 0 || self.unsettled.is_long() {
            Room::Nothing
        } else if self.unsettled.len() >= self.unsettled_max - self.unsettled_max / 8 {
            Room::Settled
        } else {
            Room::Anything
        }
    }

    /// Deliveries waiting for the peer's window.
    pub fn queued_len(&self) -> usize {
        self.queued.as_ref().map_or(0, |queued| queued.len())
    }

    /// Settles incoming deliveries; joins ranges that follow on each other.
    #[inline]
    pub fn settle_incoming(&mut self, output: &mut Output, first: u32, last: u32, outcome: &Outcome<'_>) {
        let is_accepted = match outcome {
            Outcome::Accepted => true,
            Outcome::Released => false,
            other => {
                self.write_settled(output);
                let state = Some(*other);
                let disposition =
                    hot::Disposition { role: Role::Receiver, first, last, settled: true, state };
                return disposition.write(self.id.0, output.own());
            }
        };
        match &mut self.settled {
            Some(settled) if settled.is_accepted == is_accepted && settled.last.wrapping_add(1) == first => {
                settled.last = last;
            }
            _ => {
                self.write_settled(output);
                self.settled = Some(Settled { first, last, is_accepted });
            }
        }
    }

    /// Writes the disposition that was kept back.
    #[inline]
    pub fn write_settled(&mut self, output: &mut Output) {
        if let Some(Settled { first, last, is_accepted }) = self.settled.take() {
            let state = Some(if is_accepted { Outcome::Accepted } else { Outcome::Released });
            let disposition = hot::Disposition { role: Role::Receiver, first, last, settled: true, state };
            disposition.write(self.id.0, output.own());
        }
    }

    pub fn has_settled(&self) -> bool {
        self.settled.is_some()
    }

    /// Bytes it holds, for the memory breakdown.
    pub fn memory_bytes(&self) -> usize {
        let partial = |link: &Link| {
            link.partial.as_ref().map_or(0, |partial| size_of::<Partial>() + partial.bytes.capacity())
        };
        let links = self.links.iter().map(|link| link.name.len() + partial(link)).sum::<usize>();
        let queued = self.queued.as_ref().map_or(0, |queued| {
            queued.capacity() * size_of::<Queued>()
                + queued.iter().map(|queued| queued.own.capacity()).sum::<usize>()
        });
        size_of::<Session>()
            + self.links.capacity() * size_of::<Link>()
            + self.remote_handles.capacity() * 2
            + links
            + queued
            + self.unsettled.capacity_bytes()
    }
}
