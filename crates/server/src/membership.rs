//! The cluster that this node is one of: who its nodes are, by the configuration, and which data folder each has, by a
//! file in this one, with the number of this life.
//!
//! Described in `docs/formats/membership.md`. A folder is of a cluster or of a node that is alone, and stays so: the one
//! has records that nodes agreed on, the other records that one node wrote. A node that is met with another folder than
//! before has lost what it promised, and is met no more.

use crate::config::Config;
use crate::config::cluster::{Cluster, Host};
use base::Secrets;
use base::crc::crc32c;
use base::id::NodeNo;
use cluster::lane::{Capabilities, Identity, Versions};
use cluster::names::{ClusterId, FolderId, Incarnation, NodeName};
use journal::{Disk, DiskError, FileKind};
use rustix::fs::{CWD, Mode, OFlags};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroU128;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file, and what it is called while it is written.
const FILE: &str = "cluster";
const FILE_NEW: &str = "cluster.new";

/// Bytes of the file at most.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// The first line of the file.
const HEAD: &str = "leveret cluster 2";

/// Keeps the digest of a list apart from all others.
const LABEL: &[u8] = b"leveret cluster of a list 1\0";

/// Permission bits of others than the owner.
const OTHERS: u32 = 0o077;

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: NodeName,
    /// Where it is reached.
    pub host: Host,
    /// Its data folder, once it was met.
    pub folder: Option<FolderId>,
}

/// See the module.
#[derive(Debug)]
pub struct Membership {
    /// The cluster.
    pub id: ClusterId,
    /// The number of this node.
    pub number: NodeNo,
    /// Counts the starts of this node, from 1: a later one has a higher number.
    pub life: u64,
    /// All nodes, this one among them, by number, from 1.
    members: Vec<Member>,
    data_dir: PathBuf,
}

impl Membership {
    /// The cluster of the configuration, if it has one, for the data folder of this identity.
    ///
    /// # Errors
    /// The folder is of another cluster, or of a node that is alone, or the other way round; the file cannot be read or
    /// written; the cookie's file is not for this user alone.
    pub fn open(
        config: &Config,
        disk: &dyn Disk,
        identity: &journal::Identity,
    ) -> Result<Option<Membership>, String> {
        let stored = Stored::load(&config.data_dir).map_err(|why| in_file(&config.data_dir, &why))?;
        // Of a folder that was there before, and was made anew.
        let stored = stored.filter(|stored| stored.folder == FolderId(identity.node));
        let Some(wanted) = config.cluster.as_deref() else {
            return match stored {
                None => Ok(None),
                Some(stored) => Err(format!(
                    "the data folder {} is of node {} of a cluster, and no cluster is configured: it cannot be used by a \
                     node that is alone",
                    config.data_dir.display(),
                    stored.own
                )),
            };
        };
        check_cookie_file(wanted)?;
        let (id, number) = (id_of(config, wanted, identity.logs), number_of(config, wanted));
        let mut members: Vec<Member> = wanted
            .members
            .iter()
            .map(|(name, host)| Member { name: name.clone(), host: host.clone(), folder: None })
            .collect();
        let life = stored.as_ref().map_or(0, |stored| stored.life) + 1;
        match stored {
            Some(stored) if (stored.id, stored.own) != (id, number) => {
                return Err(format!(
                    "the data folder {} is of node {} of another cluster: the list of nodes, cluster_name and leveret.logs \
                     cannot change yet",
                    config.data_dir.display(),
                    stored.own
                ));
            }
            Some(stored) => {
                for (of, folder) in stored.met {
                    if let Some(member) = members.get_mut(usize::from(of.0).wrapping_sub(1)) {
                        member.folder = Some(folder);
                    }
                }
            }
            None if is_used(disk).map_err(|error| error.to_string())? => {
                return Err(format!(
                    "the data folder {} is of a node that is alone: a node of a cluster begins with an empty one",
                    config.data_dir.display()
                ));
            }
            None => {}
        }
        let own = members.get_mut(usize::from(number.0).wrapping_sub(1));
        own.into_iter().for_each(|own| own.folder = Some(FolderId(identity.node)));
        let membership = Membership { id, number, life, members, data_dir: config.data_dir.clone() };
        // Nothing is said in this life before its number is on disk.
        membership.store()?;
        Ok(Some(membership))
    }

    /// All nodes with their numbers, this one among them.
    pub fn members(&self) -> impl Iterator<Item = (NodeNo, &Member)> + Clone {
        (1..).map(NodeNo).zip(&self.members)
    }

    /// A node.
    pub fn member(&self, number: NodeNo) -> Option<&Member> {
        self.members.get(usize::from(number.0).checked_sub(1)?)
    }

    /// This node founds the logs that all agree on.
    pub fn is_founder(&self) -> bool {
        self.number == NodeNo(1)
    }

    /// This node, as it tells others of itself.
    pub fn identity(&self, secrets: &mut Secrets) -> Identity {
        let own = self.member(self.number).expect("it is one of them");
        Identity {
            versions: Versions::SPOKEN,
            cluster: Some(self.id),
            folder: own.folder.expect("its own is known from the start"),
            incarnation: Incarnation(u64::from_le_bytes(secrets.bytes())),
            capabilities: Capabilities::default(),
            number: self.number,
            name: own.name.clone(),
        }
    }

    /// A node was met, with this folder, for the first time. It is known before it is heard.
    ///
    /// # Errors
    /// It cannot be written down.
    pub fn learn(&mut self, number: NodeNo, folder: FolderId) -> Result<(), String> {
        let member = self.members.get_mut(usize::from(number.0).wrapping_sub(1));
        let Some(member) = member.filter(|member| member.folder != Some(folder)) else { return Ok(()) };
        member.folder = Some(folder);
        self.store()
    }

    fn store(&self) -> Result<(), String> {
        let met = self.members().filter_map(|(number, member)| Some((number, member.folder?)));
        let own = self.member(self.number).and_then(|own| own.folder);
        let folder = own.expect("its own is known from the start");
        let Membership { id, number: own, life, .. } = *self;
        let stored = Stored { id, folder, own, life, met: met.collect() };
        stored.store(&self.data_dir).map_err(|error| in_file(&self.data_dir, &error.to_string()))
    }
}

fn in_file(folder: &Path, why: &str) -> String {
    format!("{}: {why}", folder.join(FILE).display())
}

/// Something was written in the folder, or may have been.
fn is_used(disk: &dyn Disk) -> Result<bool, DiskError> {
    Ok(!disk.list(FileKind::Journal)?.is_empty() || !disk.list(FileKind::Snapshot)?.is_empty())
}

/// As Erlang has it: a cookie that others can read is none.
fn check_cookie_file(wanted: &Cluster) -> Result<(), String> {
    let Some(path) = &wanted.cookie_file else { return Ok(()) };
    let found = std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    match found.mode() & OTHERS {
        0 => Ok(()),
        _ => Err(format!(
            "the cookie's file {} must be for its owner alone: its mode is {:o}, and should be 600",
            path.display(),
            found.mode() & 0o777
        )),
    }
}

/// Nodes that have the same list, name of the cluster and number of logs are of one cluster.
fn id_of(config: &Config, wanted: &Cluster, logs: u32) -> ClusterId {
    let mut digest = Sha256::new();
    digest.update(LABEL);
    digest.update(logs.to_le_bytes());
    let names = wanted.members.iter().map(|(name, _)| name.as_str());
    for text in std::iter::once(config.cluster_name.as_deref().unwrap_or_default()).chain(names) {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text.as_bytes());
    }
    let digest: [u8; 32] = digest.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    ClusterId(NonZeroU128::new(u128::from_le_bytes(bytes)).unwrap_or(NonZeroU128::MAX))
}

fn number_of(config: &Config, wanted: &Cluster) -> NodeNo {
    let at = wanted.members.iter().position(|(name, _)| name.as_str() == config.node_name);
    NodeNo(at.expect("the configuration was checked for it") as u16 + 1)
}

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    id: ClusterId,
    /// The folder that the file is in.
    folder: FolderId,
    /// The number of its node.
    own: NodeNo,
    /// The last start of that.
    life: u64,
    /// Folders of nodes that were met.
    met: Vec<(NodeNo, FolderId)>,
}

impl Stored {
    fn load(data_dir: &Path) -> Result<Option<Stored>, String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = match rustix::fs::openat(CWD, data_dir.join(FILE), flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(error) if io::Error::from(error).kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
        Stored::read(&text).map(Some).ok_or_else(|| "it is damaged, or of another version".to_owned())
    }

    /// Under another name first, so that it is there whole or not at all.
    fn store(&self, data_dir: &Path) -> io::Result<()> {
        let new = data_dir.join(FILE_NEW);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut file = File::from(rustix::fs::openat(CWD, &new, flags, Mode::from_raw_mode(0o600))?);
        file.write_all(self.text().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, data_dir.join(FILE))?;
        File::open(data_dir)?.sync_all()
    }

    fn text(&self) -> String {
        let Stored { id, folder, own, life, met } = self;
        let mut text = format!("{HEAD}\ncluster {id}\nfolder {folder}\nnumber {own}\nlife {life}\n");
        met.iter().for_each(|(number, folder)| text += &format!("met {number} {folder}\n"));
        let sum = crc32c(text.as_bytes());
        text + &format!("sum {sum:08x}\n")
    }

    fn read(text: &str) -> Option<Stored> {
        let (front, sum) = text.rsplit_once("sum ")?;
        let sum = sum.strip_suffix('\n').filter(|sum| sum.len() == 8)?;
        if u32::from_str_radix(sum, 16) != Ok(crc32c(front.as_bytes())) {
            return None;
        }
        let mut lines = front.lines();
        let mut next = |word: &str| lines.next()?.strip_prefix(word)?.strip_prefix(' ');
        next(HEAD.rsplit_once(' ')?.0).filter(|version| *version == "2")?;
        let id = ClusterId(u128::from_str_radix(next("cluster")?, 16).ok().and_then(NonZeroU128::new)?);
        let folder = folder(next("folder")?)?;
        let own = NodeNo(next("number")?.parse().ok()?);
        let life = next("life")?.parse().ok()?;
        let met = lines.map(|line| {
            let (number, of) = line.strip_prefix("met ")?.split_once(' ')?;
            Some((NodeNo(number.parse().ok()?), self::folder(of)?))
        });
        Some(Stored { id, folder, own, life, met: met.collect::<Option<_>>()? })
    }
}

fn folder(text: &str) -> Option<FolderId> {
    u128::from_str_radix(text, 16).ok().map(FolderId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::Address;
    use crate::disk::{DiskOptions, RealDisk};
    use cluster::lane::Cookie;

    fn config(folder: &str, name: &str, nodes: &[&str]) -> Config {
        let data_dir =
            std::env::temp_dir().join(format!("leveret-membership-{folder}-{}", std::process::id()));
        let host = |name: &str| Host { name: name.to_owned(), port: 1 };
        let members = nodes.iter().map(|name| (NodeName::new(name).expect("a name"), host(name))).collect();
        let cluster = (!nodes.is_empty()).then(|| {
            Box::new(Cluster {
                listener: Address { ip: None, port: 0 },
                members,
                cookie: Cookie::new(b"monster").expect("a cookie"),
                cookie_file: None,
            })
        });
        Config { data_dir, node_name: name.to_owned(), logs: Some(4), cluster, ..Config::new("hare") }
    }

    fn open(config: &Config, folder: u128) -> Result<Option<Membership>, String> {
        let disk = RealDisk::open(&config.data_dir, DiskOptions::default()).expect("opens");
        Membership::open(config, &disk, &journal::Identity { node: folder, secret: 7, logs: 4 })
    }

    const NODES: &[&str] = &["r@a", "r@b", "r@c"];

    #[test]
    fn folders_that_were_met_are_known_again() {
        let config = config("met", "r@b", NODES);
        let mut membership = open(&config, 20).expect("opens").expect("is one");
        assert_eq!((membership.number, membership.is_founder(), membership.life), (NodeNo(2), false, 1));
        membership.learn(NodeNo(3), FolderId(30)).expect("written");
        membership.learn(NodeNo(9), FolderId(90)).expect("nobody has the number");
        let again = open(&config, 20).expect("opens").expect("is one");
        let folders: Vec<_> = again.members().map(|(_, member)| member.folder.map(|it| it.0)).collect();
        assert_eq!((again.id, folders), (membership.id, vec![None, Some(20), Some(30)]));
        assert_eq!((again.life, open(&config, 20).expect("opens").expect("is one").life), (2, 3));
        let anew = open(&config, 21).expect("opens").expect("is one");
        assert_eq!(anew.member(NodeNo(3)).and_then(|member| member.folder), None, "of another folder");
        std::fs::remove_dir_all(&config.data_dir).expect("removed");
    }

    #[test]
    fn a_folder_stays_of_its_cluster() {
        let own = config("stays", "r@a", NODES);
        open(&own, 10).expect("opens");
        let check = |name: &str, nodes: &[&str], folder: u128, expected: &str| {
            let error = open(&config("stays", name, nodes), folder).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        };
        check("r@a", &[], 10, "node 1 of a cluster, and no cluster is configured");
        check("r@a", &["r@a", "r@b", "r@d"], 10, "node 1 of another cluster");
        check("r@b", NODES, 10, "node 1 of another cluster");
        let named = Config { cluster_name: Some("other".into()), ..own.clone() };
        assert!(open(&named, 10).expect_err("named").contains("another cluster"));
        assert!(open(&config("stays", "r@a", &[]), 11).expect("a folder that was made anew").is_none());
        std::fs::write(own.data_dir.join(FILE), "leveret cluster 2\n").expect("written");
        assert!(open(&own, 10).expect_err("damaged").contains("damaged"));
        std::fs::remove_dir_all(&own.data_dir).expect("removed");
    }

    #[test]
    fn no_bit_of_the_file_is_free() {
        let met = vec![(NodeNo(2), FolderId(7)), (NodeNo(3), FolderId(u128::MAX))];
        let id = ClusterId(NonZeroU128::MIN);
        let stored = Stored { id, folder: FolderId(1), own: NodeNo(2), life: 7, met };
        let text = stored.text();
        assert_eq!(Stored::read(&text), Some(stored));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let damaged = String::from_utf8(bytes).expect("still ASCII");
            assert_eq!(Stored::read(&damaged), None, "{damaged}");
            assert_eq!(Stored::read(&text[..at]), None, "{at} bytes");
        }
    }
}
