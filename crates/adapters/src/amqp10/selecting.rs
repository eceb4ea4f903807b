//! Expressions that a receiver of a queue chooses by, in the filters of its source (§3.5.8): in SQL, selectors of JMS, and
//! reference values of properties and of application properties, all of which are to be true.
//!
//! RabbitMQ leaves such filters out, and gives the receiver everything. Whoever asks for some of the messages of a queue would
//! take what is for others, so one that cannot be read is refused. Filters of streams are repeated and mean nothing, as there.

use super::refused::Refused;
use super::streams::{Chosen, chosen};
use super::termini::{self, is_of_streams};
use crate::asking::Client;
use ::amqp10::{Source, condition};
use broker::Selector;
use filter::Expression;
use message::amqp10::{Map, Value};

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
    pub(super) fn of(source: &Source<'_>, client: &Client<'_>) -> Result<Selecting, Refused> {
        let mut in_place = Vec::new();
        let mut all: Option<Expression> = None;
        for (name, value) in source.filter.iter().flat_map(|filter| filter.iter()) {
            let (is_symbol, named) = match name {
                Value::Symbol(named) => (true, named),
                _ => (false, ""),
            };
            let is_in_place = match (is_symbol, value) {
                (true, Value::Described(described)) => {
                    match chosen(named, &described, Selector::KNOWN, client) {
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
        let selector = all.map(Selector::new).transpose();
        let selector = selector.map_err(|fault| Refused::new(condition::INVALID_FIELD, fault))?;
        Ok(Selecting { selector, in_place })
    }

    /// Of the filters asked for those that are in place, written into `bytes`.
    pub(super) fn echo<'b>(&self, filter: Map<'_>, bytes: &'b mut Vec<u8>) -> Map<'b> {
        termini::in_place(filter, &self.in_place, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filter::{Asker, Macros};
    use message::amqp10::Encoder;

    const ANN: Asker<'static> = Asker { user: "ann", vhost: "/", client_id: None, claims: &[] };

    fn check(filters: &[(&str, &str, Value<'_>)], expected: Result<(Option<&str>, usize), &str>) {
        let mut bytes = Vec::new();
        for (name, descriptor, value) in filters {
            let mut encoder = Encoder::new(&mut bytes);
            encoder.symbol(name);
            bytes.push(0x00);
            let mut encoder = Encoder::new(&mut bytes);
            encoder.symbol(descriptor);
            encoder.value(*value);
        }
        let map = Map::new(2 * filters.len() as u32, &bytes);
        let source = Source { filter: Some(map), ..Source::default() };
        let found = Selecting::of(&source, &Client { asker: ANN, macros: Macros::none() });
        match (found, expected) {
            (Ok(found), Ok((text, in_place))) => {
                let selector = found.selector.as_ref().map(|selector| selector.expression().to_string());
                assert_eq!(selector.as_deref(), text, "{filters:?}");
                assert_eq!(found.echo(map, &mut Vec::new()).len(), in_place, "{filters:?}");
            }
            (Err(refused), Err(fault)) => {
                let told = format!("{refused:?}");
                assert!(told.contains(fault) && told.contains("invalid-field"), "{told}");
            }
            (found, expected) => panic!("{filters:?}: {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn filters_that_choose_are_in_place_or_refused() {
        const SQL: &str = "amqp:sql-filter";
        const JMS: &str = "apache.org:selector-filter:string";
        check(&[], Ok((None, 0)));
        check(&[("sql-filter", SQL, Value::String("a = 1"))], Ok((Some("a = 1"), 1)));
        // By another name it is none, as at streams.
        check(&[("any", SQL, Value::String("a = 1"))], Ok((None, 0)));
        check(&[("any", JMS, Value::String("JMSPriority > 4"))], Ok((Some("header.priority > 4"), 1)));
        let both = [("x", JMS, Value::String("a = 1")), ("sql-filter", SQL, Value::String("b = USER()"))];
        check(&both, Ok((Some("a = 1 AND b = 'ann'"), 2)));
        let other =
            [("x", "no-local", Value::String("")), ("y", "rabbitmq:stream-filter", Value::String("a"))];
        check(&other, Ok((None, 1)));
        check(&[("sql-filter", SQL, Value::String("a = "))], Err("filter 'sql-filter': at byte 4"));
        check(&[("x", JMS, Value::Ulong(1))], Err("filter 'x': expected a string"));
        check(&[("x", JMS, Value::String("OFFSET() = 1"))], Err("OFFSET() is not known here"));
        check(&[("p", "amqp:properties-filter", Value::String("a"))], Err("expected a map"));
    }
}
