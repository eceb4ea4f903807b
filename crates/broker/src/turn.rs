//! A turn, as those see it that work in it: when it is, what the bounds are, where what leaves the shard goes.

use crate::limits::Limits;
use crate::post::Post;
use base::Now;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) now: Now,
    pub(crate) limits: &'a Limits,
    pub(crate) post: &'a mut Post,
}

impl<'a> Turn<'a> {
    #[inline]
    pub(crate) fn new(now: Now, limits: &'a Limits, post: &'a mut Post) -> Turn<'a> {
        Turn { now, limits, post }
    }
}
