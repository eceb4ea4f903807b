//! The words of the command line that change something, and the texts around them.

use crate::objects::given;
use crate::request::{Refusal, Request};
use crate::session::Session;
use crate::{users, vhosts};
use clap::{Args, Subcommand};
use serde_json::json;

/// Words that change something.
#[derive(Clone, Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum ChangeWord {
    /// Makes a user; without a password a line of standard input is it
    AddUser { username: String, password: Option<String> },
    /// Removes a user
    DeleteUser { username: String },
    /// Gives a user another password; without one a line of standard input is it
    ChangePassword { username: String, password: Option<String> },
    /// Sets the tags of a user: administrator, monitoring, ...
    SetUserTags { username: String, tags: Vec<String> },
    /// Sets the names that a user may configure, write to and read from, each by a regular expression
    SetPermissions { username: String, configure: String, write: String, read: String },
    /// Takes a user's access to a virtual host away
    ClearPermissions { username: String },
    /// Says which topics of an exchange a user may publish to and bind, by regular expressions over routing keys that
    /// may hold {username} and {vhost}
    SetTopicPermissions { username: String, exchange: String, write: String, read: String },
    /// Lets a user publish to and bind all topics of an exchange, or of all exchanges
    ClearTopicPermissions { username: String, exchange: Option<String> },
    /// Makes a virtual host
    AddVhost {
        vhost: String,
        /// The type of queues in it that are declared without one
        #[arg(long = "default-queue-type", value_name = "TYPE", value_parser = ["classic", "quorum"])]
        default_queue_type: Option<String>,
        /// Its purpose, in words
        #[arg(long, short = 'd', default_value = "")]
        description: String,
        /// Its tags: one,two
        #[arg(long, default_value = "")]
        tags: String,
    },
    /// Changes the metadata of a virtual host; properties that are not named stay as they are
    #[command(group = clap::ArgGroup::new("metadata").required(true).multiple(true))]
    UpdateVhostMetadata {
        vhost: String,
        /// Its purpose, in words
        #[arg(long, short = 'd', group = "metadata")]
        description: Option<String>,
        /// Its tags: one,two
        #[arg(long, group = "metadata")]
        tags: Option<String>,
        /// The type of queues in it that are declared without one
        #[arg(long = "default-queue-type", value_name = "TYPE", value_parser = ["classic", "quorum"], group = "metadata")]
        default_queue_type: Option<String>,
        /// Whether it is protected from deletion
        #[arg(long = "protected-from-deletion", num_args = 0..=1, require_equals = true, default_missing_value = "true",
              group = "metadata")]
        protected_from_deletion: Option<bool>,
    },
    /// Sets the tags of a virtual host
    SetVhostTags { vhost: String, tags: Vec<String> },
    /// Protects a virtual host from deletion
    EnableVhostDeletionProtection { vhost: String },
    /// Takes the protection from deletion off a virtual host
    DisableVhostDeletionProtection { vhost: String },
    /// Removes a virtual host, and all that is in it
    DeleteVhost { vhost: String },
    /// Limits a virtual host: {"max-connections": 64, "max-queues": 10, "max-memory-bytes": 100000000}; without other limits
    SetVhostLimits { definition: String },
    /// Takes all limits of a virtual host away
    ClearVhostLimits,
    /// Sends copies of all messages of a virtual host to its exchange amq.rabbitmq.trace, until the node stops
    TraceOn,
    /// Ends the copies that trace_on began
    TraceOff,
    /// Sets the memory from which publishers wait, until the node stops: 0.4 of what there is, or absolute 4GB
    SetVmMemoryHighWatermark {
        #[arg(num_args = 1..=2, required = true)]
        limit: Vec<String>,
    },
    /// Says below how much free disk publishers wait, until the node stops: 2GB, or mem_relative 1.5 of the memory
    SetDiskFreeLimit {
        #[arg(num_args = 1..=2, required = true)]
        limit: Vec<String>,
    },
    /// Limits a user: {"max-connections": 8, "max-channels": 100, "max-memory-bytes": 100000000}; limits that are not named stay
    /// as they are
    SetUserLimits { username: String, definition: String },
    /// Takes a limit of a user away, or all
    ClearUserLimits {
        username: String,
        /// Which: max-connections, max-channels, max-memory-bytes, all
        limit: String,
    },
    /// Sets arguments for all queues and exchanges whose names match:
    /// '^logs' '{"max-length": 1000}'
    SetPolicy {
        #[command(flatten)]
        policy: PolicyWords,
    },
    /// Takes a policy away
    ClearPolicy { name: String },
    /// Sets a policy that caps the values of the others
    SetOperatorPolicy {
        #[command(flatten)]
        policy: PolicyWords,
    },
    /// Takes an operator's policy away
    ClearOperatorPolicy { name: String },
}

/// The parts of a policy.
#[derive(Clone, Debug, Args)]
pub(crate) struct PolicyWords {
    /// Of several policies that apply the highest counts
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i64,
    /// all, queues, classic_queues, quorum_queues, streams or exchanges
    #[arg(long, default_value = "all")]
    apply_to: String,
    name: String,
    /// A regular expression over names
    pattern: String,
    /// Keys and values, as a JSON object
    definition: String,
}

impl PolicyWords {
    fn banner(&self, kind: &str, vhost: &str) -> String {
        let PolicyWords { priority, name, pattern, definition, .. } = self;
        format!(
            "Setting {kind} \"{name}\" for pattern \"{pattern}\" to \"{definition}\" with priority \"{priority}\" \
             for vhost \"{vhost}\" ..."
        )
    }

    fn set(&self, session: &Session<'_>, vhost: &str, is_operator: bool) -> Result<(), Refusal> {
        let PolicyWords { priority, apply_to, name, pattern, definition } = self;
        let body = json!({ "pattern": pattern, "apply-to": apply_to, "priority": priority });
        vhosts::set_policy(session, (vhost, name, is_operator), definition, body)
    }
}

/// Words between commas, without the space around them.
fn split(tags: &str) -> Vec<String> {
    tags.split(',').map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect()
}

/// Carries out a word, in the virtual host of the command line where the word names none.
pub(crate) fn run(word: &ChangeWord, session: &Session<'_>) -> Result<String, Refusal> {
    let (word, vhost) = (complete(word)?, session.vhost());
    let text = session.announce(banner(&word, vhost)).begin();
    make(&word, vhost, session)?;
    let said = said(&word, vhost, text.is_empty());
    Ok(text + &said)
}

/// The same word with lines of standard input where the command line leaves something out.
fn complete(word: &ChangeWord) -> Result<ChangeWord, Refusal> {
    let mut word = word.clone();
    if let ChangeWord::AddUser { password, .. } | ChangeWord::ChangePassword { password, .. } = &mut word {
        *password = Some(given(password.as_deref())?);
    }
    Ok(word)
}

/// The text after a change, besides the banner before it.
fn said(word: &ChangeWord, vhost: &str, is_quiet: bool) -> String {
    match word {
        ChangeWord::AddUser { .. } if !is_quiet => ADVICE.to_owned(),
        ChangeWord::TraceOn => format!("Trace enabled for vhost {vhost}\n"),
        ChangeWord::TraceOff => format!("Trace disabled for vhost {vhost}\n"),
        _ => String::new(),
    }
}

/// The advice after a user was added.
const ADVICE: &str = "Done. Don't forget to grant the user permissions to some virtual hosts! See 'rabbitmqctl help \
                      set_permissions' to learn more.\n";

/// The banner before a change.
fn banner(word: &ChangeWord, vhost: &str) -> String {
    match word {
        ChangeWord::AddUser { username, .. } => format!("Adding user \"{username}\" ..."),
        ChangeWord::DeleteUser { username } => format!("Deleting user \"{username}\" ..."),
        ChangeWord::ChangePassword { username, .. } => {
            format!("Changing password for user \"{username}\" ...")
        }
        ChangeWord::SetUserTags { username, tags } => {
            format!("Setting tags for user \"{username}\" to [{}] ...", tags.join(", "))
        }
        ChangeWord::SetPermissions { username, .. } => {
            format!("Setting permissions for user \"{username}\" in vhost \"{vhost}\" ...")
        }
        ChangeWord::ClearPermissions { username } => {
            format!("Clearing permissions for user \"{username}\" in vhost \"{vhost}\" ...")
        }
        ChangeWord::SetTopicPermissions { username, exchange, .. } => format!(
            "Setting topic permissions on \"{exchange}\" for user \"{username}\" in vhost \"{vhost}\" ..."
        ),
        ChangeWord::ClearTopicPermissions { username, exchange } => {
            let on = exchange.as_ref().map_or(String::new(), |exchange| format!(" on \"{exchange}\""));
            format!("Clearing topic permissions{on} for user \"{username}\" in vhost \"{vhost}\" ...")
        }
        ChangeWord::AddVhost { vhost, .. } => format!("Adding vhost \"{vhost}\" ..."),
        ChangeWord::UpdateVhostMetadata { vhost, .. } => {
            format!("Updating metadata of vhost \"{vhost}\" ...")
        }
        ChangeWord::SetVhostTags { vhost, tags } => {
            format!("Setting tags for virtual host \"{vhost}\" to [{}] ...", tags.join(", "))
        }
        ChangeWord::EnableVhostDeletionProtection { vhost } => {
            format!("Protecting virtual host \"{vhost}\" from removal by updating its metadata...")
        }
        ChangeWord::DisableVhostDeletionProtection { vhost } => {
            format!("Removing deletion protection from virtual host \"{vhost}\" by updating its metadata...")
        }
        ChangeWord::DeleteVhost { vhost } => format!("Deleting vhost \"{vhost}\" ..."),
        ChangeWord::SetVhostLimits { definition } => {
            format!("Setting vhost limits to \"{definition}\" for vhost \"{vhost}\" ...")
        }
        ChangeWord::ClearVhostLimits => format!("Clearing vhost \"{vhost}\" limits ..."),
        ChangeWord::TraceOn => format!("Starting tracing for vhost \"{vhost}\" ..."),
        ChangeWord::TraceOff => format!("Stopping tracing for vhost \"{vhost}\" ..."),
        ChangeWord::SetVmMemoryHighWatermark { limit } => {
            format!("Setting memory threshold to {} ...", limit.join(" "))
        }
        ChangeWord::SetDiskFreeLimit { limit } => {
            format!("Setting disk free limit to {} ...", limit.join(" "))
        }
        ChangeWord::SetUserLimits { username, definition } => {
            format!("Setting user limits to \"{definition}\" for user \"{username}\" ...")
        }
        ChangeWord::ClearUserLimits { username, limit } => {
            let which = if limit == "all" { "all limits".to_owned() } else { format!("\"{limit}\" limit") };
            format!("Clearing {which} for user \"{username}\" ...")
        }
        ChangeWord::SetPolicy { policy } => policy.banner("policy", vhost),
        ChangeWord::SetOperatorPolicy { policy } => policy.banner("operator policy override", vhost),
        ChangeWord::ClearPolicy { name } => format!("Clearing policy \"{name}\" on vhost \"{vhost}\" ..."),
        ChangeWord::ClearOperatorPolicy { name } => {
            format!("Clearing operator policy \"{name}\" on vhost \"{vhost}\" ...")
        }
    }
}

/// Has the change made, and waits until it is on disk.
fn make(word: &ChangeWord, vhost: &str, session: &Session<'_>) -> Result<(), Refusal> {
    match word {
        ChangeWord::AddUser { username, password } => {
            users::add(session, username, password.as_deref().unwrap_or_default())
        }
        ChangeWord::DeleteUser { username } => users::delete(session, username),
        ChangeWord::ChangePassword { username, password } => {
            users::update(session, username, &json!({ "password": password.as_deref().unwrap_or_default() }))
        }
        ChangeWord::SetUserTags { username, tags } => {
            users::update(session, username, &json!({ "tags": tags }))
        }
        ChangeWord::SetPermissions { username, configure, write, read } => {
            users::permit(session, vhost, username, [configure, write, read])
        }
        ChangeWord::ClearPermissions { username } => users::forbid(session, vhost, username),
        ChangeWord::SetTopicPermissions { username, exchange, write, read } => {
            users::permit_topics(session, vhost, username, exchange, [write, read])
        }
        ChangeWord::ClearTopicPermissions { username, exchange } => {
            users::forget_topics(session, vhost, username, exchange.as_deref())
        }
        ChangeWord::AddVhost { vhost, default_queue_type, description, tags } => {
            let body = json!({
                "default_queue_type": default_queue_type,
                "description": description,
                "tags": split(tags),
            });
            vhosts::add(session, vhost, &body)
        }
        ChangeWord::UpdateVhostMetadata {
            vhost,
            description,
            tags,
            default_queue_type,
            protected_from_deletion,
        } => {
            let body = json!({
                "default_queue_type": default_queue_type,
                "description": description,
                "tags": tags.as_deref().map(split),
                "protected_from_deletion": protected_from_deletion,
            });
            vhosts::update(session, vhost, &body)
        }
        ChangeWord::SetVhostTags { vhost, tags } => vhosts::update(session, vhost, &json!({ "tags": tags })),
        ChangeWord::EnableVhostDeletionProtection { vhost } => {
            vhosts::update(session, vhost, &json!({ "protected_from_deletion": true }))
        }
        ChangeWord::DisableVhostDeletionProtection { vhost } => {
            vhosts::update(session, vhost, &json!({ "protected_from_deletion": false }))
        }
        ChangeWord::DeleteVhost { vhost } => vhosts::delete(session, vhost),
        ChangeWord::SetVhostLimits { definition } => vhosts::set_limits(session, vhost, definition),
        ChangeWord::ClearVhostLimits => vhosts::set_limits(session, vhost, "{}"),
        ChangeWord::TraceOn => vhosts::update(session, vhost, &json!({ "tracing": true })),
        ChangeWord::TraceOff => vhosts::update(session, vhost, &json!({ "tracing": false })),
        ChangeWord::SetVmMemoryHighWatermark { limit } => {
            session.ask(&Request::SetMemoryLimit { limit: limit.join(" ") }).map(drop)
        }
        ChangeWord::SetDiskFreeLimit { limit } => {
            session.ask(&Request::SetDiskLimit { limit: limit.join(" ") }).map(drop)
        }
        ChangeWord::SetUserLimits { username, definition } => {
            users::set_limits(session, username, definition)
        }
        ChangeWord::ClearUserLimits { username, limit } => users::clear_limits(session, username, limit),
        ChangeWord::SetPolicy { policy } => policy.set(session, vhost, false),
        ChangeWord::SetOperatorPolicy { policy } => policy.set(session, vhost, true),
        ChangeWord::ClearPolicy { name } => vhosts::clear_policy(session, vhost, name, false),
        ChangeWord::ClearOperatorPolicy { name } => vhosts::clear_policy(session, vhost, name, true),
    }
}
