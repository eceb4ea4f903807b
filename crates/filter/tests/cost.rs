//! The cost of hostile texts and messages: memory within bounds, and time that grows with their length alone. These
//! rows would not end within anybody's patience if it grew faster.
//!
//! One test, so that nobody else allocates beside it.

mod message;

use filter::{Limits, Program, Room};
use message::{Held, Message};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Beside 32 bytes for each byte of text: the cost of each of the few tokens there may be, however short it is.
const FIXED: usize = 200 * 128;

/// Most bytes in use at once while a text was made a program, beyond those in use before.
fn peak(text: &str, limits: &Limits) -> usize {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    drop(std::hint::black_box(Program::parse(text, limits)));
    ALLOCATOR.peak_usage() - before
}

#[test]
fn any_text_and_any_subject_cost_what_they_are_long() {
    let limits = Limits::default();
    let distinct = (0x100..0x100 + 4000u32).filter_map(char::from_u32).collect::<String>();
    for text in [
        "1+".repeat(99) + "1",
        "-".to_owned() + &"(a+1)*".repeat(33) + "a",
        format!("a IN ({}1)", "1,".repeat(97)),
        format!("a IN ({}b)", "b,".repeat(97)),
        format!("{}a{}", "(".repeat(99), ")".repeat(99)),
        format!("{}a", "NOT ".repeat(199)),
        format!("{}a", "NOT a OR ".repeat(66)),
        "(".repeat(4096),
        "'".repeat(4096),
        "[".repeat(4096),
        "0x".to_owned() + &"FF".repeat(2047),
        "9".repeat(300),
        "9".repeat(4096),
        format!("a LIKE '{distinct}__'"),
        format!("a LIKE '{}_'", "a%".repeat(2000)),
        format!("a LIKE '{}'", "_".repeat(4000)),
        "a LIKE '_' OR ".repeat(49) + "a",
        "-".repeat(4096),
    ] {
        // An automaton has a table of its own, small as its pattern may be.
        let fixed = FIXED + 512 * text.matches("LIKE").count();
        let peak = peak(&text, &limits);
        assert!(peak <= 32 * text.len() + fixed, "{peak} bytes for {}: {:.60}", text.len(), text);
    }

    let wide = Limits { characters_max: 1 << 24, tokens_max: 1 << 24, depth_max: 200, ..limits };
    let long = 1 << 20;
    for text in [
        "a-".repeat(long),
        "a".repeat(long),
        "a_-".repeat(long) + ".b",
        "'".repeat(long + 1),
        "[[".repeat(long),
        "9".repeat(long),
        "NOT ".repeat(long),
        format!("[{}]", "x".repeat(long)),
    ] {
        let peak = peak(&text, &wide);
        assert!(peak <= 32 * text.len() + FIXED, "{peak} bytes for {}: {:.60}", text.len(), text);
    }

    let subjects = ["a".repeat(1 << 13), "ab".repeat(1 << 12), "aö".repeat(2700)];
    for pattern in
        ["%a".repeat(2000) + "x", "a_%".repeat(1300) + "x", "_%".repeat(2000), "%a".repeat(31) + "x"]
    {
        let program = Program::parse(&format!("a LIKE '{pattern}'"), &limits).expect("a pattern");
        for subject in &subjects {
            let application = vec![("a", Held::from(subject.as_str()))];
            let message = Message { application, ..Message::default() };
            let mut room = Room::default();
            ALLOCATOR.reset_peak_usage();
            let before = ALLOCATOR.current_usage();
            let is_match = program.matches(&message, &mut room, 0);
            assert_eq!(is_match, pattern.starts_with('_'), "{:.20} LIKE {:.20}", subject, pattern);
            assert_eq!(ALLOCATOR.peak_usage(), before, "an evaluation allocates");
        }
    }
}
