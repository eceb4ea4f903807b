//! Many filters at once: `cargo run --profile quick -p filter --example index_speed [SCENARIO [MESSAGES]]`.
//!
//! Filters of five conditions over orders of about 1 KB of JSON, 70 % of which ask for a symbol and 30 % for a narrow range of
//! prices. Every verdict is held against the programs on the first messages.

use filter::json::Document;
use filter::{Cursor, Expression, Filed, Index, Limits, Program, Room};
use peak_alloc::PeakAlloc;
use std::hint::black_box;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MESSAGES: usize = 20_000;
const SYMBOLS: u64 = 1_000;
const REGIONS: [&str; 4] = ["EU", "US", "APAC", "LATAM"];

/// Marsaglia's xorshift.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn price(&mut self) -> f64 {
        50.0 + self.roll(20_000) as f64 / 100.0
    }
}

fn order(dice: &mut Dice, number: usize) -> String {
    let (symbol, price, quantity) = (dice.roll(SYMBOLS), dice.price(), dice.roll(2_000));
    let region = REGIONS[dice.roll(4) as usize];
    let side = ["buy", "sell"][dice.roll(2) as usize];
    let filling =
        |count: usize| "lorem ipsum dolor sit amet ".chars().cycle().take(count).collect::<String>();
    format!(
        r#"{{"id": "{number:08}", "header": {{"source": "gateway-7", "trace": "{}", "hops": [1, 2, 3]}},
"order": {{"symbol": "SYM{symbol:03}", "price": {price:.2}, "qty": {quantity}, "side": "{side}", "note": "{}",
"account": {{"region": "{region}", "desk": "equities", "owner": "{}"}}, "legs": [{{"venue": "XNYS"}}, {{"venue": "XLON"}}]}},
"trailer": {{"checksum": 4711, "comment": "{}"}}}}"#,
        filling(64),
        filling(200),
        filling(60),
        filling(340)
    )
}

fn filter(dice: &mut Dice, is_equal: bool) -> String {
    let (symbol, least, quantity) = (dice.roll(SYMBOLS), dice.price(), dice.roll(1_000));
    let region = REGIONS[dice.roll(4) as usize];
    let side = ["buy", "sell"][dice.roll(2) as usize];
    if is_equal {
        format!(
            "body.order.symbol = 'SYM{symbol:03}' AND body.order.price > {least:.2} AND body.order.qty >= {quantity} \
             AND body.order.account.region = '{region}' AND body.order.side = '{side}'"
        )
    } else {
        format!(
            "body.order.price >= {least:.2} AND body.order.price <= {:.2} AND body.order.qty >= {quantity} \
             AND body.order.account.region = '{region}' AND body.order.side = '{side}'",
            least + 0.5
        )
    }
}

/// It has to be run each time.
fn unfiled(dice: &mut Dice) -> String {
    let least = 150_000.0 + dice.price() * 300.0;
    match dice.roll(2) {
        0 => format!("body.order.qty * body.order.price > {least:.1}"),
        _ => format!("NOT body.order.side IN ('buy', 'sell') OR body.order.qty + {least:.1} < {least:.1}"),
    }
}

#[allow(clippy::disallowed_methods, reason = "it measures")]
fn measured(name: &str, messages: &[String], mut run: impl FnMut(&Document<'_>) -> usize) {
    let (mut took_ns, mut hits) = (0, 0);
    // The best of some runs of each part: few are long enough for another process to come between.
    for part in messages.chunks(messages.len().div_ceil(50).max(1)) {
        let mut best_ns = u128::MAX;
        for round in 0..9 {
            let start = Instant::now();
            let of_part: usize =
                part.iter().map(|message| run(black_box(&Document(message.as_bytes())))).sum();
            best_ns = best_ns.min(start.elapsed().as_nanos());
            hits += if round == 0 { of_part } else { 0 };
        }
        took_ns += best_ns;
    }
    let of_message = |sum: f64| sum / messages.len() as f64;
    println!("{:9.0} ns  {:7.2} hits a message  {name}", of_message(took_ns as f64), of_message(hits as f64));
}

fn searched<'i>(index: &'i Index) -> impl FnMut(&Document<'_>) -> usize + 'i {
    let (mut room, mut cursor, mut hits) = (Room::default(), Cursor::new(), Vec::new());
    move |document| {
        hits.clear();
        index.search(document, &mut room, 0, &mut cursor, usize::MAX, &mut hits);
        hits.len()
    }
}

fn verified(index: &Index, messages: &[String]) {
    let (mut room, mut cursor, mut alone) = (Room::default(), Cursor::new(), Room::default());
    for message in messages {
        let document = Document(message.as_bytes());
        let mut hits = Vec::new();
        index.search(&document, &mut room, 0, &mut cursor, usize::MAX, &mut hits);
        hits.sort_unstable();
        let mut is_hit = |program: &Program| program.matches(&document, &mut alone, 0);
        let expected: Vec<Filed> =
            index.iter().filter(|(_, program)| is_hit(program)).map(|(filed, _)| filed).collect();
        assert_eq!(hits, expected, "{message}");
    }
}

/// Filters of a scenario: how many, how many of a hundred ask for equality, and how many have to be run each time.
struct Scenario {
    name: &'static str,
    filters: usize,
    equal: u64,
    unfiled: usize,
}

#[allow(clippy::disallowed_methods, reason = "it measures")]
fn build(scenario: &Scenario, dice: &mut Dice) -> Index {
    let mut texts: Vec<String> = (0..scenario.filters - scenario.unfiled)
        .map(|_| {
            let is_equal = dice.roll(100) < scenario.equal;
            filter(dice, is_equal)
        })
        .collect();
    texts.extend((0..scenario.unfiled).map(|_| unfiled(dice)));
    let expressions: Vec<_> = texts
        .iter()
        .map(|text| Expression::parse(text, &Limits::content()).expect("an expression"))
        .collect();
    let before = ALLOCATOR.current_usage();
    let start = Instant::now();
    let mut index = Index::new();
    let filed: Vec<_> =
        expressions.iter().map(|expression| index.add(expression).expect("a program")).collect();
    let added = start.elapsed();
    let bytes = (ALLOCATOR.current_usage() - before) / index.len();
    let mut half = index.clone();
    let start = Instant::now();
    for filed in &filed {
        half.remove(*filed);
    }
    let removed = start.elapsed();
    println!(
        "{}: {} filters, {:.0} K adds/s, {:.0} K removes/s, {bytes} bytes each ({} by its own count)",
        scenario.name,
        index.len(),
        scenario.filters as f64 / added.as_secs_f64() / 1e3,
        scenario.filters as f64 / removed.as_secs_f64() / 1e3,
        index.memory() / index.len(),
    );
    index
}

#[allow(clippy::disallowed_methods, reason = "it measures")]
fn main() {
    let mut dice = Dice(88_172_645_463_325_252);
    let only = std::env::args().nth(1);
    let count = std::env::args().nth(2).map_or(MESSAGES, |count| count.parse().expect("a number"));
    let messages: Vec<String> = (0..count).map(|number| order(&mut dice, number)).collect();
    println!("{} bytes of a message", messages.iter().map(String::len).sum::<usize>() / count);
    let scenarios = [
        Scenario { name: "one", filters: 1, equal: 100, unfiled: 0 },
        Scenario { name: "equal", filters: 10_000, equal: 100, unfiled: 0 },
        Scenario { name: "mixed", filters: 10_000, equal: 70, unfiled: 0 },
        Scenario { name: "unfiled", filters: 10_100, equal: 70, unfiled: 100 },
        Scenario { name: "many", filters: 100_000, equal: 70, unfiled: 0 },
    ];
    for scenario in scenarios {
        if only.as_ref().is_some_and(|only| only != scenario.name) {
            continue;
        }
        let index = build(&scenario, &mut Dice(scenario.filters as u64 * 7_919 + 1));
        verified(&index, &messages[..count.min(if scenario.filters > 10_100 { 5 } else { 50 })]);
        measured("by the index", &messages, searched(&index));
        if scenario.filters <= 10_100 && only.is_none() {
            let few = &messages[..messages.len().min(2_000_000 / scenario.filters.max(100))];
            let mut room = Room::default();
            measured("one by one", few, |document| {
                index.iter().filter(|(_, program)| program.matches(document, &mut room, 0)).count()
            });
        }
    }
}
