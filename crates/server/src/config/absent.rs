//! Keys of what is not served yet. What opens a door that nobody would answer at, or makes one node of several that would
//! not know of each other, is refused; what tunes it alone does nothing.

use super::cluster;
use super::draft::Draft;
use super::keys::Standing::{self, Inert, Judged, Served};
use super::value::{boolean, integer};
use super::verdict::Verdict;

const MQTT: &str = "MQTT is not served yet";
const STOMP: &str = "STOMP is not served yet";
const ALONE: &str = "a node is alone: no cluster is formed yet";

/// As [`super::keys::KEYS`], behind which it stands.
pub const ABSENT: &[(&str, Standing)] = &[
    // Other nodes.
    (
        "cluster_formation.peer_discovery_backend",
        Judged(|draft, _, value| match value {
            "classic_config" | "rabbit_peer_discovery_classic_config" if draft.cluster.is_tried => {
                Verdict::Works
            }
            "classic_config" | "rabbit_peer_discovery_classic_config" => nothing(ALONE),
            _ if draft.cluster.is_tried => Verdict::Absent("nodes are found by classic_config alone".into()),
            _ if draft.is_alone() => {
                nothing("the size of the cluster is one, so there is nothing to discover")
            }
            _ => Verdict::Absent(
                "no cluster is formed yet; it can be: classic_config, without other nodes, or any with \
                 cluster_formation.target_cluster_size_hint = 1"
                    .into(),
            ),
        }),
    ),
    ("cluster_formation.classic_config.nodes.$", Judged(other_node)),
    (
        "cluster_formation.target_cluster_size_hint",
        Judged(|draft, _, value| match value {
            _ if draft.cluster.is_tried => nothing("the list of nodes says how many there are"),
            "0" | "1" => nothing(ALONE),
            _ if draft.is_alone() => nothing("a later setting says that the node is alone"),
            _ => Verdict::Absent(
                "no cluster is formed yet: this node would be alone, and others with it".into(),
            ),
        }),
    ),
    ("cluster_formation.discovery_retry_limit", Inert(ALONE)),
    ("cluster_formation.discovery_retry_interval", Inert(ALONE)),
    ("cluster_formation.internal_lock_retries", Inert(ALONE)),
    ("cluster_formation.lock_retry_limit", Inert(ALONE)),
    ("cluster_formation.lock_retry_timeout", Inert(ALONE)),
    ("cluster_formation.lock_timeout", Inert(ALONE)),
    ("cluster_formation.node_cleanup.$", Inert(ALONE)),
    ("cluster_formation.node_type", Inert(ALONE)),
    ("cluster_formation.proxy.*", Inert(ALONE)),
    ("cluster_formation.randomized_startup_delay_range.$", Inert(ALONE)),
    ("cluster_formation.registration.$", Inert(ALONE)),
    ("cluster_formation.*", Inert("it tunes how other nodes are found, and no cluster is formed yet")),
    ("peer_discovery_backend", Standing::Refused("no cluster is formed yet")),
    (cluster::COOKIE, Judged(|draft, _, value| cluster::cookie(&mut draft.cluster, value))),
    (
        "leveret.cluster.cookie_file",
        Judged(|draft, _, value| cluster::cookie_file(&mut draft.cluster, value)),
    ),
    ("leveret.cluster.listener", Judged(|draft, _, value| cluster::listener(&mut draft.cluster, value))),
    (
        "leveret.cluster.address.$",
        Judged(|draft, number, value| cluster::host(&mut draft.cluster, number, value)),
    ),
    // Known beforehand, as it decides what becomes of the others.
    (cluster::EXPERIMENTAL, Served(|_, _, value| boolean(value).map(drop))),
    // Protocols.
    ("mqtt.listeners.tcp", Judged(|_, _, value| closed(value, MQTT))),
    ("mqtt.listeners.ssl", Judged(|_, _, value| closed(value, MQTT))),
    ("mqtt.listeners.*", Standing::Refused(MQTT)),
    ("mqtt.*", Inert(MQTT)),
    ("stomp.listeners.tcp", Judged(|_, _, value| closed(value, STOMP))),
    ("stomp.listeners.ssl", Judged(|_, _, value| closed(value, STOMP))),
    ("stomp.listeners.*", Standing::Refused(STOMP)),
    ("stomp.*", Inert(STOMP)),
    ("web_mqtt.tcp", Judged(|_, _, value| closed(value, MQTT))),
    ("web_mqtt.tcp.port", Standing::Refused(MQTT)),
    ("web_mqtt.tcp.listener", Standing::Refused(MQTT)),
    ("web_mqtt.ssl.port", Standing::Refused(MQTT)),
    ("web_mqtt.ssl.listener", Standing::Refused(MQTT)),
    ("web_mqtt.*", Inert(MQTT)),
    ("web_stomp.tcp", Judged(|_, _, value| closed(value, STOMP))),
    ("web_stomp.tcp.port", Standing::Refused(STOMP)),
    ("web_stomp.tcp.listener", Standing::Refused(STOMP)),
    ("web_stomp.ssl.port", Standing::Refused(STOMP)),
    ("web_stomp.ssl.listener", Standing::Refused(STOMP)),
    ("web_stomp.*", Inert(STOMP)),
    // Settings that RabbitMQ has in `advanced.config` alone.
    (
        "leveret.max_link_credit",
        Served(|draft, _, value| {
            integer(value, 1, u64::from(u32::MAX)).map(|it| draft.config.credit.link = Some(it as u32))
        }),
    ),
    (
        "leveret.max_incoming_window",
        Served(|draft, _, value| {
            integer(value, 1, u64::from(u32::MAX))
                .map(|it| draft.config.credit.incoming_window = Some(it as u32))
        }),
    ),
];

fn nothing(why: &str) -> Verdict {
    Verdict::Nothing(why.to_owned())
}

/// A list of nodes that has this one alone forms no cluster.
fn other_node(draft: &mut Draft, number: &str, value: &str) -> Verdict {
    if draft.cluster.is_tried {
        draft.cluster.add_node(number, value);
        return Verdict::Works;
    }
    match value == draft.config.node_name {
        true => nothing(ALONE),
        false => Verdict::Absent(format!(
            "no cluster is formed yet: {} would be alone, and {value} with it",
            draft.config.node_name
        )),
    }
}

/// No listener is what there is.
fn closed(value: &str, why: &str) -> Verdict {
    match value {
        "none" => nothing(why),
        _ => Verdict::Absent(why.to_owned()),
    }
}
