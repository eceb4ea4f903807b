//! The management HTTP API as pure handlers: a request and a node to ask come in, a response goes out.
//!
//! Verbs, paths, codes and JSON shapes are RabbitMQ 4.3's, so that its tools work with the host name changed. What is
//! not here: sockets and HTTP itself (the server's part), and the state of a node (the [`Node`] it is asked through). A
//! field that an endpoint has no value for is left out rather than made up; `docs/guide/reference/management.md` lists these.

mod advice;
mod authority;
mod beyond;
mod bindings;
mod block;
mod body;
mod browsers;
mod call;
mod caller;
mod channels;
mod cluster;
mod connections;
mod counters;
mod dead_letters;
mod definitions;
mod endpoint;
mod endpoints;
mod exchanges;
mod export;
mod expressions;
mod features;
mod fields;
mod figures;
mod first_page;
mod flags;
pub mod form;
mod gate;
mod health;
mod held;
mod history;
mod import;
mod json;
mod kept;
mod lane;
mod latency;
mod limits;
mod list;
mod live;
mod log;
mod macros;
mod may;
mod members;
mod memory;
mod messages;
mod metrics;
mod mirrors;
mod moment;
mod moving;
mod names;
mod node;
mod openapi;
mod operations;
mod overview;
mod parameters;
mod past;
mod peek;
mod permissions;
mod places;
mod plain;
mod policies;
mod pool;
mod preview;
mod queues;
mod quorum;
mod rehearsal;
mod report;
mod request;
mod response;
mod rota;
mod routes;
mod rows;
mod search;
mod seen;
mod sessions;
mod shovels;
mod stats;
mod streams;
mod tail;
mod tenants;
mod topology;
mod traces;
pub mod trail;
mod trial;
mod underway;
mod users;
mod vhosts;
mod web_sessions;
mod whose;

#[cfg(test)]
mod tests;

pub use authority::Authority;
pub use block::Block;
pub use caller::TOOL_USER;
pub use counters::Counters;
pub use figures::figures;
pub use gate::{Gate, GateRules, Head, Passed, path};
pub use history::{History, SAMPLE_MS, Whose};
pub use lane::Lane;
pub use latency::durations;
pub use members::{Lanes, LanesTo, Member, Replica, Replicas};
pub use metrics::metrics;
pub use moving::Moving;
pub use node::{
    About, Action, Begun, BrowsersSee, Busy, COMMIT_BOUNDS, Compared, Condition, Delayed, FLUSH_BOUNDS_US,
    Found, GetMode, Goal, Got, Listener, Login, Memory, Node, Outcome, Pace, Publication, ReadFrom, Search,
    TURN_BOUNDS_US, Trouble, Turns, Which, Writing,
};
pub use overview::news;
pub use places::{PlaceId, PlaceLimits, Places, Taken};
pub use pool::{PlacesOf, Pool, PoolRow, Refused, Short};
pub use request::{Method, Request, Tried};
pub use response::{Attempt, Response};
pub use rota::Rota;
pub use routes::{asks_for_login, handle};
pub use seen::Seen;
pub use stats::{counters, disk_writes};
pub use web_sessions::{WebSessionKey, WebSessionLimits, WebSessions};

/// Bounds of the HTTP API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's body; RabbitMQ's `management.http.max_body_size`.
    pub body_bytes_max: usize,
    /// Bytes of all bodies that are read, or wait for their answer, at once, but for those that are small.
    pub bodies_bytes_max: usize,
    /// Bytes of a body that are read before the user is known, and of one where no user needs to be known.
    pub first_body_bytes_max: usize,
    /// Bytes of answers that clients have not taken, but for those that are small; one is answered at any size.
    pub answers_bytes_max: usize,
    /// The same of the ports of metrics.
    pub metrics_answers_bytes_max: usize,
    /// Bytes of an answer that count for nothing.
    pub small_answer_bytes_max: usize,
    /// Bytes of a request's line and headers.
    pub head_bytes_max: usize,
    /// Milliseconds a client may take for its first request's head, after the handshake of TLS.
    pub head_ms_max: u64,
    /// Milliseconds for the head of each further request, from the answer to the one before.
    pub idle_ms_max: u64,
    /// Milliseconds for a handshake of TLS; `ssl_handshake_timeout`.
    pub handshake_ms_max: u64,
    /// Milliseconds in which so much of a body or an answer is to get through.
    pub silence_ms_max: u64,
    /// Bytes of a body that come in that time at least, but for its end.
    pub body_bytes_min: usize,
    /// The same of a body that does not say how long it is.
    pub unknown_body_ms_max: u64,
    /// Bytes that come in that time.
    pub unknown_body_bytes_min: usize,
    /// Such bodies of one user that are read at once, but for the small ones.
    pub unknown_bodies_max: usize,
    /// Milliseconds for a whole body, however steadily it comes.
    pub body_ms_max: u64,
    /// Bytes that a client takes in that time at least while it keeps an answer waiting; a kernel takes some hundred KiB at once.
    pub answer_bytes_min: usize,
    /// Connections of the API open at once, and closed ones whose last request is still worked on; more wait until one ends.
    pub connections_max: usize,
    /// Of these are kept for clients that have logged in, and as many for those that have not.
    pub connections_kept: usize,
    /// The same of the ports of metrics, which are read also when the API has no place left.
    pub metrics_connections_max: usize,
    /// An address has one part in so many of the places, for connections that have not logged in.
    pub address_share: usize,
    /// A user has one part in so many of the places, of the room for bodies and of the answers that are not taken.
    pub user_share: usize,
    /// Milliseconds for which a connection that has not logged in may be more than its address's share.
    pub young_ms: u64,
    /// One part in so many of the places may be of connections that were given up for others and are not closed yet.
    pub leaving_share: usize,
    /// Items of one page of a list.
    pub page_items_max: usize,
    /// Messages one request may get.
    pub get_messages_max: u32,
    /// Bytes of messages one request may get; at least one message comes, at any size.
    pub get_bytes_max: usize,
    /// Messages that may be passed over to be shown those behind them; with those of a page at most 65,535, for a consumer can
    /// ask for no more at once.
    pub peek_skip_max: u32,
    /// Milliseconds that one request may look at messages for.
    pub peek_ms_max: u64,
    /// Milliseconds that one request may look for messages of which a condition is true.
    pub search_ms_max: u64,
    /// Milliseconds that one request may move messages for.
    pub move_ms_max: u64,
    /// Milliseconds that it may do so at a time while others wait to.
    pub move_slice_ms: u64,
    /// Messages that one request may hold since they cannot be placed, to reach those behind them.
    pub move_unplaced_max: u32,
    /// Messages that one request may name by their positions.
    pub positions_max: usize,
    /// Bindings that are looked at to say where a message does not go, and why.
    pub trial_bindings_max: usize,
    /// Exchanges, and queues, in a picture of a virtual host.
    pub topology_things_max: u32,
    /// Bytes of a regular expression over names, and of the names of columns.
    pub pattern_bytes_max: usize,
    /// Milliseconds for which the order of all queues by a column is kept for those that ask for pages of it.
    pub order_kept_ms: u64,
    /// Of fewer queues none is kept: they are sorted at once.
    pub order_queues_min: usize,
    /// Orders that are kept at once; for a further column the oldest goes.
    pub orders_kept_max: usize,
    /// Bytes of an answer from which on it is compressed for clients that take that.
    pub gzip_bytes_min: usize,
    /// Things whose counters are sampled for rates; of further ones no rate is known.
    pub sampled_objects_max: usize,
    /// Milliseconds without a request that wants rates after which nothing is sampled any more.
    pub sampling_ms_max: u64,
    /// Milliseconds between two samples that are kept whether somebody asks or not.
    pub past_gap_ms: u64,
    /// Of the time that such a sample takes the next one is as many times away: a part of a processor at most, however many
    /// queues there are.
    pub past_share: u64,
    /// Such samples of the node: a day.
    pub past_samples_max: usize,
    /// Such samples of durations: an hour.
    pub past_durations_max: usize,
    /// Queues of which such samples are kept, the busiest.
    pub past_queues_max: usize,
    /// Such samples of a queue: an hour.
    pub past_queue_samples_max: usize,
    /// Streams of events that are open at once; further ones are answered with 503.
    pub event_streams_max: usize,
    /// A user has one part in so many of them.
    pub event_streams_user_share: usize,
    /// An address has one part in so many of them.
    pub event_streams_address_share: usize,
    /// Of these are kept for administrators.
    pub event_streams_kept: usize,
    /// Bytes of messages in one event; at least one message comes, at any size.
    pub tail_bytes_max: usize,
    /// Milliseconds between two events of a stream.
    pub event_gap_ms: u64,
    /// Milliseconds that an event waits for a client to take those before it, of which two are kept; then it is closed.
    pub event_wait_ms_max: u64,
    /// Queues that one stream of events tells of.
    pub event_queues_max: usize,
    /// Partitions of a super stream made at once.
    pub partitions_max: i64,
    /// Things of an import that are under way at once: they share a commit, and the shard that plans them has a turn as long.
    pub import_begun_max: usize,
    /// Entries of an import that are rehearsed with one look at the node.
    pub import_looked_max: usize,
    /// Refused entries that an import tells of one by one, and as many remarks; further ones are counted.
    pub import_told_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes_max: 20_000_000,
            bodies_bytes_max: 64 << 20,
            first_body_bytes_max: 16 << 10,
            answers_bytes_max: 128 << 20,
            metrics_answers_bytes_max: 64 << 20,
            small_answer_bytes_max: 16 << 10,
            head_bytes_max: 64 << 10,
            head_ms_max: 10_000,
            idle_ms_max: 30_000,
            handshake_ms_max: 5000,
            silence_ms_max: 60_000,
            body_bytes_min: 1 << 20,
            unknown_body_ms_max: 10_000,
            unknown_body_bytes_min: 16 << 10,
            unknown_bodies_max: 1,
            body_ms_max: 600_000,
            answer_bytes_min: 256 << 10,
            connections_max: 256,
            connections_kept: 16,
            metrics_connections_max: 32,
            address_share: 8,
            user_share: 2,
            young_ms: 1000,
            leaving_share: 8,
            page_items_max: 500,
            get_messages_max: 10_000,
            get_bytes_max: 64 << 20,
            peek_skip_max: 65_000,
            peek_ms_max: 10_000,
            search_ms_max: 250,
            move_ms_max: 60_000,
            move_slice_ms: 1000,
            move_unplaced_max: 10_000,
            positions_max: 1000,
            trial_bindings_max: 1000,
            topology_things_max: 2000,
            pattern_bytes_max: 1024,
            order_kept_ms: 5000,
            order_queues_min: 2000,
            orders_kept_max: 4,
            gzip_bytes_min: 1000,
            sampled_objects_max: 20_000,
            sampling_ms_max: 600_000,
            past_gap_ms: 10_000,
            past_share: 1000,
            past_samples_max: 8640,
            past_durations_max: 360,
            past_queues_max: 1000,
            past_queue_samples_max: 360,
            event_streams_max: 1000,
            event_streams_user_share: 4,
            event_streams_address_share: 8,
            event_streams_kept: 16,
            tail_bytes_max: 1 << 20,
            event_gap_ms: 1000,
            event_wait_ms_max: 5000,
            event_queues_max: 50,
            partitions_max: 1000,
            import_begun_max: 64,
            import_looked_max: 500,
            import_told_max: 100,
        }
    }
}

impl Limits {
    /// The same where nobody has a share: whoever comes first has what there is, for as long as others once had to wait.
    pub fn without_shares(self) -> Limits {
        Limits {
            connections_kept: 0,
            address_share: 1,
            user_share: 1,
            head_ms_max: self.silence_ms_max,
            idle_ms_max: self.silence_ms_max,
            unknown_body_ms_max: self.silence_ms_max,
            unknown_bodies_max: usize::MAX,
            event_streams_user_share: 1,
            event_streams_address_share: 1,
            ..self
        }
    }

    /// Connections that may be open beside so many places, since they were given up for others.
    pub fn leaving_of(&self, places: usize) -> usize {
        (places / self.leaving_share).max(1)
    }
}
