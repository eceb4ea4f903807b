#![no_main]
//! Filter expressions: any text is read or refused; what is read prints and is read again as the same, and is
//! evaluated. Texts in front of the last one are macros that it, and each other, may use.

use filter::{
    Asker, Expression, Field, Fields, Found, Known, Limits, Macro, Macros, Names, Paths, Program, Room, Site, Value, json,
};
use libfuzzer_sys::fuzz_target;

/// A message in which every field holds some of the input.
struct Message<'a>(&'a [u8]);

impl Fields for Message<'_> {
    fn field(&self, field: Field<'_>) -> Option<Value<'_>> {
        let (kind, rest) = self.0.split_first()?;
        Some(match (kind & 7, field) {
            (0, _) => return None,
            (1, _) => Value::Null,
            (2, _) => Value::Bool(rest.len() & 1 == 1),
            (3, Field::ApplicationProperty(name)) => Value::Integer(name.len() as i128 - 2),
            (4, _) => Value::Float(f64::from_bits(rest.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte)))),
            _ => Value::Bytes(rest),
        })
    }

    fn body<'a>(&'a self, paths: &Paths, found: &mut Found<'a>) -> bool {
        json::find(self.0, paths, 1 << 20, found).1
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&split, rest)) = bytes.split_first() else { return };
    let (message, text) = rest.split_at(usize::from(split).min(rest.len()));
    let Ok(texts) = std::str::from_utf8(text) else { return };
    let mut macros = Macros::default();
    let (before, text) = texts.rsplit_once(';').unwrap_or(("", texts));
    for (name, text) in ["f", "g", "h"].into_iter().zip(before.split(';')) {
        let own = Macro::new(name, &["x"], text).expect("fit names");
        // Those that cannot be read stand where a catalog was tampered with.
        let _ = own.check(&macros);
        macros.set(own);
    }
    let site = Site { limits: Limits::default(), known: Known::ALL, names: Names::Own, macros: &macros };
    let expression = match Expression::parse_at(text, &site) {
        Ok(expression) => expression,
        Err(error) => return assert!(text.is_char_boundary(error.at)),
    };
    // The printed expression can be longer than the text that was read: blanks, brackets, digits, and macros.
    let wide = Limits { characters_max: 1 << 20, tokens_max: 1 << 10, ..Limits::default() };
    assert_eq!(Expression::parse(&expression.to_string(), &wide).as_ref(), Ok(&expression));
    let expression = expression.bound(&Asker::default());
    let program = Program::compile(&expression).expect("within the limits");
    let message = Message(message);
    let room = Room::default();
    let said = program.evaluate(&message, &room, 1);
    let is_match = program.matches(&message, &mut Room::default(), 1);
    assert!(is_match == (said == Value::Bool(true)) || matches!(said, Value::Several(_)));
    assert!(program.memory() <= 64 * texts.len() + 32 * 1024 + 256 * 1024 * expression.to_string().matches('(').count());
});
