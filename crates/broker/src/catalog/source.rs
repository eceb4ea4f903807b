//! Queues that are filled from a stream: from where, and with what.
//!
//! `x-source-stream` names a stream of the same virtual host, `x-source-offset` says where to begin (what comes first, if it
//! does not), `x-source-filter` which messages are wanted, in SQL, and `x-source-filter-values` which chunks: those that may hold
//! messages with one of these values, or with `x-source-match-unfiltered` messages without one. The queue is placed on the stream's log, so that what
//! it was fed and how far that went are one record of that log or none.

use super::numbers::integer;
use super::source_arguments::{FILTER, FILTER_VALUES, MATCH_UNFILTERED, OFFSET, STREAM};
use super::stream::age_ms;
use super::{Actor, Catalog, Object, QueueDefinition, Refusal};
use crate::access::{Access, Resource};
use crate::placed::stream::{FILTER_VALUES_MAX, StreamFrom, Wanted};
use base::id::{LogId, QueueId};
use message::chunk::Filter;
use routing::{Argument, Arguments};

/// The stream a queue is filled from, and the part of it that the queue takes.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// On the log of the queue.
    pub(crate) stream: QueueId,
    /// Where it began, when the queue was declared.
    pub(crate) from: SourceFrom,
    /// Which messages it takes.
    pub(crate) wanted: Option<Wanted>,
    /// Of which chunks.
    pub(crate) chunks: Option<Filter>,
}

/// Where a queue begins to be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceFrom {
    /// There.
    At(StreamFrom),
    /// With what is not older than so many milliseconds.
    Age(u64),
}

/// Where an argument says; none: it says nothing.
pub(super) fn from(value: Argument<'_>) -> Option<SourceFrom> {
    Some(SourceFrom::At(match value {
        Argument::Text(text) => match text {
            b"first" => StreamFrom::First,
            b"last" => StreamFrom::Last,
            b"next" => StreamFrom::Next,
            text => return age_ms(str::from_utf8(text).ok()?).map(SourceFrom::Age),
        },
        Argument::Timestamp(seconds) => {
            StreamFrom::Timestamp(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000))
        }
        value => match integer(value)? {
            offset @ 0.. => StreamFrom::Offset(u64::try_from(offset).unwrap_or(u64::MAX)),
            count => StreamFrom::LastMessages(u64::try_from(-count).unwrap_or(u64::MAX)),
        },
    }))
}

/// The filter values that an argument names: a text, or a list of texts.
///
/// # Errors
/// The rule that the value breaks.
pub(super) fn filter_values(value: Argument<'_>) -> Result<Vec<&[u8]>, String> {
    fn text(value: Argument<'_>) -> Result<&[u8], String> {
        match value {
            Argument::Text(text) => Ok(text),
            _ => Err("filter_values_are_texts".to_owned()),
        }
    }
    match value {
        Argument::List(values) if values.len() > FILTER_VALUES_MAX => {
            Err("too_many_filter_values".to_owned())
        }
        Argument::List(values) => values.iter().map(text).collect(),
        value => text(value).map(|value| vec![value]),
    }
}

impl Catalog {
    /// The log on which a new queue with these arguments is to be, if they name a stream to fill it from.
    ///
    /// # Errors
    /// There is no such stream, or it may not be read.
    pub(super) fn check_source(
        &self,
        by: &Actor,
        arguments: &Arguments,
        (named, durable, exclusive): (&str, bool, bool),
    ) -> Result<Option<LogId>, Refusal> {
        let others = [OFFSET, FILTER, FILTER_VALUES, MATCH_UNFILTERED];
        let Some(Argument::Text(name)) = arguments.get(STREAM.as_bytes()) else {
            return match others.into_iter().find(|name| arguments.get(name.as_bytes()).is_some()) {
                Some(name) => Err(Refusal::invalid_argument(name, named, ": no_source_stream")),
                None => Ok(None),
            };
        };
        let rules = [(exclusive, "exclusive-owner"), (!durable, "non-durable")];
        if let Some((_, property)) = rules.into_iter().find(|(is_broken, _)| *is_broken) {
            return Err(Refusal::invalid_property(property, named));
        }
        let shown = String::from_utf8_lossy(name);
        self.check_access(by, Access::Read, Resource::Queue(&shown))?;
        match self.queue_by_name(by.vhost, name) {
            None => Err(Refusal::missing(Object::Queue, &shown, self.vhost_name(by.vhost))),
            Some(stream) if !stream.is_stream() => Err(Refusal::no_stream(stream)),
            Some(stream) => Ok(Some(stream.log)),
        }
    }

    /// The source of a queue, while its stream is there. A stream that took the name later is another.
    pub(crate) fn source(&self, queue: &QueueDefinition) -> Option<Source> {
        let Some(Argument::Text(name)) = queue.arguments.get(STREAM.as_bytes()) else { return None };
        let stream = self.queue_by_name(queue.vhost, name)?;
        if !stream.is_stream() || stream.log != queue.log || stream.id > queue.id {
            return None;
        }
        let begin = queue.arguments.get(OFFSET.as_bytes()).and_then(from);
        let wanted = match queue.arguments.get(FILTER.as_bytes()) {
            // It was compiled when the queue was declared.
            Some(Argument::Text(text)) => Some(Wanted::parse(text, self.macros(queue.vhost), None).ok()?),
            _ => None,
        };
        let begin = begin.unwrap_or(SourceFrom::At(StreamFrom::First));
        let values = queue.arguments.get(FILTER_VALUES.as_bytes());
        let unfiltered = queue.arguments.get(MATCH_UNFILTERED.as_bytes()) == Some(Argument::Bool(true));
        let values = values.and_then(|values| filter_values(values).ok());
        let chunks = values.map(|values| Filter::new(values, unfiltered));
        Some(Source { stream: stream.id, from: begin, wanted, chunks })
    }
}

impl QueueDefinition {
    /// It is filled from a stream.
    pub(crate) fn has_source(&self) -> bool {
        self.arguments.get(STREAM.as_bytes()).is_some()
    }
}
