//! Methods: their arguments as typed, borrowed structs, read and written (AMQP 0-9-1 §1.5 with RabbitMQ's extensions).
//!
//! One table says of each method its class and number, its sender, and its arguments in the order of the wire. Not the
//! contents that follow some of them, and not when they may be sent.

use base::cursor::Reader;
use message::amqp091::{Malformed, Table};

/// Class and number of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MethodId {
    /// The class.
    pub class: u16,
    /// The method within it.
    pub method: u16,
}

impl MethodId {
    /// In a close: no method was at fault.
    pub const NONE: MethodId = MethodId { class: 0, method: 0 };

    /// Splits the id off a method frame's payload; the arguments follow.
    #[inline]
    pub(crate) fn split(payload: &[u8]) -> Option<(MethodId, &[u8])> {
        let ([c0, c1, m0, m1], arguments) = payload.split_first_chunk::<4>()?;
        let (class, method) = (u16::from_be_bytes([*c0, *c1]), u16::from_be_bytes([*m0, *m1]));
        Some((MethodId { class, method }, arguments))
    }
}

/// The peer that sends a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The client only.
    Client,
    /// The server only.
    Server,
    /// Either.
    Both,
}

/// A method's arguments.
pub trait Arguments<'a>: Sized {
    /// Its class and number.
    const ID: MethodId;
    /// The peer that sends it.
    const SENDER: Sender;

    /// Reads the arguments.
    fn read(from: &mut ArgumentReader<'a>) -> Result<Self, Malformed>;

    /// Appends the arguments, without class and number.
    ///
    /// # Panics
    /// When a short string is longer than 255 bytes or a long one or a table than 4 GiB.
    fn write(&self, into: &mut ArgumentWriter<'_>);

    /// Reads all of `arguments`, behind which nothing may be left.
    #[inline(always)]
    fn decode(arguments: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = ArgumentReader { reader: Reader::new(arguments), bits: 0, bits_read: 0 };
        let read = Self::read(&mut reader)?;
        if reader.reader.is_empty() { Ok(read) } else { Err(Malformed::Trailing) }
    }

    /// Appends class, number and arguments: a method frame's payload.
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&Self::ID.class.to_be_bytes());
        out.extend_from_slice(&Self::ID.method.to_be_bytes());
        self.write(&mut ArgumentWriter { out, bits_written: 0 });
    }
}

/// A method that changes nothing in the connection machine, so that it may be sent as it is.
pub trait Plain<'a>: Arguments<'a> {}

/// Reads arguments; truth values that follow each other share bytes (§4.2.5.2).
#[derive(Debug)]
pub struct ArgumentReader<'a> {
    reader: Reader<'a>,
    bits: u8,
    bits_read: u8,
}

impl<'a> ArgumentReader<'a> {
    #[inline]
    fn other(&mut self) -> &mut Reader<'a> {
        self.bits_read = 0;
        &mut self.reader
    }

    #[inline]
    fn octet(&mut self) -> Result<u8, Malformed> {
        Ok(self.other().u8()?)
    }

    #[inline]
    fn short(&mut self) -> Result<u16, Malformed> {
        Ok(self.other().u16()?)
    }

    #[inline]
    fn long(&mut self) -> Result<u32, Malformed> {
        Ok(self.other().u32()?)
    }

    #[inline]
    fn longlong(&mut self) -> Result<u64, Malformed> {
        Ok(self.other().u64()?)
    }

    #[inline(always)]
    fn shortstr(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.octet()?.into();
        let text = self.reader.take(len)?;
        if is_ascii(text) || str::from_utf8(text).is_ok() { Ok(text) } else { Err(Malformed::NotText) }
    }

    /// A short string of any bytes: RabbitMQ takes keys that are no text of messages, and of nothing else.
    #[inline(always)]
    fn shortbytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.octet()?.into();
        Ok(self.reader.take(len)?)
    }

    #[inline]
    fn longstr(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.long()? as usize;
        Ok(self.reader.take(len)?)
    }

    fn table(&mut self) -> Result<Table<'a>, Malformed> {
        Table::read(self.other())
    }

    #[inline(always)]
    fn bit(&mut self) -> Result<bool, Malformed> {
        if self.bits_read.is_multiple_of(8) {
            self.bits = self.reader.u8()?;
        }
        let bit = self.bits >> (self.bits_read % 8) & 1;
        self.bits_read += 1;
        Ok(bit != 0)
    }
}

/// Nearly all names are ASCII, and most of those short: seen here without a call.
#[inline(always)]
fn is_ascii(text: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    match text {
        [] => true,
        [.., last] if text.len() < 4 => (text[0] | text[text.len() / 2] | *last).is_ascii(),
        _ if text.len() < 8 => {
            // The first and the last four, which may be the same.
            let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) else { return false };
            (u32::from_ne_bytes(*first) | u32::from_ne_bytes(*last)) & HIGH as u32 == 0
        }
        _ if text.len() <= 16 => {
            let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) else { return false };
            (u64::from_ne_bytes(*first) | u64::from_ne_bytes(*last)) & HIGH == 0
        }
        _ => text.is_ascii(),
    }
}

/// Writes arguments; truth values that follow each other share bytes (§4.2.5.2).
#[derive(Debug)]
pub struct ArgumentWriter<'v> {
    out: &'v mut Vec<u8>,
    bits_written: u8,
}

impl ArgumentWriter<'_> {
    fn other(&mut self) -> &mut Vec<u8> {
        self.bits_written = 0;
        self.out
    }

    fn octet(&mut self, value: u8) {
        self.other().push(value);
    }

    fn short(&mut self, value: u16) {
        self.other().extend_from_slice(&value.to_be_bytes());
    }

    fn long(&mut self, value: u32) {
        self.other().extend_from_slice(&value.to_be_bytes());
    }

    fn longlong(&mut self, value: u64) {
        self.other().extend_from_slice(&value.to_be_bytes());
    }

    fn shortbytes(&mut self, bytes: &[u8]) {
        self.shortstr(bytes);
    }

    fn shortstr(&mut self, text: &[u8]) {
        self.octet(u8::try_from(text.len()).expect("a short string has at most 255 bytes"));
        self.out.extend_from_slice(text);
    }

    fn longstr(&mut self, text: &[u8]) {
        self.long(u32::try_from(text.len()).expect("a long string is shorter than 4 GiB"));
        self.out.extend_from_slice(text);
    }

    fn table(&mut self, table: Table<'_>) {
        table.write(self.other());
    }

    fn bit(&mut self, bit: bool) {
        if self.bits_written.is_multiple_of(8) {
            self.out.push(0);
        }
        if let Some(last) = self.out.last_mut() {
            *last |= u8::from(bit) << (self.bits_written % 8);
        }
        self.bits_written += 1;
    }
}

macro_rules! argument {
    (octet) => { u8 };
    (short) => { u16 };
    (long) => { u32 };
    (longlong) => { u64 };
    (bit) => { bool };
    (shortstr) => { &'a [u8] };
    (shortbytes) => { &'a [u8] };
    (longstr) => { &'a [u8] };
    (table) => { Table<'a> };
}

macro_rules! plain {
    (plain $name:ty) => {
        impl<'a> Plain<'a> for $name {}
    };
    (state $name:ty) => {};
}

macro_rules! methods {
    ($(
        $(#[$doc:meta])*
        $class:literal $number:literal $sender:ident $effect:ident $name:ident $(<$life:lifetime>)? {
            $($argument:ident: $kind:ident),* $(,)?
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name $(<$life>)? {$(
                #[doc = concat!("A `", stringify!($kind), "`.")]
                pub $argument: argument!($kind),
            )*}

            impl<'a> Arguments<'a> for $name $(<$life>)? {
                const ID: MethodId = MethodId { class: $class, method: $number };
                const SENDER: Sender = Sender::$sender;

                #[inline(always)]
                fn read(_from: &mut ArgumentReader<'a>) -> Result<Self, Malformed> {
                    Ok($name { $($argument: _from.$kind()?,)* })
                }

                #[inline]
                fn write(&self, _into: &mut ArgumentWriter<'_>) {
                    $(_into.$kind(self.$argument);)*
                }
            }

            plain!($effect $name $(<$life>)?);
        )*

        /// Any method.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each variant holds the struct of its name")]
        pub enum Method<'a> {
            $($name($name $(<$life>)?),)*
        }

        impl<'a> Method<'a> {
            /// Reads the arguments of the method `id`; `None`: there is no such method.
            pub fn decode(id: MethodId, arguments: &'a [u8]) -> Option<Result<Method<'a>, Malformed>> {
                Some(match (id.class, id.method) {
                    $(($class, $number) => $name::decode(arguments).map(Method::$name),)*
                    _ => return None,
                })
            }

            /// Appends class, number and arguments: a method frame's payload.
            ///
            /// # Panics
            /// When a short string is longer than 255 bytes or a long one or a table than 4 GiB.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self { $(Method::$name(method) => method.encode(out),)* }
            }

            /// Its class and number.
            #[allow(elided_lifetimes_in_paths, reason = "some of the names have a lifetime, some have none")]
            pub fn id(&self) -> MethodId {
                match self { $(Method::$name(_) => <$name as Arguments<'_>>::ID,)* }
            }

            /// The peer that sends it.
            #[allow(elided_lifetimes_in_paths, reason = "some of the names have a lifetime, some have none")]
            pub fn sender(&self) -> Sender {
                match self { $(Method::$name(_) => <$name as Arguments<'_>>::SENDER,)* }
            }
        }
    };
}

// Class, number, sender, whether the connection machine must know (state) or not (plain), arguments.
methods! {
    /// connection.start
    10 10 Server state ConnectionStart<'a> {
        version_major: octet, version_minor: octet, server_properties: table, mechanisms: longstr, locales: longstr,
    }
    /// connection.start-ok
    10 11 Client state ConnectionStartOk<'a> {
        client_properties: table, mechanism: shortstr, response: longstr, locale: shortstr,
    }
    /// connection.secure
    10 20 Server state ConnectionSecure<'a> { challenge: longstr }
    /// connection.secure-ok
    10 21 Client state ConnectionSecureOk<'a> { response: longstr }
    /// connection.tune: channels, bytes of a frame, seconds.
    10 30 Server state ConnectionTune { channel_max: short, frame_max: long, heartbeat: short }
    /// connection.tune-ok: channels, bytes of a frame, seconds.
    10 31 Client state ConnectionTuneOk { channel_max: short, frame_max: long, heartbeat: short }
    /// connection.open
    10 40 Client state ConnectionOpen<'a> { virtual_host: shortstr, capabilities: shortstr, insist: bit }
    /// connection.open-ok
    10 41 Server state ConnectionOpenOk<'a> { known_hosts: shortstr }
    /// connection.close
    10 50 Both state ConnectionClose<'a> {
        reply_code: short, reply_text: shortstr, class_id: short, method_id: short,
    }
    /// connection.close-ok
    10 51 Both state ConnectionCloseOk {}
    /// connection.blocked, RabbitMQ's extension.
    10 60 Server plain ConnectionBlocked<'a> { reason: shortstr }
    /// connection.unblocked, RabbitMQ's extension.
    10 61 Server plain ConnectionUnblocked {}
    /// connection.update-secret, RabbitMQ's extension.
    10 70 Client plain ConnectionUpdateSecret<'a> { new_secret: longstr, reason: shortstr }
    /// connection.update-secret-ok, RabbitMQ's extension.
    10 71 Server plain ConnectionUpdateSecretOk {}

    /// channel.open
    20 10 Client state ChannelOpen<'a> { out_of_band: shortstr }
    /// channel.open-ok
    20 11 Server state ChannelOpenOk<'a> { channel_id: longstr }
    /// channel.flow
    20 20 Both plain ChannelFlow { active: bit }
    /// channel.flow-ok; RabbitMQ never asks for one.
    20 21 Server plain ChannelFlowOk { active: bit }
    /// channel.close
    20 40 Both state ChannelClose<'a> {
        reply_code: short, reply_text: shortstr, class_id: short, method_id: short,
    }
    /// channel.close-ok
    20 41 Both state ChannelCloseOk {}

    /// access.request, a relic that is answered with ticket 1.
    30 10 Client plain AccessRequest<'a> {
        realm: shortstr, exclusive: bit, passive: bit, active: bit, write: bit, read: bit,
    }
    /// access.request-ok
    30 11 Server plain AccessRequestOk { ticket: short }

    /// exchange.declare
    40 10 Client plain ExchangeDeclare<'a> {
        ticket: short, exchange: shortstr, kind: shortstr, passive: bit, durable: bit, auto_delete: bit,
        internal: bit, nowait: bit, arguments: table,
    }
    /// exchange.declare-ok
    40 11 Server plain ExchangeDeclareOk {}
    /// exchange.delete
    40 20 Client plain ExchangeDelete<'a> { ticket: short, exchange: shortstr, if_unused: bit, nowait: bit }
    /// exchange.delete-ok
    40 21 Server plain ExchangeDeleteOk {}
    /// exchange.bind, RabbitMQ's extension.
    40 30 Client plain ExchangeBind<'a> {
        ticket: short, destination: shortstr, source: shortstr, routing_key: shortstr, nowait: bit,
        arguments: table,
    }
    /// exchange.bind-ok
    40 31 Server plain ExchangeBindOk {}
    /// exchange.unbind, RabbitMQ's extension.
    40 40 Client plain ExchangeUnbind<'a> {
        ticket: short, destination: shortstr, source: shortstr, routing_key: shortstr, nowait: bit,
        arguments: table,
    }
    /// exchange.unbind-ok
    40 51 Server plain ExchangeUnbindOk {}

    /// queue.declare
    50 10 Client plain QueueDeclare<'a> {
        ticket: short, queue: shortstr, passive: bit, durable: bit, exclusive: bit, auto_delete: bit, nowait: bit,
        arguments: table,
    }
    /// queue.declare-ok
    50 11 Server plain QueueDeclareOk<'a> { queue: shortstr, message_count: long, consumer_count: long }
    /// queue.bind
    50 20 Client plain QueueBind<'a> {
        ticket: short, queue: shortstr, exchange: shortstr, routing_key: shortstr, nowait: bit, arguments: table,
    }
    /// queue.bind-ok
    50 21 Server plain QueueBindOk {}
    /// queue.purge
    50 30 Client plain QueuePurge<'a> { ticket: short, queue: shortstr, nowait: bit }
    /// queue.purge-ok
    50 31 Server plain QueuePurgeOk { message_count: long }
    /// queue.discard, for this node's own use: the message at a position goes as by a purge.
    50 1000 Client plain QueueDiscard<'a> { ticket: short, queue: shortstr, position: longlong }
    /// queue.settle, for this node's own use: the messages at some positions, eight bytes each, are settled, be they ready or
    /// held by consumers.
    50 1010 Client plain QueueSettle<'a> { ticket: short, queue: shortstr, rejects: bit, positions: longstr }
    /// queue.settle-ok: at these positions no message was there to be settled.
    50 1011 Server plain QueueSettleOk<'a> { missing: longstr }
    /// queue.delete
    50 40 Client plain QueueDelete<'a> {
        ticket: short, queue: shortstr, if_unused: bit, if_empty: bit, nowait: bit,
    }
    /// queue.delete-ok
    50 41 Server plain QueueDeleteOk { message_count: long }
    /// queue.unbind
    50 50 Client plain QueueUnbind<'a> {
        ticket: short, queue: shortstr, exchange: shortstr, routing_key: shortstr, arguments: table,
    }
    /// queue.unbind-ok
    50 51 Server plain QueueUnbindOk {}

    /// basic.qos
    60 10 Client plain BasicQos { prefetch_size: long, prefetch_count: short, global: bit }
    /// basic.qos-ok
    60 11 Server plain BasicQosOk {}
    /// basic.consume
    60 20 Client plain BasicConsume<'a> {
        ticket: short, queue: shortstr, consumer_tag: shortstr, no_local: bit, no_ack: bit, exclusive: bit,
        nowait: bit, arguments: table,
    }
    /// basic.consume-ok
    60 21 Server plain BasicConsumeOk<'a> { consumer_tag: shortstr }
    /// basic.cancel; from the server it is RabbitMQ's extension.
    60 30 Both plain BasicCancel<'a> { consumer_tag: shortstr, nowait: bit }
    /// basic.cancel-ok
    60 31 Both plain BasicCancelOk<'a> { consumer_tag: shortstr }
    /// basic.publish, with a content.
    60 40 Client state BasicPublish<'a> {
        ticket: short, exchange: shortbytes, routing_key: shortbytes, mandatory: bit, immediate: bit,
    }
    /// basic.return, with a content.
    60 50 Server state BasicReturn<'a> {
        reply_code: short, reply_text: shortstr, exchange: shortstr, routing_key: shortbytes,
    }
    /// basic.deliver, with a content.
    60 60 Server state BasicDeliver<'a> {
        consumer_tag: shortstr, delivery_tag: longlong, redelivered: bit, exchange: shortstr,
        routing_key: shortbytes,
    }
    /// basic.get
    60 70 Client plain BasicGet<'a> { ticket: short, queue: shortstr, no_ack: bit }
    /// basic.get-ok, with a content.
    60 71 Server state BasicGetOk<'a> {
        delivery_tag: longlong, redelivered: bit, exchange: shortstr, routing_key: shortbytes, message_count: long,
    }
    /// basic.get-empty
    60 72 Server plain BasicGetEmpty<'a> { cluster_id: shortstr }
    /// basic.pick, for this node's own use: a basic.get of the message at a position.
    60 1000 Client plain BasicPick<'a> { ticket: short, queue: shortstr, position: longlong }
    /// basic.ack; from the server it is a confirm, RabbitMQ's extension.
    60 80 Both plain BasicAck { delivery_tag: longlong, multiple: bit }
    /// basic.reject
    60 90 Client plain BasicReject { delivery_tag: longlong, requeue: bit }
    /// basic.recover-async
    60 100 Client plain BasicRecoverAsync { requeue: bit }
    /// basic.recover
    60 110 Client plain BasicRecover { requeue: bit }
    /// basic.recover-ok
    60 111 Server plain BasicRecoverOk {}
    /// basic.nack, RabbitMQ's extension; from the server it is a confirm that failed.
    60 120 Both plain BasicNack { delivery_tag: longlong, multiple: bit, requeue: bit }

    /// confirm.select, RabbitMQ's extension.
    85 10 Client plain ConfirmSelect { nowait: bit }
    /// confirm.select-ok
    85 11 Server plain ConfirmSelectOk {}

    /// tx.select
    90 10 Client plain TxSelect {}
    /// tx.select-ok
    90 11 Server plain TxSelectOk {}
    /// tx.commit
    90 20 Client plain TxCommit {}
    /// tx.commit-ok
    90 21 Server plain TxCommitOk {}
    /// tx.rollback
    90 30 Client plain TxRollback {}
    /// tx.rollback-ok
    90 31 Server plain TxRollbackOk {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ascii_is_seen_at_any_length() {
        for len in 0..40 {
            let mut text = vec![b'a'; len];
            assert!(is_ascii(&text), "{len}");
            for at in 0..len {
                text[at] = 0x80;
                assert!(!is_ascii(&text), "{at} of {len}");
                text[at] = b'a';
            }
        }
    }

    #[test]
    fn a_short_string_is_text() {
        let declare = |name: &[u8]| {
            let arguments = [&[0, 0, name.len() as u8], name, &[0, 0, 0, 0, 0]].concat();
            Method::decode(MethodId { class: 50, method: 10 }, &arguments).unwrap().map(|_| ())
        };
        assert_eq!(declare("häßlich".as_bytes()), Ok(()));
        assert_eq!(declare(b"\xff"), Err(Malformed::NotText));
        assert_eq!(declare(b"long enough to be more than 16 bytes \xc3"), Err(Malformed::NotText));
    }

    #[test]
    fn the_key_of_a_message_is_any_bytes() {
        check(
            Method::BasicPublish(BasicPublish { exchange: b"x", routing_key: b"\xff", ..Default::default() }),
            b"\0\x3c\0\x28\0\0\x01x\x01\xff\0",
        );
    }

    fn check(method: Method<'_>, wire: &[u8]) {
        let mut out = Vec::new();
        method.encode(&mut out);
        assert_eq!(out, wire);
        let (id, arguments) = MethodId::split(wire).unwrap();
        assert_eq!(id, method.id());
        assert_eq!(Method::decode(id, arguments), Some(Ok(method)));
        for len in 0..arguments.len() {
            assert!(Method::decode(id, &arguments[..len]).unwrap().is_err(), "{len} bytes of {method:?}");
        }
        let longer = [arguments, &[0]].concat();
        assert_eq!(Method::decode(id, &longer), Some(Err(Malformed::Trailing)));
    }

    #[test]
    fn truth_values_share_a_byte() {
        check(
            Method::QueueDeclare(QueueDeclare {
                queue: b"q",
                durable: true,
                nowait: true,
                ..Default::default()
            }),
            b"\0\x32\0\x0a\0\0\x01q\x12\0\0\0\0",
        );
        check(
            Method::BasicNack(BasicNack { delivery_tag: 258, multiple: false, requeue: true }),
            b"\0\x3c\0\x78\0\0\0\0\0\0\x01\x02\x02",
        );
        check(
            Method::BasicDeliver(BasicDeliver {
                consumer_tag: b"c",
                delivery_tag: 1,
                redelivered: true,
                exchange: b"",
                routing_key: b"rk",
            }),
            b"\0\x3c\0\x3c\x01c\0\0\0\0\0\0\0\x01\x01\0\x02rk",
        );
        check(Method::TxSelect(TxSelect {}), b"\0\x5a\0\x0a");
    }

    proptest! {
        #[test]
        fn any_arguments_are_read_without_panic(
            class in prop::sample::select(&[10u16, 20, 30, 40, 50, 60, 85, 90][..]),
            number in 0u16..125,
            arguments in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let id = MethodId { class, method: number };
            if let Some(Ok(method)) = Method::decode(id, &arguments) {
                let mut out = Vec::new();
                method.encode(&mut out);
                // Bits without a meaning are not written again, so only the length must agree.
                prop_assert_eq!(out.len(), arguments.len() + 4);
                prop_assert_eq!(Method::decode(id, &out[4..]), Some(Ok(method)));
            }
        }
    }
}
