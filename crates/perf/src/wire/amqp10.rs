//! The load over AMQP 1.0: not spoken yet, which [`Wire::new`] says; there is no value of the type.

use super::{Happenings, Purpose, Wire};
use crate::stamp::STAMP;
use crate::uri::Uri;
use base::{Now, Output};

/// A client connection over AMQP 1.0.
#[derive(Debug)]
pub enum Amqp10 {}

impl Wire for Amqp10 {
    fn new(_now: Now, _uri: &Uri, _purpose: Purpose) -> Result<Amqp10, String> {
        Err("the load generator does not speak AMQP 1.0 yet".to_owned())
    }

    fn input(&mut self, _now: Now, _bytes: &[u8], _to: &mut impl Happenings) -> Result<usize, String> {
        match *self {}
    }

    fn output(&mut self) -> &mut Output {
        match *self {}
    }

    fn deadline(&self) -> Option<u64> {
        match *self {}
    }

    fn handle_deadline(&mut self, _now: Now) -> Result<(), String> {
        match *self {}
    }

    fn is_ready(&self) -> bool {
        match *self {}
    }

    fn room(&self) -> u64 {
        match *self {}
    }

    fn publish(&mut self, _now: Now, _stamp: [u8; STAMP]) {
        match *self {}
    }

    fn settle(&mut self, _now: Now) {
        match *self {}
    }

    fn close(&mut self, _now: Now) {
        match *self {}
    }

    fn is_closed(&self) -> bool {
        match *self {}
    }
}
