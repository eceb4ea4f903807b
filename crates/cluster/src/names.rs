//! Names of a cluster, of its nodes and of their data folders, as peers tell them each other.

use std::num::NonZeroU128;

/// The identity of a cluster: made once, by the node that formed it, and kept by all of its nodes. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub NonZeroU128);

impl std::fmt::Display for ClusterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The identity of a data folder: a node is its folder, and the same name with another folder is another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolderId(pub u128);

impl std::fmt::Display for FolderId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One life of a node, from start to end: drawn at random when it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

/// Bytes of a node's name at most.
pub const NODE_NAME_BYTES_MAX: usize = 255;

/// The name of a node, such as `rabbit@host`: 1 to [`NODE_NAME_BYTES_MAX`] bytes of UTF-8 without white space and
/// control characters, so that it can stand in a line of a log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Box<str>);

/// A text that is no name of a node: empty, longer than [`NODE_NAME_BYTES_MAX`], or with a character that none may
/// have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoNodeName;

impl NodeName {
    /// The name in `text`.
    ///
    /// # Errors
    /// [`NoNodeName`] where it cannot be one.
    pub fn new(text: &str) -> Result<NodeName, NoNodeName> {
        let is_fit = (1..=NODE_NAME_BYTES_MAX).contains(&text.len());
        let is_plain = !text.contains(|c: char| c.is_control() || c.is_whitespace());
        if is_fit && is_plain { Ok(NodeName(text.into())) } else { Err(NoNodeName) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for NodeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::fmt::Display for NoNodeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a node's name has 1 to {NODE_NAME_BYTES_MAX} bytes, none of them white space or control")
    }
}

impl std::error::Error for NoNodeName {}

#[cfg(test)]
mod tests {
    use super::{NODE_NAME_BYTES_MAX, NodeName};

    fn check(text: &str, expected: bool) {
        assert_eq!(NodeName::new(text).is_ok(), expected, "{text:?}");
    }

    #[test]
    fn names_fit_a_line() {
        check("rabbit@host", true);
        check("hase@höhle", true);
        check("", false);
        check("rabbit@ host", false);
        check("rabbit\n", false);
        check("rabbit\u{7f}", false);
        check(&"n".repeat(NODE_NAME_BYTES_MAX), true);
        check(&"n".repeat(NODE_NAME_BYTES_MAX + 1), false);
    }
}
