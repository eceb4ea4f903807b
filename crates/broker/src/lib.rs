//! The shard: catalog, permissions, logs and their machines, delivery, flow control.
//!
//! The broker does not know which protocol speaks, and has no sockets, files, threads or clocks: see [`Shard`].

pub mod access;
mod ahead;
mod batches;
pub mod catalog;
mod commit;
mod condition;
mod connection_limits;
mod content;
mod damages;
mod dead_lettering;
mod dead_letterings;
mod event;
mod event_exchange;
pub mod fields;
mod firehose;
mod latency;
pub mod ledger;
mod limits;
mod listing;
mod log;
mod logs;
mod mail;
mod message_keys;
mod moving;
mod node_limits;
mod notices;
mod parcels;
mod peers;
mod placed;
mod planner;
mod ports;
mod post;
mod publisher;
mod ranking;
mod reading;
mod recalls;
mod recent_history;
mod recovery;
mod referred;
mod reply;
mod request;
mod rows;
mod selector;
mod shard;
mod spare;
mod stopped;
mod tally;
mod timers;
mod trays;
mod turn;
mod watch;
mod whereabouts;
mod word;

pub use commit::CommitRule;
pub use condition::{Condition, Subject};
pub use connection_limits::Unit;
pub use content::Content;
pub use damages::{Damaged, MessageDamage, StreamDamage};
pub use event::{Event, Events, Item, LEASED, REDELIVERED, TRACED};
pub use event_exchange::{Announcement, Arrived, Caller, Encryption, Occurrence, Settled};
pub use filter::steps_bytes as filter_steps_bytes;
pub use latency::{Durations, LATENCY_BOUNDS_US, Latencies};
pub use limits::Limits;
pub use listing::{Begin, ListedTo, Listing, QueuesNow};
pub use logs::Logs;
pub use mail::{Answering, Charge, Fate, Mail, Waiter};
pub use moving::{MoveJob, Moved};
pub use notices::Notice;
pub use peers::{BadWord, CatalogWord, Membership, Outcome, Reign, Wish};
pub use placed::queue::modified::Modified;
pub use placed::queue::sizing::Sample;
pub use placed::stream::{
    CONSUMER_NAME_MAX, Envelope, FILTER_VALUES_MAX, Messages, NewMessages, RATE_MAX, SingleActive,
    StreamCommand, StreamFilter, StreamFrom, StreamReply, StreamStats, Wanted,
};
pub use ports::Leaver;
pub use publisher::{More, Publish, Published, Publisher, ROUTES_SHOWN_MAX, price_of_queues};
pub use reading::{BlockKey, Brought, ReadBytes, ReadRequest, ReadWhat, StretchKey};
pub use recovery::{LogSnapshot, RecoveryError, SECTION};
pub use reply::{REPLY_TO, Replies, ReplyAddress};
pub use request::{
    Browse, ConsumerRef, Credit, Held, LeaseOver, NewConsumer, Placement, QueueCommand, Reply, SettleAt,
};
pub use rows::channels::{
    ChannelRow, ChannelTally, ConsumerRow, Depth, LinkEnd, LinkRow, Opened, SessionRow, StreamConsumerRow,
    StreamPublisherRow,
};
pub use rows::connections::{ConnectionId, ConnectionRow, process_id};
pub use rows::queues::{
    HeldRow, Pulse, QueueRow, QueueSums, QueueTally, QuorumRow, Standing, StreamRow, Tracking,
};
pub use rows::sums::{ChannelSums, ConnectionSums, OpenSums};
pub use rows::tenants::{HeldBack, HeldCounts, TenantRow};
pub use selector::Selector;
pub use shard::{CATALOG_LOG, Shard, ShardSettings};
pub use tally::{
    COUNTS, Churn, Count, DEAD_LETTER_STRATEGIES, DeadLetterStrategy, ENDS, End, Ends, ExchangeTally,
    PROTOCOLS, Protocol, ProtocolTally, QUEUE_TYPES, SIZE_BOUNDS, STREAM_ERRORS, Survey, Tallies, Tally,
    type_index,
};
pub use word::codec as word_codec;
pub use word::{Claim, Item as WordItem, LogWord, Said, Tenure};
