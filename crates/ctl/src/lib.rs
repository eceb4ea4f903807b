//! Command-line administration.
