//! All endpoints there are. The first whose path fits is meant.

use crate::call::Call;
use crate::caller::Need::{self, Administrator, Monitor, Nobody, Policymaker, PolicymakerIn, User, Vhost};
use crate::endpoint::{
    Endpoint, Field, Gives, Kind, LIST, LIST_OF_QUEUES, LIST_WITH_FIGURES, PLAIN, TOTALS, Takes, Verb,
    delete, get, may, must, post, put,
};
use crate::node::Node;
use crate::response::{Answer, Response};
use crate::streams::Asked;
use crate::{
    advice, beyond, bindings, channels, cluster, connections, dead_letters, definitions, exchanges,
    expressions, features, health, held, latency, limits, live, log, may, memory, messages, openapi,
    operations, overview, parameters, permissions, policies, preview, queues, quorum, search, sessions,
    shovels, streams, tail, tenants, topology, traces, trial, users, vhosts,
};
use broker::catalog::PolicyKind;
use serde_json::json;

/// Rows of `NAME PATH (NAMES IN THE PATH) => WHAT ANSWERS, WHAT MAY BE DONE;`
macro_rules! table {
    ($call:ident; $($name:ident $path:literal ($($named:ident),*) => $run:expr, [$($verb:expr),* $(,)?];)*) => {
        /// An endpoint's name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Name {
            $($name),*
        }

        /// See the module.
        pub(crate) const ENDPOINTS: &[Endpoint] = &[
            $(Endpoint { name: Name::$name, path: $path, verbs: &[$($verb),*] }),*
        ];

        /// Answers; `named` are the segments that the path's names stand for.
        pub(crate) fn run<N: Node>(name: Name, $call: &Call<'_, N>, named: &[&str]) -> Answer {
            match (name, named) {
                $((Name::$name, &[$($named),*]) => $run,)*
                // A test walks through all of them.
                (name, named) => unreachable!("{name:?} is not of {} names", named.len()),
            }
        }
    };
}

const QUEUE: &[Field] = &[
    may("durable", Kind::Boolean),
    may("auto_delete", Kind::Boolean),
    may("arguments", Kind::Object),
    may("node", Kind::Text),
];
const EXCHANGE: &[Field] = &[
    may("type", Kind::Text),
    may("durable", Kind::Boolean),
    may("auto_delete", Kind::Boolean),
    may("internal", Kind::Boolean),
    may("arguments", Kind::Object),
];
const BINDING: &[Field] = &[may("routing_key", Kind::Text), may("arguments", Kind::Object)];
const MESSAGE: &[Field] = &[
    must("properties", Kind::Object),
    must("routing_key", Kind::Text),
    must("payload", Kind::Text),
    must("payload_encoding", Kind::OneOf(&["string", "base64"])),
];
const EXPRESSION: &[Field] = &[
    must("filter", Kind::Text),
    may("properties", Kind::Object),
    may("payload", Kind::Text),
    may("payload_encoding", Kind::OneOf(&["string", "base64"])),
    may("exchange", Kind::Text),
    may("routing_key", Kind::Text),
    may("vhost", Kind::Text),
    may("as_answer", Kind::Boolean),
];
const GET: &[Field] = &[
    must("count", Kind::Integer),
    may("ackmode", Kind::OneOf(ACK_MODES)),
    may("requeue", Kind::Boolean),
    must("encoding", Kind::OneOf(&["auto", "base64"])),
    may("truncate", Kind::Integer),
];
const ACK_MODES: &[&str] =
    &["ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"];
const POLICY: &[Field] = &[
    must("pattern", Kind::Text),
    must("definition", Kind::Object),
    may("priority", Kind::Integer),
    may(
        "apply-to",
        Kind::OneOf(&["all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams"]),
    ),
];
const PERMISSION: &[Field] =
    &[must("configure", Kind::Text), must("write", Kind::Text), must("read", Kind::Text)];
const TOPIC_PERMISSION: &[Field] =
    &[must("exchange", Kind::Text), must("write", Kind::Text), must("read", Kind::Text)];
const VHOST: &[Field] = &[
    may("description", Kind::Text),
    may("tags", Kind::Words),
    may("default_queue_type", Kind::Text),
    may("protected_from_deletion", Kind::Boolean),
    may("tracing", Kind::Boolean),
];
const USER: &[Field] = &[
    may("password", Kind::Text),
    may("password_hash", Kind::Text),
    may("hashing_algorithm", Kind::Text),
    must("tags", Kind::Words),
];
const USERS: &[Field] = &[must("users", Kind::Texts)];
const LOGIN: &[Field] = &[must("username", Kind::Text), must("password", Kind::Text)];
const VALUE: &[Field] = &[must("value", Kind::Any)];
const LIMIT: &[Field] = &[must("value", Kind::Integer)];
const PARAMETER: &[Field] = &[
    must("value", Kind::Any),
    may("component", Kind::Text),
    may("vhost", Kind::Text),
    may("name", Kind::Text),
];
const CLUSTER: &[Field] = &[must("name", Kind::Text)];
const DEFINITIONS: &[Field] = &[
    may("users", Kind::Objects),
    may("vhosts", Kind::Objects),
    may("permissions", Kind::Objects),
    may("topic_permissions", Kind::Objects),
    may("parameters", Kind::Objects),
    may("global_parameters", Kind::Objects),
    may("policies", Kind::Objects),
    may("queues", Kind::Objects),
    may("exchanges", Kind::Objects),
    may("bindings", Kind::Objects),
];
const IMPORT: &[Field] =
    &[may("dry_run", Kind::Boolean), may("report", Kind::Boolean), may("strip", Kind::OneOf(&["cmq"]))];
const SUPER_STREAM: &[Field] =
    &[may("partitions", Kind::Integer), may("binding-keys", Kind::Text), may("arguments", Kind::Object)];
const TRUNCATE: &[Field] = &[must("before", Kind::Integer)];
const QUEUE_ACTION: &[Field] = &[must("action", Kind::Text)];
const REPLICA: &[Field] = &[must("node", Kind::Text)];
const STRATEGY: &[Field] = &[
    must("strategy", Kind::OneOf(&["all", "even"])),
    must("vhost_pattern", Kind::Text),
    must("queue_pattern", Kind::Text),
];
const DELETE_QUEUE: &[Field] = &[may("if-unused", Kind::Boolean), may("if-empty", Kind::Boolean)];
const DELETE_EXCHANGE: &[Field] = &[may("if-unused", Kind::Boolean)];
const SAMPLES: &[Field] = &[
    may("columns", Kind::Text),
    may("lengths_age", Kind::Integer),
    may("lengths_incr", Kind::Integer),
    may("msg_rates_age", Kind::Integer),
    may("msg_rates_incr", Kind::Integer),
    may("data_rates_age", Kind::Integer),
    may("data_rates_incr", Kind::Integer),
    may("samples", Kind::OneOf(&["all", "known"])),
    PLAIN,
    TOTALS,
];
/// Of a list that has no pages.
const WHOLE: &[Field] =
    &[may("columns", Kind::Text), may("sort", Kind::Text), may("sort_reverse", Kind::Boolean)];
const PEEK: &[Field] = &[
    may("offset", Kind::Integer),
    may("position", Kind::Integer),
    may("last", Kind::Integer),
    may("from", Kind::Text),
    may("where", Kind::Text),
    may("count", Kind::Integer),
    may("encoding", Kind::OneOf(&["auto", "base64"])),
    may("truncate", Kind::Integer),
];
const TAIL: &[Field] = &[
    may("position", Kind::Integer),
    may("from", Kind::Integer),
    may("where", Kind::Text),
    may("count", Kind::Integer),
    may("events", Kind::Integer),
    may("encoding", Kind::OneOf(&["auto", "base64"])),
    may("truncate", Kind::Integer),
];
const LOG: &[Field] = &[
    may("level", Kind::OneOf(&["debug", "info", "notice", "warning", "error", "critical"])),
    may("text", Kind::Text),
    may("last", Kind::Integer),
    may("events", Kind::Integer),
];
const MAY: &[Field] = &[
    must("access", Kind::OneOf(&["configure", "write", "read"])),
    may("queue", Kind::Text),
    may("exchange", Kind::Text),
    may("routing_key", Kind::Text),
];
const TOPOLOGY: &[Field] =
    &[must("vhost", Kind::Text), may("prefix", Kind::Text), may("most", Kind::Integer)];
const UNACKED: &[Field] = &[may("position", Kind::Integer), may("count", Kind::Integer)];
const EVENTS: &[Field] = &[may("vhost", Kind::Text), may("queue", Kind::Texts), may("count", Kind::Integer)];
const REDRIVE: &[Field] = &[
    may("count", Kind::Integer),
    may("rate", Kind::Integer),
    may("positions", Kind::Integers),
    may("where", Kind::Text),
    may("position", Kind::Integer),
];
const DISCARD: &[Field] = &[
    may("positions", Kind::Integers),
    may("where", Kind::Text),
    may("position", Kind::Integer),
    may("count", Kind::Integer),
];
const SETTLE: &[Field] = &[
    must("outcome", Kind::OneOf(&["accepted", "rejected"])),
    may("held", Kind::Boolean),
    may("positions", Kind::Integers),
    may("where", Kind::Text),
    may("position", Kind::Integer),
    may("count", Kind::Integer),
];
const MOVE: &[Field] = &[
    must("exchange", Kind::Text),
    must("routing_key", Kind::Text),
    may("count", Kind::Integer),
    may("rate", Kind::Integer),
    may("positions", Kind::Integers),
    may("where", Kind::Text),
    may("position", Kind::Integer),
];
const TRIAL: &[Field] = &[
    must("routing_key", Kind::Text),
    may("properties", Kind::Object),
    may("payload", Kind::Text),
    may("payload_encoding", Kind::OneOf(&["string", "base64"])),
];
const COUNT: &[Field] = &[may("count", Kind::Integer)];
const IDS: &[Field] = &[must("ids", Kind::Integers)];
/// Objects that are not there yet, or those that are.
const ONLY: &[Field] = &[may("only", Kind::OneOf(&["new", "existing"]))];
const DONE: Gives = Gives::Done(&[204]);
const CREATED: Gives = Gives::Done(&[201]);

const fn rows(need: Need, about: &'static str) -> Verb {
    get(need, about, Gives::Rows).asking(LIST)
}

const fn object(need: Need, about: &'static str) -> Verb {
    get(need, about, Gives::Object)
}

const fn array(need: Need, about: &'static str) -> Verb {
    get(need, about, Gives::Array)
}

/// A check of a node's health.
const fn check(need: Need, about: &'static str) -> Verb {
    get(need, about, Gives::Health)
}

table! { call;
    Overview "overview" () => overview::overview(call), [object(User, "what the node has and does").asking(SAMPLES)];
    Whoami "whoami" () => users::whoami(call), [object(User, "who asks")];
    Cluster "cluster-name" () => parameters::cluster_name(call), [
        object(User, "the cluster's name"),
        put(Administrator, "gives the cluster a name", CLUSTER).giving(DONE),
    ];
    Version "version" () => overview::version(call), [get(User, "the version clients are told", Gives::Text)];
    Login "login" () => operations::login(call), [
        post(Nobody, "logs in: a token for the header authorization", Takes::Form(LOGIN), Gives::Object),
    ];
    RebalanceQueues "rebalance/queues" () => operations::rebalance(call), [
        post(Administrator, "spreads leaders of queues; one node has them all", Takes::Nothing, DONE),
    ];
    Reset "reset" () => operations::reset(call, None), [delete(Administrator, "forgets how counters grew")];
    ResetNode "reset/{node}" (node) => operations::reset(call, Some(node)), [
        delete(Administrator, "forgets how a node's counters grew"),
    ];
    Nodes "nodes" () => overview::nodes(call), [get(Monitor, "the nodes", Gives::Array).asking(&[PLAIN])];
    NodeOf "nodes/{node}" (node) => overview::node(call, node), [object(Monitor, "a node").asking(SAMPLES)];
    NodeMemory "nodes/{node}/memory" (node) => memory::of_node(call, node, false), [
        object(Monitor, "bytes of memory by what they are for"),
    ];
    NodeMemoryRelative "nodes/{node}/memory/relative" (node) => memory::of_node(call, node, true), [
        object(Monitor, "percents of memory by what they are for"),
    ];
    NodeTables "nodes/{node}/memory/ets" (node) => memory::tables(call, node), [
        object(Monitor, "tables of RabbitMQ's runtime, of which there are none"),
    ];
    NodeTablesRelative "nodes/{node}/memory/ets/relative" (node) => memory::tables(call, node), [
        object(Monitor, "tables of RabbitMQ's runtime, of which there are none"),
    ];
    NodeTablesOf "nodes/{node}/memory/ets/{filter}" (node, _filter) => memory::tables(call, node), [
        object(Monitor, "tables of RabbitMQ's runtime, of which there are none"),
    ];
    NodeTablesOfRelative "nodes/{node}/memory/ets/{filter}/relative" (node, _filter) => memory::tables(call, node), [
        object(Monitor, "tables of RabbitMQ's runtime, of which there are none"),
    ];
    Extensions "extensions" () => Ok(Response::ok(&json!([]))), [get(User, "extensions of the user interface", Gives::Array)];
    ConfigEffective "config/effective" () => operations::effective(call), [
        get(Administrator, "the settings that count, as a configuration file", Gives::Plain),
    ];
    AuthAttempts "auth/attempts/{node}" (node) => operations::auth(call, node), [
        get(Monitor, "logins by protocol", Gives::Array),
        delete(Administrator, "forgets logins"),
    ];
    AuthSources "auth/attempts/{node}/source" (node) => operations::auth_sources(call, node), [
        get(Monitor, "logins by where they came from", Gives::Array),
        delete(Administrator, "forgets logins"),
    ];
    HashPassword "auth/hash_password/{password}" (password) => users::hash(call, password), [
        object(User, "the hash of a password"),
    ];
    FeatureFlags "feature-flags" () => features::flags(call), [get(User, "feature flags", Gives::Array)];
    FeatureFlagEnable "feature-flags/{name}/enable" (name) => features::enable(call, name), [
        put(Administrator, "enables a feature flag", &[may("name", Kind::Text)]).giving(DONE),
    ];
    DeprecatedFeatures "deprecated-features" () => features::deprecated(call), [
        get(User, "what is deprecated", Gives::Array),
    ];
    DeprecatedFeaturesUsed "deprecated-features/used" () => features::used(call), [
        get(User, "what of it is used", Gives::Array),
    ];

    Definitions "definitions" () => definitions::definitions(call, None), [
        object(Administrator, "users, virtual hosts and all in them, to be imported again"),
        post(Administrator, "has things as a file says", Takes::Object(DEFINITIONS), Gives::Imported).asking(IMPORT),
    ];
    AllConfiguration "all-configuration" () => definitions::definitions(call, None), [
        object(Administrator, "the same as definitions, by its old name"),
        post(Administrator, "has things as a file says", Takes::Object(DEFINITIONS), Gives::Imported).asking(IMPORT),
    ];
    DefinitionsOf "definitions/{vhost}" (vhost) => definitions::definitions(call, Some(vhost)), [
        object(PolicymakerIn, "what is in a virtual host, to be imported again"),
        post(Administrator, "has things of a virtual host as a file says", Takes::Object(DEFINITIONS), Gives::Imported).asking(IMPORT),
    ];

    Vhosts "vhosts" () => vhosts::list(call), [rows(User, "virtual hosts").asking(LIST_WITH_FIGURES)];
    VhostOf "vhosts/{vhost}" (vhost) => vhosts::one(call, vhost), [
        object(Administrator, "a virtual host").asking(SAMPLES),
        put(Administrator, "has a virtual host like this", VHOST).asking(ONLY),
        delete(Administrator, "deletes a virtual host and all in it"),
    ];
    VhostPermissions "vhosts/{vhost}/permissions" (vhost) => permissions::of_vhost(call, vhost), [
        rows(Administrator, "who may do what in a virtual host"),
    ];
    VhostTopicPermissions "vhosts/{vhost}/topic-permissions" (vhost) => permissions::topics_of_vhost(call, vhost), [
        rows(Administrator, "who may do what with which topics in a virtual host"),
    ];
    VhostProtection "vhosts/{vhost}/deletion/protection" (vhost) => vhosts::protect(call, vhost), [
        object(Administrator, "a virtual host"),
        post(Administrator, "keeps a virtual host from being deleted", Takes::Nothing, DONE),
        delete(Administrator, "lets a virtual host be deleted again"),
    ];
    VhostStart "vhosts/{vhost}/start/{node}" (vhost, node) => vhosts::start(call, vhost, node), [
        post(Administrator, "starts a virtual host that is down, which none is", Takes::Nothing, DONE),
    ];
    VhostConnections "vhosts/{vhost}/connections" (vhost) => connections::of_vhost(call, vhost), [
        rows(Vhost, "connections to a virtual host"),
    ];
    VhostChannels "vhosts/{vhost}/channels" (vhost) => channels::of_vhost(call, vhost), [
        rows(Vhost, "channels to a virtual host"),
    ];
    Users "users" () => users::list(call), [rows(Administrator, "users")];
    UsersWithoutPermissions "users/without-permissions" () => users::without_permissions(call), [
        rows(Administrator, "users without any permissions"),
    ];
    UsersBulkDelete "users/bulk-delete" () => users::delete_many(call), [
        post(Administrator, "deletes users", Takes::Object(USERS), DONE),
    ];
    UserOf "users/{user}" (user) => users::one(call, user), [
        object(Administrator, "a user"),
        put(Administrator, "has a user like this", USER).asking(ONLY),
        delete(Administrator, "deletes a user"),
    ];
    UserPermissions "users/{user}/permissions" (user) => permissions::of_user(call, user), [
        rows(Administrator, "what a user may do where"),
    ];
    UserTopicPermissions "users/{user}/topic-permissions" (user) => permissions::topics_of_user(call, user), [
        rows(Administrator, "what a user may do with which topics"),
    ];
    UserQueues "users/{user}/queues" (user) => queues::of_user(call, user), [
        rows(User, "queues that a user declared").asking(LIST_OF_QUEUES),
    ];
    Permissions "permissions" () => permissions::list(call), [rows(Administrator, "who may do what where")];
    PermissionOf "permissions/{vhost}/{user}" (vhost, user) => permissions::one(call, vhost, user), [
        object(Administrator, "what a user may do in a virtual host"),
        put(Administrator, "lets a user do things in a virtual host", PERMISSION),
        delete(Administrator, "lets a user do nothing in a virtual host any more"),
    ];
    TopicPermissions "topic-permissions" () => permissions::topics(call), [
        rows(Administrator, "who may do what with which topics"),
    ];
    TopicPermissionsOf "topic-permissions/{vhost}/{user}" (vhost, user) => {
        permissions::topics_one(call, vhost, user, None)
    }, [
        get(Administrator, "what a user may do with which topics of a virtual host", Gives::Array),
        put(Administrator, "lets a user do things with topics of an exchange", TOPIC_PERMISSION),
        delete(Administrator, "lets a user do with topics of a virtual host what permissions allow"),
    ];
    TopicPermissionOf "topic-permissions/{vhost}/{user}/{exchange}" (vhost, user, exchange) => {
        permissions::topics_one(call, vhost, user, Some(exchange))
    }, [
        get(Administrator, "what a user may do with topics of an exchange", Gives::Array),
        delete(Administrator, "lets a user do with topics of an exchange what permissions allow"),
    ];
    VhostLimits "vhost-limits" () => limits::vhosts(call, None), [get(User, "limits of virtual hosts", Gives::Array)];
    VhostLimitsOf "vhost-limits/{vhost}" (vhost) => limits::vhosts(call, Some(vhost)), [
        get(Vhost, "limits of a virtual host", Gives::Array),
    ];
    VhostLimit "vhost-limits/{vhost}/{limit}" (vhost, limit) => limits::set_vhost(call, vhost, limit), [
        put(Administrator, "limits a virtual host", LIMIT).giving(DONE),
        delete(Administrator, "lifts a limit of a virtual host"),
    ];
    UserLimits "user-limits" () => limits::users(call, None), [get(Administrator, "limits of users", Gives::Array)];
    UserLimitsOf "user-limits/{user}" (user) => limits::users(call, Some(user)), [
        get(Administrator, "limits of a user", Gives::Array),
    ];
    UserLimit "user-limits/{user}/{limit}" (user, limit) => limits::set_user(call, user, limit), [
        put(Administrator, "limits a user", LIMIT).giving(DONE),
        delete(Administrator, "lifts a limit of a user"),
    ];

    Policies "policies" () => policies::list(call, PolicyKind::User, None), [rows(User, "policies")];
    PoliciesOf "policies/{vhost}" (vhost) => policies::list(call, PolicyKind::User, Some(vhost)), [
        rows(Vhost, "policies of a virtual host"),
    ];
    PolicyOf "policies/{vhost}/{name}" (vhost, name) => policies::one(call, PolicyKind::User, vhost, name), [
        object(Vhost, "a policy"),
        put(PolicymakerIn, "has a policy like this", POLICY),
        delete(PolicymakerIn, "deletes a policy"),
    ];
    OperatorPolicies "operator-policies" () => policies::list(call, PolicyKind::Operator, None), [
        rows(User, "the operator's policies"),
    ];
    OperatorPoliciesOf "operator-policies/{vhost}" (vhost) => {
        policies::list(call, PolicyKind::Operator, Some(vhost))
    }, [rows(Vhost, "the operator's policies of a virtual host")];
    OperatorPolicyOf "operator-policies/{vhost}/{name}" (vhost, name) => {
        policies::one(call, PolicyKind::Operator, vhost, name)
    }, [
        object(Administrator, "a policy of the operator's"),
        put(Administrator, "has a policy of the operator's like this", POLICY),
        delete(Administrator, "deletes a policy of the operator's"),
    ];
    Parameters "parameters" () => parameters::list(call, None, None), [rows(Policymaker, "parameters of virtual hosts")];
    ParametersOf "parameters/{component}" (component) => parameters::list(call, Some(component), None), [
        rows(Policymaker, "parameters of a component"),
    ];
    ParametersIn "parameters/{component}/{vhost}" (component, vhost) => {
        parameters::list(call, Some(component), Some(vhost))
    }, [rows(PolicymakerIn, "parameters of a component in a virtual host")];
    ParameterOf "parameters/{component}/{vhost}/{name}" (component, vhost, name) => {
        parameters::one(call, component, vhost, name)
    }, [
        object(PolicymakerIn, "a parameter"),
        put(PolicymakerIn, "sets a parameter", PARAMETER),
        delete(PolicymakerIn, "takes a parameter back"),
    ];
    GlobalParameters "global-parameters" () => parameters::global(call), [rows(Policymaker, "parameters of the node")];
    GlobalParameterOf "global-parameters/{name}" (name) => parameters::global_one(call, name), [
        object(Policymaker, "a parameter of the node"),
        put(Administrator, "sets a parameter of the node", VALUE),
        delete(Administrator, "takes a parameter of the node back"),
    ];

    Exchanges "exchanges" () => exchanges::list(call, None), [rows(User, "exchanges").asking(LIST_WITH_FIGURES)];
    ExchangesOf "exchanges/{vhost}" (vhost) => exchanges::list(call, Some(vhost)), [
        rows(Vhost, "exchanges of a virtual host").asking(LIST_WITH_FIGURES),
    ];
    ExchangeOf "exchanges/{vhost}/{exchange}" (vhost, exchange) => exchanges::one(call, vhost, exchange), [
        object(Vhost, "an exchange").asking(SAMPLES),
        put(Vhost, "declares an exchange", EXCHANGE),
        delete(Vhost, "deletes an exchange").asking(DELETE_EXCHANGE),
    ];
    ExchangePublish "exchanges/{vhost}/{exchange}/publish" (vhost, exchange) => {
        messages::publish(call, vhost, exchange)
    }, [post(Vhost, "publishes a message, and waits until it is safe", Takes::Object(MESSAGE), Gives::Object)];
    ExchangeSources "exchanges/{vhost}/{exchange}/bindings/source" (vhost, exchange) => {
        bindings::of_exchange(call, vhost, exchange, true)
    }, [rows(Vhost, "bindings from an exchange")];
    ExchangeDestinations "exchanges/{vhost}/{exchange}/bindings/destination" (vhost, exchange) => {
        bindings::of_exchange(call, vhost, exchange, false)
    }, [rows(Vhost, "bindings to an exchange")];
    Queues "queues" () => queues::list(call, None), [rows(User, "queues").asking(LIST_OF_QUEUES)];
    QueuesDetailed "queues/detailed" () => queues::list(call, None), [rows(User, "queues with all that is told of each").asking(LIST_OF_QUEUES)];
    QuorumStatus "queues/quorum/{vhost}/{queue}/status" (vhost, queue) => quorum::status(call, vhost, queue), [
        get(Vhost, "the members of a quorum queue: this node", Gives::Array),
    ];
    QuorumAdd "queues/quorum/{vhost}/{queue}/replicas/add" (vhost, queue) => quorum::add(call, vhost, queue), [
        post(Administrator, "makes a node a member of a quorum queue", Takes::Object(REPLICA), DONE),
    ];
    QuorumDelete "queues/quorum/{vhost}/{queue}/replicas/delete" (vhost, queue) => {
        quorum::delete(call, vhost, queue)
    }, [
        Verb { takes: Takes::Object(REPLICA), ..delete(Administrator, "makes a node no member of a quorum queue any more") }
            .giving(Gives::Done(&[202])),
    ];
    QuorumGrow "queues/quorum/replicas/on/{node}/grow" (node) => quorum::grow(call, node), [
        post(Administrator, "makes a node a member of quorum queues", Takes::Object(STRATEGY), DONE),
    ];
    QuorumShrink "queues/quorum/replicas/on/{node}/shrink" (node) => quorum::shrink(call, node), [
        delete(Administrator, "makes a node no member of quorum queues any more").giving(Gives::Done(&[202])),
    ];
    QueuesOf "queues/{vhost}" (vhost) => queues::list(call, Some(vhost)), [rows(Vhost, "queues of a virtual host").asking(LIST_OF_QUEUES)];
    QueueOf "queues/{vhost}/{queue}" (vhost, queue) => queues::one(call, vhost, queue), [
        object(Vhost, "a queue, with its consumers").asking(SAMPLES),
        put(Vhost, "declares a queue", QUEUE),
        delete(Vhost, "deletes a queue").asking(DELETE_QUEUE),
    ];
    QueueBindings "queues/{vhost}/{queue}/bindings" (vhost, queue) => bindings::of_queue(call, vhost, queue), [
        rows(Vhost, "bindings to a queue"),
    ];
    QueueContents "queues/{vhost}/{queue}/contents" (vhost, queue) => queues::purge(call, vhost, queue), [
        delete(Vhost, "throws away what is ready"),
    ];
    QueueGet "queues/{vhost}/{queue}/get" (vhost, queue) => messages::get(call, vhost, queue), [
        post(Vhost, "takes messages out, or has them back where they were", Takes::Object(GET), Gives::Array),
    ];
    QueueActions "queues/{vhost}/{queue}/actions" (vhost, queue) => queues::act(call, vhost, queue), [
        post(Administrator, "does none of the things that were done once", Takes::Object(QUEUE_ACTION), DONE),
    ];
    Bindings "bindings" () => bindings::list(call, None), [rows(User, "bindings")];
    BindingsOf "bindings/{vhost}" (vhost) => bindings::list(call, Some(vhost)), [
        rows(Vhost, "bindings of a virtual host"),
    ];
    BindingsToQueue "bindings/{vhost}/e/{source}/q/{destination}" (vhost, source, destination) => {
        bindings::between(call, vhost, source, (false, destination))
    }, [
        get(Vhost, "bindings from an exchange to a queue", Gives::Array),
        post(Vhost, "binds a queue", Takes::Object(BINDING), CREATED),
    ];
    BindingsToExchange "bindings/{vhost}/e/{source}/e/{destination}" (vhost, source, destination) => {
        bindings::between(call, vhost, source, (true, destination))
    }, [
        get(Vhost, "bindings from an exchange to another", Gives::Array),
        post(Vhost, "binds an exchange", Takes::Object(BINDING), CREATED),
    ];
    BindingToQueue "bindings/{vhost}/e/{source}/q/{destination}/{key}" (vhost, source, destination, key) => {
        bindings::one(call, vhost, source, (false, destination), key)
    }, [object(Vhost, "a binding of a queue"), delete(Vhost, "unbinds a queue")];
    BindingToExchange "bindings/{vhost}/e/{source}/e/{destination}/{key}" (vhost, source, destination, key) => {
        bindings::one(call, vhost, source, (true, destination), key)
    }, [object(Vhost, "a binding of an exchange"), delete(Vhost, "unbinds an exchange")];

    Connections "connections" () => connections::list(call), [rows(User, "connections")];
    ConnectionsOfUser "connections/username/{user}" (user) => connections::of_user(call, user), [
        rows(User, "connections of a user"),
        delete(User, "closes the connections of a user"),
    ];
    ConnectionOf "connections/{connection}" (connection) => connections::one(call, connection), [
        object(User, "a connection").asking(SAMPLES),
        delete(User, "closes a connection"),
    ];
    ConnectionChannels "connections/{connection}/channels" (connection) => {
        channels::of_connection(call, connection)
    }, [rows(User, "channels of a connection")];
    ConnectionSessions "connections/{connection}/sessions" (connection) => sessions::of_connection(call, connection), [
        get(User, "sessions of a connection over AMQP 1.0, with their links", Gives::Array).asking(WHOLE),
    ];
    Channels "channels" () => channels::list(call), [rows(User, "channels")];
    ChannelOf "channels/{channel}" (channel) => channels::one(call, channel), [
        object(User, "a channel, with its consumers").asking(SAMPLES),
    ];
    Consumers "consumers" () => channels::consumers(call, None), [rows(User, "consumers")];
    ConsumersOf "consumers/{vhost}" (vhost) => channels::consumers(call, Some(vhost)), [
        rows(Vhost, "consumers of a virtual host"),
    ];

    StreamConnections "stream/connections" () => streams::list(call, None), [
        rows(User, "connections of the stream protocol"),
    ];
    StreamConnectionsOf "stream/connections/{vhost}" (vhost) => streams::list(call, Some(vhost)), [
        rows(Vhost, "connections of the stream protocol to a virtual host"),
    ];
    StreamConnectionOf "stream/connections/{vhost}/{connection}" (vhost, connection) => {
        streams::one(call, vhost, connection)
    }, [
        object(Vhost, "a connection of the stream protocol"),
        delete(Vhost, "closes a connection of the stream protocol"),
    ];
    StreamPublishersOn "stream/connections/{vhost}/{connection}/publishers" (vhost, connection) => {
        streams::publishers(call, Asked { vhost: Some(vhost), connection: Some(connection), stream: None })
    }, [rows(Vhost, "publishers of a connection")];
    StreamConsumersOn "stream/connections/{vhost}/{connection}/consumers" (vhost, connection) => {
        streams::consumers(call, Asked { vhost: Some(vhost), connection: Some(connection), stream: None })
    }, [rows(Vhost, "consumers of a connection")];
    StreamPublishers "stream/publishers" () => streams::publishers(call, Asked::default()), [
        rows(User, "publishers of the stream protocol"),
    ];
    StreamPublishersIn "stream/publishers/{vhost}" (vhost) => {
        streams::publishers(call, Asked { vhost: Some(vhost), ..Asked::default() })
    }, [rows(Vhost, "publishers to streams of a virtual host")];
    StreamPublishersOf "stream/publishers/{vhost}/{stream}" (vhost, stream) => {
        streams::publishers(call, Asked { vhost: Some(vhost), stream: Some(stream), connection: None })
    }, [rows(Vhost, "publishers to a stream")];
    StreamConsumers "stream/consumers" () => streams::consumers(call, Asked::default()), [
        rows(User, "consumers of the stream protocol"),
    ];
    StreamConsumersIn "stream/consumers/{vhost}" (vhost) => {
        streams::consumers(call, Asked { vhost: Some(vhost), ..Asked::default() })
    }, [rows(Vhost, "consumers of streams of a virtual host")];
    SuperStream "stream/super-streams/{vhost}/{name}" (vhost, name) => streams::super_stream(call, vhost, name), [
        put(Vhost, "makes a super stream", SUPER_STREAM).giving(DONE),
    ];
    StreamTracking "stream/{vhost}/{stream}/tracking" (vhost, stream) => streams::tracking(call, vhost, stream), [
        object(Vhost, "what a stream keeps of its consumers and publishers"),
    ];

    Shovels "shovels" () => shovels::list(call, None), [rows(Monitor, "shovels, of which none runs here")];
    ShovelsOf "shovels/{vhost}" (vhost) => shovels::list(call, Some(vhost)), [
        rows(Monitor, "shovels of a virtual host, of which none runs here"),
    ];
    ShovelOf "shovels/vhost/{vhost}/{name}" (vhost, name) => shovels::one(call, vhost, name), [
        object(PolicymakerIn, "the parameter of a shovel"),
        delete(PolicymakerIn, "takes the parameter of a shovel back"),
    ];
    FederationLinks "federation-links" () => shovels::links(call, None), [
        rows(Monitor, "links of federation, of which there are none here"),
    ];
    FederationLinksOf "federation-links/{vhost}" (vhost) => shovels::links(call, Some(vhost)), [
        rows(Monitor, "links of federation in a virtual host, of which there are none here"),
    ];
    FederationLinksDown "federation-links/state/down" () => shovels::links(call, None), [
        rows(Monitor, "links of federation that are down"),
    ];
    FederationLinksDownOf "federation-links/{vhost}/state/down" (vhost) => shovels::links(call, Some(vhost)), [
        rows(Monitor, "links of federation in a virtual host that are down"),
    ];

    Traces "traces" () => traces::list(), [array(Administrator, "traces that go to files, of which there are none")];
    TracesOn "traces/node/{node}" (_node) => traces::list(), [
        array(Administrator, "traces of a node that go to files, of which there are none"),
    ];
    TracesOf "traces/{vhost}" (_vhost) => traces::list(), [
        array(Administrator, "traces of a virtual host that go to files, of which there are none"),
    ];
    TracesOnOf "traces/node/{node}/{vhost}" (_node, _vhost) => traces::list(), [
        array(Administrator, "traces of a node and a virtual host that go to files, of which there are none"),
    ];
    TraceOf "traces/{vhost}/{name}" (_vhost, _name) => traces::one(), [
        object(Administrator, "a trace that goes to a file"),
        delete(Administrator, "ends a trace that goes to a file"),
    ];
    TraceOnOf "traces/node/{node}/{vhost}/{name}" (_node, _vhost, _name) => traces::one(), [
        object(Administrator, "a trace of a node that goes to a file"),
        delete(Administrator, "ends a trace of a node that goes to a file"),
    ];
    TraceFiles "trace-files" () => traces::list(), [
        array(Administrator, "files of traces, of which there are none"),
    ];
    TraceFilesOn "trace-files/node/{node}" (_node) => traces::list(), [
        array(Administrator, "files of traces of a node, of which there are none"),
    ];
    TraceFile "trace-files/{name}" (_name) => traces::one(), [
        object(Administrator, "a file of a trace"),
        delete(Administrator, "deletes a file of a trace"),
    ];
    TraceFileOn "trace-files/node/{node}/{name}" (_node, _name) => traces::one(), [
        object(Administrator, "a file of a trace of a node"),
        delete(Administrator, "deletes a file of a trace of a node"),
    ];

    Aliveness "aliveness-test/{vhost}" (vhost) => messages::aliveness(call, vhost), [
        check(Vhost, "whether a message goes through a queue"),
    ];
    OldChecks "healthchecks/node" () => health::old(call, None), [check(User, "whether the node is well")];
    OldChecksOf "healthchecks/node/{node}" (node) => health::old(call, Some(node)), [
        check(User, "whether a node is well"),
    ];
    CheckAlarms "health/checks/alarms" () => health::alarms(call, health::IN_CLUSTER), [
        check(User, "whether no alarm holds in the cluster"),
    ];
    CheckLocalAlarms "health/checks/local-alarms" () => health::alarms(call, health::ON_NODE), [
        check(User, "whether no alarm holds on the node"),
    ];
    CheckPort "health/checks/port-listener/{port}" (port) => health::port_listener(call, port), [
        check(User, "whether a port is listened on"),
    ];
    CheckProtocol "health/checks/protocol-listener/{protocols}" (protocols) => {
        health::protocol_listener(call, protocols)
    }, [check(User, "whether protocols are spoken")];
    CheckVhosts "health/checks/virtual-hosts" () => health::vhosts(call), [
        check(User, "whether all virtual hosts are served"),
    ];
    CheckCertificates "health/checks/certificate-expiration/{within}/{unit}" (within, unit) => {
        health::certificates(call, within, unit)
    }, [check(User, "whether certificates are good for so long")];
    CheckCritical "health/checks/node-is-quorum-critical" () => health::critical(), [
        check(User, "whether the node can be stopped"),
    ];
    CheckInitialized "health/checks/metadata-store/initialized" () => health::serves(call), [
        check(User, "whether the node has its catalog"),
    ];
    CheckInitializedWithData "health/checks/metadata-store/initialized/with-data" () => health::has_data(call), [
        check(User, "whether the catalog has anything in it"),
    ];
    CheckLeaders "health/checks/quorum-queues-without-elected-leaders/all-vhosts" () => health::serves(call), [
        check(User, "whether all quorum queues are led"),
    ];
    CheckLeadersLike "health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}" (_pattern) => {
        health::serves(call)
    }, [check(User, "whether quorum queues of such names are led")];
    CheckLeadersOf "health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}" (vhost) => {
        health::leads(call, vhost)
    }, [check(User, "whether all quorum queues of a virtual host are led")];
    CheckLeadersOfLike "health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}" (
        vhost, _pattern
    ) => health::leads(call, vhost), [check(User, "whether quorum queues of such names in a virtual host are led")];
    // Probes without a password: RabbitMQ answers these to everybody, and so do we.
    CheckInService "health/checks/is-in-service" () => health::serves(call), [check(Nobody, "whether the node serves")];
    CheckReady "health/checks/ready-to-serve-clients" () => health::serves(call), [
        check(Nobody, "whether clients can come"),
    ];
    CheckSize "health/checks/reached-target-cluster-size" () => health::serves(call), [
        check(Nobody, "whether all nodes are there"),
    ];
    CheckConnections "health/checks/below-node-connection-limit" () => health::below_limit(call), [
        check(Nobody, "whether more may connect"),
    ];

    // From here on endpoints that RabbitMQ does not have.
    OpenApi "x/openapi.json" () => openapi::document(call, ENDPOINTS), [object(Nobody, "this document")];
    Session "x/session" () => operations::session(call), [
        object(Nobody, "who is logged in by the browser's cookie"),
        post(Nobody, "logs a browser in, which is given a cookie", Takes::Object(LOGIN), Gives::Object),
        delete(Nobody, "logs a browser out"),
    ];
    CertificatesReload "x/certificates/reload" () => operations::reload_certificates(call), [
        post(Administrator, "reads certificates anew, for who connects from now on", Takes::Nothing, Gives::Object),
    ];
    Events "x/events" () => live::event(call), [
        get(User, "rates of messages each second, of all and of some queues", Gives::Events).asking(EVENTS),
    ];
    Settings "x/settings" () => operations::settings(call), [
        array(Administrator, "each setting that was read, and where"),
    ];
    Topology "x/topology" () => topology::topology(call), [
        object(User, "exchanges and queues of a virtual host, what binds them, and how much goes where").asking(TOPOLOGY),
    ];
    Advice "x/advice" () => advice::advice(call), [array(User, "what needs somebody: what is wrong, or soon will be")];
    DeadLetters "x/dead-letters" () => dead_letters::list(call), [
        get(User, "queues that dead letters go to, and from which queues", Gives::Array)
            .asking(&[may("vhost", Kind::Text)]),
    ];
    Log "x/log" () => log::event(call), [
        get(Administrator, "lines of the node's log as they come, each second", Gives::Events).asking(LOG),
    ];
    Latency "x/latency" () => latency::latency(call), [
        object(Monitor, "how long messages, flushes and turns took, by time").asking(&[may("age", Kind::Integer)]),
    ];
    ClusterLogs "x/cluster" () => cluster::cluster(call), [
        object(Monitor, "nodes that agree on definitions and messages, who leads which log, and how far each is"),
    ];
    Tenants "x/tenants" () => tenants::list(call), [
        rows(Monitor, "users, what each takes of what all share, and what holds each back"),
    ];
    SharedPlaces "x/places" () => tenants::places(call), [
        rows(Monitor, "places that clients share: how many are taken, by user"),
    ];
    QueueMessages "x/queues/{vhost}/{queue}/messages" (vhost, queue) => search::messages(call, vhost, queue), [
        object(Vhost, "messages of a queue that are ready, or of a stream, without taking them").asking(PEEK),
    ];
    QueueUnacked "x/queues/{vhost}/{queue}/unacked" (vhost, queue) => held::unacked(call, vhost, queue), [
        object(Vhost, "messages of a queue that consumers hold, and who holds each").asking(UNACKED),
    ];
    QueueTail "x/queues/{vhost}/{queue}/tail" (vhost, queue) => tail::event(call, vhost, queue), [
        get(Vhost, "messages as they come to a queue or a stream, each second", Gives::Events).asking(TAIL),
    ];
    QueueMove "x/queues/{vhost}/{queue}/move" (vhost, queue) => beyond::move_on(call, vhost, queue), [
        post(Vhost, "moves messages to where an exchange sends them", Takes::Object(MOVE), Gives::Object),
    ];
    QueueRedrive "x/queues/{vhost}/{queue}/redrive" (vhost, queue) => beyond::redrive(call, vhost, queue), [
        post(Vhost, "moves messages back to the queue in which each died first", Takes::Object(REDRIVE), Gives::Object),
    ];
    QueueDiscard "x/queues/{vhost}/{queue}/delete" (vhost, queue) => beyond::discard(call, vhost, queue), [
        post(Vhost, "deletes the messages at some positions, or those of which a condition is true", Takes::Object(DISCARD), Gives::Object),
    ];
    QueueSettle "x/queues/{vhost}/{queue}/settle" (vhost, queue) => beyond::settle(call, vhost, queue), [
        post(Vhost, "accepts or rejects chosen messages of a queue, as a consumer would, with held those that consumers hold, too", Takes::Object(SETTLE), Gives::Object),
    ];
    QueuePolicies "x/queues/{vhost}/{queue}/policies" (vhost, queue) => {
        policies::matching(call, vhost, queue, false)
    }, [get(Vhost, "policies whose patterns match a queue, those that count most first", Gives::Array)];
    ExchangePolicies "x/exchanges/{vhost}/{exchange}/policies" (vhost, exchange) => {
        policies::matching(call, vhost, exchanges::named(exchange), true)
    }, [get(Vhost, "policies whose patterns match an exchange, those that count most first", Gives::Array)];
    PolicyPreview "x/policies/{vhost}/{name}/preview" (vhost, name) => {
        preview::preview(call, PolicyKind::User, vhost, name)
    }, [post(PolicymakerIn, "says what a policy would do, and saves nothing", Takes::Object(POLICY), Gives::Object)];
    OperatorPolicyPreview "x/operator-policies/{vhost}/{name}/preview" (vhost, name) => {
        preview::preview(call, PolicyKind::Operator, vhost, name)
    }, [
        post(Administrator, "says what a policy of the operator's would do", Takes::Object(POLICY), Gives::Object),
    ];
    FilterCheck "x/filter/check" () => expressions::check(call), [
        post(User, "what an expression means, and what it says of a message", Takes::Object(EXPRESSION), Gives::Object),
    ];
    PermissionTest "x/permissions/{vhost}/{user}/test" (vhost, user) => may::test(call, vhost, user), [
        object(Administrator, "whether a user may do something with a queue or an exchange, and why").asking(MAY),
    ];
    QueueDelayed "x/queues/{vhost}/{queue}/delayed" (vhost, queue) => beyond::delayed(call, vhost, queue), [
        get(Vhost, "messages of a queue that wait for their time, those that are due first", Gives::Array)
            .asking(COUNT),
    ];
    QueueDelayedCancel "x/queues/{vhost}/{queue}/delayed/cancel" (vhost, queue) => {
        beyond::cancel_delayed(call, vhost, queue)
    }, [post(Vhost, "throws away messages that wait for their time", Takes::Object(IDS), Gives::Object)];
    ExchangeRoute "x/exchanges/{vhost}/{exchange}/route" (vhost, exchange) => trial::route(call, vhost, exchange), [
        post(Vhost, "says where a message would go, and why not elsewhere", Takes::Object(TRIAL), Gives::Object),
    ];
    StreamOffset "x/streams/{vhost}/{stream}/offsets/{reference}" (vhost, stream, reference) => {
        streams::reset_offset(call, vhost, stream, reference)
    }, [delete(Vhost, "has a stream forget what a consumer has read of it")];
    StreamRestart "x/streams/{vhost}/{stream}/restart" (vhost, stream) => {
        streams::restart(call, vhost, stream)
    }, [post(Administrator, "has the clients of a stream come again", Takes::Nothing, DONE)];
    StreamTruncate "x/streams/{vhost}/{stream}/truncate" (vhost, stream) => queues::truncate(call, vhost, stream), [
        post(Vhost, "lets go of a stream's beginning", Takes::Object(TRUNCATE), Gives::Object),
    ];
}
