//! Deterministic queue machines.
