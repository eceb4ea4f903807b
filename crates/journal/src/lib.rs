//! The only commit path: batches in pre-written files, segments, snapshots, recovery.
