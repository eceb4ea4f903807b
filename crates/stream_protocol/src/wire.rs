//! Strings and bytes as the protocol has them ("Types").

use crate::error::Malformed;
use base::Reader;

/// The length that stands for a value that is not there.
const NULL_STRING: u16 = u16::MAX;
const NULL_BYTES: u32 = u32::MAX;

/// A string that must be there. Nothing says that it is text.
#[inline]
pub fn string<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    // The length of null is more than may follow, as in RabbitMQ; strings here end one byte below it.
    nullable_string(reader)?.ok_or(Malformed::Value)
}

#[inline]
pub fn nullable_string<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    let len = reader.u16()?;
    Ok(if len == NULL_STRING { None } else { Some(reader.take(len.into())?) })
}

/// Bytes; null are none.
pub fn bytes<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let len = reader.u32()?;
    Ok(if len == NULL_BYTES { &[] } else { reader.take(len as usize)? })
}

/// # Panics
/// When `text` has more than 2^16 - 2 bytes.
#[inline]
pub fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    let len = u16::try_from(text.len()).ok().filter(|len| *len != NULL_STRING);
    out.extend(len.expect("a string has at most 2^16 - 2 bytes").to_be_bytes());
    out.extend_from_slice(text);
}

pub fn put_null_string(out: &mut Vec<u8>) {
    out.extend(NULL_STRING.to_be_bytes());
}

/// Bytes; none are written as null, as RabbitMQ's own client does.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = if bytes.is_empty() { NULL_BYTES } else { bytes.len() as u32 };
    out.extend(len.to_be_bytes());
    out.extend_from_slice(bytes);
}
