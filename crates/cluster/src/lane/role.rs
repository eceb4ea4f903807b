//! The ends of a lane.

/// The end of a connection that a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The node made the connection: it says hello and proves first.
    Dialer,
    /// The node accepted it: a stranger learns nothing of it, and gets no proof to try cookies on.
    Listener,
}
