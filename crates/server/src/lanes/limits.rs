//! The bounds of the lanes of a node, by name.

/// Bounds of memory, places and time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Those of each lane.
    pub lane: cluster::lane::Limits,
    /// Those of a word of a replica.
    pub word: consensus::codec::Limits,
    /// Connections that are accepted and have not proven themselves; beyond, the oldest of the address that has most of
    /// them goes for one that comes.
    pub strangers_max: usize,
    /// Connections accepted before anything else is done.
    pub accepts_turn_max: usize,
    /// Lanes that one other node may have to this one.
    pub lanes_of_node_max: usize,
    /// Bytes that a lane brings before the others have their turn.
    pub read_bytes_turn: usize,
    /// Bytes that a connection brings at once before it is proven.
    pub stranger_read_bytes: usize,
    /// Bytes that are written to a lane before the others have their turn.
    pub write_bytes_turn: usize,
    /// Milliseconds in which a connection to another node has to be there.
    pub connect_ms_max: u64,
    /// Milliseconds between two tries to reach another node: at first, and at most.
    pub redial_ms: (u64, u64),
    /// Milliseconds that a lane has to be open for the next try to come at once when it is lost.
    pub steady_ms: u64,
    /// Milliseconds in which a lane that is over has to take its last bytes.
    pub parting_ms_max: u64,
    /// Bytes of words of the shards that wait for the lanes; a word that finds none waiting is taken whatever its length.
    pub outbound_bytes_max: usize,
    /// Bytes of words of other nodes that wait for a shard; the same.
    pub inbound_bytes_max: usize,
    /// Words about states of logs that wait for the keeper, each of at most 256 KiB, or of a list of segments.
    pub states_max: usize,
    /// Bytes of the news of a node.
    pub news_bytes_max: usize,
    /// Milliseconds between two lines of the log about one thing.
    pub complaint_gap_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            lane: cluster::lane::Limits::default(),
            word: consensus::codec::Limits::default(),
            strangers_max: 64,
            accepts_turn_max: 64,
            lanes_of_node_max: 256,
            read_bytes_turn: 256 << 10,
            stranger_read_bytes: 4096,
            write_bytes_turn: 1 << 20,
            connect_ms_max: 2_000,
            redial_ms: (50, 1_000),
            steady_ms: 1_000,
            parting_ms_max: 1_000,
            outbound_bytes_max: 64 << 20,
            inbound_bytes_max: 64 << 20,
            states_max: 64,
            news_bytes_max: 64 << 10,
            complaint_gap_ms: 10_000,
        }
    }
}
