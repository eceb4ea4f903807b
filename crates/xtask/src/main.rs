//! House chores: `cargo xtask tidy`, `cargo xtask test`.
fn main() {}
