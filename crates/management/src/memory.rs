//! Memory by its uses, in RabbitMQ's words.

use crate::call::Call;
use crate::list;
use crate::node::{Memory, Node};
use crate::response::{Answer, Response};
use serde_json::{Map, Value, json};

/// RabbitMQ's pools, each with its metric, and `filters`. Those that nothing here is in are 0: clients want all.
const POOLS: [(&str, &str); 27] = [
    ("connection_readers", "memory_client_connection_reader_bytes"),
    ("connection_writers", "memory_client_connection_writer_bytes"),
    ("connection_channels", "memory_client_connection_channel_bytes"),
    ("connection_other", "memory_client_connection_other_bytes"),
    ("queue_procs", "memory_classic_queue_erlang_process_bytes"),
    ("quorum_queue_procs", "memory_quorum_queue_erlang_process_bytes"),
    ("quorum_queue_dlx_procs", "memory_quorum_queue_dlx_erlang_process_bytes"),
    ("stream_queue_procs", "memory_stream_erlang_process_bytes"),
    ("stream_queue_replica_reader_procs", "memory_stream_replica_reader_erlang_process_bytes"),
    ("stream_queue_coordinator_procs", "memory_stream_coordinator_erlang_process_bytes"),
    ("plugins", "memory_plugin_bytes"),
    ("metadata_store", "memory_modern_metadata_store_bytes"),
    ("other_proc", "memory_other_erlang_process_bytes"),
    ("metrics", "memory_metrics_bytes"),
    ("mgmt_db", "memory_management_stats_db_bytes"),
    ("mnesia", "memory_classic_metadata_store_bytes"),
    ("quorum_ets", "memory_quorum_queue_ets_table_bytes"),
    ("metadata_store_ets", "memory_modern_metadata_store_ets_table_bytes"),
    ("other_ets", "memory_other_ets_table_bytes"),
    ("binary", "memory_binary_heap_bytes"),
    ("msg_index", "memory_message_index_bytes"),
    ("code", "memory_code_module_bytes"),
    ("atom", "memory_atom_table_bytes"),
    ("filters", "leveret_memory_filters_bytes"),
    ("other_system", "memory_other_system_bytes"),
    ("allocated_unused", "memory_runtime_allocated_unused_bytes"),
    ("reserved_unallocated", "memory_runtime_reserved_unallocated_bytes"),
];

/// The metric of a pool.
pub(crate) fn metric(pool: &str) -> Option<&'static str> {
    POOLS.iter().find(|(name, _)| *name == pool).map(|(_, metric)| *metric)
}

/// Bytes of all pools.
pub(crate) fn named(known: &Memory) -> Vec<(&'static str, u64)> {
    let of = |pool: &str| known.pools.iter().find(|(name, _)| *name == pool).map_or(0, |(_, bytes)| *bytes);
    POOLS.iter().map(|(name, _)| (*name, of(name))).collect()
}

/// `GET /api/nodes/NAME/memory`.
pub(crate) fn of_node<N: Node>(call: &Call<'_, N>, name: &str, is_relative: bool) -> Answer {
    if name != call.node.about().node {
        return Err(Response::not_found());
    }
    let known = call.node.memory()?;
    let pools = named(&known);
    let sum: u64 = pools.iter().map(|(_, bytes)| bytes).sum();
    let shown = |bytes: u64| if is_relative { bytes * 100 / sum.max(1) } else { bytes };
    let mut memory: Map<String, Value> =
        base::brief::collect(pools.iter().map(|(name, bytes)| ((*name).to_owned(), shown(*bytes).into())));
    if is_relative {
        memory.insert("total".into(), 100.into());
    } else {
        let Memory { in_use, allocated, resident, .. } = known;
        memory.insert("strategy".into(), "rss".into());
        memory.insert("total".into(), json!({ "rss": resident, "allocated": allocated, "erlang": in_use }));
    }
    list::one(json!({ "memory": memory }), call.request, &call.node.about().limits)
}

/// `GET /api/nodes/NAME/memory/ets[/FILTER][/relative]`: in RabbitMQ's words for a filter that no table passes.
pub(crate) fn tables<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    match name == call.node.about().node {
        true => Ok(Response::ok(&json!({ "ets_tables_memory": "no_tables" }))),
        false => Err(Response::not_found()),
    }
}
