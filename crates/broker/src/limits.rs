//! The broker's bounds, each with its name.

/// Bounds of one shard and of what it grants. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest message body a publisher may send.
    pub message_size_max: usize,
    /// Bytes of a shard's messages that are on their way: appended and not committed, applied and not written, or sent to another
    /// shard that has not taken them in. Beyond it publishing connections are not read.
    pub log_bytes_in_flight_max: usize,
    /// Bytes of records that a node brings to another that leads a log before it hears that they have come. One may be larger.
    pub visit_bytes_max: usize,
    /// How much it brings before it hears so.
    pub visit_items_max: u64,
    /// Milliseconds after which it brings again what has not come.
    pub visit_again_ms: u64,
    /// Milliseconds after which a node that visits says that it is there, if it says nothing else.
    pub visit_alive_ms: u64,
    /// Bytes of events that a node which visits has not heard of, beyond which its consumers are given nothing.
    pub guest_bytes_max: usize,
    /// Milliseconds without a word of a node that visits after which its connections count as gone.
    pub node_lost_after_ms: u64,
    /// Milliseconds for which a node that begins to lead a log waits for others to say what their connections hold.
    pub claims_ms_max: u64,
    /// Parcels of a log that wait at a node until they are recorded: further records gather until there are fewer.
    pub outbox_parcels_max: usize,
    /// Nodes that may visit one that leads a log.
    pub guests_max: usize,
    /// Nodes whose records a log takes in.
    pub origins_max: usize,
    /// Bytes after which a batch that nobody waits for is written all the same.
    pub lazy_batch_bytes_max: usize,
    /// Milliseconds after which a batch that nobody waits for is written all the same.
    pub lazy_batch_ms_max: u64,
    /// Bytes of committed batches a shard keeps in memory for messages that are still ready.
    pub resident_bytes_max: usize,
    /// The same, where all of a batch's messages are delayed: they are not handed out soon, and others would not have the room.
    pub resident_delayed_bytes_max: usize,
    /// Bytes of batches and segment blocks a shard keeps after reading them back.
    pub loaded_bytes_max: usize,
    /// The same, while a queue is read back that is gone through more than once: for each priority, or for each consumer that
    /// chooses.
    pub loaded_for_passes_bytes_max: usize,
    /// Reads of a log under way at once.
    pub reads_max: usize,
    /// Bytes of one read, where a single batch or block is no larger: how far a queue that is read on from grows its window.
    pub read_bytes_max: usize,
    /// Deliveries one queue makes before the shard turns to the next.
    pub dispatch_messages_max: u32,
    /// Bytes of buffers of finished batches a log keeps to fill again: about what large messages have under way.
    pub spare_buffers_max: usize,
    /// Milliseconds after which such a buffer goes if it was not needed meanwhile.
    pub spare_ms_max: u64,
    /// Routes a publisher remembers.
    pub routes_max: usize,
    /// Bytes of the routes that a publisher remembers; one that is larger is worked out for each message.
    pub routes_bytes_max: usize,
    /// Units of work that routing one message may take, see [`routing::Matches::steps`]; beyond, it is refused.
    pub route_steps_max: u32,
    /// Words that a binding key with wildcards may have, of a topic exchange.
    pub topic_words_max: usize,
    /// Different filters that the bindings of an exchange may have.
    pub exchange_filters_max: usize,
    /// Bytes of memory that they may take on each shard.
    pub exchange_filters_bytes_max: usize,
    /// Arguments that a queue, exchange or binding may have.
    pub arguments_max: usize,
    /// Bytes of the arguments of a queue, exchange or binding, as they are recorded.
    pub arguments_bytes_max: usize,
    /// While the memory alarm holds, nothing is made that would be kept.
    pub alarm_refuses_growth: bool,
    /// Bytes of arguments with which a consumer may come while the memory alarm holds.
    pub alarm_arguments_bytes_max: usize,
    /// Connections open at once on the node; none: any number.
    pub connections_max: Option<u64>,
    /// Connections of one user for which no limit of its own is set; none: any number.
    pub user_connections_max: Option<u64>,
    /// AMQP 0-9-1 channels open at once on the node; none: any number.
    pub channels_max: Option<u64>,
    /// Steps of patterns, some 3 ns each, that queues and exchanges take in one turn which are held against policies; and as many
    /// those that are added in it. One is always looked at.
    pub policy_steps_max: u64,
    /// Queues and exchanges for which other policies count that all shards are told of at once.
    pub policy_objects_max: usize,
    /// Bytes of the compiled patterns of all policies of a kind in a virtual host; none: any number. It bounds what one queue
    /// costs.
    pub policy_programs_bytes_max: Option<u64>,
    /// Bindings that go in one turn on their way out with a queue, exchange or virtual host, or with the exclusive queues of
    /// a connection; an object counts for two. What is more goes in later turns.
    pub removed_at_once_max: usize,
    /// The same of one request, however many come in a turn; at least 2.
    pub removed_by_each_min: usize,
    /// Queues that connections leave in one turn which are closed: further ones they leave in later turns.
    pub left_at_once_max: usize,
    /// Queues of a log that go in one turn because nobody used them for as long as they say.
    pub expired_at_once_max: usize,
    /// Wishes of a node for changes of a catalog that nodes agree on, under way at once: by the distance of their numbers.
    pub wishes_max: u64,
    /// Milliseconds after which a node says again what it wants of another.
    pub wish_again_ms: u64,
    /// Milliseconds that a client waits for a change of a catalog that nodes agree on, before it is told that it timed out.
    pub wish_wait_ms_max: u64,
    /// Milliseconds for which an answer waits until other nodes have applied what it rests on.
    pub seen_wait_ms_max: u64,
    /// Milliseconds between signs of life of a node that has nothing to ask.
    pub pulse_ms: u64,
    /// Milliseconds without a sign of life after which the exclusive queues of a node go.
    pub node_lost_ms: u64,
    /// Virtual hosts; none: any number.
    pub vhosts_max: Option<u64>,
    /// Exchanges of all virtual hosts, predeclared ones included; none: any number.
    pub exchanges_max: Option<u64>,
    /// Queues of all virtual hosts, transient and exclusive ones included; none: any number.
    pub queues_max: Option<u64>,
    /// Messages of one queue whose sizes are found out in one turn, and recorded in one record.
    pub weighed_at_once_max: usize,
    /// Deliveries that wait for their bytes to be read, for one queue, before it stops handing out more.
    pub waiting_for_bytes_max: usize,
    /// Dead letters of one queue that are under way at once.
    pub dead_letterings_max: usize,
    /// Bytes of dead letters of a shard under way at once, beyond which no more are published until some are safe.
    pub dead_lettering_bytes_max: usize,
    /// Messages that full queues refused and that wait to be dead-lettered, beyond which publishers wait.
    pub refused_waiting_max: usize,
    /// [Units of work](base::Work) on dead letters each time a turn of the shard ends.
    pub dead_lettering_work_max: u32,
    /// Milliseconds after which a dead letter is tried again that led nowhere and must not be lost.
    pub dead_lettering_retry_ms: u64,
    /// Bytes of annotations that consumers may add to a message in all; what would be more is not kept.
    pub annotations_bytes_max: usize,
    /// Bytes of annotations of all messages of a queue; what would be more is not kept.
    pub queue_annotations_bytes_max: u64,
    /// Bytes of replies handed to a reply consumer whose connection has much to send already, before further ones are
    /// dropped.
    pub reply_bytes_max: usize,
    /// Changes of the catalog, and pieces of mail, that a log which came from another shard takes in at once of all that waited
    /// for it. A piece is a command, records of 64 KiB and the message that goes beyond, or the records that a turn of another
    /// shard sent.
    pub taken_in_at_once_max: usize,
    /// [Units of work](base::Work) in a turn for exchanges that remember to give messages to new destinations: a message to a
    /// queue takes 100.
    pub recalling_work_max: u32,
    /// Bytes that the selectors of consumers take in all queues of a log; beyond, none stays behind its last consumer.
    pub selectors_bytes_max: usize,
    /// [Units of work](base::Work) in a turn of a log on messages that were there before a consumer that chooses, and on those that
    /// came faster than they are asked.
    pub choosing_work_max: u32,
    /// Milliseconds a consumer of a quorum queue may hold a message, where neither it nor the queue says how long.
    pub consumer_timeout_ms: u64,
    /// [Units of work](base::Work) on the input of connections in a turn, of all users together: beyond it a connection goes on
    /// in a later turn.
    pub turn_work_max: u32,
    /// Bytes of chunks, or of messages made of them, that a reader of a stream is handed before others have their turn.
    pub stream_turn_bytes_max: usize,
    /// Bytes that the readers of a log's streams are handed together before sockets, and publishers, have their turn: so many
    /// readers as there are, the publisher is not kept waiting for longer.
    pub stream_dispatch_bytes_max: usize,
    /// Bytes of messages for the streams of a log, committed within 16 ms, from which on publishers are at full speed.
    pub stream_busy_bytes_min: u64,
    /// As [`Limits::stream_dispatch_bytes_max`], while publishers are at full speed.
    pub stream_dispatch_busy_bytes_max: usize,
    /// Bytes a millisecond that the readers of a log's streams have together while publishers are at full speed, where that is
    /// more than four times what is published.
    pub stream_busy_bytes_per_ms: u64,
    /// Readers of streams that read on are read for ahead of need.
    pub stream_reads_ahead: bool,
    /// Bytes that streams are read back in at a time, at most.
    pub stream_read_bytes_max: u32,
    /// Memory of streams' chunks that are not written yet, beyond which publishing connections are not read.
    pub stream_unwritten_bytes_max: usize,
    /// Offsets that consumers of one stream have said they are at, told in answers before they are on disk; of further
    /// consumers the offsets on disk are told.
    pub stream_offsets_told_max: usize,
    /// Names under which consumers store their offsets that a stream keeps; for one more another is forgotten. What was logged is read
    /// again by it, so it stays as it is while a data folder lives.
    pub stream_offsets_max: usize,
    /// A message of a stream with fewer bytes is copied to a queue that is filled from there; a larger one stays where it is, and
    /// the queue refers to it.
    pub referred_bytes_min: usize,
    /// Bytes of a stream that are not flushed and that a queue is yet to be filled with, from which on they are flushed for it, and not
    /// copied.
    pub feed_sync_bytes_min: u64,
    /// Unknown arguments of a declaration that are held against known ones, to tell of slips.
    pub misspelt_looked_max: usize,
    /// Declarations with such slips that the log tells of in a minute; further ones are not looked at.
    pub misspelt_told_max: u32,
    /// Bytes of chunks handed to a stream's subscription before its connection has to say that it can take more.
    pub consumer_window_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            message_size_max: 16 << 20,
            log_bytes_in_flight_max: 32 << 20,
            visit_bytes_max: 4 << 20,
            visit_items_max: 1024,
            visit_again_ms: 200,
            visit_alive_ms: 1000,
            guest_bytes_max: 16 << 20,
            node_lost_after_ms: 15_000,
            claims_ms_max: 500,
            outbox_parcels_max: 1024,
            guests_max: 1024,
            origins_max: 1024,
            lazy_batch_bytes_max: 256 << 10,
            lazy_batch_ms_max: 100,
            resident_bytes_max: 8 << 20,
            resident_delayed_bytes_max: 1 << 20,
            loaded_bytes_max: 4 << 20,
            loaded_for_passes_bytes_max: 16 << 20,
            reads_max: 4,
            read_bytes_max: 512 << 10,
            dispatch_messages_max: 4096,
            spare_buffers_max: 16 << 20,
            spare_ms_max: 2_000,
            routes_max: 16_384,
            routes_bytes_max: 2 << 20,
            route_steps_max: routing::STEPS_MAX,
            topic_words_max: 250,
            exchange_filters_max: 100_000,
            exchange_filters_bytes_max: 256 << 20,
            arguments_max: 1024,
            arguments_bytes_max: 64 << 10,
            alarm_refuses_growth: true,
            alarm_arguments_bytes_max: 4 << 10,
            connections_max: None,
            user_connections_max: None,
            channels_max: None,
            policy_steps_max: 1 << 20,
            policy_objects_max: 500,
            policy_programs_bytes_max: Some(1 << 20),
            removed_at_once_max: 512,
            removed_by_each_min: 64,
            left_at_once_max: 250,
            expired_at_once_max: 250,
            wishes_max: 1000,
            wish_again_ms: 100,
            wish_wait_ms_max: 5000,
            seen_wait_ms_max: 500,
            pulse_ms: 1000,
            node_lost_ms: 60_000,
            vhosts_max: None,
            exchanges_max: None,
            queues_max: None,
            weighed_at_once_max: 4096,
            waiting_for_bytes_max: 256,
            dead_letterings_max: 256,
            dead_lettering_bytes_max: 8 << 20,
            dead_lettering_work_max: 200_000,
            refused_waiting_max: 1024,
            dead_lettering_retry_ms: 1_000,
            annotations_bytes_max: 64 << 10,
            queue_annotations_bytes_max: 16 << 20,
            reply_bytes_max: 16 << 20,
            taken_in_at_once_max: 64,
            recalling_work_max: 200_000,
            selectors_bytes_max: 64 << 20,
            choosing_work_max: 200_000,
            consumer_timeout_ms: 1_800_000,
            turn_work_max: 400_000,
            stream_turn_bytes_max: 256 << 10,
            stream_dispatch_bytes_max: 512 << 10,
            stream_busy_bytes_min: 1 << 20,
            stream_dispatch_busy_bytes_max: 256 << 10,
            stream_busy_bytes_per_ms: 256 << 10,
            stream_reads_ahead: true,
            stream_read_bytes_max: 1 << 20,
            stream_unwritten_bytes_max: 64 << 20,
            stream_offsets_told_max: 4096,
            stream_offsets_max: 65_536,
            referred_bytes_min: 1024,
            feed_sync_bytes_min: 1 << 20,
            misspelt_looked_max: 16,
            misspelt_told_max: 10,
            consumer_window_bytes: 256 << 10,
        }
    }
}
