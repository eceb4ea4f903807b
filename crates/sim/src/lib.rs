//! A node in one deterministic process, from one seed.
