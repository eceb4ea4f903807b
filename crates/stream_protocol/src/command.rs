//! Commands that nobody answers.

use crate::code::ResponseCode;
use crate::error::Malformed;
use crate::list::{Item, List};
use crate::wire::{put_string, string};
use base::Reader;
use message::chunk::Chunk;

/// A command without an answer, but for messages and the commands that the machine handles by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Command<'a> {
    /// Server: messages that were taken.
    PublishConfirm {
        /// The publisher of the messages.
        publisher_id: u8,
        /// Their publishing ids.
        publishing_ids: List<'a, u64>,
    },
    /// Server: messages that were not.
    PublishError {
        /// The publisher of the messages.
        publisher_id: u8,
        /// Their publishing ids, each with its code.
        errors: List<'a, PublishError>,
    },
    /// Client: asks for more chunks.
    Credit {
        /// For which subscription.
        subscription_id: u8,
        /// How many more may be sent. Negative, there are fewer.
        credit: i16,
    },
    /// Server: there is no such subscription to give credit to.
    CreditRefused {
        /// Why.
        code: ResponseCode,
        /// Which.
        subscription_id: u8,
    },
    /// Client: keeps an offset.
    StoreOffset {
        /// The consumer's name.
        reference: &'a [u8],
        /// The stream.
        stream: &'a [u8],
        /// The offset up to which the consumer is done.
        offset: u64,
    },
    /// Server: a stream is gone, or has another leader.
    MetadataUpdate {
        /// The reason.
        code: ResponseCode,
        /// The stream.
        stream: &'a [u8],
    },
}

/// A message that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishError {
    /// Which.
    pub publishing_id: u64,
    /// Why.
    pub code: ResponseCode,
}

/// Client: a chunk for a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deliver<'a> {
    /// Which.
    pub subscription_id: u8,
    /// Version 2: the last chunk of the stream that is safe.
    pub committed_chunk_id: Option<u64>,
    /// The published messages. Their data is not yet checked.
    pub chunk: Chunk<'a>,
}

/// Bounds that were agreed on, or are proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tune {
    /// Bytes of a frame, without those of its size; 0: no bound.
    pub frame_max: u32,
    /// Heartbeat timeout in seconds; 0: none.
    pub heartbeat_s: u32,
}

impl<'a> Item<'a> for PublishError {
    fn read(reader: &mut Reader<'a>) -> Result<PublishError, Malformed> {
        Ok(PublishError { publishing_id: reader.u64()?, code: ResponseCode(reader.u16()?) })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.publishing_id.to_be_bytes());
        out.extend(self.code.0.to_be_bytes());
    }
}

impl<'a> Command<'a> {
    pub(crate) fn read_confirm(reader: &mut Reader<'a>) -> Result<Command<'a>, Malformed> {
        Ok(Command::PublishConfirm { publisher_id: reader.u8()?, publishing_ids: List::read_last(reader)? })
    }

    pub(crate) fn read_error(reader: &mut Reader<'a>) -> Result<Command<'a>, Malformed> {
        Ok(Command::PublishError { publisher_id: reader.u8()?, errors: List::read_last(reader)? })
    }

    pub(crate) fn read_credit(reader: &mut Reader<'a>) -> Result<Command<'a>, Malformed> {
        Ok(Command::Credit { subscription_id: reader.u8()?, credit: reader.i16()? })
    }

    pub(crate) fn read_credit_refused(reader: &mut Reader<'a>) -> Result<Command<'a>, Malformed> {
        Ok(Command::CreditRefused { code: ResponseCode(reader.u16()?), subscription_id: reader.u8()? })
    }

    pub(crate) fn read_store_offset(reader: &mut Reader<'a>) -> Result<Command<'a>, Malformed> {
        Ok(Command::StoreOffset {
            reference: string(reader)?,
            stream: string(reader)?,
            offset: reader.u64()?,
        })
    }

    pub(crate) fn read_metadata_update(reader: &mut Reader<'a>) -> Result<Command<'a>, Malformed> {
        Ok(Command::MetadataUpdate { code: ResponseCode(reader.u16()?), stream: string(reader)? })
    }

    /// Appends the arguments.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Command::PublishConfirm { publisher_id, publishing_ids } => {
                out.push(publisher_id);
                publishing_ids.write(out);
            }
            Command::PublishError { publisher_id, errors } => {
                out.push(publisher_id);
                errors.write(out);
            }
            Command::Credit { subscription_id, credit } => {
                out.push(subscription_id);
                out.extend(credit.to_be_bytes());
            }
            Command::CreditRefused { code, subscription_id } => {
                out.extend(code.0.to_be_bytes());
                out.push(subscription_id);
            }
            Command::StoreOffset { reference, stream, offset } => {
                put_string(out, reference);
                put_string(out, stream);
                out.extend(offset.to_be_bytes());
            }
            Command::MetadataUpdate { code, stream } => {
                out.extend(code.0.to_be_bytes());
                put_string(out, stream);
            }
        }
    }
}

impl<'a> Deliver<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>, has_committed: bool) -> Result<Deliver<'a>, Malformed> {
        let subscription_id = reader.u8()?;
        let committed_chunk_id = if has_committed { Some(reader.u64()?) } else { None };
        let chunk = Chunk::read_delivered(reader.take(reader.len())?)?;
        Ok(Deliver { subscription_id, committed_chunk_id, chunk })
    }
}

impl Tune {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Tune, Malformed> {
        Ok(Tune { frame_max: reader.u32()?, heartbeat_s: reader.u32()? })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.frame_max.to_be_bytes());
        out.extend(self.heartbeat_s.to_be_bytes());
    }
}
