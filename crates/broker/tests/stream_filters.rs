//! Readers of a stream that choose: each is given what is true of its filter.

use crate::on_stream;

use broker::{Credit, Held, QueueCommand, StreamFilter, StreamFrom, Wanted};
use filter::{Expression, Limits};
use on_stream::{append, consume_filtered, node};
use std::collections::BTreeMap;

/// Whether the message at an offset passes.
type Passes = fn(u64) -> bool;

/// Readers who choose come and go while messages come, some of which cannot be read: each is given what is true of its filter,
/// wherever it stands, as if it were alone.
#[test]
fn those_who_choose_are_given_the_same_as_if_each_were_alone() {
    // Every eleventh body is cut off before anything can be read.
    const IS_FAULTY: Passes = |offset| offset % 11 == 5;
    const FILTERS: [(&str, Passes); 8] = [
        ("body.k = 3", |offset| offset % 7 == 3),
        ("body.k IN (1, 3) AND body.n > 100", |offset| matches!(offset % 7, 1 | 3) && offset > 100),
        ("body.n BETWEEN 50 AND 400", |offset| (50..=400).contains(&offset)),
        ("STARTS_WITH(body.t, 'even')", |offset| offset % 2 == 0),
        ("OFFSET() >= 200 AND body.k = 0", |offset| offset >= 200 && offset % 7 == 0),
        // Which no index can look up.
        ("NOT body.k = 2", |offset| offset % 7 != 2),
        // Which hangs on the time.
        ("UTC() > 0 AND body.k = 4", |offset| offset % 7 == 4),
        ("body.k IS NULL OR body.k = 6", |offset| offset % 7 == 6),
    ];
    for seed in 1..=40 {
        let mut state: u64 = seed;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut node = node(1);
        let (mut end, mut next_handle) = (0, 1);
        // By handle: the filter, where it began, the offsets it was given.
        let mut readers: BTreeMap<u32, (usize, u64, Vec<u64>)> = BTreeMap::new();
        for step in 0..60 {
            match draw(10) {
                0..5 => {
                    let count = 1 + draw(39);
                    let bodies: Vec<String> =
                        (end..end + count).map(|offset| document(offset, IS_FAULTY(offset))).collect();
                    let messages: Vec<(u64, &str, &str)> =
                        bodies.iter().map(|body| (0, "", body.as_str())).collect();
                    append(&mut node, 0, end, None, &messages);
                    end += count;
                }
                5..8 => {
                    let filter = draw(FILTERS.len() as u64) as usize;
                    let expression = Expression::parse(FILTERS[filter].0, &Limits::content()).unwrap();
                    let messages = Some(Wanted::new(expression).unwrap());
                    let chosen = StreamFilter { chunks: None, messages };
                    let from = if draw(10) < 3 { 0 } else { end };
                    readers.insert(next_handle, (filter, from, Vec::new()));
                    let begin = StreamFrom::Offset(from);
                    let seen =
                        consume_filtered(&mut node, 0, next_handle, Credit::Prefetch(0), begin, chosen);
                    next_handle += 1;
                    note(&mut readers, seen);
                }
                _ if !readers.is_empty() => {
                    let handle = *readers.keys().nth(draw(readers.len() as u64) as usize).unwrap();
                    node.work();
                    note(&mut readers, node.take_seen());
                    node.command(0, "s", QueueCommand::Cancel { token: None, handle, held: Held::GoesBack });
                    check_given(&readers[&handle], end, &FILTERS, IS_FAULTY, (seed, step));
                    readers.remove(&handle);
                }
                _ => {}
            }
            if draw(10) < 7 {
                node.work();
            }
            note(&mut readers, node.take_seen());
        }
        node.work();
        note(&mut readers, node.take_seen());
        for reader in readers.values() {
            check_given(reader, end, &FILTERS, IS_FAULTY, (seed, 60));
        }
    }
}

fn document(offset: u64, is_faulty: bool) -> String {
    let parity = if offset.is_multiple_of(2) { "even" } else { "odd" };
    let whole = format!("{{\"n\":{offset},\"t\":\"{parity} number\",\"k\":{}}}", offset % 7);
    if is_faulty { whole[..3].to_owned() } else { whole }
}

fn note(readers: &mut BTreeMap<u32, (usize, u64, Vec<u64>)>, seen: Vec<String>) {
    for line in seen {
        let given = line.strip_prefix("0: ").and_then(|line| line.split_once(" gets "));
        if let Some((handle, rest)) = given
            && let Some((_, _, given)) = readers.get_mut(&handle.parse().unwrap())
        {
            given.push(rest.rsplit_once('@').unwrap().1.parse().unwrap());
        }
    }
}

fn check_given(
    (filter, from, given): &(usize, u64, Vec<u64>),
    end: u64,
    filters: &[(&str, Passes)],
    is_faulty: Passes,
    at: (u64, i32),
) {
    let (text, passes) = filters[*filter];
    let expected: Vec<u64> = (*from..end).filter(|offset| passes(*offset) && !is_faulty(*offset)).collect();
    assert_eq!(given, &expected, "{text} from {from}, seed and step {at:?}");
}
