//! The words of the command line that change something, and what is said meanwhile.

use crate::objects::given;
use crate::request::{Change, Refusal};
use clap::{Args, Subcommand};

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
    /// Says what a user is: administrator, monitoring, ...
    SetUserTags { username: String, tags: Vec<String> },
    /// Says what a user may configure, write to and read from, each by a regular expression over names
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
        /// What it is for, in words
        #[arg(long, short = 'd', default_value = "")]
        description: String,
        /// Words to find it by: one,two
        #[arg(long, default_value = "")]
        tags: String,
    },
    /// Changes what is said of a virtual host; what is not named stays as it is
    #[command(group = clap::ArgGroup::new("metadata").required(true).multiple(true))]
    UpdateVhostMetadata {
        vhost: String,
        /// What it is for, in words
        #[arg(long, short = 'd', group = "metadata")]
        description: Option<String>,
        /// All words to find it by: one,two
        #[arg(long, group = "metadata")]
        tags: Option<String>,
        /// The type of queues in it that are declared without one
        #[arg(long = "default-queue-type", value_name = "TYPE", value_parser = ["classic", "quorum"], group = "metadata")]
        default_queue_type: Option<String>,
        /// It cannot be deleted
        #[arg(long = "protected-from-deletion", num_args = 0..=1, require_equals = true, default_missing_value = "true",
              group = "metadata")]
        protected_from_deletion: Option<bool>,
    },
    /// Sets all words to find a virtual host by
    SetVhostTags { vhost: String, tags: Vec<String> },
    /// Lets nobody delete a virtual host
    EnableVhostDeletionProtection { vhost: String },
    /// Lets a virtual host be deleted again
    DisableVhostDeletionProtection { vhost: String },
    /// Removes a virtual host, and all that is in it
    DeleteVhost { vhost: String },
    /// Limits a virtual host: {"max-connections": 64, "max-queues": 10}; what is not named is not limited
    SetVhostLimits { definition: String },
    /// Takes all limits of a virtual host away
    ClearVhostLimits,
    /// Tells what is published to and delivered from a virtual host at its exchange amq.rabbitmq.trace, until the node stops
    TraceOn,
    /// Ends what trace_on began
    TraceOff,
    /// Says from how much memory publishers wait, until the node stops: 0.4 of what there is, or absolute 4GB
    SetVmMemoryHighWatermark {
        #[arg(num_args = 1..=2, required = true)]
        limit: Vec<String>,
    },
    /// Says below how much free disk publishers wait, until the node stops: 2GB, or mem_relative 1.5 of the memory
    SetDiskFreeLimit {
        #[arg(num_args = 1..=2, required = true)]
        limit: Vec<String>,
    },
    /// Limits a user: {"max-connections": 8, "max-channels": 100}; what is not named stays as it is
    SetUserLimits { username: String, definition: String },
    /// Takes a limit of a user away, or all
    ClearUserLimits {
        username: String,
        /// Which: max-connections, max-channels, all
        limit: String,
    },
    /// Sets for all queues and exchanges whose names match what they would be declared with:
    /// '^logs' '{"max-length": 1000}'
    SetPolicy {
        #[command(flatten)]
        policy: PolicyWords,
    },
    /// Takes a policy away
    ClearPolicy { name: String },
    /// Sets a policy that caps what the others ask for
    SetOperatorPolicy {
        #[command(flatten)]
        policy: PolicyWords,
    },
    /// Takes an operator's policy away
    ClearOperatorPolicy { name: String },
}

/// What a policy is made of.
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
    fn change(&self, vhost: &str, is_operator: bool) -> (String, Change) {
        let PolicyWords { priority, apply_to, name, pattern, definition } = self;
        let kind = if is_operator { "operator policy override" } else { "policy" };
        let text = format!(
            "Setting {kind} \"{name}\" for pattern \"{pattern}\" to \"{definition}\" with priority \"{priority}\" \
             for vhost \"{vhost}\" ..."
        );
        let change = Change::SetPolicy {
            is_operator,
            vhost: vhost.to_owned(),
            name: name.clone(),
            pattern: pattern.clone(),
            apply_to: apply_to.clone(),
            priority: *priority,
            definition: definition.clone(),
        };
        (text, change)
    }
}

/// Words between commas, without the space around them.
fn split(tags: &str) -> Vec<String> {
    tags.split(',').map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect()
}

/// A change of a virtual host's tags or protection.
fn update(vhost: &str, tags: Option<Vec<String>>, protected_from_deletion: Option<bool>) -> Change {
    let vhost = vhost.to_owned();
    Change::UpdateVhost { vhost, description: None, tags, default_queue_type: None, protected_from_deletion }
}

/// The same word with what is read from standard input where the command line leaves it out.
pub(crate) fn complete(word: &ChangeWord) -> Result<ChangeWord, Refusal> {
    let mut word = word.clone();
    if let ChangeWord::AddUser { password, .. } | ChangeWord::ChangePassword { password, .. } = &mut word {
        *password = Some(given(password.as_deref())?);
    }
    Ok(word)
}

/// What is said when a change is made, besides what was said before.
pub(crate) fn said(word: &ChangeWord, vhost: &str, is_quiet: bool) -> String {
    match word {
        ChangeWord::AddUser { .. } if !is_quiet => ADVICE.to_owned(),
        ChangeWord::TraceOn => format!("Trace enabled for vhost {vhost}\n"),
        ChangeWord::TraceOff => format!("Trace disabled for vhost {vhost}\n"),
        _ => String::new(),
    }
}

/// What is said to who has made a user.
const ADVICE: &str = "Done. Don't forget to grant the user permissions to some virtual hosts! See 'rabbitmqctl help \
                      set_permissions' to learn more.\n";

/// What a word is to change, in a virtual host where the word names none, and what is said meanwhile.
pub(crate) fn change(word: &ChangeWord, vhost: &String) -> (String, Change) {
    let own = String::clone;
    match word {
        ChangeWord::AddUser { username, password } => (
            format!("Adding user \"{username}\" ..."),
            Change::AddUser { user: own(username), password: password.clone().unwrap_or_default() },
        ),
        ChangeWord::DeleteUser { username } => {
            (format!("Deleting user \"{username}\" ..."), Change::DeleteUser { user: own(username) })
        }
        ChangeWord::ChangePassword { username, password } => (
            format!("Changing password for user \"{username}\" ..."),
            Change::ChangePassword { user: own(username), password: password.clone().unwrap_or_default() },
        ),
        ChangeWord::SetUserTags { username, tags } => (
            format!("Setting tags for user \"{username}\" to [{}] ...", tags.join(", ")),
            Change::SetUserTags { user: own(username), tags: tags.clone() },
        ),
        ChangeWord::SetPermissions { username, configure, write, read } => (
            format!("Setting permissions for user \"{username}\" in vhost \"{vhost}\" ..."),
            Change::SetPermissions {
                user: own(username),
                vhost: own(vhost),
                configure: own(configure),
                write: own(write),
                read: own(read),
            },
        ),
        ChangeWord::ClearPermissions { username } => (
            format!("Clearing permissions for user \"{username}\" in vhost \"{vhost}\" ..."),
            Change::ClearPermissions { user: own(username), vhost: own(vhost) },
        ),
        ChangeWord::SetTopicPermissions { username, exchange, write, read } => {
            let change = Change::SetTopicPermissions {
                user: own(username),
                vhost: own(vhost),
                exchange: own(exchange),
                write: own(write),
                read: own(read),
            };
            let text = format!(
                "Setting topic permissions on \"{exchange}\" for user \"{username}\" in vhost \"{vhost}\" ..."
            );
            (text, change)
        }
        ChangeWord::ClearTopicPermissions { username, exchange } => {
            let on = exchange.as_ref().map_or(String::new(), |exchange| format!(" on \"{exchange}\""));
            let text =
                format!("Clearing topic permissions{on} for user \"{username}\" in vhost \"{vhost}\" ...");
            let (user, vhost, exchange) = (own(username), own(vhost), exchange.clone());
            (text, Change::ClearTopicPermissions { user, vhost, exchange })
        }
        ChangeWord::AddVhost { vhost, default_queue_type, description, tags } => {
            let change = Change::AddVhost {
                vhost: own(vhost),
                default_queue_type: default_queue_type.clone(),
                description: own(description),
                tags: split(tags),
            };
            (format!("Adding vhost \"{vhost}\" ..."), change)
        }
        ChangeWord::UpdateVhostMetadata {
            vhost,
            description,
            tags,
            default_queue_type,
            protected_from_deletion,
        } => {
            let change = Change::UpdateVhost {
                vhost: own(vhost),
                description: description.clone(),
                tags: tags.as_deref().map(split),
                default_queue_type: default_queue_type.clone(),
                protected_from_deletion: *protected_from_deletion,
            };
            (format!("Updating metadata of vhost \"{vhost}\" ..."), change)
        }
        ChangeWord::SetVhostTags { vhost, tags } => {
            let text = format!("Setting tags for virtual host \"{vhost}\" to [{}] ...", tags.join(", "));
            (text, update(vhost, Some(tags.clone()), None))
        }
        ChangeWord::EnableVhostDeletionProtection { vhost } => {
            let text =
                format!("Protecting virtual host \"{vhost}\" from removal by updating its metadata...");
            (text, update(vhost, None, Some(true)))
        }
        ChangeWord::DisableVhostDeletionProtection { vhost } => {
            let text = format!(
                "Removing deletion protection from virtual host \"{vhost}\" by updating its metadata..."
            );
            (text, update(vhost, None, Some(false)))
        }
        ChangeWord::DeleteVhost { vhost } => {
            (format!("Deleting vhost \"{vhost}\" ..."), Change::DeleteVhost { vhost: own(vhost) })
        }
        ChangeWord::SetVhostLimits { definition } => (
            format!("Setting vhost limits to \"{definition}\" for vhost \"{vhost}\" ..."),
            Change::SetVhostLimits { vhost: own(vhost), definition: own(definition) },
        ),
        ChangeWord::ClearVhostLimits => (
            format!("Clearing vhost \"{vhost}\" limits ..."),
            Change::SetVhostLimits { vhost: own(vhost), definition: "{}".to_owned() },
        ),
        ChangeWord::TraceOn => (
            format!("Starting tracing for vhost \"{vhost}\" ..."),
            Change::Trace { vhost: own(vhost), on: true },
        ),
        ChangeWord::TraceOff => (
            format!("Stopping tracing for vhost \"{vhost}\" ..."),
            Change::Trace { vhost: own(vhost), on: false },
        ),
        ChangeWord::SetVmMemoryHighWatermark { limit } => (
            format!("Setting memory threshold to {} ...", limit.join(" ")),
            Change::SetMemoryLimit { limit: limit.join(" ") },
        ),
        ChangeWord::SetDiskFreeLimit { limit } => (
            format!("Setting disk free limit to {} ...", limit.join(" ")),
            Change::SetDiskLimit { limit: limit.join(" ") },
        ),
        ChangeWord::SetUserLimits { username, definition } => (
            format!("Setting user limits to \"{definition}\" for user \"{username}\" ..."),
            Change::SetUserLimits { user: own(username), definition: own(definition) },
        ),
        ChangeWord::ClearUserLimits { username, limit } => {
            let which = if limit == "all" { "all limits".to_owned() } else { format!("\"{limit}\" limit") };
            let text = format!("Clearing {which} for user \"{username}\" ...");
            (text, Change::ClearUserLimits { user: own(username), limit: own(limit) })
        }
        ChangeWord::SetPolicy { policy } => policy.change(vhost, false),
        ChangeWord::SetOperatorPolicy { policy } => policy.change(vhost, true),
        ChangeWord::ClearPolicy { name } => (
            format!("Clearing policy \"{name}\" on vhost \"{vhost}\" ..."),
            Change::ClearPolicy { is_operator: false, vhost: own(vhost), name: own(name) },
        ),
        ChangeWord::ClearOperatorPolicy { name } => (
            format!("Clearing operator policy \"{name}\" on vhost \"{vhost}\" ..."),
            Change::ClearPolicy { is_operator: true, vhost: own(vhost), name: own(name) },
        ),
    }
}
