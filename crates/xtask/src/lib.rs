//! House chores that need nothing but cargo: `cargo xtask tidy` and `cargo xtask test`.
//!
//! A library so that `cargo test` can run the floor check too. Nothing of the broker depends on this crate.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "chores start programs and wait for them"
)]

pub mod cargo;
pub mod chart;
pub mod circles;
pub mod clock;
pub mod floors;
pub mod fuzzing;
pub mod guards;
pub mod guide;
pub mod licences;
pub mod links;
pub mod markdown;
pub mod package;
pub mod pictures;
mod prices;
pub mod prose;
pub mod reference;
pub mod refusals;
pub mod report;
pub mod rows;
pub mod sandbox;
pub mod secrets;
pub mod shape;
pub mod suites;
pub mod supply;
pub mod text;
pub mod tidy;
pub mod tool;
pub mod traced;
