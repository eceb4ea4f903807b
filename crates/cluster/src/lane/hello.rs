//! The hello: the first frame of each end, with its identity.
//!
//! ```text
//!   0       8     10    12        28       44            52             60          64          68       72       74
//!   | magic | min | max | cluster | folder | incarnation | capabilities | frame max | entry max | window | number |
//!   74        75         76      78      110
//!   | purpose | name len | shard | nonce | name ...
//! ```
//!
//! Numbers are little-endian. A later version may add fields behind the name; the others stay for good, so that ends
//! without a common version can say so. Nothing in a hello is believed before its proof.

use super::error::Error;
use super::limits::Bounds;
use crate::names::{ClusterId, FolderId, Incarnation, NODE_NAME_BYTES_MAX, NodeName};
use base::id::{NodeNo, ShardId};
use base::{Reader, Short};
use std::num::NonZeroU128;

/// The first bytes of a hello.
pub const MAGIC: [u8; 8] = *b"LVRTLANE";

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 32;

/// Bytes in front of the name.
const NAME_AT: usize = 110;

/// Bytes of a hello of version 1 at most.
pub const HELLO_BYTES_MAX: usize = NAME_AT + NODE_NAME_BYTES_MAX;

/// Versions of the lane that a node speaks: all from the lowest to the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The lowest.
    pub min: u16,
    /// The highest.
    pub max: u16,
}

impl Versions {
    /// The versions that this crate speaks.
    pub const SPOKEN: Versions = Versions { min: 1, max: 1 };

    /// The highest that both speak.
    pub(crate) fn common(self, other: Versions) -> Option<u16> {
        let highest = self.max.min(other.max);
        (highest >= self.min.max(other.min)).then_some(highest)
    }
}

impl std::fmt::Display for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}

/// The use of a connection between two nodes. The dialer says it, and the listener says it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The lane of this shard of the dialer.
    Shard(ShardId),
    /// Votes and heartbeats.
    Pulse,
    /// Segments and snapshots.
    Courier,
}

impl std::fmt::Display for Purpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Purpose::Shard(shard) => write!(f, "lane of shard {shard}"),
            Purpose::Pulse => f.write_str("pulse"),
            Purpose::Courier => f.write_str("courier"),
        }
    }
}

/// Abilities of a node beyond its versions, a bit for each. None has a meaning yet; bits that a node does not know are
/// kept and have no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

/// A node as it tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Versions of the lane that it speaks.
    pub versions: Versions,
    /// Its cluster; none: it is blank.
    pub cluster: Option<ClusterId>,
    /// Its data folder.
    pub folder: FolderId,
    /// Its present life.
    pub incarnation: Incarnation,
    /// Its abilities.
    pub capabilities: Capabilities,
    /// Its number in the cluster; [`NodeNo::ONLY`]: it has none.
    pub number: NodeNo,
    /// Its name.
    pub name: NodeName,
}

/// A hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The node that says it.
    pub identity: Identity,
    /// The use of the connection.
    pub purpose: Purpose,
    /// Bounds of that end.
    pub bounds: Bounds,
    /// Random bytes, drawn anew for each lane.
    pub nonce: [u8; NONCE_BYTES],
}

impl Hello {
    /// Its bytes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let Hello { identity, purpose, bounds, nonce } = self;
        let (purpose, shard) = match purpose {
            Purpose::Shard(shard) => (1, shard.0),
            Purpose::Pulse => (2, 0),
            Purpose::Courier => (3, 0),
        };
        let name = identity.name.as_str();
        let mut out = Vec::with_capacity(NAME_AT + name.len());
        out.extend(MAGIC);
        out.extend(identity.versions.min.to_le_bytes());
        out.extend(identity.versions.max.to_le_bytes());
        out.extend(identity.cluster.map_or(0, |cluster| cluster.0.get()).to_le_bytes());
        out.extend(identity.folder.0.to_le_bytes());
        out.extend(identity.incarnation.0.to_le_bytes());
        out.extend(identity.capabilities.0.to_le_bytes());
        out.extend(bounds.frame_bytes_max.to_le_bytes());
        out.extend(bounds.entry_bytes_max.to_le_bytes());
        out.extend(bounds.window_bytes.to_le_bytes());
        out.extend(identity.number.0.to_le_bytes());
        // A name has at most 255 bytes.
        out.extend([purpose, name.len() as u8]);
        out.extend(shard.to_le_bytes());
        out.extend(nonce);
        out.extend(name.as_bytes());
        out
    }

    /// The hello in `bytes`, and the version to be spoken with a node that speaks `versions`.
    ///
    /// # Errors
    /// [`Error::Foreign`] without the magic, [`Error::Versions`] without a common version, [`Error::Hello`] where a
    /// field cannot have its value or the length is wrong.
    pub fn decode(bytes: &[u8], versions: Versions) -> Result<(Hello, u16), Error> {
        let Some(behind) = bytes.strip_prefix(&MAGIC) else {
            return Err(Error::foreign(bytes));
        };
        let mut reader = Reader::new(behind);
        let theirs = read_versions(&mut reader).map_err(|Short| Error::Hello("it ends early"))?;
        if theirs.min > theirs.max {
            return Err(Error::Hello("its lowest version is above its highest"));
        }
        let common = versions.common(theirs);
        let version = common.ok_or(Error::Versions { ours: versions, theirs })?;
        let hello = read(&mut reader, theirs).map_err(|Short| Error::Hello("it ends early"))??;
        // Fields behind the name are of versions above ours.
        if !reader.is_empty() && theirs.max <= versions.max {
            return Err(Error::Hello("it goes on behind the name"));
        }
        Ok((hello, version))
    }
}

fn read_versions(reader: &mut Reader<'_>) -> Result<Versions, Short> {
    Ok(Versions { min: reader.u16_le()?, max: reader.u16_le()? })
}

/// All that follows the versions.
fn read(reader: &mut Reader<'_>, versions: Versions) -> Result<Result<Hello, Error>, Short> {
    let cluster = NonZeroU128::new(u128_le(reader)?).map(ClusterId);
    let folder = FolderId(u128_le(reader)?);
    let incarnation = Incarnation(reader.u64_le()?);
    let capabilities = Capabilities(reader.u64_le()?);
    let bounds = Bounds {
        frame_bytes_max: reader.u32_le()?,
        entry_bytes_max: reader.u32_le()?,
        window_bytes: reader.u32_le()?,
    };
    let number = NodeNo(reader.u16_le()?);
    let (purpose, name_len, shard) = (reader.u8()?, reader.u8()?, reader.u16_le()?);
    let mut nonce = [0; NONCE_BYTES];
    nonce.copy_from_slice(reader.take(NONCE_BYTES)?);
    let name = std::str::from_utf8(reader.take(name_len.into())?);
    let purpose = match (purpose, shard) {
        (1, shard) => Purpose::Shard(ShardId(shard)),
        (2, 0) => Purpose::Pulse,
        (3, 0) => Purpose::Courier,
        _ => return Ok(Err(Error::Hello("its purpose is not known"))),
    };
    let Some(name) = name.ok().and_then(|name| NodeName::new(name).ok()) else {
        return Ok(Err(Error::Hello("its name is none")));
    };
    if !bounds.are_sound() {
        return Ok(Err(Error::Hello("its bounds cannot be kept")));
    }
    let identity = Identity { versions, cluster, folder, incarnation, capabilities, number, name };
    Ok(Ok(Hello { identity, purpose, bounds, nonce }))
}

fn u128_le(reader: &mut Reader<'_>) -> Result<u128, Short> {
    let (low, high) = (reader.u64_le()?, reader.u64_le()?);
    Ok(u128::from(high) << 64 | u128::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            identity: Identity {
                versions: Versions::SPOKEN,
                cluster: NonZeroU128::new(0x0102_0304).map(ClusterId),
                folder: FolderId(7),
                incarnation: Incarnation(8),
                capabilities: Capabilities(1 << 63),
                number: NodeNo(3),
                name: NodeName::new("rabbit@a").unwrap(),
            },
            purpose: Purpose::Shard(ShardId(5)),
            bounds: Bounds::default(),
            nonce: [9; NONCE_BYTES],
        }
    }

    #[test]
    fn a_hello_comes_back() {
        for purpose in [Purpose::Shard(ShardId(u16::MAX)), Purpose::Pulse, Purpose::Courier] {
            for cluster in [None, NonZeroU128::new(u128::MAX).map(ClusterId)] {
                let mut hello = Hello { purpose, ..hello() };
                hello.identity.cluster = cluster;
                let bytes = hello.encode();
                assert_eq!(bytes.len(), NAME_AT + 8);
                assert_eq!(Hello::decode(&bytes, Versions::SPOKEN), Ok((hello, 1)));
            }
        }
    }

    #[test]
    fn every_field_has_its_place() {
        let bytes = hello().encode();
        let check =
            |at: usize, expected: &[u8]| assert_eq!(bytes[at..at + expected.len()], *expected, "{at}");
        check(0, b"LVRTLANE\x01\0\x01\0\x04\x03\x02\x01\0");
        check(28, &[7, 0]);
        check(44, &[8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]);
        check(60, &[0, 0, 0x10, 0, 0, 0, 0, 0x21, 0, 0, 0x40, 0]);
        check(72, &[3, 0, 1, 8, 5, 0, 9, 9]);
        check(108, b"\x09\x09rabbit@a");
    }

    #[test]
    fn the_highest_common_version_is_spoken() {
        let check = |ours: (u16, u16), theirs: (u16, u16), expected| {
            let versions = |(min, max)| Versions { min, max };
            assert_eq!(versions(ours).common(versions(theirs)), expected, "{ours:?} {theirs:?}");
            assert_eq!(versions(theirs).common(versions(ours)), expected, "{theirs:?} {ours:?}");
        };
        check((1, 1), (1, 1), Some(1));
        check((1, 3), (2, 5), Some(3));
        check((2, 4), (1, 9), Some(4));
        check((1, 2), (3, 4), None);
    }

    #[test]
    fn a_later_hello_may_be_longer() {
        let mut later = hello();
        later.identity.versions = Versions { min: 1, max: 2 };
        let mut bytes = later.encode();
        bytes.extend(b"more");
        assert_eq!(Hello::decode(&bytes, Versions::SPOKEN), Ok((later, 1)));
    }

    #[test]
    fn a_hello_that_is_none_is_told_apart() {
        let check = |change: &dyn Fn(&mut Vec<u8>), expected: Error| {
            let mut bytes = hello().encode();
            change(&mut bytes);
            assert_eq!(Hello::decode(&bytes, Versions::SPOKEN), Err(expected));
        };
        check(&|bytes| bytes[0] = b'X', Error::Foreign([b'X', b'V', b'R', b'T']));
        check(&|bytes| bytes.push(0), Error::Hello("it goes on behind the name"));
        check(&|bytes| bytes[74] = 4, Error::Hello("its purpose is not known"));
        check(&|bytes| bytes[74] = 2, Error::Hello("its purpose is not known"));
        check(&|bytes| bytes[110] = b' ', Error::Hello("its name is none"));
        check(&|bytes| bytes[110] = 0xff, Error::Hello("its name is none"));
        check(&|bytes| bytes[8] = 2, Error::Hello("its lowest version is above its highest"));
        check(&|bytes| bytes[70] = 0x3f, Error::Hello("its bounds cannot be kept"));
    }

    #[test]
    fn no_hello_ends_early() {
        let bytes = hello().encode();
        for len in MAGIC.len()..bytes.len() {
            let decoded = Hello::decode(&bytes[..len], Versions::SPOKEN);
            assert_eq!(decoded, Err(Error::Hello("it ends early")), "{len} bytes");
        }
    }
}
