//! Messages to the thread that watches over the node: above all that the node is to end.

use std::sync::mpsc::Sender;

/// A message to the thread that watches over the node.
pub enum End {
    /// It is to end: somebody asked it to.
    Asked,
    /// It must end.
    Failed(String),
    /// It goes on, but the disk may be fuller than it was: look now.
    Look,
    /// The limits of memory or disk were changed: look now, and answer when the shards know the alarms that hold.
    Judge(Sender<()>),
    /// All but its process is to stop.
    StopApp,
    /// A stopped node is to go on.
    StartApp,
    /// It has the catalog of another node on its disk: it is to begin anew with that.
    Anew,
}
