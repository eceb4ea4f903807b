//! Options that every word of the command line takes.

use crate::place::Place;
use crate::show::Formatter;
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The name that the node must have
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
    /// The answer alone, without a banner
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// The answer alone, without a banner and without names of columns
    #[arg(short, long, global = true)]
    pub(crate) silent: bool,
    /// No names of columns
    #[arg(long, global = true)]
    pub(crate) no_table_headers: bool,
    /// Taken, as RabbitMQ's tools take it: names of nodes may always be long ones
    #[arg(short, long, global = true)]
    longnames: bool,
    /// Taken, as RabbitMQ's tools take it: there are no stack traces here
    #[arg(long, global = true, hide = true)]
    print_stacktrace: bool,
}

impl Common {
    /// Those of a tool whose own options are others, and whose answers have no words around them.
    pub(crate) fn of(place: Place, vhost: Option<String>, formatter: Formatter) -> Common {
        Common {
            place,
            node: None,
            timeout: None,
            in_vhost: vhost.unwrap_or_else(|| "/".to_owned()),
            formatter: Some(formatter),
            quiet: true,
            silent: false,
            no_table_headers: false,
            longnames: false,
            print_stacktrace: false,
        }
    }
}
