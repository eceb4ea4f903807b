//! A condition on messages of AMQP 0-9-1, for those who look through messages that they were shown.

use crate::placed::stream::{Envelope, Shown};
use filter::{
    Asker, Class, Error, Expression, Known, Limits, Macros, MessageField, Names, Program, Room, Site,
};
use message::amqp10::{Map, Message};
use message::amqp091::Properties;
use message::convert::Amqp10;
use message::deaths;
use message::record::{Format, flag};

/// An expression in SQL (AMQP Filter Expressions 1.0 section 6), of which a message is asked as it would be over AMQP 1.0:
/// headers are application properties, and properties have their names of 1.0.
#[derive(Debug)]
pub struct Condition {
    expression: Expression,
    /// Of it, for the client.
    program: Program,
    converted: Amqp10,
    room: Room,
}

/// A message that is asked.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its properties.
    pub properties: &'a Properties<'a>,
    /// Its body.
    pub body: &'a [u8],
    /// Facts of it beside properties and body; its size is the body's.
    pub envelope: Envelope<'a>,
}

impl Condition {
    /// The functions of the message that have a value where the messages of a queue are looked through, or of a stream.
    pub const fn known(is_stream: bool) -> Known {
        let known = Known::of(&[
            MessageField::Exchange,
            MessageField::RoutingKey,
            MessageField::Size,
            MessageField::Durable,
            MessageField::Redelivered,
        ]);
        match is_stream {
            true => known.and(MessageField::Offset),
            false => known.and(MessageField::Deaths).and(MessageField::State),
        }
    }

    /// Reads an expression for messages of which so much is known, with these macros, for a client, or for nobody.
    ///
    /// # Errors
    /// The fault of the expression and its place.
    pub fn parse(
        text: &str,
        known: Known,
        macros: &Macros,
        asker: Option<&Asker<'_>>,
    ) -> Result<Condition, Error> {
        let known = if asker.is_some() { known.and_asker() } else { known };
        let expression = Expression::parse_at(
            text,
            &Site { limits: Limits::content(), known, names: Names::Own, macros },
        )?;
        let program = match asker {
            Some(asker) => Program::compile(&expression.bound(asker))?,
            None => Program::compile(&expression)?,
        };
        Ok(Condition { expression, program, converted: Amqp10::default(), room: Room::default() })
    }

    /// Reads an expression that was [bound](Condition::bound): it asks nobody, and there are no macros in it.
    ///
    /// # Errors
    /// As [`Condition::parse`].
    pub fn read(text: &str, known: Known) -> Result<Condition, Error> {
        Condition::parse(text, known, Macros::none(), None)
    }

    /// The places of a message that it reads, as they are written in expressions, and what it asks of the client.
    pub fn reads(&self) -> Vec<String> {
        let asks = self.expression.asks().into_iter().map(|asked| asked.to_string());
        self.program.fields().map(|field| field.to_string()).chain(asks).collect()
    }

    /// Its class, whoever asks.
    pub fn class(&self) -> Class {
        if self.expression.asks().is_empty() { self.program.class() } else { Class::Contextual }
    }

    /// The same expression for everybody, as text: the one who asked is a constant in it, and macros are expanded.
    pub fn bound(&self, asker: &Asker<'_>) -> String {
        self.expression.bound(asker).to_string()
    }

    /// Whether it is true of a message; `now_ms`: the present, milliseconds since 1970.
    pub fn holds(&mut self, subject: Subject<'_>, now_ms: u64) -> bool {
        self.verdict(subject, now_ms) == Some(true)
    }

    /// The same, and whether it is unknown: none.
    pub fn verdict(&mut self, subject: Subject<'_>, now_ms: u64) -> Option<bool> {
        let Subject { properties, body, envelope } = subject;
        // The header is what was shown, whoever wrote it.
        let deaths = || deaths::count_of_newest(Format::Amqp091, flag::DEATHS, properties.raw());
        let deaths = self.program.reads().has(MessageField::Deaths).then(deaths);
        let envelope = Envelope { size: Some(body.len()), deaths, ..envelope };
        // The body is shown as it came; an empty one has its prefix too.
        self.converted.convert(properties, &[], 0);
        let Ok(mut message) = Message::read_parts(&[], &self.converted.bare) else { return None };
        message.header = self.converted.header;
        message.message_annotations = Map::new(self.converted.annotations_count, &self.converted.annotations);
        self.program.verdict(&Shown::with_data(&message, envelope, body), &mut self.room, now_ms)
    }
}

/// The expression as it is understood.
impl std::fmt::Display for Condition {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.expression.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::amqp091::{NewProperties, Table, TableWriter, Value};

    const ANN: Asker<'_> = Asker { user: "ann", vhost: "/", client_id: None, claims: &[] };

    #[test]
    fn a_message_is_asked_by_headers_and_properties() {
        let headers = TableWriter::fields(|table| {
            table.put(b"region", Value::Text(b"eu"));
            table.put(b"total", Value::I32(120));
            table.put(b"paid", Value::Bool(false));
            table.put(b"x-own", Value::I32(1));
            table.tables(b"x-death", 0..1, |_, table| table.put(b"count", Value::I64(5)));
        });
        let mut head = Vec::new();
        NewProperties {
            headers: Table::new(&headers).ok(),
            priority: Some(7),
            message_id: Some(b"m-1"),
            content_type: Some(b"application/json"),
            app_id: Some(b"shop"),
            timestamp: Some(2),
            ..NewProperties::default()
        }
        .write(&mut head);
        let properties = Properties::read(&head).unwrap();
        let check = |text: &str, expected: bool| {
            let mut condition =
                Condition::parse(text, Condition::known(true), Macros::none(), Some(&ANN)).unwrap();
            let envelope = Envelope {
                exchange: Some(b"amq.topic"),
                routing_key: Some(b"orders.eu.new"),
                offset: Some(5),
                is_redelivered: Some(true),
                ..Envelope::default()
            };
            let body = br#"{"lines":[{"sku":"a"},{"sku":"b"}]}"#;
            let subject = Subject { properties: &properties, body, envelope };
            // The room for a converted message is used again.
            assert_eq!([(); 2].map(|()| condition.holds(subject, 3000)), [expected; 2], "{text}");
        };
        check("region = 'eu' AND total > 100", true);
        check("region = 'us' OR total < 100", false);
        check("NOT paid", true);
        check("nobody IS NULL", true);
        check("nobody = 1", false);
        check("header.priority = 7", true);
        check("properties.message_id LIKE 'm-%'", true);
        check("properties.content_type = 'application/json'", true);
        check("properties.group_id = 'shop'", true);
        check("properties.creation_time = 2000", true);
        check("properties.creation_time < UTC()", true);
        // An annotation over AMQP 1.0.
        check("[x-own] = 1", false);
        check("annotations['x-own'] = 1", true);
        check("body.lines.sku = 'b'", true);
        check("body.lines.sku = 'c'", false);
        check("body.lines[0].sku = 'a' AND total > 100", true);
        check("EXCHANGE() = 'amq.topic' AND TOPIC_MATCH('orders.#') AND NOT TOPIC_MATCH('*.us.*')", true);
        let mut died =
            Condition::parse("DEATHS() = 5", Condition::known(false), Macros::none(), None).unwrap();
        assert!(died.holds(Subject { properties: &properties, body: b"", envelope: Envelope::default() }, 0));
        assert!(Condition::parse("DEATHS() = 5", Condition::known(true), Macros::none(), None).is_err());
        check("SIZE() = 35 AND OFFSET() < 6 AND REDELIVERED() AND NOT DURABLE()", true);
        let mut none = Vec::new();
        NewProperties::default().write(&mut none);
        let none = Properties::read(&none).unwrap();
        let none = Subject { properties: &none, body: b"", envelope: Envelope::default() };
        let parsed = |text| {
            Condition::parse(text, Condition::known(false), Macros::none(), Some(&ANN))
                .unwrap()
                .holds(none, 0)
        };
        assert!(parsed("header.priority = 4") && parsed("SIZE() = 0"));
        assert!(!parsed("region = 'eu'") && !parsed("STATE() = 'ready' OR REDELIVERED()"));
    }

    #[test]
    fn the_one_who_asks_is_a_constant() {
        let mut condition = Condition::parse(
            "USER() = 'ann' AND CLIENT_ID() IS NULL",
            Known::NONE,
            Macros::none(),
            Some(&ANN),
        )
        .unwrap();
        assert_eq!(
            (condition.class(), condition.reads()),
            (Class::Contextual, vec!["USER()".to_owned(), "CLIENT_ID()".to_owned()])
        );
        assert_eq!(condition.to_string(), "USER() = 'ann' AND CLIENT_ID() IS NULL");
        assert_eq!(condition.bound(&ANN), "'ann' = 'ann' AND TRUE");
        let none = Properties::default();
        let subject = Subject { properties: &none, body: b"", envelope: Envelope::default() };
        assert!(condition.holds(subject, 0));
    }

    #[test]
    fn a_faulty_expression_says_where() {
        assert_eq!(Condition::parse("region = ", Known::ALL, Macros::none(), Some(&ANN)).unwrap_err().at, 9);
        for (text, is_stream) in
            [("OFFSET() = 1", false), ("STATE() = 'ready'", true), ("RECEIVED() > 1", true)]
        {
            let fault = Condition::parse(text, Condition::known(is_stream), Macros::none(), Some(&ANN))
                .unwrap_err()
                .to_string();
            let function = text.split('(').next().unwrap();
            assert_eq!(fault, format!("at byte 0: {function}() is not known here"));
        }
    }
}
