//! The places that clients of HTTP share, of all kinds, as the threads that serve and those that list them hold them.

use super::answers::Answers;
use super::asker::Service;
use super::bodies::BodyRoom;
use super::listeners::Listeners;
use super::room::Room;
use management::{Limits, PlaceLimits, PoolRow};
use std::sync::{Arc, Mutex, PoisonError};

/// See the module.
pub struct Pools {
    /// Places of connections, by interface.
    pub rooms: [Arc<Room>; 2],
    /// Room for bodies.
    pub bodies: Arc<BodyRoom>,
    /// Answers that clients have not taken, by interface.
    pub answers: [Answers; 2],
    /// Clients that listen to events.
    pub listeners: Arc<Mutex<Listeners>>,
}

impl Pools {
    /// Those under these bounds, with nothing taken.
    pub fn new(limits: &Limits) -> Pools {
        let services = [Service::Api, Service::Metrics];
        Pools {
            rooms: services.map(|service| Room::new(places(service, limits))),
            bodies: BodyRoom::new(limits),
            answers: services.map(|service| Answers::new(service, limits)),
            listeners: Arc::new(Mutex::new(Listeners::new(limits))),
        }
    }

    /// As they are listed.
    pub fn rows(&self) -> Vec<PoolRow> {
        let [api, metrics] = &self.rooms;
        let mut rows = vec![api.row("http_connections"), metrics.row("metrics_connections")];
        rows.extend(self.bodies.rows());
        let [api, metrics] = &self.answers;
        rows.extend([api.row("http_answer_bytes"), metrics.row("metrics_answer_bytes")]);
        rows.push(self.listeners.lock().unwrap_or_else(PoisonError::into_inner).row());
        rows
    }
}

/// The bounds of the places of an interface. Those for metrics need no login: all are strangers there.
pub(super) fn places(service: Service, limits: &Limits) -> PlaceLimits {
    let (places_max, kept) = match service {
        Service::Api => (limits.connections_max, limits.connections_kept),
        Service::Metrics => (limits.metrics_connections_max, 0),
    };
    let share = |part: usize| (places_max / part).max(1);
    PlaceLimits {
        places_max,
        kept: kept.min(places_max / 4),
        address_max: share(limits.address_share),
        user_max: share(limits.user_share),
        young_ms: limits.young_ms,
        leaving_max: limits.leaving_of(places_max),
    }
}
