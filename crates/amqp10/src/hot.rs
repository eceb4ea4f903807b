//! The performatives that come and go with every message, read and written by hand: transfer (§2.7.5),
//! disposition (§2.7.6), flow (§2.7.4). Also the frame header (§2.3.1) around everything.
//!
//! ```text
//!   0      4      5      6         8
//!   | size | doff | type | channel | extended header, body ...
//! ```

use crate::performative::{Outcome, Role, descriptor};
use message::amqp10::value::code;
use message::amqp10::{Decoder, Encoder, Fields, List, Malformed, Map, Value};

/// Begins a frame in `own`; end it with [`end_frame`].
#[inline]
pub(crate) fn begin_frame(own: &mut Vec<u8>, frame_type: u8, channel: u16) -> usize {
    let start = own.len();
    let [high, low] = channel.to_be_bytes();
    own.extend_from_slice(&[0, 0, 0, 0, 2, frame_type, high, low]);
    start
}

/// Fills in the size of the frame that began at `start`.
#[inline]
pub(crate) fn end_frame(own: &mut [u8], start: usize) {
    let size = (own.len() - start) as u32;
    own[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

/// The fields of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer<'a> {
    pub handle: u32,
    pub delivery_id: Option<u32>,
    pub tag: Option<&'a [u8]>,
    pub format: Option<u32>,
    pub settled: Option<bool>,
    pub more: bool,
    /// The receiver is asked to settle only when the sender has.
    pub settles_second: bool,
    pub state: Value<'a>,
    pub aborted: bool,
}

/// The list at the start of `bytes` and the bytes behind it.
#[inline]
fn list(bytes: &[u8]) -> Result<(u32, &[u8], &[u8]), Malformed> {
    match bytes {
        [code::LIST8, size, rest @ ..] => {
            let (content, after) = rest.split_at_checked(*size as usize).ok_or(Malformed::Short)?;
            let (&count, fields) = content.split_first().ok_or(Malformed::Size)?;
            Ok((count.into(), fields, after))
        }
        _ => list_of_any_size(bytes),
    }
}

#[cold]
fn list_of_any_size(bytes: &[u8]) -> Result<(u32, &[u8], &[u8]), Malformed> {
    let mut decoder = Decoder::new(bytes);
    match decoder.value()? {
        Value::List(list) => Ok((list.len() as u32, list.bytes(), decoder.rest())),
        _ => Err(Malformed::WrongType(bytes.first().copied().unwrap_or(0))),
    }
}

/// An optional uint at the start of `bytes`.
#[inline]
fn uint(bytes: &mut &[u8]) -> Result<Option<u32>, Malformed> {
    match **bytes {
        [code::SMALL_UINT, number, ref rest @ ..] => {
            *bytes = rest;
            Ok(Some(number.into()))
        }
        [code::UINT, a, b, c, d, ref rest @ ..] => {
            *bytes = rest;
            Ok(Some(u32::from_be_bytes([a, b, c, d])))
        }
        [code::UINT0, ref rest @ ..] => {
            *bytes = rest;
            Ok(Some(0))
        }
        [code::NULL, ref rest @ ..] => {
            *bytes = rest;
            Ok(None)
        }
        [] => Err(Malformed::Short),
        [other, ..] => Err(Malformed::WrongType(other)),
    }
}

/// An optional boolean at the start of `bytes`.
#[inline]
fn boolean(bytes: &mut &[u8]) -> Result<Option<bool>, Malformed> {
    let (value, rest) = match **bytes {
        [code::TRUE, ref rest @ ..] => (Some(true), rest),
        [code::FALSE, ref rest @ ..] => (Some(false), rest),
        [code::NULL, ref rest @ ..] => (None, rest),
        [code::BOOLEAN, value, ref rest @ ..] => (Some(value != 0), rest),
        [] => return Err(Malformed::Short),
        [other, ..] => return Err(Malformed::WrongType(other)),
    };
    *bytes = rest;
    Ok(value)
}

/// An optional binary at the start of `bytes`.
#[inline]
fn binary<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
    match **bytes {
        [code::BINARY8, len, ref rest @ ..] => {
            let (value, rest) = rest.split_at_checked(len as usize).ok_or(Malformed::Short)?;
            *bytes = rest;
            Ok(Some(value))
        }
        [code::NULL, ref rest @ ..] => {
            *bytes = rest;
            Ok(None)
        }
        _ => {
            let mut decoder = Decoder::new(bytes);
            let Value::Binary(value) = decoder.value()? else { return Err(Malformed::WrongType(bytes[0])) };
            *bytes = decoder.rest();
            Ok(Some(value))
        }
    }
}

impl<'a> Transfer<'a> {
    /// Reads the part of a frame behind the descriptor: the fields, and the payload behind them.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Result<(Transfer<'a>, &'a [u8]), Malformed> {
        let (count, mut fields, payload) = list(bytes)?;
        let mut transfer = Transfer {
            handle: 0,
            delivery_id: None,
            tag: None,
            format: None,
            settled: None,
            more: false,
            settles_second: false,
            state: Value::Null,
            aborted: false,
        };
        let handle = if count > 0 { uint(&mut fields)? } else { None };
        transfer.handle = handle.ok_or(Malformed::Missing("handle"))?;
        if count > 1 {
            transfer.delivery_id = uint(&mut fields)?;
        }
        if count > 2 {
            transfer.tag = binary(&mut fields)?;
        }
        if count > 3 {
            transfer.format = uint(&mut fields)?;
        }
        if count > 4 {
            transfer.settled = boolean(&mut fields)?;
        }
        if count > 5 {
            transfer.more = boolean(&mut fields)?.unwrap_or(false);
        }
        if count > 6 {
            transfer.read_rare(count, fields)?;
        } else if !fields.is_empty() {
            return Err(Malformed::Size);
        }
        Ok((transfer, payload))
    }

    fn read_rare(&mut self, count: u32, bytes: &'a [u8]) -> Result<(), Malformed> {
        let mut decoder = Decoder::new(bytes);
        for _ in 6..count {
            decoder.check()?;
        }
        if !decoder.is_empty() {
            return Err(Malformed::Size);
        }
        let mut fields = Fields::new(List::new(count - 6, bytes));
        self.settles_second = fields.ubyte()? == Some(1);
        self.state = fields.value()?;
        let _resume = fields.boolean()?;
        self.aborted = fields.boolean()?.unwrap_or(false);
        Ok(())
    }
}

/// A transfer as nearly all are: whole in one frame, with nothing rare said about it.
pub(crate) struct Plain<'a> {
    pub handle: u32,
    pub delivery_id: u32,
    pub tag: &'a [u8],
    pub format: u32,
    pub settled: bool,
    pub payload: &'a [u8],
}

impl<'a> Plain<'a> {
    /// Reads the part of a frame behind the descriptor; `None` for every other transfer, be it rare or wrong. Says the
    /// same as [`Transfer::read`], in registers.
    #[inline(always)]
    pub fn read(bytes: &'a [u8]) -> Option<Plain<'a>> {
        let [code::LIST8, size, count @ 3..=6, rest @ ..] = bytes else { return None };
        let (mut fields, payload) = rest.split_at_checked((*size as usize).checked_sub(1)?)?;
        let handle = plain_uint(&mut fields)?;
        let delivery_id = plain_uint(&mut fields)?;
        let [code::BINARY8, len, rest @ ..] = fields else { return None };
        let (tag, rest) = rest.split_at_checked(*len as usize)?;
        fields = rest;
        let format = if *count > 3 { plain_uint(&mut fields)? } else { 0 };
        let settled = *count > 4 && plain_flag(&mut fields)?;
        let more = *count > 5 && plain_flag(&mut fields)?;
        (!more && fields.is_empty()).then_some(Plain { handle, delivery_id, tag, format, settled, payload })
    }
}

#[inline(always)]
fn plain_uint(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = match **bytes {
        [code::SMALL_UINT, number, ref rest @ ..] => (number.into(), rest),
        [code::UINT, a, b, c, d, ref rest @ ..] => (u32::from_be_bytes([a, b, c, d]), rest),
        [code::UINT0, ref rest @ ..] => (0, rest),
        _ => return None,
    };
    *bytes = rest;
    Some(number)
}

#[inline(always)]
fn plain_flag(bytes: &mut &[u8]) -> Option<bool> {
    let (&code, rest) = bytes.split_first()?;
    *bytes = rest;
    match code {
        code::TRUE => Some(true),
        code::FALSE | code::NULL => Some(false),
        _ => None,
    }
}

/// Bytes of the longest frame header with transfer that [`transfer_header`] makes.
pub(crate) const TRANSFER_HEADER_MAX: usize = 64;

/// Header and performative of a delivery's first frame. `size` is the frame's, this part included, as the closure makes
/// it from this part's length.
#[inline]
pub(crate) fn transfer_header(
    bytes: &mut [u8; TRANSFER_HEADER_MAX],
    channel: u16,
    handle: u8,
    delivery_id: u32,
    tag: &[u8],
    settled: bool,
    more: bool,
) -> usize {
    let [high, low] = channel.to_be_bytes();
    let [a, b, c, d] = delivery_id.to_be_bytes();
    bytes[..22].copy_from_slice(&[
        0,
        0,
        0,
        0,
        2,
        0,
        high,
        low,
        code::DESCRIBED,
        code::SMALL_ULONG,
        descriptor::TRANSFER,
        code::LIST8,
        0,
        5,
        code::SMALL_UINT,
        handle,
        code::UINT,
        a,
        b,
        c,
        d,
        code::BINARY8,
    ]);
    let tag = &tag[..tag.len().min(crate::limits::TAG_BYTES_MAX)];
    bytes[22] = tag.len() as u8;
    let mut at = 23 + tag.len();
    bytes[23..at].copy_from_slice(tag);
    bytes[at] = code::UINT0;
    bytes[at + 1] = if settled { code::TRUE } else { code::FALSE };
    at += 2;
    if more {
        bytes[at] = code::TRUE;
        at += 1;
        bytes[13] = 6;
    }
    bytes[12] = (at - 13) as u8;
    at
}

/// Header and performative of a delivery's later frames: handle and more, everything else is known.
#[inline]
pub(crate) fn continuation_header(
    bytes: &mut [u8; TRANSFER_HEADER_MAX],
    channel: u16,
    handle: u8,
    more: bool,
) -> usize {
    let [high, low] = channel.to_be_bytes();
    let more = if more { code::TRUE } else { code::FALSE };
    bytes[..21].copy_from_slice(&[
        0,
        0,
        0,
        0,
        2,
        0,
        high,
        low,
        code::DESCRIBED,
        code::SMALL_ULONG,
        descriptor::TRANSFER,
        code::LIST8,
        8,
        6,
        code::SMALL_UINT,
        handle,
        code::NULL,
        code::NULL,
        code::NULL,
        code::NULL,
        more,
    ]);
    21
}

/// The fields of a disposition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disposition<'a> {
    pub role: Role,
    pub first: u32,
    pub last: u32,
    pub settled: bool,
    pub state: Option<Outcome<'a>>,
}

impl<'a> Disposition<'a> {
    /// Reads the part of a frame behind the descriptor.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Result<Disposition<'a>, Malformed> {
        let (count, mut fields, _) = list(bytes)?;
        let role = if count > 0 { boolean(&mut fields)? } else { None };
        let role = Role::read(role.ok_or(Malformed::Missing("role"))?);
        let first = if count > 1 { uint(&mut fields)? } else { None };
        let first = first.ok_or(Malformed::Missing("first"))?;
        let last = if count > 2 { uint(&mut fields)?.unwrap_or(first) } else { first };
        let settled = count > 3 && boolean(&mut fields)?.unwrap_or(false);
        let state = match (count, fields) {
            (0..5, _) => None,
            (_, [code::DESCRIBED, code::SMALL_ULONG, descriptor::ACCEPTED, code::LIST0, ..]) => {
                Some(Outcome::Accepted)
            }
            _ => {
                let mut decoder = Decoder::new(fields);
                decoder.clone().check()?;
                Outcome::read(decoder.value()?)?
            }
        };
        Ok(Disposition { role, first, last, settled, state })
    }

    /// Appends the frame.
    #[inline]
    pub fn write(&self, channel: u16, own: &mut Vec<u8>) {
        if let Some(Outcome::Accepted) = self.state {
            let [high, low] = channel.to_be_bytes();
            let first = self.first.to_be_bytes();
            let last = self.last.to_be_bytes();
            let role = if self.role.is_receiver() { code::TRUE } else { code::FALSE };
            let settled = if self.settled { code::TRUE } else { code::FALSE };
            let mut frame = [
                0,
                0,
                0,
                30,
                2,
                0,
                high,
                low,
                code::DESCRIBED,
                code::SMALL_ULONG,
                descriptor::DISPOSITION,
                code::LIST8,
                17,
                5,
                role,
                code::UINT,
                0,
                0,
                0,
                0,
                code::UINT,
                0,
                0,
                0,
                0,
                settled,
                code::DESCRIBED,
                code::SMALL_ULONG,
                descriptor::ACCEPTED,
                code::LIST0,
            ];
            frame[16..20].copy_from_slice(&first);
            frame[21..25].copy_from_slice(&last);
            return own.extend_from_slice(&frame);
        }
        let start = begin_frame(own, 0, channel);
        let mut encoder = Encoder::new(own);
        encoder.descriptor(descriptor::DISPOSITION.into());
        let mut list = encoder.list();
        encoder.boolean(self.role.is_receiver());
        list.field(&encoder);
        encoder.uint(self.first);
        list.field(&encoder);
        let last = Some(self.last).filter(|last| *last != self.first);
        list.option(&mut encoder, last, |encoder, last| encoder.uint(last));
        encoder.boolean(self.settled);
        list.field(&encoder);
        list.option(&mut encoder, self.state, |encoder, state| state.write(encoder));
        encoder.close(list);
        end_frame(own, start);
    }
}

/// The fields of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow<'a> {
    pub next_incoming_id: Option<u32>,
    pub incoming_window: u32,
    pub next_outgoing_id: u32,
    pub outgoing_window: u32,
    pub handle: Option<u32>,
    pub delivery_count: Option<u32>,
    pub link_credit: Option<u32>,
    pub available: Option<u32>,
    pub drain: bool,
    pub echo: bool,
    pub properties: Map<'a>,
}

impl<'a> Flow<'a> {
    /// Reads the part of a frame behind the descriptor.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Result<Flow<'a>, Malformed> {
        let (count, mut fields, _) = list(bytes)?;
        let mut numbers = [None; 8];
        for number in numbers.iter_mut().take(count as usize) {
            *number = uint(&mut fields)?;
        }
        let drain = count > 8 && boolean(&mut fields)?.unwrap_or(false);
        let echo = count > 9 && boolean(&mut fields)?.unwrap_or(false);
        let mut properties = Map::default();
        if count > 10 {
            let mut decoder = Decoder::new(fields);
            decoder.clone().check()?;
            match decoder.value()? {
                Value::Map(map) => properties = map,
                Value::Null => {}
                _ => return Err(Malformed::WrongType(fields[0])),
            }
        }
        Ok(Flow {
            next_incoming_id: numbers[0],
            incoming_window: numbers[1].ok_or(Malformed::Missing("incoming-window"))?,
            next_outgoing_id: numbers[2].ok_or(Malformed::Missing("next-outgoing-id"))?,
            outgoing_window: numbers[3].ok_or(Malformed::Missing("outgoing-window"))?,
            handle: numbers[4],
            delivery_count: numbers[5],
            link_credit: numbers[6],
            available: numbers[7],
            drain,
            echo,
            properties,
        })
    }

    /// Appends the frame.
    pub fn write(&self, channel: u16, own: &mut Vec<u8>) {
        let start = begin_frame(own, 0, channel);
        let mut encoder = Encoder::new(own);
        encoder.descriptor(descriptor::FLOW.into());
        let mut list = encoder.list();
        list.option(&mut encoder, self.next_incoming_id, |encoder, id| encoder.uint(id));
        for number in [self.incoming_window, self.next_outgoing_id, self.outgoing_window] {
            encoder.uint(number);
            list.field(&encoder);
        }
        for number in [self.handle, self.delivery_count, self.link_credit, self.available] {
            list.option(&mut encoder, number, |encoder, number| encoder.uint(number));
        }
        // A sender that says how it stands also says that it does not drain, as RabbitMQ does.
        let drain = Some(self.drain).filter(|drain| *drain || self.available.is_some());
        list.option(&mut encoder, drain, |encoder, drain| encoder.boolean(drain));
        list.option(&mut encoder, self.echo.then_some(true), |encoder, echo| encoder.boolean(echo));
        let properties = Some(self.properties).filter(|map| !map.is_empty());
        list.option(&mut encoder, properties, |encoder, map| encoder.whole_map(map));
        encoder.close(list);
        end_frame(own, start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn plain_transfers_are_read_alike(count in 0u8..8, fields in prop::collection::vec(prop_oneof![
            Just(0x40u8), Just(0x41), Just(0x42), Just(0x43), Just(0x52), Just(0x70), Just(0xa0), 0u8..4, any::<u8>(),
        ], 0..24), payload in prop::collection::vec(any::<u8>(), 0..4)) {
            let mut bytes = vec![code::LIST8, fields.len() as u8 + 1, count];
            bytes.extend(fields);
            bytes.extend(&payload);
            if let Some(plain) = Plain::read(&bytes) {
                let (transfer, after) = Transfer::read(&bytes).unwrap();
                prop_assert_eq!(plain.payload, after);
                prop_assert_eq!(plain.handle, transfer.handle);
                prop_assert_eq!(Some(plain.delivery_id), transfer.delivery_id);
                prop_assert_eq!(Some(plain.tag), transfer.tag);
                prop_assert_eq!(plain.format, transfer.format.unwrap_or(0));
                prop_assert_eq!(plain.settled, transfer.settled.unwrap_or(false));
                prop_assert!(!transfer.more && !transfer.aborted);
            }
        }
    }

    #[test]
    fn what_is_written_is_plain() {
        let mut header = [0; TRANSFER_HEADER_MAX];
        let len = transfer_header(&mut header, 3, 200, 70_000, b"12345678", true, false);
        let plain = Plain::read(&header[11..len]).unwrap();
        assert_eq!((plain.handle, plain.delivery_id, plain.tag), (200, 70_000, &b"12345678"[..]));
        assert_eq!((plain.format, plain.settled, plain.payload.len()), (0, true, 0));
        let len = transfer_header(&mut header, 3, 200, 70_000, &[7; 32], false, true);
        assert!(Plain::read(&header[11..len]).is_none());
        let (transfer, _) = Transfer::read(&header[11..len]).unwrap();
        assert!(transfer.more && transfer.tag == Some(&[7; 32]));
        let len = continuation_header(&mut header, 3, 200, true);
        let (transfer, _) = Transfer::read(&header[11..len]).unwrap();
        assert_eq!((transfer.handle, transfer.delivery_id, transfer.more), (200, None, true));
    }
}
