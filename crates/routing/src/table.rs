//! The bindings of an exchange, kept as its kind looks for them.

use crate::arguments::Arguments;
use crate::bounds::Bounds;
use crate::exchange::Kind;
use crate::keyed::Keyed;
use crate::lots::Lots;
use crate::matches::{Destination, Matches};
use crate::ring::Ring;
use crate::topic::Topic;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bindings. One is its key, its arguments and its destination; each is there once.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    kind: Kind,
    rows: Rows,
}

/// The forms in which bindings are kept.
#[derive(Clone, Debug)]
pub(crate) enum Rows {
    /// By their whole keys.
    Keyed(Keyed),
    /// By patterns.
    Topic(Box<Topic>),
    /// One is found by a hash.
    Ring(Box<Ring>),
    /// One is drawn.
    Lots(Box<Lots>),
}

impl Table {
    /// No bindings of an exchange that [chooses as](Kind::chooses_as) this kind.
    pub(crate) fn new(kind: Kind) -> Table {
        let rows = match kind {
            Kind::Direct
            | Kind::Delayed
            | Kind::Fanout
            | Kind::Content
            | Kind::Headers
            | Kind::RecentHistory
            | Kind::FederationUpstream => Rows::Keyed(Keyed::default()),
            Kind::Topic => Rows::Topic(Box::default()),
            Kind::ConsistentHash => Rows::Ring(Box::default()),
            Kind::ModulusHash | Kind::Random | Kind::LocalRandom => Rows::Lots(Box::default()),
        };
        // Nobody chooses as one that delays.
        let kind = if kind == Kind::Delayed { Kind::Direct } else { kind };
        Table { kind, rows }
    }

    /// The kind it looks for them as; never [`Kind::Delayed`].
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    #[inline]
    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Whether each message goes to one destination at most.
    pub(crate) fn gives_to_one(&self) -> bool {
        matches!(self.rows, Rows::Ring(_) | Rows::Lots(_))
    }

    /// Whether a destination has more bindings than so many, where each message goes to one destination.
    pub(crate) fn has_more(&self, destination: Destination, than: u32, out: &mut Matches) -> bool {
        match &self.rows {
            Rows::Lots(lots) => lots.bindings_of(destination) > than,
            Rows::Ring(ring) => {
                out.take(than as usize) && ring.bindings_of(destination).nth(than as usize).is_some()
            }
            Rows::Keyed(_) | Rows::Topic(_) => false,
        }
    }

    /// Adds a binding; whether it is new.
    pub(crate) fn bind(&mut self, key: Arc<[u8]>, arguments: Arguments, destination: Destination) -> bool {
        match &mut self.rows {
            Rows::Keyed(keyed) => keyed.bind(key, arguments, destination),
            Rows::Topic(topic) => topic.bind(key, arguments, destination),
            Rows::Ring(ring) => ring.bind(&key, arguments, destination),
            Rows::Lots(lots) => lots.bind(key, arguments, destination),
        }
    }

    /// Takes a binding away; whether it was there.
    pub(crate) fn unbind(&mut self, key: &[u8], arguments: &Arguments, destination: Destination) -> bool {
        match &mut self.rows {
            Rows::Keyed(keyed) => keyed.unbind(key, arguments, destination),
            Rows::Topic(topic) => topic.unbind(key, arguments, destination),
            Rows::Ring(ring) => ring.unbind(key, arguments, destination),
            Rows::Lots(lots) => lots.unbind(key, arguments, destination),
        }
    }

    /// Visits bindings in no order, until `visit` breaks.
    pub(crate) fn visit(
        &self,
        mut visit: impl FnMut(&[u8], &Arguments, Destination) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut each = |key: &[u8], bounds: &Bounds| {
            bounds.list().iter().try_for_each(|bound| {
                let mut variants = bound.variants();
                variants.try_for_each(|arguments| visit(key, arguments, bound.destination()))
            })
        };
        match &self.rows {
            Rows::Keyed(keyed) => keyed.iter().try_for_each(|(key, bounds)| each(key, bounds)),
            Rows::Topic(topic) => topic.try_for_each(each),
            Rows::Ring(ring) => {
                let mut all = ring.bindings();
                all.try_for_each(|own| visit(&own.key, &own.arguments, own.destination))
            }
            Rows::Lots(lots) => lots.keyed().iter().try_for_each(|(key, bounds)| each(key, bounds)),
        }
    }

    /// Bytes it keeps on the heap; of many bindings some stand for all, so that the caller holds nobody up.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.rows {
            Rows::Keyed(keyed) => keyed.heap_bytes(),
            Rows::Topic(topic) => size_of::<Topic>() + topic.heap_bytes(),
            Rows::Ring(ring) => size_of::<Ring>() + ring.heap_bytes(),
            Rows::Lots(lots) => size_of::<Lots>() + lots.heap_bytes(),
        }
    }
}
