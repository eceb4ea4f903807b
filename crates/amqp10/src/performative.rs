//! The performatives (§2.7) that are rare: each a struct that is read from a frame and written into one.
//!
//! Transfers, dispositions and flows have a codec of their own in [`crate::hot`]. Everything borrows from the frame, which
//! was checked as a whole before.

use crate::error::Error;
use message::amqp10::{Decoder, Described, Descriptor, Encoder, Fields, List, Malformed, Map, Scope, Value};

/// Descriptor codes of performatives, SASL frames, outcomes and termini.
pub(crate) mod descriptor {
    pub const OPEN: u8 = 0x10;
    pub const BEGIN: u8 = 0x11;
    pub const ATTACH: u8 = 0x12;
    pub const FLOW: u8 = 0x13;
    pub const TRANSFER: u8 = 0x14;
    pub const DISPOSITION: u8 = 0x15;
    pub const DETACH: u8 = 0x16;
    pub const END: u8 = 0x17;
    pub const CLOSE: u8 = 0x18;
    pub const ERROR: u8 = 0x1d;
    pub const RECEIVED: u8 = 0x23;
    pub const ACCEPTED: u8 = 0x24;
    pub const REJECTED: u8 = 0x25;
    pub const RELEASED: u8 = 0x26;
    pub const MODIFIED: u8 = 0x27;
    pub const SOURCE: u8 = 0x28;
    pub const TARGET: u8 = 0x29;
    pub const COORDINATOR: u8 = 0x30;
    pub const DECLARE: u8 = 0x31;
    pub const DISCHARGE: u8 = 0x32;
    pub const DECLARED: u8 = 0x33;
    pub const TRANSACTIONAL: u8 = 0x34;
    pub const SASL_MECHANISMS: u8 = 0x40;
    pub const SASL_INIT: u8 = 0x41;
    pub const SASL_CHALLENGE: u8 = 0x42;
    pub const SASL_RESPONSE: u8 = 0x43;
    pub const SASL_OUTCOME: u8 = 0x44;

    /// The names of those above, for peers that write names.
    pub const NAMES: [(&str, u8); 27] = [
        ("amqp:open:list", OPEN),
        ("amqp:begin:list", BEGIN),
        ("amqp:attach:list", ATTACH),
        ("amqp:flow:list", FLOW),
        ("amqp:transfer:list", TRANSFER),
        ("amqp:disposition:list", DISPOSITION),
        ("amqp:detach:list", DETACH),
        ("amqp:end:list", END),
        ("amqp:close:list", CLOSE),
        ("amqp:error:list", ERROR),
        ("amqp:received:list", RECEIVED),
        ("amqp:accepted:list", ACCEPTED),
        ("amqp:rejected:list", REJECTED),
        ("amqp:released:list", RELEASED),
        ("amqp:modified:list", MODIFIED),
        ("amqp:source:list", SOURCE),
        ("amqp:target:list", TARGET),
        ("amqp:coordinator:list", COORDINATOR),
        ("amqp:declare:list", DECLARE),
        ("amqp:discharge:list", DISCHARGE),
        ("amqp:declared:list", DECLARED),
        ("amqp:transactional-state:list", TRANSACTIONAL),
        ("amqp:sasl-mechanisms:list", SASL_MECHANISMS),
        ("amqp:sasl-init:list", SASL_INIT),
        ("amqp:sasl-challenge:list", SASL_CHALLENGE),
        ("amqp:sasl-response:list", SASL_RESPONSE),
        ("amqp:sasl-outcome:list", SASL_OUTCOME),
    ];
}

/// The code of a descriptor, whichever way it is written; 0 for one we do not know.
pub(crate) fn descriptor_code(described: Described<'_>) -> u8 {
    match described.descriptor() {
        Descriptor::Code(code) => u8::try_from(code).unwrap_or(0),
        Descriptor::Name(name) => {
            descriptor::NAMES.iter().find(|(known, _)| *known == name).map_or(0, |(_, code)| *code)
        }
        Descriptor::Other => 0,
    }
}

/// The code and fields of a described list.
pub(crate) fn composite(value: Value<'_>) -> Result<(u8, List<'_>), Malformed> {
    let Value::Described(described) = value else { return Err(Malformed::WrongType(0)) };
    match described.value() {
        Value::List(list) => Ok((descriptor_code(described), list)),
        _ => Err(Malformed::WrongType(0)),
    }
}

/// Which end of a link a peer is (§2.8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends transfers.
    Sender,
    /// Receives them.
    Receiver,
}

impl Role {
    /// The other end's.
    pub fn other(self) -> Role {
        match self {
            Role::Sender => Role::Receiver,
            Role::Receiver => Role::Sender,
        }
    }

    pub(crate) fn read(is_receiver: bool) -> Role {
        if is_receiver { Role::Receiver } else { Role::Sender }
    }

    pub(crate) fn is_receiver(self) -> bool {
        self == Role::Receiver
    }
}

/// How a sender settles (§2.8.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SenderSettleMode {
    /// Nothing is sent settled.
    Unsettled = 0,
    /// Everything is.
    Settled = 1,
    /// Each transfer says.
    #[default]
    Mixed = 2,
}

/// How a receiver settles (§2.8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiverSettleMode {
    /// At once.
    #[default]
    First = 0,
    /// After the sender did.
    Second = 1,
}

/// A field of many symbols (§1.4): as it was read, or as it is to be written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Symbols<'a> {
    /// From a frame: an array, a single symbol or null.
    Read(Value<'a>),
    /// For a frame.
    Given(&'a [&'a str]),
}

impl Default for Symbols<'_> {
    fn default() -> Self {
        Symbols::Given(&[])
    }
}

impl<'a> Symbols<'a> {
    /// The symbols.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let (read, given) = match *self {
            Symbols::Read(value) => (value, &[][..]),
            Symbols::Given(given) => (Value::Null, given),
        };
        read.multiple().filter_map(|value| value.as_str()).chain(given.iter().copied())
    }

    /// Whether `name` is among them.
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|symbol| symbol == name)
    }

    fn write(self, list: &mut Scope, encoder: &mut Encoder<'_>) {
        let any = self.iter().next().map(|_| self);
        list.option(encoder, any, |encoder, symbols| encoder.symbols(symbols.iter()));
    }
}

fn write_map(map: Map<'_>, list: &mut Scope, encoder: &mut Encoder<'_>) {
    let map = Some(map).filter(|map| !map.is_empty());
    list.option(encoder, map, |encoder, map| encoder.whole_map(map));
}

/// §2.7.1
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Open<'a> {
    /// The container-id of the peer that sends this frame.
    pub container_id: &'a str,
    /// The host it wants to reach; `vhost:NAME` selects a virtual host.
    pub hostname: Option<&'a str>,
    /// Bytes of a frame it takes. Written by the machine.
    pub max_frame_size: u32,
    /// The highest channel it takes. Written by the machine.
    pub channel_max: u16,
    /// Milliseconds of silence after which it gives up. Written by the machine.
    pub idle_ms: Option<u32>,
    /// Extensions it supports.
    pub offered_capabilities: Symbols<'a>,
    /// Extensions it would use.
    pub desired_capabilities: Symbols<'a>,
    /// Anything else.
    pub properties: Map<'a>,
}

impl<'a> Open<'a> {
    /// An open with nothing but a name; the machine fills in its limits.
    pub fn new(container_id: &'a str) -> Open<'a> {
        Open {
            container_id,
            hostname: None,
            max_frame_size: u32::MAX,
            channel_max: u16::MAX,
            idle_ms: None,
            offered_capabilities: Symbols::default(),
            desired_capabilities: Symbols::default(),
            properties: Map::default(),
        }
    }

    pub(crate) fn read(list: List<'a>) -> Result<Open<'a>, Malformed> {
        let mut fields = Fields::new(list);
        let container_id = fields.string()?.ok_or(Malformed::Missing("container-id"))?;
        let hostname = fields.string()?;
        let max_frame_size = fields.uint()?.unwrap_or(u32::MAX);
        let channel_max = fields.ushort()?.unwrap_or(u16::MAX);
        let idle_ms = fields.uint()?;
        let (_outgoing_locales, _incoming_locales) = (fields.value()?, fields.value()?);
        Ok(Open {
            container_id,
            hostname,
            max_frame_size,
            channel_max,
            idle_ms,
            offered_capabilities: Symbols::Read(fields.value()?),
            desired_capabilities: Symbols::Read(fields.value()?),
            properties: fields.map()?.unwrap_or_default(),
        })
    }

    pub(crate) fn write(&self, encoder: &mut Encoder<'_>) {
        encoder.descriptor(descriptor::OPEN.into());
        let mut list = encoder.list();
        encoder.string(self.container_id);
        list.field(encoder);
        list.option(encoder, self.hostname, |encoder, hostname| encoder.string(hostname));
        encoder.uint(self.max_frame_size);
        list.field(encoder);
        encoder.ushort(self.channel_max);
        list.field(encoder);
        list.option(encoder, self.idle_ms, |encoder, ms| encoder.uint(ms));
        list.skip(encoder);
        list.skip(encoder);
        self.offered_capabilities.write(&mut list, encoder);
        self.desired_capabilities.write(&mut list, encoder);
        write_map(self.properties, &mut list, encoder);
        encoder.close(list);
    }
}

/// §2.7.2
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Begin<'a> {
    /// In an answer: the channel of the begin it answers.
    pub remote_channel: Option<u16>,
    /// The transfer-id of the sender's next transfer.
    pub next_outgoing_id: u32,
    /// Transfers it takes.
    pub incoming_window: u32,
    /// Transfers it can have under way.
    pub outgoing_window: u32,
    /// The highest handle it takes.
    pub handle_max: u32,
    /// Anything else.
    pub properties: Map<'a>,
}

impl<'a> Begin<'a> {
    pub(crate) fn read(list: List<'a>) -> Result<Begin<'a>, Malformed> {
        let mut fields = Fields::new(list);
        let remote_channel = fields.ushort()?;
        let next_outgoing_id = fields.uint()?.ok_or(Malformed::Missing("next-outgoing-id"))?;
        let incoming_window = fields.uint()?.ok_or(Malformed::Missing("incoming-window"))?;
        let outgoing_window = fields.uint()?.ok_or(Malformed::Missing("outgoing-window"))?;
        let handle_max = fields.uint()?.unwrap_or(u32::MAX);
        let (_offered, _desired) = (fields.value()?, fields.value()?);
        let properties = fields.map()?.unwrap_or_default();
        Ok(Begin {
            remote_channel,
            next_outgoing_id,
            incoming_window,
            outgoing_window,
            handle_max,
            properties,
        })
    }

    pub(crate) fn write(&self, encoder: &mut Encoder<'_>) {
        encoder.descriptor(descriptor::BEGIN.into());
        let mut list = encoder.list();
        list.option(encoder, self.remote_channel, |encoder, channel| encoder.ushort(channel));
        for number in [self.next_outgoing_id, self.incoming_window, self.outgoing_window, self.handle_max] {
            encoder.uint(number);
            list.field(encoder);
        }
        list.skip(encoder);
        list.skip(encoder);
        write_map(self.properties, &mut list, encoder);
        encoder.close(list);
    }
}

/// The source of a link (§3.5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Source<'a> {
    /// Where messages come from.
    pub address: Option<&'a str>,
    /// 0: none, 1: configuration, 2: unsettled state.
    pub durable: u32,
    /// When the terminus goes; `None`: session-end.
    pub expiry_policy: Option<&'a str>,
    /// Seconds it stays after that.
    pub timeout_s: u32,
    /// The peer is to make a node.
    pub dynamic: bool,
    /// Properties of that node.
    pub dynamic_node_properties: Map<'a>,
    /// move or copy.
    pub distribution_mode: Option<&'a str>,
    /// Filters by name; in an answer those in place.
    pub filter: Option<Map<'a>>,
    /// The outcome of deliveries nobody settled.
    pub default_outcome: Option<Value<'a>>,
    /// The outcomes there can be.
    pub outcomes: Symbols<'a>,
    /// Extensions the terminus supports.
    pub capabilities: Symbols<'a>,
}

/// The target of a link (§3.5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Target<'a> {
    /// A transaction coordinator (§4.5.1), which has no other field but capabilities.
    pub is_coordinator: bool,
    /// Where messages go.
    pub address: Option<&'a str>,
    /// 0: none, 1: configuration, 2: unsettled state.
    pub durable: u32,
    /// When the terminus goes; `None`: session-end.
    pub expiry_policy: Option<&'a str>,
    /// Seconds it stays after that.
    pub timeout_s: u32,
    /// The peer is to make a node.
    pub dynamic: bool,
    /// Properties of that node.
    pub dynamic_node_properties: Map<'a>,
    /// Extensions the terminus supports.
    pub capabilities: Symbols<'a>,
}

fn default_number(encoder: &mut Encoder<'_>, list: &mut Scope, number: u32) {
    list.option(encoder, Some(number).filter(|number| *number != 0), |encoder, number| encoder.uint(number));
}

fn default_flag(encoder: &mut Encoder<'_>, list: &mut Scope, flag: bool) {
    list.option(encoder, Some(flag).filter(|flag| *flag), |encoder, flag| encoder.boolean(flag));
}

/// An address: a string. Other types, which nobody is known to use, are refused.
fn address<'a>(fields: &mut Fields<'a>) -> Result<Option<&'a str>, Malformed> {
    fields.string()
}

impl<'a> Source<'a> {
    fn read(value: Value<'a>) -> Result<Option<Source<'a>>, Malformed> {
        if value == Value::Null {
            return Ok(None);
        }
        let (code, list) = composite(value)?;
        if code != descriptor::SOURCE {
            return Err(Malformed::WrongType(code));
        }
        let mut fields = Fields::new(list);
        Ok(Some(Source {
            address: address(&mut fields)?,
            durable: fields.uint()?.unwrap_or(0),
            expiry_policy: fields.symbol()?,
            timeout_s: fields.uint()?.unwrap_or(0),
            dynamic: fields.boolean()?.unwrap_or(false),
            dynamic_node_properties: fields.map()?.unwrap_or_default(),
            distribution_mode: fields.symbol()?,
            filter: fields.map()?,
            default_outcome: Some(fields.value()?).filter(|value| *value != Value::Null),
            outcomes: Symbols::Read(fields.value()?),
            capabilities: Symbols::Read(fields.value()?),
        }))
    }

    /// The source as bytes, for [`Source::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut Encoder::new(&mut bytes));
        bytes
    }

    /// Reads the bytes that [`Source::to_bytes`] wrote.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Source<'a>> {
        Source::read(Decoder::new(bytes).value().ok()?).ok()?
    }

    fn write(&self, encoder: &mut Encoder<'_>) {
        encoder.descriptor(descriptor::SOURCE.into());
        let mut list = encoder.list();
        list.option(encoder, self.address, |encoder, address| encoder.string(address));
        default_number(encoder, &mut list, self.durable);
        list.option(encoder, self.expiry_policy, |encoder, policy| encoder.symbol(policy));
        default_number(encoder, &mut list, self.timeout_s);
        default_flag(encoder, &mut list, self.dynamic);
        write_map(self.dynamic_node_properties, &mut list, encoder);
        list.option(encoder, self.distribution_mode, |encoder, mode| encoder.symbol(mode));
        list.option(encoder, self.filter, |encoder, filter| encoder.whole_map(filter));
        list.option(encoder, self.default_outcome, |encoder, outcome| encoder.value(outcome));
        self.outcomes.write(&mut list, encoder);
        self.capabilities.write(&mut list, encoder);
        encoder.close(list);
    }
}

impl<'a> Target<'a> {
    /// The target as bytes, for [`Target::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut Encoder::new(&mut bytes));
        bytes
    }

    /// Reads the bytes that [`Target::to_bytes`] wrote.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Target<'a>> {
        Target::read(Decoder::new(bytes).value().ok()?).ok()?
    }

    fn read(value: Value<'a>) -> Result<Option<Target<'a>>, Malformed> {
        if value == Value::Null {
            return Ok(None);
        }
        let (code, list) = composite(value)?;
        let mut fields = Fields::new(list);
        match code {
            descriptor::TARGET => {}
            descriptor::COORDINATOR => {
                let capabilities = Symbols::Read(fields.value()?);
                return Ok(Some(Target { is_coordinator: true, capabilities, ..Target::default() }));
            }
            _ => return Err(Malformed::WrongType(code)),
        }
        Ok(Some(Target {
            is_coordinator: false,
            address: address(&mut fields)?,
            durable: fields.uint()?.unwrap_or(0),
            expiry_policy: fields.symbol()?,
            timeout_s: fields.uint()?.unwrap_or(0),
            dynamic: fields.boolean()?.unwrap_or(false),
            dynamic_node_properties: fields.map()?.unwrap_or_default(),
            capabilities: Symbols::Read(fields.value()?),
        }))
    }

    fn write(&self, encoder: &mut Encoder<'_>) {
        if self.is_coordinator {
            encoder.descriptor(descriptor::COORDINATOR.into());
            let mut list = encoder.list();
            self.capabilities.write(&mut list, encoder);
            return encoder.close(list);
        }
        encoder.descriptor(descriptor::TARGET.into());
        let mut list = encoder.list();
        list.option(encoder, self.address, |encoder, address| encoder.string(address));
        default_number(encoder, &mut list, self.durable);
        list.option(encoder, self.expiry_policy, |encoder, policy| encoder.symbol(policy));
        default_number(encoder, &mut list, self.timeout_s);
        default_flag(encoder, &mut list, self.dynamic);
        write_map(self.dynamic_node_properties, &mut list, encoder);
        self.capabilities.write(&mut list, encoder);
        encoder.close(list);
    }
}

/// §2.7.3. Handles are the machine's business.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attach<'a> {
    /// The link's name, the same for both peers.
    pub name: &'a str,
    /// Which end the sender of this frame is.
    pub role: Role,
    /// How the sending end settles.
    pub sender_settle_mode: SenderSettleMode,
    /// How the receiving end settles.
    pub receiver_settle_mode: ReceiverSettleMode,
    /// Where messages come from.
    pub source: Option<Source<'a>>,
    /// Where they go.
    pub target: Option<Target<'a>>,
    /// Deliveries it remembers from an earlier attach.
    pub unsettled: Map<'a>,
    /// There are more than those.
    pub incomplete_unsettled: bool,
    /// From a sender: its delivery-count.
    pub initial_delivery_count: Option<u32>,
    /// Bytes of a message it takes; `None` and 0: any (§2.7.3).
    pub max_message_size: Option<u64>,
    /// Extensions it supports.
    pub offered_capabilities: Symbols<'a>,
    /// Extensions it would use.
    pub desired_capabilities: Symbols<'a>,
    /// Anything else.
    pub properties: Map<'a>,
}

impl<'a> Attach<'a> {
    /// An attach with a name and a role, all else at its default.
    pub fn new(name: &'a str, role: Role) -> Attach<'a> {
        Attach {
            name,
            role,
            sender_settle_mode: SenderSettleMode::default(),
            receiver_settle_mode: ReceiverSettleMode::default(),
            source: None,
            target: None,
            unsettled: Map::default(),
            incomplete_unsettled: false,
            initial_delivery_count: None,
            max_message_size: None,
            offered_capabilities: Symbols::default(),
            desired_capabilities: Symbols::default(),
            properties: Map::default(),
        }
    }

    pub(crate) fn read(list: List<'a>) -> Result<(u32, Attach<'a>), Malformed> {
        let mut fields = Fields::new(list);
        let name = fields.string()?.ok_or(Malformed::Missing("name"))?;
        let handle = fields.uint()?.ok_or(Malformed::Missing("handle"))?;
        let role = Role::read(fields.boolean()?.ok_or(Malformed::Missing("role"))?);
        let sender_settle_mode = match fields.ubyte()? {
            Some(0) => SenderSettleMode::Unsettled,
            Some(1) => SenderSettleMode::Settled,
            None | Some(2) => SenderSettleMode::Mixed,
            Some(_) => return Err(Malformed::WrongType(0x50)),
        };
        let receiver_settle_mode = match fields.ubyte()? {
            None | Some(0) => ReceiverSettleMode::First,
            Some(1) => ReceiverSettleMode::Second,
            Some(_) => return Err(Malformed::WrongType(0x50)),
        };
        let source = Source::read(fields.value()?)?;
        let target = Target::read(fields.value()?)?;
        let unsettled = fields.map()?.unwrap_or_default();
        let incomplete_unsettled = fields.boolean()?.unwrap_or(false);
        let attach = Attach {
            name,
            role,
            sender_settle_mode,
            receiver_settle_mode,
            source,
            target,
            unsettled,
            incomplete_unsettled,
            initial_delivery_count: fields.uint()?,
            // Zero means the same as nothing.
            max_message_size: fields.ulong()?,
            offered_capabilities: Symbols::Read(fields.value()?),
            desired_capabilities: Symbols::Read(fields.value()?),
            properties: fields.map()?.unwrap_or_default(),
        };
        Ok((handle, attach))
    }

    /// The attach as bytes, for [`Attach::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(0, &mut Encoder::new(&mut bytes));
        bytes
    }

    /// Reads the bytes that [`Attach::to_bytes`] wrote.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Attach<'a>> {
        let (_, list) = composite(Decoder::new(bytes).value().ok()?).ok()?;
        Attach::read(list).ok().map(|(_, attach)| attach)
    }

    pub(crate) fn write(&self, handle: u32, encoder: &mut Encoder<'_>) {
        encoder.descriptor(descriptor::ATTACH.into());
        let mut list = encoder.list();
        encoder.string(self.name);
        list.field(encoder);
        encoder.uint(handle);
        list.field(encoder);
        encoder.boolean(self.role.is_receiver());
        list.field(encoder);
        encoder.ubyte(self.sender_settle_mode as u8);
        list.field(encoder);
        encoder.ubyte(self.receiver_settle_mode as u8);
        list.field(encoder);
        list.option(encoder, self.source, |encoder, source| source.write(encoder));
        list.option(encoder, self.target, |encoder, target| target.write(encoder));
        write_map(self.unsettled, &mut list, encoder);
        default_flag(encoder, &mut list, self.incomplete_unsettled);
        list.option(encoder, self.initial_delivery_count, |encoder, count| encoder.uint(count));
        list.option(encoder, self.max_message_size, |encoder, size| encoder.ulong(size));
        self.offered_capabilities.write(&mut list, encoder);
        self.desired_capabilities.write(&mut list, encoder);
        write_map(self.properties, &mut list, encoder);
        encoder.close(list);
    }
}

/// The handle, whether closed, and the error of a detach (§2.7.7).
pub(crate) fn read_detach(list: List<'_>) -> Result<(u32, bool, Option<Error<'_>>), Malformed> {
    let mut fields = Fields::new(list);
    let handle = fields.uint()?.ok_or(Malformed::Missing("handle"))?;
    let closed = fields.boolean()?.unwrap_or(false);
    Ok((handle, closed, read_error(&mut fields)?))
}

/// The error of an end or a close (§2.7.8, §2.7.9).
pub(crate) fn read_error<'a>(fields: &mut Fields<'a>) -> Result<Option<Error<'a>>, Malformed> {
    let value = fields.value()?;
    if value == Value::Null {
        return Ok(None);
    }
    match composite(value)? {
        (descriptor::ERROR, list) => Error::read(list).map(Some),
        (code, _) => Err(Malformed::WrongType(code)),
    }
}

pub(crate) fn write_detach(handle: u32, closed: bool, error: Option<Error<'_>>, encoder: &mut Encoder<'_>) {
    encoder.descriptor(descriptor::DETACH.into());
    let mut list = encoder.list();
    encoder.uint(handle);
    list.field(encoder);
    encoder.boolean(closed);
    list.field(encoder);
    list.option(encoder, error, |encoder, error| error.write(encoder));
    encoder.close(list);
}

/// An end or a close.
pub(crate) fn write_last(code: u8, error: Option<Error<'_>>, encoder: &mut Encoder<'_>) {
    encoder.descriptor(code.into());
    let mut list = encoder.list();
    list.option(encoder, error, |encoder, error| error.write(encoder));
    encoder.close(list);
}

/// The outcome of a delivery (§3.4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome<'a> {
    /// Taken.
    Accepted,
    /// Refused as invalid.
    Rejected(Option<Error<'a>>),
    /// Given back, untouched.
    Released,
    /// Given back, changed.
    Modified {
        /// Counts as a failed delivery.
        delivery_failed: bool,
        /// Not to be delivered to this link again.
        undeliverable_here: bool,
        /// To be merged into the message's annotations.
        annotations: Map<'a>,
    },
    /// Not an outcome: how much of a delivery arrived.
    Received {
        /// The section.
        section_number: u32,
        /// The offset in it.
        section_offset: u64,
    },
    /// Not an outcome yet: the one it is to have when a transaction is discharged (§4.5.8).
    Transactional {
        /// The transaction.
        id: &'a [u8],
        /// The outcome, for [`Outcome::read`]; null where there is none.
        outcome: Value<'a>,
    },
    /// Of a declare (§4.5.4): the transaction that began.
    Declared(&'a [u8]),
    /// A state this machine does not know.
    Other(Value<'a>),
}

/// A controller's request to a coordinator, in a message (§4.2, §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// Begin a transaction. One with a global id would be distributed, which nobody here coordinates.
    Declare {
        /// A global id was given.
        is_global: bool,
    },
    /// End a transaction.
    Discharge {
        /// Which.
        id: &'a [u8],
        /// Undo it.
        fail: bool,
    },
}

impl<'a> Control<'a> {
    /// The request in the body of a message to a coordinator; `None`: it is no such request.
    pub fn read(body: Value<'a>) -> Result<Option<Control<'a>>, Malformed> {
        let (code, list) = composite(body)?;
        let mut fields = Fields::new(list);
        Ok(match code {
            descriptor::DECLARE => Some(Control::Declare { is_global: fields.value()? != Value::Null }),
            descriptor::DISCHARGE => Some(Control::Discharge {
                id: fields.binary()?.ok_or(Malformed::Missing("txn-id"))?,
                fail: fields.boolean()?.unwrap_or(false),
            }),
            _ => None,
        })
    }

    /// Writes the request as a message.
    pub fn write(&self, into: &mut Vec<u8>) {
        let mut encoder = Encoder::new(into);
        encoder.descriptor(message::amqp10::section::descriptor::VALUE.into());
        match self {
            Control::Declare { .. } => encoder.encoding(&[0x00, 0x53, descriptor::DECLARE, 0x45]),
            Control::Discharge { id, fail } => {
                encoder.descriptor(descriptor::DISCHARGE.into());
                let mut list = encoder.list();
                encoder.binary(id);
                list.field(&encoder);
                default_flag(&mut encoder, &mut list, *fail);
                encoder.close(list);
            }
        }
    }
}

impl<'a> Outcome<'a> {
    /// It ends a delivery (§3.4).
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            Outcome::Accepted | Outcome::Rejected(_) | Outcome::Released | Outcome::Modified { .. }
        )
    }

    /// The state in a field; `None`: null.
    pub fn read(value: Value<'a>) -> Result<Option<Outcome<'a>>, Malformed> {
        if value == Value::Null {
            return Ok(None);
        }
        let (code, list) = composite(value)?;
        let mut fields = Fields::new(list);
        Ok(Some(match code {
            descriptor::ACCEPTED => Outcome::Accepted,
            descriptor::REJECTED => Outcome::Rejected(read_error(&mut fields)?),
            descriptor::RELEASED => Outcome::Released,
            descriptor::MODIFIED => Outcome::Modified {
                delivery_failed: fields.boolean()?.unwrap_or(false),
                undeliverable_here: fields.boolean()?.unwrap_or(false),
                annotations: fields.map()?.unwrap_or_default(),
            },
            descriptor::RECEIVED => Outcome::Received {
                section_number: fields.uint()?.ok_or(Malformed::Missing("section-number"))?,
                section_offset: fields.ulong()?.ok_or(Malformed::Missing("section-offset"))?,
            },
            descriptor::TRANSACTIONAL => Outcome::Transactional {
                id: fields.binary()?.ok_or(Malformed::Missing("txn-id"))?,
                outcome: fields.value()?,
            },
            descriptor::DECLARED => Outcome::Declared(fields.binary()?.ok_or(Malformed::Missing("txn-id"))?),
            _ => Outcome::Other(value),
        }))
    }

    /// Appends the state.
    pub fn write(&self, encoder: &mut Encoder<'_>) {
        match self {
            Outcome::Accepted => encoder.encoding(&[0x00, 0x53, descriptor::ACCEPTED, 0x45]),
            Outcome::Released => encoder.encoding(&[0x00, 0x53, descriptor::RELEASED, 0x45]),
            Outcome::Rejected(error) => write_last(descriptor::REJECTED, *error, encoder),
            Outcome::Modified { delivery_failed, undeliverable_here, annotations } => {
                encoder.descriptor(descriptor::MODIFIED.into());
                let mut list = encoder.list();
                default_flag(encoder, &mut list, *delivery_failed);
                default_flag(encoder, &mut list, *undeliverable_here);
                write_map(*annotations, &mut list, encoder);
                encoder.close(list);
            }
            Outcome::Received { section_number, section_offset } => {
                encoder.descriptor(descriptor::RECEIVED.into());
                let mut list = encoder.list();
                encoder.uint(*section_number);
                list.field(encoder);
                encoder.ulong(*section_offset);
                list.field(encoder);
                encoder.close(list);
            }
            Outcome::Transactional { id, outcome } => {
                encoder.descriptor(descriptor::TRANSACTIONAL.into());
                let mut list = encoder.list();
                encoder.binary(id);
                list.field(encoder);
                let outcome = Some(*outcome).filter(|outcome| *outcome != Value::Null);
                list.option(encoder, outcome, |encoder, outcome| encoder.value(outcome));
                encoder.close(list);
            }
            Outcome::Declared(id) => {
                encoder.descriptor(descriptor::DECLARED.into());
                let mut list = encoder.list();
                encoder.binary(id);
                list.field(encoder);
                encoder.close(list);
            }
            Outcome::Other(value) => encoder.value(*value),
        }
    }
}
