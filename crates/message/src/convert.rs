//! Conversion of message heads between protocols.
