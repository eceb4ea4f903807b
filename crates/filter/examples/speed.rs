//! Nanoseconds of one evaluation: `cargo run --profile quick -p filter --example speed`.
//!
//! The message is one that costs nothing to read, so it is the program alone that is measured.

use filter::{Field, Fields, Found, Limits, Paths, Program, Property, Room, Value};
use std::hint::black_box;

struct Order;

impl Fields for Order {
    fn field(&self, field: Field<'_>) -> Option<Value<'_>> {
        Some(match field {
            Field::Priority => Value::Integer(5),
            Field::Property(Property::Subject) => Value::Bytes(b"order.created"),
            Field::ApplicationProperty("region") => Value::Bytes(b"emea"),
            Field::ApplicationProperty("price") => Value::Float(10.5),
            Field::ApplicationProperty("quantity") => Value::Integer(100),
            Field::ApplicationProperty("text") => {
                Value::Bytes(b"The quick brown fox jumps over the lazy dog")
            }
            _ => return None,
        })
    }

    fn body<'a>(&'a self, _paths: &Paths, _found: &mut Found<'a>) -> bool {
        true
    }
}

#[allow(clippy::disallowed_methods, reason = "it measures")]
fn main() {
    const ROUNDS: u32 = 5_000_000;
    for text in [
        "region = 'emea'",
        "region = 'emea' AND quantity > 50",
        "p.subject LIKE 'order.%' AND region IN ('emea', 'apac') AND price * quantity > 1000",
        "region = 'apac' OR header.priority > 4 AND NOT quantity < 100 OR price IS NULL",
        "text LIKE '%fox%lazy%'",
        "region IN ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'emea')",
    ] {
        let program = Program::parse(text, &Limits::default()).expect("an expression");
        let start = std::time::Instant::now();
        let (mut matches, mut room) = (0, Room::default());
        for _ in 0..ROUNDS {
            matches += u32::from(black_box(&program).matches(black_box(&Order), &mut room, 0));
        }
        let took_ns = start.elapsed().as_nanos() as f64 / f64::from(ROUNDS);
        println!("{took_ns:6.1} ns  {:5} bytes  {}  {text}", program.memory(), matches == ROUNDS);
    }
}
