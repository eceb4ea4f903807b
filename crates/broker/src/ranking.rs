//! A queue's word on its messages, by an expression over what is in them: their priorities (the argument [`RANKING`]), or
//! which of them are barriers ([`BARRIER`]). A queue has one of the two.
//!
//! A message is ranked once, where it is put into a log or fed from a stream, and its record says the outcome: what is
//! replayed or comes back later is not looked at again. Queues with an expression have records of their own.
//! The work counts as that of choosing by content does. All queues of one message together have as much as one
//! evaluation may take ([`filter::WORK_MAX`]): beyond, a message has the priority 0, and is no barrier.

use crate::catalog::QueueDefinition;
use crate::content::Content;
use filter::{Class, Expression, Known, Limits, Macros, MessageField, Names, Program, Room, Site, Value};
use message::record::{Keys, NewEnqueue};

/// The argument of a queue that says the priorities of its messages.
pub(crate) const RANKING: &str = "x-priority-expression";

/// The argument of a queue that says which of its messages are barriers.
pub(crate) const BARRIER: &str = "x-barrier-expression";

/// The functions of a message that are known as it comes.
const KNOWN: Known =
    Known::of(&[MessageField::Exchange, MessageField::RoutingKey, MessageField::Size, MessageField::Durable]);

/// Bytes that are kept for evaluating the next message.
const KEPT_MAX: usize = 64 << 10;

/// The meaning of the value of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// A priority.
    Priority,
    /// Whether a message is a barrier: it is one where the expression is true.
    Barrier,
}

/// The expression of a queue.
#[derive(Debug)]
pub(crate) struct Ranking {
    program: Program,
    rank: Rank,
}

impl Ranking {
    /// # Errors
    /// In words: it is no UTF-8, or no expression, and where the fault is; or it hangs on more than the message.
    pub(crate) fn parse(text: &[u8], rank: Rank, macros: &Macros) -> Result<Ranking, String> {
        let text = str::from_utf8(text).map_err(|error| error.to_string())?;
        let site = Site { limits: Limits::content(), known: KNOWN, names: Names::Own, macros };
        let expression = Expression::parse_at(text, &site).map_err(|error| error.to_string())?;
        let program = Program::compile(&expression).map_err(|error| error.to_string())?;
        match program.class() {
            Class::Stable => Ok(Ranking { program, rank }),
            Class::Timed | Class::Contextual => Err(match rank {
                Rank::Priority => "a priority hangs on the message alone".to_owned(),
                Rank::Barrier => "a barrier hangs on the message alone".to_owned(),
            }),
        }
    }

    /// The expression of a queue that has one, with the macros of its virtual host.
    pub(crate) fn of(queue: &QueueDefinition, macros: &Macros) -> Option<Ranking> {
        let of = |rank, text: &str| Ranking::parse(text.as_bytes(), rank, macros).ok();
        let ranking = text_of(queue).and_then(|text| of(Rank::Priority, text));
        ranking.or_else(|| of(Rank::Barrier, barrier_text_of(queue)?))
    }

    /// The keys of a message that comes, with its priority, or with whether it is a barrier.
    #[cold]
    pub(crate) fn rank(&self, message: &NewEnqueue<'_>, keys: Keys, desk: &mut RankingDesk) -> Keys {
        let NewEnqueue { format, flags, exchange, routing_key, head, body, .. } = *message;
        let content = Content::new((format, flags), (exchange, routing_key), (head, body));
        let head_bytes = head.iter().map(|piece| piece.len()).sum();
        desk.units = desk.units.saturating_add(self.program.price(head_bytes));
        let value = self.program.evaluate(&content, &desk.room, message.received_at_ms);
        match self.rank {
            Rank::Priority => Keys { priority: Some(level(value)), ..keys },
            Rank::Barrier => Keys { barrier: value.truth() == Some(true), ..keys },
        }
    }
}

/// The text of the expression of a queue's priorities, if it has one.
pub(crate) fn text_of(queue: &QueueDefinition) -> Option<&str> {
    queue.arguments.get(RANKING.as_bytes()).and_then(routing::Argument::as_str)
}

impl QueueDefinition {
    /// Some of its messages may be barriers.
    pub fn has_barriers(&self) -> bool {
        self.arguments.get(BARRIER.as_bytes()).is_some()
    }
}

/// The text of the expression of a queue's barriers, if it has one.
pub(crate) fn barrier_text_of(queue: &QueueDefinition) -> Option<&str> {
    queue.arguments.get(BARRIER.as_bytes()).and_then(routing::Argument::as_str)
}

/// The priority that a value stands for: numbers as far as they go, truth as 1, all else 0.
fn level(value: Value<'_>) -> u8 {
    match value {
        Value::Integer(number) => number.clamp(0, 255) as u8,
        // Toward zero; what is no number is none.
        Value::Float(number) => number.clamp(0.0, 255.0) as u8,
        Value::Bool(truth) => u8::from(truth),
        Value::Several([first, ..]) => level(*first),
        // A text of a format without types, as of XML or FIX.
        Value::Untyped(untyped) => number(untyped.text()).map_or(0, |number| level(Value::Float(number))),
        Value::Several([]) | Value::Null | Value::Bytes(_) | Value::Composite | Value::Unreadable => 0,
    }
}

/// The number that a text says.
fn number(text: &[u8]) -> Option<f64> {
    str::from_utf8(text).ok()?.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

/// Memory for ranking messages, and the work that it took.
#[derive(Debug, Default)]
pub(crate) struct RankingDesk {
    room: Room,
    units: usize,
}

impl RankingDesk {
    /// Units of work that a message took, all its queues together; the next one begins.
    #[cold]
    pub(crate) fn take_units(&mut self) -> u32 {
        let units = std::mem::take(&mut self.units).saturating_add(self.room.spent());
        self.room.trim(KEPT_MAX);
        self.room.clear();
        u32::try_from(units).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::record::Format;

    fn ranked(text: &str, body: &str) -> u8 {
        keys_of(Rank::Priority, text, body).priority.unwrap()
    }

    fn keys_of(rank: Rank, text: &str, body: &str) -> Keys {
        let body = [body.as_bytes()];
        let message = NewEnqueue {
            flags: 0,
            format: Format::Amqp091,
            priority: 7,
            received_at_ms: 1,
            expires_at_ms: 0,
            due_at_ms: 0,
            keys: None,
            exchange: b"e",
            routing_key: b"k",
            head: &[b"\0\0"],
            body: &body,
        };
        let mut desk = RankingDesk::default();
        let ranking = Ranking::parse(text.as_bytes(), rank, Macros::none()).unwrap();
        let keys = ranking.rank(&message, Keys::default(), &mut desk);
        assert!(desk.take_units() > 0);
        keys
    }

    #[test]
    fn barriers_are_those_of_which_it_is_true() {
        for (text, body, expected) in [
            ("body.end = TRUE", r#"{"end":true}"#, true),
            ("body.end", r#"{"end":true}"#, true),
            ("body.end", r#"{"end":false}"#, false),
            ("body.end", r#"{"end":1}"#, false),
            ("body.end", r#"{"end":"true"}"#, false),
            ("body.end IS NOT NULL", r#"{"end":0}"#, true),
            ("body.n > 3", r#"{"n":4}"#, true),
            ("body.n > 3", "{}", false),
            ("NOT (body.n > 3)", "{}", false),
            ("body.n > 3", "{", false),
            ("ROUTING_KEY() = 'k'", "{}", true),
        ] {
            let keys = keys_of(Rank::Barrier, text, body);
            assert_eq!(keys, Keys { barrier: expected, ..Keys::default() }, "{text} of {body}");
        }
    }

    #[test]
    fn numbers_are_priorities() {
        for (text, body, expected) in [
            ("body.p", r#"{"p":7}"#, 7),
            ("body.p", r#"{"p":255}"#, 255),
            ("body.p", r#"{"p":256}"#, 255),
            ("body.p", r#"{"p":-1}"#, 0),
            ("body.p", r#"{"p":1e300}"#, 255),
            ("body.p", r#"{"p":3.9}"#, 3),
            ("body.p", r#"{"p":null}"#, 0),
            ("body.p", "{}", 0),
            ("body.p", "{", 0),
            ("body.p", r#"{"p":"7"}"#, 0),
            ("body.p", r#"{"p":[5,6]}"#, 5),
            ("body.p", r#"{"p":[]}"#, 0),
            ("body.p", r#"{"p":{"q":1}}"#, 0),
            ("body.p = 1", r#"{"p":1}"#, 1),
            ("body.p = 1", r#"{"p":2}"#, 0),
            ("CASE WHEN body.p > 5 THEN 9 ELSE 2 END", r#"{"p":6}"#, 9),
            ("CASE WHEN EXCHANGE() = 'e' THEN 9 END + SIZE()", "{}", 11),
            ("'text'", "{}", 0),
            ("/9", "8=FIX.4.4\u{1}9=12\u{1}", 12),
        ] {
            assert_eq!(ranked(text, body), expected, "{text} of {body}");
        }
    }

    #[test]
    fn what_changes_is_no_priority() {
        for (text, fault) in [
            ("UTC()", "a priority hangs on the message alone"),
            ("DELIVERIES()", "DELIVERIES"),
            ("body.p +", "expected"),
            ("CLIENT_ID()", "CLIENT_ID"),
        ] {
            let error = Ranking::parse(text.as_bytes(), Rank::Priority, Macros::none()).unwrap_err();
            assert!(error.contains(fault), "{text}: {error}");
        }
        let error = Ranking::parse(b"UTC() > 0", Rank::Barrier, Macros::none()).unwrap_err();
        assert_eq!(error, "a barrier hangs on the message alone");
        assert!(Ranking::parse(b"\xff", Rank::Priority, Macros::none()).is_err());
    }
}
