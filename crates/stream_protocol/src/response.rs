//! Responses to requests.

use crate::code::ResponseCode;
use crate::error::Malformed;
use crate::key::{Key, Versions};
use crate::list::{Item, List, Pair};
use crate::offset::{OFFSET, OffsetSpec};
use crate::wire::{put_string, string};
use base::Reader;

/// A response. Fields are the document's, in its order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Response<'a> {
    /// How a request ended that has no more to tell, or that failed before there was more.
    Done {
        /// The key of the request.
        key: Key,
        /// How it ended.
        code: ResponseCode,
    },
    /// Server: to a query for a publisher's sequence.
    QueryPublisherSequence {
        /// How it ended.
        code: ResponseCode,
        /// The highest publishing id; 0 if there is none.
        publishing_id: u64,
    },
    /// Server: to a query for an offset.
    QueryOffset {
        /// How it ended.
        code: ResponseCode,
        /// The offset; 0 if there is none.
        offset: u64,
    },
    /// Server: the nodes of streams. It has no code of its own.
    Metadata {
        /// The nodes that have any.
        brokers: List<'a, Broker<'a>>,
        /// Each stream that was asked for.
        streams: List<'a, StreamMetadata<'a>>,
    },
    /// Server: introduces itself.
    PeerProperties {
        /// How it ended.
        code: ResponseCode,
        /// `product`, `version` and so on.
        properties: List<'a, Pair<'a>>,
    },
    /// Server: which mechanisms it offers.
    SaslHandshake {
        /// How it ended.
        code: ResponseCode,
        /// Their names.
        mechanisms: List<'a, &'a [u8]>,
    },
    /// Server: how the login goes.
    SaslAuthenticate {
        /// Done, refused, or [`ResponseCode::SASL_CHALLENGE`].
        code: ResponseCode,
        /// The mechanism's challenge; mostly empty.
        challenge: &'a [u8],
    },
    /// Server: the virtual host is chosen.
    Open {
        /// How it ended.
        code: ResponseCode,
        /// `advertised_host` and `advertised_port`.
        properties: List<'a, Pair<'a>>,
    },
    /// Server: where a message goes to.
    Route {
        /// How it ended.
        code: ResponseCode,
        /// The partitions.
        streams: List<'a, &'a [u8]>,
    },
    /// Server: all partitions.
    Partitions {
        /// How it ended.
        code: ResponseCode,
        /// In their order.
        streams: List<'a, &'a [u8]>,
    },
    /// Client: where a consumer wants to begin.
    ConsumerUpdate {
        /// How it ended.
        code: ResponseCode,
        /// There; `None`: where it would anyway.
        offset: Option<OffsetSpec>,
    },
    /// Server: which versions it speaks.
    ExchangeCommandVersions {
        /// How it ended.
        code: ResponseCode,
        /// Of the commands that it takes.
        versions: List<'a, Versions>,
    },
    /// Server: a stream's figures.
    StreamStats {
        /// How it ended.
        code: ResponseCode,
        /// `first_chunk_id`, `committed_chunk_id` and so on.
        statistics: List<'a, Statistic<'a>>,
    },
    /// Server: the place a specification stands for. It is always an offset.
    ResolveOffsetSpec {
        /// How it ended.
        code: ResponseCode,
        /// The offset; 0 if there is none.
        offset: u64,
    },
}

/// A node that clients can connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broker<'a> {
    /// The number that [`StreamMetadata`] names it by.
    pub reference: u16,
    /// Where it is.
    pub host: &'a [u8],
    /// Where it listens.
    pub port: u32,
}

/// The nodes of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamMetadata<'a> {
    /// Its name.
    pub stream: &'a [u8],
    /// Whether it is there.
    pub code: ResponseCode,
    /// The node to publish to; `None`: there is none at present. The number 65535 stands for that.
    pub leader: Option<u16>,
    /// The other nodes that have it.
    pub replicas: List<'a, u16>,
}

/// A figure of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Statistic<'a> {
    /// Its name.
    pub key: &'a [u8],
    /// How much it is.
    pub value: i64,
}

impl std::fmt::Debug for Statistic<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.key.escape_ascii(), self.value)
    }
}

/// The reference of no node.
const NOBODY: u16 = u16::MAX;

impl<'a> Item<'a> for Broker<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Broker<'a>, Malformed> {
        Ok(Broker { reference: reader.u16()?, host: string(reader)?, port: reader.u32()? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.reference.to_be_bytes());
        put_string(out, self.host);
        out.extend(self.port.to_be_bytes());
    }
}

impl<'a> Item<'a> for StreamMetadata<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<StreamMetadata<'a>, Malformed> {
        Ok(StreamMetadata {
            stream: string(reader)?,
            code: ResponseCode(reader.u16()?),
            leader: Some(reader.u16()?).filter(|leader| *leader != NOBODY),
            replicas: List::read_counted(reader)?,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_string(out, self.stream);
        out.extend(self.code.0.to_be_bytes());
        out.extend(self.leader.unwrap_or(NOBODY).to_be_bytes());
        self.replicas.write(out);
    }
}

impl<'a> Item<'a> for Statistic<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Statistic<'a>, Malformed> {
        Ok(Statistic { key: string(reader)?, value: reader.i64()? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_string(out, self.key);
        out.extend(self.value.to_be_bytes());
    }
}

impl<'a> Response<'a> {
    /// The answer to the request `key`, up to the end of the frame or less. `None`: it is no request.
    pub(crate) fn read(key: Key, reader: &mut Reader<'a>) -> Option<Result<Response<'a>, Malformed>> {
        if key == Key::Metadata {
            return Some(Response::read_metadata(reader));
        }
        // A response that tells of a failure may end behind the code.
        if let Ok(code) = reader.clone().u16()
            && reader.len() == 2
            && is_request(key)
        {
            let _ = reader.take(2);
            return Some(Ok(Response::Done { key, code: ResponseCode(code) }));
        }
        let read = |reader: &mut Reader<'a>| {
            let code = ResponseCode(reader.u16()?);
            Response::read_rest(key, code, reader)
        };
        is_request(key).then(|| read(reader))
    }

    fn read_metadata(reader: &mut Reader<'a>) -> Result<Response<'a>, Malformed> {
        Ok(Response::Metadata { brokers: List::read_counted(reader)?, streams: List::read_last(reader)? })
    }

    fn read_rest(key: Key, code: ResponseCode, reader: &mut Reader<'a>) -> Result<Response<'a>, Malformed> {
        Ok(match key {
            Key::QueryPublisherSequence => {
                Response::QueryPublisherSequence { code, publishing_id: reader.u64()? }
            }
            Key::QueryOffset => Response::QueryOffset { code, offset: reader.u64()? },
            Key::PeerProperties => Response::PeerProperties { code, properties: List::read_last(reader)? },
            Key::SaslHandshake => Response::SaslHandshake { code, mechanisms: List::read_last(reader)? },
            Key::SaslAuthenticate => Response::SaslAuthenticate { code, challenge: string(reader)? },
            Key::Open => Response::Open { code, properties: List::read_last(reader)? },
            Key::Route => Response::Route { code, streams: List::read_last(reader)? },
            Key::Partitions => Response::Partitions { code, streams: List::read_last(reader)? },
            Key::ConsumerUpdate => {
                let offset = OffsetSpec::read_nullable(reader)?;
                // Some clients put a number behind every kind of offset, and RabbitMQ does not look at it.
                let _ = reader.take(reader.len());
                Response::ConsumerUpdate { code, offset }
            }
            Key::ExchangeCommandVersions => {
                Response::ExchangeCommandVersions { code, versions: List::read_last(reader)? }
            }
            Key::StreamStats => Response::StreamStats { code, statistics: List::read_last(reader)? },
            Key::ResolveOffsetSpec => match reader.u16()? {
                OFFSET => Response::ResolveOffsetSpec { code, offset: reader.u64()? },
                _ => return Err(Malformed::Value),
            },
            _ => return Err(Malformed::Long),
        })
    }

    /// The key of the request it answers.
    pub fn key(&self) -> Key {
        match self {
            Response::Done { key, .. } => *key,
            Response::QueryPublisherSequence { .. } => Key::QueryPublisherSequence,
            Response::QueryOffset { .. } => Key::QueryOffset,
            Response::Metadata { .. } => Key::Metadata,
            Response::PeerProperties { .. } => Key::PeerProperties,
            Response::SaslHandshake { .. } => Key::SaslHandshake,
            Response::SaslAuthenticate { .. } => Key::SaslAuthenticate,
            Response::Open { .. } => Key::Open,
            Response::Route { .. } => Key::Route,
            Response::Partitions { .. } => Key::Partitions,
            Response::ConsumerUpdate { .. } => Key::ConsumerUpdate,
            Response::ExchangeCommandVersions { .. } => Key::ExchangeCommandVersions,
            Response::StreamStats { .. } => Key::StreamStats,
            Response::ResolveOffsetSpec { .. } => Key::ResolveOffsetSpec,
        }
    }

    /// How the request ended; metadata tells it for each stream instead, and is always there.
    pub fn code(&self) -> ResponseCode {
        match *self {
            Response::Metadata { .. } => ResponseCode::OK,
            Response::Done { code, .. }
            | Response::QueryPublisherSequence { code, .. }
            | Response::QueryOffset { code, .. }
            | Response::PeerProperties { code, .. }
            | Response::SaslHandshake { code, .. }
            | Response::SaslAuthenticate { code, .. }
            | Response::Open { code, .. }
            | Response::Route { code, .. }
            | Response::Partitions { code, .. }
            | Response::ConsumerUpdate { code, .. }
            | Response::ExchangeCommandVersions { code, .. }
            | Response::StreamStats { code, .. }
            | Response::ResolveOffsetSpec { code, .. } => code,
        }
    }

    /// Appends code and rest.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if !matches!(self, Response::Metadata { .. }) {
            out.extend(self.code().0.to_be_bytes());
        }
        match *self {
            Response::Done { .. } => {}
            Response::QueryPublisherSequence { publishing_id: number, .. }
            | Response::QueryOffset { offset: number, .. } => out.extend(number.to_be_bytes()),
            Response::Metadata { brokers, streams } => {
                brokers.write(out);
                streams.write(out);
            }
            Response::PeerProperties { properties, .. } => properties.write(out),
            Response::SaslHandshake { mechanisms, .. } => mechanisms.write(out),
            Response::SaslAuthenticate { challenge, .. } => {
                // Without one, RabbitMQ ends the frame.
                if !challenge.is_empty() {
                    put_string(out, challenge);
                }
            }
            Response::Open { properties, .. } => {
                if !properties.is_empty() {
                    properties.write(out);
                }
            }
            Response::Route { streams, .. } | Response::Partitions { streams, .. } => streams.write(out),
            Response::ConsumerUpdate { offset, .. } => OffsetSpec::write_nullable(offset, out),
            Response::ExchangeCommandVersions { versions, .. } => versions.write(out),
            Response::StreamStats { statistics, .. } => statistics.write(out),
            Response::ResolveOffsetSpec { offset, .. } => OffsetSpec::Offset(offset).write(out),
        }
    }
}

/// Whether the command is one that is answered under its correlation id.
fn is_request(key: Key) -> bool {
    !matches!(
        key,
        Key::Publish
            | Key::PublishConfirm
            | Key::PublishError
            | Key::Deliver
            | Key::Credit
            | Key::StoreOffset
            | Key::MetadataUpdate
            | Key::Tune
            | Key::Heartbeat
    )
}
