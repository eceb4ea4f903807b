//! A node before it runs: its data folder, what was recovered from it, and its ports.

use super::settings::{broker_limits, guess_limits, makeup};
use crate::clock::Clock;
use crate::config::Config;
use crate::descriptors::Shares;
use crate::disk::{DiskOptions, RealDisk};
use crate::exposure;
use crate::greeting;
use crate::lanes;
use crate::log::Logger;
use crate::log::level::Level;
use crate::membership::Membership;
use crate::ports::Ports;
use crate::seat;
use crate::seed;
use base::Secrets;
use broker::access::Guard;
use broker::catalog::Op;
use journal::Disk;
use node::start::{self, Common, Found, Gravity, Recovered};
use node::{Stop, first};
use std::sync::Arc;

/// The warning of a node that is one of several.
const EXPERIMENT: &str = "leveret.cluster.experimental: streams are read only at the node that leads their log, and the list of nodes \
                          cannot change. This is not for use";

/// A node before it runs, and its disk.
pub(super) struct Opened {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) node: Recovered,
    /// The cluster that it is one of.
    pub(super) membership: Option<Membership>,
    /// The content of a catalog in which nothing is, where nodes agree on it.
    pub(super) content: Option<Vec<Op>>,
    /// The user that somebody new logs in as.
    pub(super) user: Option<String>,
    pub(super) guard: Arc<Guard>,
}

/// Brings back what there is, and opens the ports. Where it fails nothing of the node runs yet.
pub(super) fn prepare(
    config: &Config,
    shares: Shares,
    clock: Clock,
    logger: &Logger,
) -> Result<(Opened, Option<lanes::Opened>, Ports), String> {
    let mut opened = recover(config, shares, clock, logger)?;
    let Opened { disk, node, membership, content, user, .. } = &mut opened;
    match membership {
        None => seed::first_user(config, clock, node, &**disk, logger)?,
        // As for a node alone, definitions tell the users and virtual hosts that there are from the beginning.
        Some(_) if !config.definitions.paths.is_empty() => *content = Some(Vec::new()),
        Some(_) => *content = Some(seed::first_content(config)?),
    }
    first::flush(node, &**disk, &|| clock.now()).map_err(|Stop(why)| why)?;
    exposure::warnings(config, node.shards[0].catalog()).iter().for_each(|it| logger.warning(it.as_str()));
    *user = greeting::user(config, node.shards[0].catalog());
    let lanes = open_lanes(config, opened.membership.take(), logger)?;
    let ports = Ports::open(config)?;
    Ok((opened, lanes, ports))
}

/// Listens for the other nodes of the cluster, if it is of one.
fn open_lanes(
    config: &Config,
    membership: Option<Membership>,
    logger: &Logger,
) -> Result<Option<lanes::Opened>, String> {
    let (Some(wanted), Some(membership)) = (config.cluster.as_deref(), membership) else { return Ok(None) };
    logger.warning(EXPERIMENT);
    lanes::warning(config).into_iter().for_each(|warning| logger.warning(warning));
    lanes::Opened::new(wanted, membership, seed::secrets()?).map(Some)
}

/// Opens the data folder and brings the shards to where they were.
fn recover(config: &Config, shares: Shares, clock: Clock, logger: &Logger) -> Result<Opened, String> {
    let options = DiskOptions {
        descriptors_max: shares.files,
        removed_max: shares.removed,
        sync_delay_ns: config.test_sync_delay_us * 1000,
        capacity_bytes: config.test_disk_bytes,
        ..DiskOptions::default()
    };
    let disk = RealDisk::open(&config.data_dir, options).map_err(|error| error.to_string())?;
    disk.told().into_iter().for_each(|told| logger.warning(told));
    let way = if disk.is_direct() { "bypass" } else { "go through" };
    logger.log(Level::Debug, format!("journal writes {way} the page cache"));
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let mut secrets = seed::secrets()?;
    let makeup = makeup(config);
    let tell = &mut |found: Found| {
        let level = match found.gravity() {
            Gravity::Info => Level::Info,
            Gravity::Warning => Level::Warning,
            Gravity::Error => Level::Error,
        };
        logger.log(level, found.to_string());
    };
    let in_folder = |Stop(error)| format!("data folder {}: {error}", config.data_dir.display());
    let identity = start::identity(&*disk, &mut secrets, makeup.logs, tell).map_err(in_folder)?;
    let dice = |secrets: &mut Secrets| u64::from_le_bytes(secrets.bytes());
    let limits = |shards| broker_limits(config, shares.connections(), shards);
    let membership = Membership::open(config, &*disk, &identity)?;
    let mut shards = start::shards(&makeup, &identity, limits, &mut secrets, dice);
    let mut common = start::ALONE;
    if membership.is_some() && identity.logs < 2 {
        return Err(
            "leveret.logs must be 2 at least in a cluster: queues are on other logs than the catalog"
                .to_owned(),
        );
    }
    if let Some(membership) = &membership {
        common = Common { node: membership.number, logs: seat::agreed_on(identity.logs).collect() };
        seat::take(&mut shards, membership, identity.logs);
    }
    let now = || clock.now();
    let node =
        start::recover(&*disk, &identity, makeup.journal, &common, shards, &now, tell).map_err(in_folder)?;
    let guard = Guard::new(guess_limits(config), &mut secrets);
    Ok(Opened { disk, node, membership, content: None, user: None, guard: Arc::new(guard) })
}
