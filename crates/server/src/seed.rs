//! The first content of an empty node, and the source of its secrets.

use crate::clock::Clock;
use crate::config::Config;
use crate::log::Logger;
use crate::trail;
use base::Secrets;
use broker::access::LONG_SALT;
use broker::catalog::{FirstContent, Op};
use journal::Disk;
use node::start::Recovered;
use node::{Stop, first};

/// Bytes from the system's random source.
///
/// # Errors
/// Why there are none.
fn system_bytes<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system has no randomness: {error}"))?;
    Ok(bytes)
}

/// A source of secrets seeded by the system: all that the node has come from it.
///
/// # Errors
/// Why there is none.
pub fn secrets() -> Result<Secrets, String> {
    Ok(Secrets::new(system_bytes()?))
}

/// Gives hash maps their seed. It comes before anything is hashed, once in a process.
///
/// # Errors
/// Why there is none.
pub fn hashes() -> Result<(), String> {
    match base::hash::seed(&mut secrets()?) {
        true => Ok(()),
        false => Err("hash maps were used before they had a seed".to_owned()),
    }
}

/// A salt for a password's hash; of those that take less, its beginning.
///
/// # Errors
/// Why there is none.
pub fn salt() -> Result<[u8; LONG_SALT], String> {
    system_bytes()
}

/// The same, where nobody could be told that there is none.
///
/// # Panics
/// When the system has no randomness, though it had some when the node started.
pub fn sure_salt() -> [u8; LONG_SALT] {
    salt().expect("the system had randomness when the node started")
}

/// Makes the configured virtual host and user where there is no virtual host yet, and no definitions are imported. The log
/// tells it as RabbitMQ's does.
///
/// # Errors
/// Why that cannot be.
pub fn first_user(
    config: &Config,
    clock: Clock,
    node: &mut Recovered,
    disk: &dyn Disk,
    logger: &Logger,
) -> Result<(), String> {
    let user = &config.default_user;
    if node.shards[0].catalog().vhosts().next().is_some() {
        // A data folder may be older than the event exchange.
        node.shards[0].have_event_exchange(clock.now(), &user.vhost);
        return Ok(());
    }
    // As in RabbitMQ, definitions tell the users and virtual hosts that there are from the beginning.
    if !config.definitions.paths.is_empty() {
        return Ok(());
    }
    logger.info("Will seed default virtual host and user...");
    let requests = first_content(config)?;
    let lines = trail::first_content(&requests);
    first::make_content(node, disk, &|| clock.now(), requests).map_err(|Stop(why)| why)?;
    lines.into_iter().for_each(|line| logger.info(line));
    Ok(())
}

/// The configured virtual host and user. Where nodes agree on a catalog in which nothing is, the one that leads it makes them.
///
/// # Errors
/// Why there are none.
pub fn first_content(config: &Config) -> Result<Vec<Op>, String> {
    let user = &config.default_user;
    let hash = &mut |password: &str| config.hashing.hash(password, sure_salt());
    let mut defaults = config.defaults_of_vhost(&user.vhost, hash);
    defaults.about.description = "Default virtual host".into();
    let content = FirstContent {
        vhost: user.vhost.as_str().into(),
        defaults,
        user: user.name.as_str().into(),
        password: config.hashing.hash(&user.password, salt()?),
        tags: user.tags.iter().map(|tag| tag.as_str().into()).collect(),
        permissions: [&user.configure, &user.write, &user.read].map(|pattern| pattern.as_str().into()),
    };
    Ok(content.requests())
}
