//! How many connections and channels there are, node-wide, and whether one more may come.
//!
//! Kept by the shard that plans, which every other tells of the connections it opens and closes. A connection without a
//! limit is not held up: it is counted as its word arrives. One with a limit asks first, and counts from then on, so
//! that of two that ask for the last place one is refused. Channels are counted only where their user or the node has a
//! limit of them.

use crate::catalog::{Actor, Catalog, Object, Reason, Refusal, ReplyCode, VhostId};
use crate::limits::Limits;
use base::hash::{MapByBytes, MapById};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Counts of the connections and channels that are open.
#[derive(Debug, Default)]
pub(crate) struct Census {
    connections: u64,
    of_vhost: MapById<VhostId, u64>,
    of_user: MapByBytes<Arc<str>, u64>,
    channels: MapByBytes<Arc<str>, u64>,
    all_channels: u64,
}

/// A connection or a channel, as the census counts it when it opens and closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A connection, with so many counted channels when it goes.
    Connection {
        /// The channels.
        channels: u32,
    },
    /// A channel.
    Channel,
}

/// Counts by user or virtual host.
#[expect(clippy::disallowed_types, reason = "a map of either kind")]
type Counts<K, S> = std::collections::HashMap<K, u64, S>;

fn add<K: Hash + Eq>(counts: &mut Counts<K, impl BuildHasher>, key: K) {
    *counts.entry(key).or_default() += 1;
}

fn take<K: Hash + Eq>(counts: &mut Counts<K, impl BuildHasher>, key: &K, count: u64) {
    if let Some(left) = counts.get_mut(key) {
        *left = left.saturating_sub(count);
        if *left == 0 {
            counts.remove(key);
        }
    }
}

fn count<K: Hash + Eq>(counts: &Counts<K, impl BuildHasher>, key: &K) -> u64 {
    counts.get(key).copied().unwrap_or(0)
}

impl Census {
    /// Counts one more.
    pub(crate) fn came(&mut self, actor: &Actor, unit: Unit) {
        match unit {
            Unit::Connection { .. } => {
                self.connections += 1;
                add(&mut self.of_vhost, actor.vhost);
                add(&mut self.of_user, actor.user.clone());
            }
            Unit::Channel => {
                self.all_channels += 1;
                add(&mut self.channels, actor.user.clone());
            }
        }
    }

    /// Counts a connection or channel that is gone.
    pub(crate) fn left(&mut self, actor: &Actor, unit: Unit) {
        match unit {
            Unit::Connection { channels } => {
                self.connections = self.connections.saturating_sub(1);
                take(&mut self.of_vhost, &actor.vhost, 1);
                take(&mut self.of_user, &actor.user, 1);
                self.channels_left(actor, channels.into());
            }
            Unit::Channel => self.channels_left(actor, 1),
        }
    }

    fn channels_left(&mut self, actor: &Actor, count: u64) {
        self.all_channels = self.all_channels.saturating_sub(count);
        take(&mut self.channels, &actor.user, count);
    }

    /// Whether one more may come to `node`; it is not counted by this.
    pub(crate) fn check(
        &self,
        catalog: &Catalog,
        (node, limits): (&str, &Limits),
        actor: &Actor,
        unit: Unit,
    ) -> Result<(), Refusal> {
        let of = |object, text: String| {
            Err(Refusal::new(ReplyCode::NotAllowed, Reason::LimitReached(object), text))
        };
        let refused = |text: String| of(Object::Connection, text);
        let user = &actor.user;
        let of_user = catalog.user_limits(user);
        if unit == Unit::Channel {
            if let Some(most) = of_user.channels_max
                && count(&self.channels, user) >= most.into()
            {
                return of(
                    Object::Channel,
                    format!(
                        "number of channels opened for user '{user}' has reached the maximum allowed user limit of {most}"
                    ),
                );
            }
            return match limits.channels_max {
                Some(most) if self.all_channels >= most => of(
                    Object::Channel,
                    format!(
                        "number of channels opened on node '{node}' has reached the maximum allowed limit of {most}"
                    ),
                ),
                _ => Ok(()),
            };
        }
        if let Some(most) = limits.connections_max
            && self.connections >= most
        {
            return refused(format!("connection refused: node connection limit ({most}) is reached"));
        }
        if let Some(most) = catalog.vhost_limits(actor.vhost).connections_max
            && count(&self.of_vhost, &actor.vhost) >= most.into()
        {
            let vhost = catalog.vhost_definition(actor.vhost).map_or("", |vhost| &vhost.name);
            return refused(format!(
                "access to vhost '{vhost}' refused for user '{user}': connection limit ({most}) is reached"
            ));
        }
        // A limit that somebody set for the user counts, and not the one of all users.
        match of_user.connections_max.map(u64::from).or(limits.user_connections_max) {
            Some(most) if count(&self.of_user, user) >= most => refused(format!(
                "connection refused for user '{user}': user connection limit ({most}) is reached"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_no_more_than_its_share() {
        let (mut census, catalog) = (Census::default(), Catalog::default());
        let limits = Limits { user_connections_max: Some(2), ..Limits::default() };
        let unit = Unit::Connection { channels: 0 };
        let actor = |user: &str| Actor::new(user.into(), VhostId(1), Default::default());
        let mut come = |user: &str| {
            let found = census.check(&catalog, ("node", &limits), &actor(user), unit);
            census.came(&actor(user), unit);
            found.err().map(|refusal| refusal.reply_text())
        };
        assert_eq!([come("a"), come("a"), come("b")], [None, None, None]);
        let text = "NOT_ALLOWED - connection refused for user 'a': user connection limit (2) is reached";
        assert_eq!(come("a").as_deref(), Some(text));
        assert_eq!(come("b"), None);
    }

    #[test]
    fn forgets_whom_nothing_is_left_of() {
        let mut census = Census::default();
        let actor = Actor::new("u".into(), VhostId(1), Default::default());
        census.came(&actor, Unit::Connection { channels: 0 });
        census.came(&actor, Unit::Channel);
        census.came(&actor, Unit::Channel);
        census.left(&actor, Unit::Channel);
        assert_eq!(
            (census.connections, count(&census.channels, &actor.user), census.all_channels),
            (1, 1, 1)
        );
        census.left(&actor, Unit::Connection { channels: 1 });
        assert_eq!((census.connections, census.all_channels), (0, 0));
        assert!(census.of_vhost.is_empty() && census.of_user.is_empty() && census.channels.is_empty());
    }
}
