//! The tests of this crate in one program: what they share is compiled once, and linked once.
//! Those that count what the allocator hands out are programs of their own.

mod barriers;
mod bench;
mod browse;
mod consumer_timeout;
mod dead_letters;
mod dedup_window;
mod delays;
mod expiry;
mod fairness;
mod fifo;
mod groups;
mod held;
mod leases;
mod limits;
mod machine;
mod owner;
mod pick;
mod prior_failures;
mod priorities;
mod replays;
mod retry;
mod roles;
mod settle_many;
mod single_active;
mod snapshot;
mod stream_files;
mod stream_model;
mod stream_records;
mod streams;
mod weights;
