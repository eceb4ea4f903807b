//! The handshakes that a thread has in hand: by the address that they come from, of which none keeps out others.
//!
//! Where there are as many as may be, the oldest handshake of the address with most of them goes for one that comes.

use base::time::NS_PER_MS;
use management::{PlaceId, PlaceLimits, Places};
use std::net::IpAddr;

/// Nanoseconds between two lines of the log.
const NEWS_GAP_NS: u64 = 60_000 * NS_PER_MS;

/// See the module. `T` names a handshake for its owner.
#[derive(Debug)]
pub struct Crowd<T> {
    table: Places<T>,
    most: usize,
    /// When the next line may come.
    news_at: u64,
}

impl<T> Crowd<T> {
    /// An empty one of so many handshakes at most.
    pub fn new(most: usize) -> Crowd<T> {
        let limits = PlaceLimits {
            places_max: most,
            kept: 0,
            address_max: most,
            user_max: usize::MAX,
            young_ms: 0,
            // The owner ends it before the next comes.
            leaving_max: 1,
        };
        Crowd { table: Places::new(limits), most, news_at: 0 }
    }

    /// A handshake begins: its place, and the one that its owner is to end for it, with [`Crowd::end`] at last. Always
    /// `Some` while at most one is to be ended.
    pub fn begin(&mut self, from: IpAddr, own: T) -> Option<(PlaceId, Option<T>)> {
        let taken = self.table.take(0, from, own)?;
        Some((taken.id, taken.instead_of))
    }

    /// A handshake is over, however it ended.
    pub fn end(&mut self, place: PlaceId) {
        self.table.give_back(place);
    }

    /// The line for the log about those that were ended for others; at most one a minute.
    pub fn news(&mut self, now_ns: u64) -> Option<String> {
        if now_ns < self.news_at {
            return None;
        }
        let count = self.table.take_given_up();
        (count > 0).then(|| {
            self.news_at = now_ns + NEWS_GAP_NS;
            format!(
                "{count} TLS handshakes were ended for others, since {} were under way: somebody may be beginning \
                 handshakes without an end",
                self.most
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_with_most_handshakes_makes_room() {
        let mut crowd = Crowd::new(3);
        let mut places = Vec::new();
        let mut check = |crowd: &mut Crowd<usize>, from: u8, instead_of: Option<usize>| {
            let address = IpAddr::from([127, 0, 0, from]);
            let (place, other) = crowd.begin(address, places.len()).expect("begins");
            assert_eq!(other, instead_of, "{from}");
            places.push(place);
            if let Some(other) = other {
                crowd.end(places[other]);
            }
        };
        check(&mut crowd, 9, None);
        check(&mut crowd, 1, None);
        check(&mut crowd, 9, None);
        check(&mut crowd, 1, Some(0));
        assert!(crowd.news(0).is_some_and(|line| line.starts_with("1 TLS handshakes were ended for others")));
        check(&mut crowd, 9, Some(1));
        assert_eq!(crowd.news(NEWS_GAP_NS - 1), None, "one line a minute");
        check(&mut crowd, 9, Some(2));
        assert!(crowd.news(NEWS_GAP_NS).is_some_and(|line| line.starts_with("2 TLS")));
        assert_eq!(crowd.news(9 * NEWS_GAP_NS), None, "none has gone since");
    }
}
