//! The requests of a stream's receiver in its filters (§3.5.8): where it begins and which messages it is to see.
//!
//! Rules are RabbitMQ 4.3's: filters that mean nothing are passed over, and the answer has those that are in place. By
//! content a stream is filtered by SQL, by a selector of JMS (which RabbitMQ leaves out), or by reference values of
//! properties and of application properties, not by two of these three; the last of the set is looked at first.

use super::refused::Refused;
use super::termini;
use crate::asking::Client;
use ::amqp10::{Source, condition};
use broker::catalog::{QueueDefinition, age_ms};
use broker::{CONSUMER_NAME_MAX, FILTER_VALUES_MAX, RATE_MAX, StreamFilter, StreamFrom, Wanted};
use filter::{Expression, Known, Limits, Names, Reference, References, Site};
use message::amqp10::{Described, Descriptor, Map, Value};
use message::chunk::Filter;

/// The capabilities of a stream's source (AMQP Filter Expressions 1.0 §2.2).
pub(super) const CAPABILITIES: [&str; 2] = ["AMQP_FILTEX_PROP_V1_0", "AMQP_FILTEX_SQL_V1_0"];

const OFFSET: &str = "rabbitmq:stream-offset-spec";
const FILTER: &str = "rabbitmq:stream-filter";
/// Messages a second, at most.
const RATE: &str = "x-replay-rate";
/// The consumer's name.
const CONSUMER_NAME: &str = "x-stream-consumer-name";
const MATCH_UNFILTERED: &str = "rabbitmq:stream-match-unfiltered";
/// How the one in the set is called that is SQL.
const SQL_NAME: &str = "sql-filter";
const SQL: (&str, u64) = ("amqp:sql-filter", 0x120);
/// A selector of JMS, whatever it is called in the set.
const SELECTOR: (&str, u64) = ("apache.org:selector-filter:string", 0x0000_468C_0000_0004);
const PROPERTIES: (&str, u64) = ("amqp:properties-filter", 0x173);
const APPLICATION_PROPERTIES: (&str, u64) = ("amqp:application-properties-filter", 0x174);

/// How a receiver reads a stream.
#[derive(Debug)]
pub(super) struct ReadOptions {
    pub(super) from: StreamFrom,
    pub(super) filter: StreamFilter,
    /// Messages a second, at most.
    pub(super) rate: Option<u32>,
    /// The consumer's name.
    pub(super) name: Option<Box<[u8]>>,
    /// The filters that are in place, as they were asked: names and values.
    in_place: Vec<bool>,
}

/// The filters found while the set is gone through.
#[derive(Debug, Default)]
struct Found {
    sql: Option<Expression>,
    properties: Option<Expression>,
    application_properties: Option<Expression>,
    values: Option<Vec<Vec<u8>>>,
    match_unfiltered: bool,
    rate: Option<u32>,
    name: Option<Box<[u8]>>,
}

impl ReadOptions {
    /// The options in the filters of a source.
    ///
    /// # Errors
    /// It is to begin nowhere.
    pub(super) fn of(
        source: &Source<'_>,
        stream: &QueueDefinition,
        client: &Client<'_>,
        now_ms: u64,
    ) -> Result<ReadOptions, Refused> {
        let filters: Vec<_> = source.filter.iter().flat_map(|filter| filter.iter()).collect();
        let mut in_place = vec![false; filters.len()];
        let mut found = Found::default();
        let mut from = StreamFrom::Next;
        for (at, (name, value)) in filters.iter().enumerate().rev() {
            let (Value::Symbol(name), Value::Described(described)) = (name, value) else { continue };
            let (descriptor, value) = (described.descriptor(), described.value());
            in_place[at] = match descriptor {
                Descriptor::Name(OFFSET) => match offset(value, now_ms) {
                    Some(Ok(begin)) => {
                        from = begin;
                        true
                    }
                    Some(Err(())) => {
                        let text =
                            format!("failed consuming from stream {}: invalid_max_age", stream.named());
                        return Err(Refused::new(condition::PRECONDITION_FAILED, text));
                    }
                    None => false,
                },
                descriptor => found.take(name, descriptor, value, client),
            };
        }
        let (rate, name) = (found.rate, found.name.take());
        Ok(ReadOptions { from, filter: found.finish()?, rate, name, in_place })
    }

    /// Of the filters asked for those that are in place, written into `bytes`.
    pub(super) fn echo<'b>(&self, filter: Map<'_>, bytes: &'b mut Vec<u8>) -> Map<'b> {
        termini::in_place(filter, &self.in_place, bytes)
    }
}

/// The expression that a filter chooses by.
pub(super) enum Chosen {
    /// It is none that chooses.
    Nothing,
    By(Expression),
    /// It cannot be read: why.
    Fault(String),
}

/// The expression that a filter chooses by, where the functions of the message that are known are these.
pub(super) fn chosen(name: &str, described: &Described<'_>, known: Known, client: &Client<'_>) -> Chosen {
    let (descriptor, value) = (described.descriptor(), described.value());
    let parsed = |text: &str, limits: Limits, names: Names| {
        let site = Site { limits, known: known.and_asker(), names, macros: client.macros };
        match Expression::parse_at(text, &site) {
            Ok(expression) => Chosen::By(expression.bound(&client.asker)),
            Err(error) => Chosen::Fault(error.to_string()),
        }
    };
    let referred = |fields, of_properties| match references(fields, of_properties) {
        Some(expression) => Chosen::By(expression),
        None => Chosen::Fault("expected reference values of the types that the fields have".to_owned()),
    };
    match value {
        Value::String(text) if name == SQL_NAME && is(descriptor, SQL) => {
            parsed(text, Limits::default(), Names::Own)
        }
        Value::String(text) if is(descriptor, SELECTOR) => parsed(text, Limits::content(), Names::Jms),
        Value::Map(fields) if is(descriptor, PROPERTIES) => referred(fields, true),
        Value::Map(fields) if is(descriptor, APPLICATION_PROPERTIES) => referred(fields, false),
        _ if (name == SQL_NAME && is(descriptor, SQL)) || is(descriptor, SELECTOR) => {
            Chosen::Fault("expected a string".to_owned())
        }
        _ if is(descriptor, PROPERTIES) || is(descriptor, APPLICATION_PROPERTIES) => {
            Chosen::Fault("expected a map".to_owned())
        }
        _ => Chosen::Nothing,
    }
}

/// Where to begin. None: it says nothing; an error: it is a text that means nothing.
fn offset(value: Value<'_>, now_ms: u64) -> Option<Result<StreamFrom, ()>> {
    match value {
        // RabbitMQ's streams know whole seconds.
        Value::Timestamp(ms) => Some(Ok(StreamFrom::Timestamp(ms.div_euclid(1000) * 1000))),
        Value::String(text) | Value::Symbol(text) => Some(match text {
            "first" => Ok(StreamFrom::First),
            "last" => Ok(StreamFrom::Last),
            "next" => Ok(StreamFrom::Next),
            text => match age_ms(text) {
                Some(age_ms) => Ok(StreamFrom::Timestamp(now_ms.saturating_sub(age_ms) as i64)),
                None => Err(()),
            },
        }),
        value => match (value.as_u64(), value.as_i64()) {
            (Some(offset), _) => Some(Ok(StreamFrom::Offset(offset))),
            // So many from the end.
            (None, Some(count)) => Some(Ok(StreamFrom::LastMessages(count.unsigned_abs()))),
            (None, None) => None,
        },
    }
}

fn is(descriptor: Descriptor<'_>, (name, code): (&str, u64)) -> bool {
    match descriptor {
        Descriptor::Name(of) => of == name,
        Descriptor::Code(of) => of == code,
        Descriptor::Other => false,
    }
}

impl Found {
    /// Takes in a filter; false: it is not in place.
    fn take(
        &mut self,
        name: &str,
        descriptor: Descriptor<'_>,
        value: Value<'_>,
        client: &Client<'_>,
    ) -> bool {
        match (descriptor, value) {
            (Descriptor::Name(FILTER), Value::List(values)) => {
                let texts = values.iter().filter_map(|value| match value {
                    Value::String(text) => Some(text.as_bytes().to_vec()),
                    _ => None,
                });
                self.values = Some(texts.collect());
                true
            }
            (Descriptor::Name(FILTER), Value::String(text)) => {
                self.values = Some(vec![text.as_bytes().to_vec()]);
                true
            }
            (Descriptor::Name(RATE), value) => {
                let rate = value.as_u64().and_then(|rate| u32::try_from(rate).ok());
                let rate = rate.filter(|rate| (1..=RATE_MAX).contains(rate));
                self.rate = rate.or(self.rate);
                rate.is_some()
            }
            (Descriptor::Name(CONSUMER_NAME), Value::String(text) | Value::Symbol(text)) => {
                let is_fit = (1..=CONSUMER_NAME_MAX).contains(&text.len());
                if is_fit {
                    self.name = Some(text.as_bytes().into());
                }
                is_fit
            }
            (Descriptor::Name(MATCH_UNFILTERED), Value::Boolean(is_wanted)) => {
                self.match_unfiltered = is_wanted;
                true
            }
            (descriptor, Value::String(text)) if name == SQL_NAME && is(descriptor, SQL) => {
                self.expression(text, (Limits::default(), Names::Own), client)
            }
            (descriptor, Value::String(text)) if is(descriptor, SELECTOR) => {
                self.expression(text, (Limits::content(), Names::Jms), client)
            }
            (descriptor, Value::Map(fields)) if is(descriptor, PROPERTIES) => {
                let is_free = self.sql.is_none() && self.properties.is_none();
                let read = is_free.then(|| references(fields, true)).flatten();
                self.properties = read.or(self.properties.take());
                is_free && self.properties.is_some()
            }
            (descriptor, Value::Map(fields)) if is(descriptor, APPLICATION_PROPERTIES) => {
                let is_free = self.sql.is_none() && self.application_properties.is_none();
                let read = is_free.then(|| references(fields, false)).flatten();
                self.application_properties = read.or(self.application_properties.take());
                is_free && self.application_properties.is_some()
            }
            _ => false,
        }
    }

    /// Takes in an expression, if it is the only one.
    fn expression(&mut self, text: &str, (limits, names): (Limits, Names), client: &Client<'_>) -> bool {
        if self.sql.is_some() || self.properties.is_some() || self.application_properties.is_some() {
            return false;
        }
        let site = Site { limits, known: Wanted::KNOWN.and_asker(), names, macros: client.macros };
        self.sql = Expression::parse_at(text, &site).ok().map(|expression| expression.bound(&client.asker));
        self.sql.is_some()
    }

    fn finish(self) -> Result<StreamFilter, Refused> {
        let Found { sql, properties, application_properties, values, match_unfiltered, .. } = self;
        if values.as_ref().is_some_and(|values| values.len() > FILTER_VALUES_MAX) {
            let text = format!("filter '{FILTER}' has more than {FILTER_VALUES_MAX} values");
            return Err(Refused::new(condition::PRECONDITION_FAILED, text));
        }
        let all = [sql, properties, application_properties].into_iter().flatten();
        let expression = all.reduce(|left, right| Expression::And(Box::new(left), Box::new(right)));
        let messages = expression.map(Wanted::new).transpose();
        let messages = messages.map_err(|error| Refused::new(condition::INVALID_FIELD, error.to_string()))?;
        let chunks = values.map(|values| Filter::new(values.iter().map(Vec::as_slice), match_unfiltered));
        Ok(StreamFilter { chunks, messages })
    }
}

/// Reference values as an expression; none where they have not the types they must have.
fn references(fields: Map<'_>, of_properties: bool) -> Option<Expression> {
    let mut references = References::new(&Limits::default());
    for (name, value) in fields.iter() {
        let reference = reference(value);
        match name {
            Value::Symbol(name) if of_properties => references.property(name.as_bytes(), reference).ok()?,
            Value::String(name) if !of_properties => references.application_property(name, reference).ok()?,
            _ => return None,
        }
    }
    references.expression().ok()
}

fn reference(value: Value<'_>) -> Reference<'_> {
    match value {
        Value::Null => Reference::Null,
        Value::Boolean(value) => Reference::Bool(value),
        Value::Ubyte(number) => Reference::Integer(number.into()),
        Value::Ushort(number) => Reference::Integer(number.into()),
        Value::Byte(number) => Reference::Integer(number.into()),
        Value::Short(number) => Reference::Integer(number.into()),
        Value::Int(number) => Reference::Integer(number.into()),
        Value::Long(number) => Reference::Integer(number.into()),
        Value::Char(unit) => Reference::Integer(unit.into()),
        Value::Uint(number) => Reference::Uint(number),
        Value::Ulong(number) => Reference::Ulong(number),
        Value::Timestamp(ms) => Reference::Timestamp(ms),
        Value::Float(number) => Reference::Float(number.into()),
        Value::Double(number) => Reference::Float(number),
        Value::String(text) => Reference::String(text),
        Value::Symbol(text) => Reference::Symbol(text.as_bytes()),
        Value::Binary(bytes) => Reference::Binary(bytes),
        Value::Uuid(bytes) => Reference::Uuid(*bytes),
        _ => Reference::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::{FILTER_VALUES_MAX, Found, SELECTOR, SQL, SQL_NAME};
    use crate::asking::Client;
    use filter::{Asker, Macros};
    use message::amqp10::{Descriptor, Value};

    const ANN: Asker<'static> = Asker { user: "ann", vhost: "/", client_id: None, claims: &[] };

    #[test]
    fn a_selector_of_jms_is_in_place_under_any_name() {
        let client = Client { asker: ANN, macros: Macros::none() };
        let (by_name, by_code) = (Descriptor::Name(SELECTOR.0), Descriptor::Code(SELECTOR.1));
        for (name, descriptor, text, is_in_place) in [
            ("jms-selector", by_code, "JMSType = 'x' AND owner = USER()", true),
            ("selector", by_name, "JMSType = 'x'", true),
            ("selector", by_name, "JMSRedelivered or JMSDeliveryMode = 'PERSISTENT'", true),
            ("selector", by_name, "JMSType = ", false),
            ("selector", by_code, "STATE() = 'ready'", false),
            ("selector", Descriptor::Name("apache.org:selector-filter:text"), "a = 1", false),
            (SQL_NAME, Descriptor::Name(SQL.0), "JMSType = 'x' and a", false),
            (SQL_NAME, Descriptor::Code(SQL.1), "JMSType = 'x' AND USER() = owner", true),
        ] {
            let mut found = Found::default();
            assert_eq!(found.take(name, descriptor, Value::String(text), &client), is_in_place, "{text}");
            assert_eq!(found.finish().unwrap().messages.is_some(), is_in_place, "{text}");
        }
        // The one that is looked at first is in place alone.
        let mut found = Found::default();
        assert!(found.take("s", by_code, Value::String("a = 1"), &client));
        assert!(!found.take(SQL_NAME, Descriptor::Name(SQL.0), Value::String("a = 1"), &client));
        assert!(!found.take("s", by_code, Value::Symbol("a = 1"), &client));
    }

    #[test]
    fn filter_values_are_bounded() {
        for (count, is_fit) in [(0, true), (FILTER_VALUES_MAX, true), (FILTER_VALUES_MAX + 1, false)] {
            let found = Found { values: Some(vec![b"v".to_vec(); count]), ..Found::default() };
            assert_eq!(found.finish().is_ok(), is_fit, "{count}");
        }
    }
}
