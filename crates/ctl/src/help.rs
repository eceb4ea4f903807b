//! The help of the tools: all words, by groups; one word; and the words that are most like one that there is not.

use crate::exit;
use crate::request::Refusal;
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::fmt::Write;
use strsim::normalized_damerau_levenshtein;

/// Words by their subject. Each that is shown is in one group.
const GROUPS: &[(&str, &[&str])] = &[
    ("Help", &["autocomplete", "completions", "help", "version"]),
    (
        "Nodes",
        &[
            "await_online_nodes",
            "await_startup",
            "cluster_status",
            "ping",
            "report",
            "reset",
            "set_cluster_name",
            "shutdown",
            "start_app",
            "status",
            "stop",
            "stop_app",
            "wait",
        ],
    ),
    (
        "Users",
        &[
            "add_user",
            "authenticate_user",
            "change_password",
            "clear_password",
            "clear_user_limits",
            "delete_user",
            "hash_password",
            "list_tenants",
            "list_user_limits",
            "list_users",
            "set_user_limits",
            "set_user_tags",
        ],
    ),
    (
        "Permissions",
        &[
            "clear_permissions",
            "clear_topic_permissions",
            "list_permissions",
            "list_topic_permissions",
            "list_user_permissions",
            "list_user_topic_permissions",
            "set_permissions",
            "set_permissions_globally",
            "set_topic_permissions",
        ],
    ),
    (
        "Virtual hosts",
        &[
            "add_vhost",
            "clear_vhost_limits",
            "delete_vhost",
            "disable_vhost_deletion_protection",
            "enable_vhost_deletion_protection",
            "list_vhost_limits",
            "list_vhosts",
            "restart_vhost",
            "set_vhost_limits",
            "set_vhost_tags",
            "trace_off",
            "trace_on",
            "update_vhost_metadata",
        ],
    ),
    (
        "Queues",
        &[
            "cancel_delayed_message",
            "delete_queue",
            "list_delayed_messages",
            "list_queues",
            "list_unresponsive_queues",
            "move_messages",
            "peek",
            "purge_queue",
            "quorum_status",
            "rebalance",
            "reclaim_quorum_memory",
            "redrive_queue",
            "settle_messages",
        ],
    ),
    (
        "Streams",
        &[
            "activate_stream_consumer",
            "add_super_stream",
            "check_filter",
            "delete_super_stream",
            "list_stream_connections",
            "list_stream_consumer_groups",
            "list_stream_consumers",
            "list_stream_group_consumers",
            "list_stream_publishers",
            "list_stream_tracking",
            "reset_offset",
            "restart_stream",
            "stream_status",
            "truncate_stream",
        ],
    ),
    (
        "Exchanges, connections and consumers",
        &[
            "close_all_connections",
            "close_all_user_connections",
            "close_connection",
            "list_bindings",
            "list_channels",
            "list_connections",
            "list_consumers",
            "list_exchanges",
            "list_node_auth_attempt_stats",
        ],
    ),
    (
        "Policies and parameters",
        &[
            "clear_global_parameter",
            "clear_operator_policy",
            "clear_parameter",
            "clear_policy",
            "list_global_parameters",
            "list_operator_policies",
            "list_parameters",
            "list_policies",
            "list_policies_that_match",
            "set_global_parameter",
            "set_operator_policy",
            "set_parameter",
            "set_policy",
        ],
    ),
    (
        "Health",
        &[
            "alarms",
            "check_alarms",
            "check_certificate_expiration",
            "check_for_quorum_queues_without_an_elected_leader",
            "check_if_any_deprecated_features_are_used",
            "check_if_metadata_store_is_initialized",
            "check_if_metadata_store_is_initialized_with_data",
            "check_if_new_quorum_queue_replicas_have_finished_initial_sync",
            "check_if_node_is_quorum_critical",
            "check_local_alarms",
            "check_port_connectivity",
            "check_port_listener",
            "check_protocol_listener",
            "check_running",
            "check_virtual_hosts",
            "has_reached_target_cluster_size",
            "is_booting",
            "is_running",
        ],
    ),
    (
        "Diagnostics",
        &[
            "certificates",
            "cipher_suites",
            "command_line_arguments",
            "consume_event_stream",
            "discover_peers",
            "environment",
            "federation_status",
            "force_gc",
            "list_network_interfaces",
            "listeners",
            "log_location",
            "log_tail",
            "log_tail_stream",
            "memory_breakdown",
            "message_size_stats",
            "metadata_store_status",
            "os_env",
            "plugins",
            "resolve_hostname",
            "server_version",
            "shovel_status",
            "tls_versions",
        ],
    ),
    (
        "Settings",
        &[
            "enable_feature_flag",
            "list_deprecated_features",
            "list_feature_flags",
            "move_log",
            "set_disk_free_limit",
            "set_log_level",
            "set_vm_memory_high_watermark",
        ],
    ),
    ("Definitions", &["export_definitions", "import_definitions"]),
    (
        "Secrets in configuration files",
        &["decode", "decrypt_conf_value", "encode", "encrypt_conf_value", "list_ciphers", "list_hashes"],
    ),
    ("Upgrades", &["await_online_quorum_plus_one", "post_upgrade"]),
];

/// Command lines that many begin with, without the tool's name.
const EXAMPLES: [&str; 5] = [
    "status",
    "list_queues name messages consumers",
    "add_user app",
    "set_permissions -p / app '.*' '.*' '.*'",
    "set_policy ttl '^tmp' '{\"message-ttl\":60000}' --apply-to queues",
];

/// Likeness of a word to the one that was typed, from which on it is named: 1 is the same.
const LIKENESS_MIN: f64 = 0.75;

/// How many are named at most.
const MEANT_MAX: usize = 3;

/// Every word, by groups; `name` is the tool's.
pub(crate) fn all(command: &Command, name: &str) -> String {
    let usage = "[--node <node>] [--timeout <seconds>] [--vhost <vhost>] [--quiet] <command> [<options>]";
    let mut text = format!("\nUsage\n\n{name} {usage}\n\nAvailable commands:\n");
    let about = |word: &str| command.find_subcommand(word).and_then(|word| word.get_about());
    let width = GROUPS.iter().flat_map(|(_, words)| *words).map(|word| word.len()).max().unwrap_or(0);
    for (title, words) in GROUPS {
        let _ = write!(text, "\n{title}:\n\n");
        for word in *words {
            if let Some(about) = about(word) {
                let _ = writeln!(text, "   {word:<width$}  {about}");
            }
        }
    }
    text.push_str("\nExamples:\n\n");
    EXAMPLES.iter().for_each(|example| text.push_str(&format!("   {name} {example}\n")));
    let _ = write!(text, "\nUse '{name} help <command>' to learn more about a specific command\n");
    text
}

/// One word, as its `--help` has it.
///
/// # Errors
/// There is no such word.
pub(crate) fn one(mut command: Command, name: &str, word: &str) -> Result<String, Refusal> {
    command.build();
    match command.find_subcommand(word) {
        Some(found) => Ok(found.clone().bin_name(format!("{name} {word}")).render_long_help().to_string()),
        None => Err(Refusal { code: exit::USAGE, message: unknown(&command, name, word) }),
    }
}

/// The answer to a word that there is not.
fn unknown(command: &Command, name: &str, word: &str) -> String {
    let mut text = format!("Command '{word}' not found. \n");
    match &meant(command, word)[..] {
        [] => {}
        [one] => text.push_str(&format!("Did you mean '{one}'? \n")),
        more => {
            let _ = writeln!(text, "Did you mean one of these?");
            more.iter().for_each(|word| text.push_str(&format!("   {word}\n")));
        }
    }
    text.push_str(&format!("\n'{name} help' lists all commands."));
    text
}

/// The words that are most like one that there is not, the likest first.
fn meant(command: &Command, typed: &str) -> Vec<String> {
    let words = command.get_subcommands().filter(|word| !word.is_hide_set()).map(Command::get_name);
    let like = words.map(|word| (normalized_damerau_levenshtein(word, typed), word));
    let mut like: Vec<(f64, &str)> = like.filter(|(likeness, _)| *likeness >= LIKENESS_MIN).collect();
    base::brief::sort_by(&mut like, |a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    like.truncate(MEANT_MAX);
    like.into_iter().map(|(_, word)| word.to_owned()).collect()
}

/// Whether a command line is asked for the help of all its words, which are grouped here.
pub(crate) fn is_for_all<'a>(words: impl IntoIterator<Item = &'a str>) -> bool {
    let words: Vec<&str> = words.into_iter().collect();
    matches!(words[..], ["-h" | "--help"])
}

/// Whether the words of a command line are those that are grouped here.
fn has_groups(command: &Command) -> bool {
    command.find_subcommand("list_queues").is_some()
}

/// Prints the error in a command line, or the help it asks for; the exit code.
pub(crate) fn explain(error: &clap::Error, command: &Command, name: &str) -> u8 {
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::InvalidSubcommand => Some(word),
        _ => None,
    };
    match (word, error.kind()) {
        (Some(word), _) => eprintln!("{}", unknown(command, name, word)),
        // The list that the tool's own help would have is long, and in no order.
        (None, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand)
            if has_groups(command) =>
        {
            eprintln!("{}", all(command, name));
        }
        // Nowhere to report a closed terminal to.
        (None, _) => drop(error.print()),
    }
    if error.use_stderr() { exit::USAGE } else { exit::OK }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tool;
    use std::collections::BTreeMap;

    fn ctl() -> Command {
        tool("rabbitmqctl").expect("is one")
    }

    #[test]
    fn every_word_is_in_one_group() {
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        GROUPS.iter().flat_map(|(_, words)| *words).for_each(|word| *count.entry(word).or_default() += 1);
        let command = ctl();
        for word in command.get_subcommands().filter(|word| !word.is_hide_set()) {
            assert_eq!(count.remove(word.get_name()), Some(1), "{}", word.get_name());
        }
        assert_eq!(count, BTreeMap::new(), "there are no such words");
        let text = all(&command, "rabbitmqctl");
        assert!(text.contains("\nQueues:\n\n   cancel_delayed_message "), "{text}");
    }

    #[test]
    fn the_words_that_are_meant_are_few_and_the_best_come_first() {
        let check = |typed: &str, expected: &[&str]| assert_eq!(meant(&ctl(), typed), expected, "{typed}");
        check("list_queus", &["list_queues"]);
        check("lsit_queues", &["list_queues"]);
        check("list_user", &["list_users"]);
        check("statsu", &["status"]);
        check("add_vhots", &["add_vhost"]);
        check("set_permission", &["set_permissions", "list_permissions"]);
        check("certificats", &["certificates"]);
        check("xyzzyxyzzyxyzzy", &[]);
        check("", &[]);
    }

    #[test]
    fn help_of_all_is_asked_for_in_one_word() {
        let check = |words: &[&str], expected: bool| {
            assert_eq!(is_for_all(words.iter().copied()), expected, "{words:?}");
        };
        check(&["--help"], true);
        check(&["-h"], true);
        check(&["status", "--help"], false);
        check(&[], false);
    }

    #[test]
    fn examples_are_command_lines() {
        for example in EXAMPLES {
            let words = example.replace('\'', "");
            let read = ctl().try_get_matches_from(std::iter::once("rabbitmqctl").chain(words.split(' ')));
            assert!(read.is_ok(), "{example}: {read:?}");
        }
    }

    #[test]
    fn a_word_is_explained() {
        let text = one(ctl(), "rabbitmqctl", "list_queues").expect("is a word");
        assert!(text.contains("rabbitmqctl list_queues"), "{text}");
        let refusal = one(ctl(), "rabbitmqctl", "list_queus").expect_err("is none");
        assert_eq!(refusal.code, exit::USAGE);
        assert!(refusal.message.contains("list_queues"), "{}", refusal.message);
    }
}
