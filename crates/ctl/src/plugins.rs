//! The words of `rabbitmq-plugins`: the features that RabbitMQ has plugins for and that are here are here for good.

use crate::request::Refusal;
use crate::session::{Session, failed};
use crate::show::Formatter;
use base::rabbitmq::{PLUGINS, is_plugin};
use clap::Subcommand;
use serde_json::{Value, json};

/// Words about plugins.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum PluginWord {
    /// RabbitMQ's plugins whose features are part of the broker
    List {
        /// Text in the name
        pattern: Option<String>,
        /// Names alone
        #[arg(short = 'm', long)]
        minimal: bool,
        /// Those that are enabled: all
        #[arg(short = 'e', long)]
        enabled: bool,
        /// Those that are enabled by name: all
        #[arg(short = 'E', long = "explicitly-enabled")]
        explicitly_enabled: bool,
    },
    /// Where plugins would be: all are part of the broker
    Directories {
        /// Without a node that runs
        #[arg(long)]
        offline: bool,
    },
    /// Whether the features of a plugin are part of the broker
    IsEnabled {
        #[arg(required = true)]
        plugins: Vec<String>,
    },
    /// Ends with 0 where the features of the plugins are part of the broker
    Enable {
        #[arg(required = true)]
        plugins: Vec<String>,
        /// Without a node that runs
        #[arg(long)]
        offline: bool,
    },
    /// Refused for features that are part of the broker
    Disable {
        #[arg(required = true)]
        plugins: Vec<String>,
        /// Without a node that runs
        #[arg(long)]
        offline: bool,
    },
    /// As enable: nothing is disabled
    Set {
        plugins: Vec<String>,
        /// Without a node that runs
        #[arg(long)]
        offline: bool,
    },
}

pub(crate) fn run(word: &PluginWord, session: &Session<'_>) -> Result<String, Refusal> {
    match word {
        PluginWord::List { pattern, minimal, .. } => {
            let shown = pattern.as_deref().unwrap_or(".*");
            let show =
                session.show(Formatter::Table, format!("Listing plugins with pattern \"{shown}\" ..."));
            let has = |name: &&str| pattern.as_ref().is_none_or(|pattern| name.contains(pattern.as_str()));
            let names: Vec<&str> = PLUGINS.iter().map(|plugin| plugin.name).filter(has).collect();
            if session.is_for_programs() && *minimal {
                let plugins: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
                let all = json!({ "status": "running", "format": "minimal", "plugins": plugins });
                return Ok(format!("{all}\n"));
            }
            if session.is_for_programs() {
                let plugin = |name: &&str| {
                    let version = crate::TOOL_VERSION;
                    json!({ "name": name, "enabled": "enabled", "running": true, "version": version,
                            "running_version": version })
                };
                let plugins: Vec<Value> = names.iter().map(plugin).collect();
                return Ok(format!(
                    "{}\n",
                    json!({ "status": "running", "format": "normal", "plugins": plugins })
                ));
            }
            let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
            let line = |name: &&str| match minimal {
                true => format!("{name}\n"),
                false => format!("[E*] {name:<width$} {}\n", crate::TOOL_VERSION),
            };
            Ok(show.begin() + &names.iter().map(line).collect::<String>())
        }
        PluginWord::Directories { offline } => {
            let banner = match offline {
                true => "Listing plugin directories inferred from local environment...".to_owned(),
                false => format!("Listing plugin directories used by node {}", session.node()?),
            };
            let show = session.announce(banner);
            let told = [
                ("plugins_dir", "Plugin archives directory"),
                ("plugins_expand_dir", "Plugin expansion directory"),
                ("enabled_plugins_file", "Enabled plugins file"),
            ];
            if session.is_for_programs() {
                let none: Value = told.iter().map(|(key, _)| ((*key).to_owned(), Value::from(""))).collect();
                return Ok(format!("{none}\n"));
            }
            let lines: String = told
                .iter()
                .map(|(_, title)| format!("{title}: (none: plugins are part of the broker)\n"))
                .collect();
            Ok(show.begin() + &lines)
        }
        PluginWord::IsEnabled { plugins } => {
            let node = session.node()?;
            let (what, are) = match plugins.len() {
                1 => ("plugin", "is"),
                _ => ("plugins", "are"),
            };
            let names = plugins.join(", ");
            let show = session.announce(format!("Asking node {node} if {what} {names} {are} enabled..."));
            let absent: Vec<&str> =
                plugins.iter().map(String::as_str).filter(|name| !is_plugin(name)).collect();
            let title = if plugins.len() == 1 { "Plugin" } else { "Plugins" };
            match absent.is_empty() {
                true => {
                    let text = format!("{title} {names} {are} enabled on node {node}");
                    match session.is_for_programs() {
                        true => Ok(format!("{}\n", json!({ "result": "ok", "message": text }))),
                        false => Ok(show.message(&text)),
                    }
                }
                false => Err(failed(format!(
                    "{title} {} {are} not enabled on node {node}. Enabled plugins and dependencies: {}",
                    absent.join(", "),
                    PLUGINS.map(|plugin| plugin.name).join(", ")
                ))),
            }
        }
        PluginWord::Enable { plugins, .. } | PluginWord::Set { plugins, .. } => {
            let show = session.announce(format!("Enabling plugins:\n{}", plugins.join("\n")));
            let absent: Vec<&str> =
                plugins.iter().map(String::as_str).filter(|name| !is_plugin(name)).collect();
            match absent.is_empty() {
                true => Ok(show.message("Plugin configuration unchanged.")),
                false => Err(failed(format!(
                    "not served by this version: {}. No plugins are loaded; those whose features are part of the broker \
                     are shown by 'rabbitmq-plugins list'",
                    absent.join(", ")
                ))),
            }
        }
        PluginWord::Disable { plugins, .. } => {
            let show = session.announce(format!("Disabling plugins:\n{}", plugins.join("\n")));
            let served: Vec<&str> =
                plugins.iter().map(String::as_str).filter(|name| is_plugin(name)).collect();
            match served.is_empty() {
                true => Ok(show.message("Plugin configuration unchanged.")),
                false => Err(failed(format!(
                    "part of the broker, and always enabled: {}. A listener is closed by its setting, such as management.tcp = none",
                    served.join(", ")
                ))),
            }
        }
    }
}
