//! The verdict on a value that a key was given: whether it can be had.

/// The verdict on a value.
pub enum Verdict {
    /// It works.
    Works,
    /// It does nothing, and nobody is harmed: why.
    Nothing(String),
    /// Somebody would rely on it in vain: the missing feature, and the one there is.
    Absent(String),
    /// It is no value of this key: the values that would be accepted.
    Wrong(String),
}
