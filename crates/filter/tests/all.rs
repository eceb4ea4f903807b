//! The tests of this crate in one program: what they share is compiled once, and linked once.
//! Those that count what the allocator hands out are programs of their own.

mod binary;
mod content;
mod corpus;
mod document;
mod evaluation;
mod fix;
mod functions;
mod generate;
mod index;
mod jms;
mod json;
mod language;
mod macros;
mod message;
mod oracles;
mod random;
mod random_macros;
mod references;
mod replacing;
mod said;
mod xml;
