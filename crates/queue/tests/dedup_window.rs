//! Duplicates are told by the keys that came lately, the same at every replay.

use base::id::LogIndex;
use base::{Digest, Random};
use queue::{Effects, Fifo, MessageKey, Recovery, Settings, SnapshotError, WindowSettings};

fn key(number: u64) -> MessageKey {
    MessageKey(Digest([number, !number]))
}

fn queue(keys_max: u32, ttl_ms: Option<u64>) -> Fifo {
    let mut fifo = Fifo::new(Settings::default());
    fifo.deduplicate(WindowSettings { keys_max, ttl_ms });
    fifo
}

fn snapshot(fifo: &Fifo) -> Vec<u8> {
    let mut bytes = Vec::new();
    fifo.write_snapshot(&mut bytes);
    bytes
}

/// Messages as key, time and own time to live; and which of them are new.
fn check(keys_max: u32, ttl_ms: Option<u64>, messages: &[(u64, u64, Option<u64>)], expected: &[bool]) {
    let mut fifo = queue(keys_max, ttl_ms);
    let mut again = queue(keys_max, ttl_ms);
    let mut admitted = Vec::new();
    for (number, at_ms, own_ms) in messages {
        admitted.push(fifo.admit(key(*number), *at_ms, *own_ms));
        again = Fifo::read_snapshot(&snapshot(&again)).unwrap();
        again.admit(key(*number), *at_ms, *own_ms);
        assert_eq!(snapshot(&again), snapshot(&fifo));
    }
    assert_eq!(admitted, expected, "{keys_max} {ttl_ms:?} {messages:?}");
}

#[test]
fn the_last_keys_are_known() {
    check(2, None, &[(1, 0, None), (1, 0, None), (2, 9, None), (1, 99, None)], &[true, false, true, false]);
    check(2, None, &[(1, 0, None), (2, 0, None), (3, 0, None), (1, 0, None)], &[true, true, true, true]);
    check(1, None, &[(1, 0, None), (2, 0, None), (1, 0, None), (1, 0, None)], &[true, true, true, false]);
    // A duplicate does not make its key younger.
    let messages = [(1, 0, None), (2, 0, None), (1, 0, None), (3, 0, None), (1, 0, None)];
    check(2, None, &messages, &[true, true, false, true, true]);
}

#[test]
fn a_key_stays_for_its_time() {
    let messages = [(1, 0, None), (1, 9, None), (1, 10, None), (1, 19, None), (1, 20, None)];
    check(8, Some(10), &messages, &[true, false, true, false, true]);
    let messages =
        [(1, 0, Some(5)), (2, 0, Some(50)), (1, 5, None), (1, 14, None), (2, 49, None), (2, 50, None)];
    check(8, Some(10), &messages, &[true, true, true, false, false, true]);
    check(
        8,
        None,
        &[(1, 0, Some(0)), (1, 0, Some(0)), (1, 0, None), (1, 0, Some(0))],
        &[true, true, true, false],
    );
    check(8, Some(u64::MAX), &[(1, 5, None), (1, u64::MAX - 1, None)], &[true, false]);
    // Behind one that stays, numbers over the bound are known no more all the same.
    let messages = [(1, 0, None), (2, 0, Some(5)), (2, 4, None), (2, 6, None), (2, 7, None)];
    check(8, None, &messages, &[true, true, false, true, false]);
}

/// The words of the module's head, checked against all that ever came.
#[test]
fn behaves_as_said() {
    let mut dice = Random::new(7);
    for _ in 0..200 {
        let keys_max = 1 + dice.below(12) as u32;
        let ttl_ms = if dice.one_in(2) { Some(dice.below(40)) } else { None };
        let mut fifo = queue(keys_max, ttl_ms);
        let mut all: Vec<(u64, u64)> = Vec::new();
        let mut at_ms = 0;
        for place in 0..300 {
            at_ms += dice.below(4);
            let number = dice.below(16);
            let own_ms = if dice.one_in(5) { Some(dice.below(60)) } else { None };
            let last = &all[all.len().saturating_sub(keys_max as usize)..];
            let is_known = last.iter().any(|(of, until_ms)| *of == number && *until_ms > at_ms);
            assert_eq!(fifo.admit(key(number), at_ms, own_ms), !is_known);
            if !is_known {
                let until_ms = own_ms.or(ttl_ms).map_or(u64::MAX, |ttl_ms| at_ms + ttl_ms);
                all.extend((until_ms > at_ms).then_some((number, until_ms)));
                fifo.enqueue(LogIndex(place * 8), false);
            }
            if dice.one_in(20) {
                let bytes = snapshot(&fifo);
                fifo = Fifo::read_snapshot(&bytes).unwrap();
                assert_eq!(snapshot(&fifo), bytes);
                fifo.recover(Recovery::Dirty, &mut Effects::default());
            }
        }
    }
}

#[test]
fn the_largest_window_is_bounded() {
    let mut fifo = queue(WindowSettings::KEYS_MAX, None);
    let all = u64::from(WindowSettings::KEYS_MAX);
    (0..all).for_each(|number| assert!(fifo.admit(key(number), 0, None)));
    assert!(!fifo.admit(key(0), 0, None));
    assert!(fifo.admit(key(all), 0, None) && fifo.admit(key(0), 0, None) && !fifo.admit(key(2), 0, None));
    let bytes = fifo.memory_bytes() as u64;
    assert!(bytes < 100 * all, "{bytes} bytes");
    fifo.deduplicate(WindowSettings { keys_max: 1, ttl_ms: None });
    assert!(fifo.admit(key(2), 0, None) && !fifo.admit(key(2), 0, None));
}

/// A snapshot of an earlier version reads and goes on as it did: the numbers never change.
#[test]
fn the_state_of_a_replay_stays_what_it_was() {
    let mut fifo = queue(5, Some(100));
    let mut admitted = 0;
    for at_ms in 0..400u64 {
        let own_ms = Some(at_ms % 37).filter(|own_ms| *own_ms > 20);
        if fifo.admit(key(at_ms * at_ms % 11), at_ms, own_ms) {
            fifo.enqueue(LogIndex(at_ms * 8), false);
            admitted += 1;
        }
    }
    assert_eq!((admitted, base::crc::crc32c(&snapshot(&fifo))), (220, 0x1A45_0F76));
}

#[test]
fn what_is_no_window_is_not_read() {
    let mut fifo = queue(3, Some(1000));
    fifo.enqueue(LogIndex(8), false);
    (1..=3).for_each(|number| _ = fifo.admit(key(number), number, None));
    let bytes = snapshot(&fifo);
    assert_eq!((bytes[4], bytes[5]), (4, 128), "version and sections");
    for len in 0..bytes.len() {
        assert!(Fifo::read_snapshot(&bytes[..len]).is_err(), "{len} bytes");
    }
    let window = bytes.len() - 3 * 24 - 24;
    let broken = |at: usize, byte: u8| {
        let mut other = bytes.clone();
        other[at] = byte;
        Fifo::read_snapshot(&other).err()
    };
    let is_broken = Some(SnapshotError::Broken("window"));
    // No room, too much room, unknown flags, more keys than room, a key twice with one time.
    assert_eq!(broken(window, 0), is_broken);
    assert_eq!(broken(window + 3, 1), is_broken);
    assert_eq!(broken(window + 5, 1), is_broken);
    assert_eq!(broken(window + 16, 4), is_broken);
    let mut other = bytes.clone();
    other.copy_within(window + 24..window + 48, window + 48);
    assert_eq!(Fifo::read_snapshot(&other).err(), is_broken);
    // Of another version than its sections need.
    assert_eq!(broken(4, 2), Some(SnapshotError::Broken("flags")));
}
