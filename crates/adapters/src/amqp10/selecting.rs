//! What a receiver of a queue chooses by, in the filters of its source (§3.5.8): expressions in SQL, selectors of JMS, and
//! reference values of properties and of application properties, all of which are to be true.
//!
//! RabbitMQ leaves such filters out, and gives the receiver everything. Whoever asks for some of the messages of a queue would
//! take what is for others, so one that cannot be read is refused. Filters of streams are repeated and mean nothing, as there.

use super::refused::Refused;
use super::streams::{Chosen, chosen};
use super::termini::is_of_streams;
use ::amqp10::{Source, condition};
use broker::Selector;
use filter::{Asker, Expression};
use message::amqp10::{Map, Value};
use std::sync::Arc;

/// The filters of a queue's source.
#[derive(Debug, Default)]
pub(super) struct Selecting {
    /// All of those that choose.
    pub(super) selector: Option<Selector>,
    /// Which filters are in place, as they were asked.
    in_place: Vec<bool>,
}

impl Selecting {
    /// The filters of a source.
    ///
    /// # Errors
    /// One that chooses cannot be read: its name and what is wrong with it.
    pub(super) fn of(source: &Source<'_>, asker: &Asker<'_>) -> Result<Selecting, Refused> {
        let mut in_place = Vec::new();
        let mut all: Option<Expression> = None;
        for (name, value) in source.filter.iter().flat_map(|filter| filter.iter()) {
            let (is_symbol, named) = match name {
                Value::Symbol(named) => (true, named),
                _ => (false, ""),
            };
            let is_in_place = match (is_symbol, value) {
                (true, Value::Described(described)) => {
                    match chosen(named, &described, Selector::KNOWN, asker) {
                        Chosen::Nothing => is_of_streams(value),
                        Chosen::By(more) => {
                            all = Some(match all.take() {
                                Some(all) => Expression::And(Box::new(all), Box::new(more)),
                                None => more,
                            });
                            true
                        }
                        Chosen::Fault(fault) => {
                            let text = format!("filter '{named}': {fault}");
                            return Err(Refused::new(condition::INVALID_FIELD, text));
                        }
                    }
                }
                _ => false,
            };
            in_place.push(is_in_place);
        }
        Ok(Selecting { selector: all.map(|all| Selector(Arc::new(all))), in_place })
    }

    /// Of the filters asked for those that are in place, written into `bytes`.
    pub(super) fn echo<'b>(&self, filter: Map<'_>, bytes: &'b mut Vec<u8>) -> Map<'b> {
        let mut count = 0;
        for ((name, value), is_in_place) in filter.encodings().zip(&self.in_place) {
            if *is_in_place {
                bytes.extend_from_slice(name);
                bytes.extend_from_slice(value);
                count += 2;
            }
        }
        Map::new(count, bytes)
    }
}
