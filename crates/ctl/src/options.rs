//! Options that every word of the command line takes.

use crate::place::Place;
use crate::show::Formatter;
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The node's name; the one that answers must have it
    #[arg(short, long, global = true)]
    pub(crate) node: Option<String>,
    /// Seconds to wait for an answer
    #[arg(short, long, global = true)]
    pub(crate) timeout: Option<u32>,
    /// The virtual host
    #[arg(short = 'p', long = "vhost", global = true, value_name = "VHOST", default_value = "/")]
    pub(crate) in_vhost: String,
    /// How the answer is shown
    #[arg(long, global = true)]
    pub(crate) formatter: Option<Formatter>,
    /// No words around the answer
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// No words around the answer and no names of columns
    #[arg(short, long, global = true)]
    pub(crate) silent: bool,
    /// No names of columns
    #[arg(long, global = true)]
    pub(crate) no_table_headers: bool,
    /// Names of nodes may be long ones; here they may anyway
    #[arg(short, long, global = true)]
    longnames: bool,
    /// Taken, as RabbitMQ's tools take it: there are no stack traces here
    #[arg(long, global = true, hide = true)]
    print_stacktrace: bool,
}
