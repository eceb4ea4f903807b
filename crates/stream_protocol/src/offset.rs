//! Where in a stream a consumer begins.

use crate::error::Malformed;
use base::Reader;

/// A place in a stream. 0 on the wire is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first chunk there is.
    First,
    /// The last chunk there is.
    Last,
    /// The next chunk to be written.
    Next,
    /// The chunk with this offset.
    Offset(u64),
    /// The chunk of this time, in milliseconds since 1970.
    Timestamp(i64),
}

/// The number of a place that is an offset.
pub(crate) const OFFSET: u16 = 4;

impl OffsetSpec {
    pub(crate) fn read_nullable(reader: &mut Reader<'_>) -> Result<Option<OffsetSpec>, Malformed> {
        Ok(Some(match reader.u16()? {
            0 => return Ok(None),
            1 => OffsetSpec::First,
            2 => OffsetSpec::Last,
            3 => OffsetSpec::Next,
            OFFSET => OffsetSpec::Offset(reader.u64()?),
            5 => OffsetSpec::Timestamp(reader.i64()?),
            _ => return Err(Malformed::Value),
        }))
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<OffsetSpec, Malformed> {
        OffsetSpec::read_nullable(reader)?.ok_or(Malformed::Value)
    }

    pub(crate) fn write_nullable(spec: Option<OffsetSpec>, out: &mut Vec<u8>) {
        let (number, value): (u16, Option<u64>) = match spec {
            None => (0, None),
            Some(OffsetSpec::First) => (1, None),
            Some(OffsetSpec::Last) => (2, None),
            Some(OffsetSpec::Next) => (3, None),
            Some(OffsetSpec::Offset(offset)) => (OFFSET, Some(offset)),
            Some(OffsetSpec::Timestamp(timestamp_ms)) => (5, Some(timestamp_ms as u64)),
        };
        out.extend(number.to_be_bytes());
        if let Some(value) = value {
            out.extend(value.to_be_bytes());
        }
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        OffsetSpec::write_nullable(Some(self), out);
    }
}
