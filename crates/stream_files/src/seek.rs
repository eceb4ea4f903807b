//! Finds a chunk of a segment: near it by the index, then by the headers of the chunks.

use super::headers::Headers;
use super::index::Index;
use base::id::LogId;
use journal::{Disk, DiskError};
use queue::stream::{Damage, DamageReason, FILE_HEADER_LEN, Place, Seek, SeekFor, Sought};

/// Bytes read at once: what the index leaves to be looked through.
const AHEAD: usize = 64 << 10;

/// Where the chunk is that is sought.
pub(super) fn seek(disk: &dyn Disk, log: LogId, seek: &Seek) -> Result<Sought, DiskError> {
    let Seek { segment, want, end, indexed, .. } = *seek;
    let index = Index::open(disk, log, segment, indexed);
    let mut headers = Headers::new(disk, log, segment, end, AHEAD);
    let mut position = index.before(want).map_or(FILE_HEADER_LEN, |entry| entry.position);
    let mut damages = Vec::new();
    let mut least = 0;
    while position < end {
        match headers.at(position)? {
            Ok((header, _)) => {
                let is_it = match want {
                    SeekFor::Offset(offset) => offset < header.next_offset(),
                    SeekFor::Timestamp(timestamp_ms) => timestamp_ms <= header.timestamp_ms,
                };
                // An offset that cannot be would lead the reader astray.
                if is_it && !index.admits(position, &header) {
                    let found = header.first_offset;
                    let reason = DamageReason::Order { expected: least, found };
                    damages.push(Damage { place: Place { segment, position }, reason });
                } else if is_it {
                    return Ok(Sought { position, first_offset: Some(header.first_offset), damages });
                }
                least = header.next_offset().max(least);
                position += header.stored_len();
            }
            Err(reason) => {
                damages.push(Damage { place: Place { segment, position }, reason });
                position = index.next_after(position).unwrap_or(end);
            }
        }
    }
    Ok(Sought { position: end, first_offset: None, damages })
}
