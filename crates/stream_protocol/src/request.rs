//! Requests: one peer sends them and the other answers under the same correlation id.

use crate::code::ResponseCode;
use crate::error::Malformed;
use crate::key::{Key, Versions};
use crate::list::{List, Pair};
use crate::offset::OffsetSpec;
use crate::wire::{bytes, put_bytes, put_string, string};
use base::Reader;

/// A request. Fields are the document's, in its order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'a> {
    /// Client: announces a publisher.
    DeclarePublisher {
        /// The number frames name it by.
        publisher_id: u8,
        /// The name under which the stream remembers the last publishing id; empty: it does not.
        reference: &'a [u8],
        /// The stream it publishes to.
        stream: &'a [u8],
    },
    /// Client: asks for a publisher's highest publishing id.
    QueryPublisherSequence {
        /// The publisher's name.
        reference: &'a [u8],
        /// The stream.
        stream: &'a [u8],
    },
    /// Client: ends a publisher.
    DeletePublisher {
        /// Which.
        publisher_id: u8,
    },
    /// Client: begins a subscription.
    Subscribe {
        /// The number frames name it by.
        subscription_id: u8,
        /// The stream.
        stream: &'a [u8],
        /// The place to begin at.
        offset: OffsetSpec,
        /// Chunks that may be sent at once.
        credit: u16,
        /// `single-active-consumer`, `super-stream`, `name`, `filter.0` and so on, `match-unfiltered`.
        properties: List<'a, Pair<'a>>,
    },
    /// Client: asks for an offset that was kept.
    QueryOffset {
        /// The consumer's name.
        reference: &'a [u8],
        /// The stream.
        stream: &'a [u8],
    },
    /// Client: ends a subscription.
    Unsubscribe {
        /// Which.
        subscription_id: u8,
    },
    /// Client: creates a stream.
    Create {
        /// Its name.
        stream: &'a [u8],
        /// `max-length-bytes`, `max-age` and so on.
        arguments: List<'a, Pair<'a>>,
    },
    /// Client: deletes a stream.
    Delete {
        /// Which.
        stream: &'a [u8],
    },
    /// Client: asks for the nodes of streams.
    Metadata {
        /// The streams.
        streams: List<'a, &'a [u8]>,
    },
    /// Client: introduces itself.
    PeerProperties {
        /// `product`, `version`, `connection_name` and so on.
        properties: List<'a, Pair<'a>>,
    },
    /// Client: asks for the mechanisms.
    SaslHandshake,
    /// Client: logs in, or renews its secret.
    SaslAuthenticate {
        /// How.
        mechanism: &'a [u8],
        /// The mechanism's response; null is empty.
        response: &'a [u8],
    },
    /// Client: chooses a virtual host.
    Open {
        /// Its name.
        virtual_host: &'a [u8],
    },
    /// Ends the connection.
    Close {
        /// Why.
        code: ResponseCode,
        /// In words.
        reason: &'a [u8],
    },
    /// Client: asks which partitions a message goes to.
    Route {
        /// Its routing key.
        routing_key: &'a [u8],
        /// The super stream.
        super_stream: &'a [u8],
    },
    /// Client: asks for all partitions.
    Partitions {
        /// The super stream.
        super_stream: &'a [u8],
    },
    /// Server: tells a consumer whether it is the active one, and asks where it wants to begin.
    ConsumerUpdate {
        /// Which.
        subscription_id: u8,
        /// It is.
        active: bool,
    },
    /// Client: tells which versions it speaks.
    ExchangeCommandVersions {
        /// Of the commands that it takes.
        versions: List<'a, Versions>,
    },
    /// Client: asks for a stream's figures.
    StreamStats {
        /// Which.
        stream: &'a [u8],
    },
    /// Client: creates partitions and their exchange.
    CreateSuperStream {
        /// The exchange's name.
        name: &'a [u8],
        /// Names of the partitions.
        partitions: List<'a, &'a [u8]>,
        /// A binding key for each.
        binding_keys: List<'a, &'a [u8]>,
        /// As for a stream.
        arguments: List<'a, Pair<'a>>,
    },
    /// Client: deletes them.
    DeleteSuperStream {
        /// The exchange's name.
        name: &'a [u8],
    },
    /// Client: asks which offset a specification stands for.
    ResolveOffsetSpec {
        /// In which stream.
        stream: &'a [u8],
        /// The specification.
        offset: OffsetSpec,
        /// `filter.0` and so on, `match-unfiltered`.
        properties: List<'a, Pair<'a>>,
    },
}

impl<'a> Request<'a> {
    /// The arguments of the request `key`, up to the end of the frame or less. `None`: no request is called so.
    pub(crate) fn read(key: Key, reader: &mut Reader<'a>) -> Option<Result<Request<'a>, Malformed>> {
        let read = match key {
            Key::PublishConfirm
            | Key::PublishError
            | Key::Publish
            | Key::Deliver
            | Key::Credit
            | Key::StoreOffset
            | Key::MetadataUpdate
            | Key::Tune
            | Key::Heartbeat => return None,
            Key::SaslHandshake => return Some(Ok(Request::SaslHandshake)),
            _ => Request::read_arguments,
        };
        Some(read(key, reader))
    }

    fn read_arguments(key: Key, reader: &mut Reader<'a>) -> Result<Request<'a>, Malformed> {
        Ok(match key {
            Key::DeclarePublisher => Request::DeclarePublisher {
                publisher_id: reader.u8()?,
                reference: string(reader)?,
                stream: string(reader)?,
            },
            Key::QueryPublisherSequence => {
                Request::QueryPublisherSequence { reference: string(reader)?, stream: string(reader)? }
            }
            Key::DeletePublisher => Request::DeletePublisher { publisher_id: reader.u8()? },
            Key::Subscribe => Request::Subscribe {
                subscription_id: reader.u8()?,
                stream: string(reader)?,
                offset: OffsetSpec::read(reader)?,
                credit: reader.u16()?,
                properties: optional_pairs(reader)?,
            },
            Key::QueryOffset => Request::QueryOffset { reference: string(reader)?, stream: string(reader)? },
            Key::Unsubscribe => Request::Unsubscribe { subscription_id: reader.u8()? },
            Key::Create => Request::Create { stream: string(reader)?, arguments: List::read_last(reader)? },
            Key::Delete => Request::Delete { stream: string(reader)? },
            Key::Metadata => Request::Metadata { streams: List::read_last(reader)? },
            Key::PeerProperties => Request::PeerProperties { properties: List::read_last(reader)? },
            Key::SaslAuthenticate => {
                Request::SaslAuthenticate { mechanism: string(reader)?, response: bytes(reader)? }
            }
            Key::Open => Request::Open { virtual_host: string(reader)? },
            Key::Close => Request::Close { code: ResponseCode(reader.u16()?), reason: string(reader)? },
            Key::Route => Request::Route { routing_key: string(reader)?, super_stream: string(reader)? },
            Key::Partitions => Request::Partitions { super_stream: string(reader)? },
            Key::ConsumerUpdate => Request::ConsumerUpdate {
                subscription_id: reader.u8()?,
                active: match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Malformed::Value),
                },
            },
            Key::ExchangeCommandVersions => {
                Request::ExchangeCommandVersions { versions: List::read_last(reader)? }
            }
            Key::StreamStats => Request::StreamStats { stream: string(reader)? },
            Key::CreateSuperStream => Request::CreateSuperStream {
                name: string(reader)?,
                partitions: List::read_counted(reader)?,
                binding_keys: List::read_counted(reader)?,
                arguments: List::read_last(reader)?,
            },
            Key::DeleteSuperStream => Request::DeleteSuperStream { name: string(reader)? },
            Key::ResolveOffsetSpec => Request::ResolveOffsetSpec {
                stream: string(reader)?,
                offset: OffsetSpec::read(reader)?,
                properties: optional_pairs(reader)?,
            },
            _ => return Err(Malformed::UnknownCommand { key: key as u16, version: 1 }),
        })
    }

    /// The key of the request.
    pub fn key(&self) -> Key {
        match self {
            Request::DeclarePublisher { .. } => Key::DeclarePublisher,
            Request::QueryPublisherSequence { .. } => Key::QueryPublisherSequence,
            Request::DeletePublisher { .. } => Key::DeletePublisher,
            Request::Subscribe { .. } => Key::Subscribe,
            Request::QueryOffset { .. } => Key::QueryOffset,
            Request::Unsubscribe { .. } => Key::Unsubscribe,
            Request::Create { .. } => Key::Create,
            Request::Delete { .. } => Key::Delete,
            Request::Metadata { .. } => Key::Metadata,
            Request::PeerProperties { .. } => Key::PeerProperties,
            Request::SaslHandshake => Key::SaslHandshake,
            Request::SaslAuthenticate { .. } => Key::SaslAuthenticate,
            Request::Open { .. } => Key::Open,
            Request::Close { .. } => Key::Close,
            Request::Route { .. } => Key::Route,
            Request::Partitions { .. } => Key::Partitions,
            Request::ConsumerUpdate { .. } => Key::ConsumerUpdate,
            Request::ExchangeCommandVersions { .. } => Key::ExchangeCommandVersions,
            Request::StreamStats { .. } => Key::StreamStats,
            Request::CreateSuperStream { .. } => Key::CreateSuperStream,
            Request::DeleteSuperStream { .. } => Key::DeleteSuperStream,
            Request::ResolveOffsetSpec { .. } => Key::ResolveOffsetSpec,
        }
    }

    /// Appends the arguments.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Request::DeclarePublisher { publisher_id, reference, stream } => {
                out.push(publisher_id);
                put_string(out, reference);
                put_string(out, stream);
            }
            Request::QueryPublisherSequence { reference, stream }
            | Request::QueryOffset { reference, stream } => {
                put_string(out, reference);
                put_string(out, stream);
            }
            Request::DeletePublisher { publisher_id: id } | Request::Unsubscribe { subscription_id: id } => {
                out.push(id);
            }
            Request::Subscribe { subscription_id, stream, offset, credit, properties } => {
                out.push(subscription_id);
                put_string(out, stream);
                offset.write(out);
                out.extend(credit.to_be_bytes());
                put_optional_pairs(out, properties);
            }
            Request::Create { stream, arguments } => {
                put_string(out, stream);
                arguments.write(out);
            }
            Request::Delete { stream: name }
            | Request::StreamStats { stream: name }
            | Request::Partitions { super_stream: name }
            | Request::DeleteSuperStream { name }
            | Request::Open { virtual_host: name } => put_string(out, name),
            Request::Metadata { streams } => streams.write(out),
            Request::PeerProperties { properties } => properties.write(out),
            Request::SaslHandshake => {}
            Request::SaslAuthenticate { mechanism, response } => {
                put_string(out, mechanism);
                put_bytes(out, response);
            }
            Request::Close { code, reason } => {
                out.extend(code.0.to_be_bytes());
                put_string(out, reason);
            }
            Request::Route { routing_key, super_stream } => {
                put_string(out, routing_key);
                put_string(out, super_stream);
            }
            Request::ConsumerUpdate { subscription_id, active } => {
                out.extend([subscription_id, u8::from(active)]);
            }
            Request::ExchangeCommandVersions { versions } => versions.write(out),
            Request::CreateSuperStream { name, partitions, binding_keys, arguments } => {
                put_string(out, name);
                partitions.write(out);
                binding_keys.write(out);
                arguments.write(out);
            }
            Request::ResolveOffsetSpec { stream, offset, properties } => {
                put_string(out, stream);
                offset.write(out);
                put_optional_pairs(out, properties);
            }
        }
    }
}

/// Properties that end a frame, or nothing. Fewer bytes than a count are nothing, as in RabbitMQ.
fn optional_pairs<'a>(reader: &mut Reader<'a>) -> Result<List<'a, Pair<'a>>, Malformed> {
    if reader.len() >= 4 {
        return List::read_last(reader);
    }
    reader.take(reader.len())?;
    Ok(List::default())
}

fn put_optional_pairs<'a>(out: &mut Vec<u8>, pairs: List<'a, Pair<'a>>) {
    if !pairs.is_empty() {
        pairs.write(out);
    }
}
