//! Milliseconds of patterns that other engines take for ever over, and of the longest expressions:
//! `cargo run --release -p filter --example hostile`.
//!
//! Each is the median of nine, over JSON whose text is as long as patterns look into.

use filter::{Field, Fields, Format, Found, Limits, Paths, Program, Room, Value, WORK_MAX};
use std::hint::black_box;

struct Body(Vec<u8>);

impl Fields for Body {
    fn field(&self, _field: Field<'_>) -> Option<Value<'_>> {
        None
    }

    fn body<'a>(&'a self, paths: &Paths, found: &mut Found<'a>) -> bool {
        Format::Json.find(&self.0, paths, found)
    }
}

/// The median of nine, in milliseconds.
#[allow(clippy::disallowed_methods, reason = "it measures")]
fn milliseconds(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let start = std::time::Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[4]
}

/// So many conditions one beside the other, in a tree that is not deep.
fn beside(from: usize, count: usize) -> String {
    let half = count / 2;
    match count {
        1 => format!("body.a = {from}"),
        count => format!("({} OR {})", beside(from, half), beside(from + half, count - half)),
    }
}

fn main() {
    let limits = Limits::content();
    let letters = format!("{}b", "a".repeat((64 << 10) - 1));
    let mut dice = 1_u64;
    let mixed: String = std::iter::repeat_with(|| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if dice >> 63 == 0 { 'a' } else { 'b' }
    })
    .take(64 << 10)
    .collect();
    let rows = [
        ("(a+)+$ over a…b", "REGEXP_LIKE(body.s, '(a+)+$')".to_owned(), &letters),
        ("LIKE %a 100 times, c", format!("body.s LIKE '{}%c'", "%a".repeat(100)), &letters),
        ("LIKE %a_ 100 times, c", format!("body.s LIKE '{}%c'", "%a_".repeat(100)), &mixed),
        ("[ab]*a[ab]{300}c", "REGEXP_LIKE(body.s, '[ab]*a[ab]{300}c')".to_owned(), &mixed),
    ];
    for (name, text, letters) in rows {
        let program = Program::parse(&text, &limits).expect("an expression");
        let body = Body(format!(r#"{{"s":"{letters}"}}"#).into_bytes());
        let (mut room, mut verdict) = (Room::default(), None);
        let took = milliseconds(|| {
            room.clear();
            verdict = black_box(&program).verdict(black_box(&body), &mut room, 0);
        });
        println!("{took:7.3} ms  {:6} of {WORK_MAX} units  {verdict:?}  {name}", room.spent());
    }
    let longest = format!("body.a = '{}'", "x".repeat(limits.characters_max - "body.a = ''".len()));
    let took =
        milliseconds(|| _ = black_box(Program::parse(&longest, &limits)).expect("it is as long as may be"));
    println!("{took:7.3} ms  to compile {} characters", longest.len());
    let conditions = beside(0, 640);
    let took = milliseconds(|| _ = black_box(Program::parse(&conditions, &limits)).expect("640 conditions"));
    println!("{took:7.3} ms  to compile 640 conditions, {} characters", conditions.len());
    let too_long = Program::parse(&format!("{longest} "), &limits).expect_err("it is longer than may be");
    println!("one more: {too_long}");
}
