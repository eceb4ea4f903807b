//! Lanes: requests by the work they may take, which decides who answers them.

use crate::endpoints::Name;
use crate::request::{Method, Request};
use crate::routes::find;

/// Requests of one lane wait for each other, and for no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Checks of health: a probe that gets no answer in time takes the node for dead.
    Check,
    /// Logins, and whether a user may do at all what it asks for: seen at once, by where a client comes from.
    Login,
    /// Things that are looked up or changed at once.
    Look,
    /// Messages, which wait for queues and for the disk.
    Message,
    /// Messages that move from queue to queue, at a rate.
    Move,
    /// Definitions that are imported, which may take minutes.
    Import,
    /// Metrics, which take no login: a client that asks for them holds up no others. No request of the API is in it.
    Metrics,
}

impl Lane {
    /// All of them.
    pub const ALL: [Lane; 7] =
        [Lane::Check, Lane::Login, Lane::Look, Lane::Message, Lane::Move, Lane::Import, Lane::Metrics];

    /// The lane of a request of the API.
    pub fn of(request: &Request) -> Lane {
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        let ["api", path @ ..] = &path[..] else { return Lane::Look };
        if path.first() == Some(&"health") {
            return Lane::Check;
        }
        if request.awaits_body {
            return Lane::Login;
        }
        match find(path).map(|(endpoint, _)| endpoint.name) {
            Some(
                Name::Aliveness
                | Name::ExchangePublish
                | Name::QueueGet
                | Name::QueueMessages
                | Name::QueueTail
                | Name::QueueDiscard
                | Name::QueueSettle,
            ) => Lane::Message,
            Some(Name::QueueMove | Name::QueueRedrive) => Lane::Move,
            Some(Name::Definitions | Name::DefinitionsOf | Name::AllConfiguration)
                if request.method == Method::Post =>
            {
                Lane::Import
            }
            _ => Lane::Look,
        }
    }

    /// Whether its requests may wait long for each other: the user of one is to be known before it waits.
    pub fn is_slow(self) -> bool {
        match self {
            Lane::Check | Lane::Login | Lane::Look | Lane::Metrics => false,
            Lane::Message | Lane::Move | Lane::Import => true,
        }
    }

    /// Threads that answer its requests.
    pub fn workers(self) -> usize {
        match self {
            Lane::Check | Lane::Login | Lane::Import | Lane::Metrics => 1,
            Lane::Move => 2,
            Lane::Look | Lane::Message => 3,
        }
    }

    /// How many of them may answer one user at a time: where there are several, one is left to others.
    pub fn at_once_max(self) -> usize {
        (self.workers() - 1).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Need;
    use crate::endpoints::ENDPOINTS;

    #[test]
    fn what_takes_long_has_a_lane_of_its_own() {
        let check = |line: &str, expected: Lane| {
            let (method, path) = line.split_once(' ').unwrap();
            let request = Request::new(method, path, Vec::new(), true).unwrap();
            assert_eq!(Lane::of(&request), expected, "{line}");
        };
        check("GET /api/health/checks/local-alarms", Lane::Check);
        check("GET /api/queues", Lane::Look);
        check("GET /api/definitions", Lane::Look);
        check("POST /api/definitions", Lane::Import);
        check("POST /api/definitions/%2F", Lane::Import);
        check("POST /api/exchanges/%2F/x/publish", Lane::Message);
        check("POST /api/queues/%2F/q/get", Lane::Message);
        check("GET /api/aliveness-test/%2F", Lane::Message);
        check("POST /api/x/queues/%2F/q/redrive", Lane::Move);
        check("POST /api/x/queues/%2F/q/delete", Lane::Message);
        check("POST /api/x/queues/%2F/q/settle", Lane::Message);
        check("GET /metrics", Lane::Look);
        check("GET /healthy", Lane::Look);
    }

    #[test]
    fn nobody_unknown_waits_among_the_slow() {
        let slow = ENDPOINTS.iter().flat_map(|endpoint| {
            let path = format!("/api/{}", endpoint.path.replace(['{', '}'], ""));
            endpoint.verbs.iter().map(move |verb| (path.clone(), verb))
        });
        let slow = slow.filter(|(path, verb)| {
            Lane::of(&Request::new(verb.method.name(), path, Vec::new(), true).unwrap()).is_slow()
        });
        let slow: Vec<_> = slow.collect();
        assert!(slow.len() > 5);
        slow.iter().for_each(|(path, verb)| assert_ne!(verb.need, Need::Nobody, "{path}"));
    }

    #[test]
    fn a_login_is_seen_at_once_and_one_thread_of_several_is_left_to_others() {
        let mut request = Request::new("POST", "/api/x/queues/%2F/q/move", Vec::new(), true).unwrap();
        request.awaits_body = true;
        assert_eq!(Lane::of(&request), Lane::Login);
        for lane in Lane::ALL {
            let (all, one) = (lane.workers(), lane.at_once_max());
            assert!(one >= 1 && (one < all || all == 1), "{lane:?}");
        }
    }
}
