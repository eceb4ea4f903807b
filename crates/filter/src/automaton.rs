//! Regular expressions that count what they cost.
//!
//! A text is walked through by an automaton whose steps are made as they are met. A step that was met before costs a
//! look-up; a new one passes over the states of the expression. These are what is counted, and an expression that keeps
//! making new steps is given up. Most texts are ASCII, for which an expression has a tenth of its states: they have an
//! automaton of their own.

use crate::steps::Walked;
use regex_automata::hybrid::dfa::{Builder, Cache, Config, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::{Input, MatchKind};
use regex_syntax::ast::{self, Ast, ClassAscii, ClassAsciiKind, ClassPerlKind, ClassSet, ClassSetItem};
use regex_syntax::hir::translate::TranslatorBuilder;
use regex_syntax::hir::{self, Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind};
use std::fmt::Display;

/// Groups in groups.
const NEST_MAX: u32 = 64;

/// Bytes that an expression may take, for texts of ASCII and for others each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Compiled.
    pub(crate) program: usize,
    /// The steps that an automaton keeps; then it forgets them all.
    pub(crate) steps: usize,
}

/// A compiled expression, which may be shared; its steps are of the thread that runs it. `\w`, `\d`, `\s` and `\b` are of ASCII.
#[derive(Debug)]
pub(crate) struct Automata {
    ascii: Automaton,
    other: Automaton,
}

/// The steps that were met.
#[derive(Debug)]
pub(crate) struct Steps {
    ascii: Cache,
    other: Cache,
}

/// The expression would pass over more states than it may.
#[derive(Debug)]
pub struct TooDear;

impl Automata {
    /// Compiles an expression.
    ///
    /// # Errors
    /// In words: it is no expression, or a very large one.
    pub(crate) fn new(expression: &str, ignores_case: bool, room: Room) -> Result<Automata, String> {
        let [ascii, other] = parsed(expression, ignores_case)?;
        let forward = Direction::Forward;
        let [ascii, other] = [ascii, other].map(|hir| Automaton::new(&hir, forward, room));
        Ok(Automata { ascii: ascii?, other: other? })
    }

    /// Bytes it keeps on the heap, steps apart.
    pub(crate) fn memory(&self) -> usize {
        self.ascii.dfa.memory_usage() + self.other.dfa.memory_usage()
    }

    /// Whether the expression matches in a text. It may pass over `work` states, which are counted off: each takes about 10
    /// ns and 25 at most.
    ///
    /// # Errors
    /// The work is spent.
    pub(crate) fn is_in(&self, steps: &mut Steps, text: &str, work: &mut u64) -> Result<bool, TooDear> {
        match text.is_ascii() {
            true => self.ascii.is_in(&mut steps.ascii, text, work),
            false => self.other.is_in(&mut steps.other, text, work),
        }
    }
}

impl Walked for Automata {
    type Steps = Steps;

    fn steps(&self) -> Steps {
        Steps { ascii: self.ascii.dfa.create_cache(), other: self.other.dfa.create_cache() }
    }

    fn bytes(Steps { ascii, other }: &Steps) -> usize {
        size_of::<Steps>() + ascii.memory_usage() + other.memory_usage()
    }
}

/// An expression for texts of ASCII, and for others.
///
/// # Errors
/// In words: it is no expression.
pub(crate) fn parsed(expression: &str, ignores_case: bool) -> Result<[Hir; 2], String> {
    let mut parser = ast::parse::ParserBuilder::new().nest_limit(NEST_MAX).build();
    let mut ast = parser.parse(expression).map_err(why)?;
    restrict(&mut ast);
    let mut translator = TranslatorBuilder::new().case_insensitive(ignores_case).build();
    let hir = translator.translate(expression, &ast).map_err(why)?;
    Ok([narrowed(&hir), hir])
}

/// The last line of what the library says: it draws the expression above it, with an arrow.
fn why(fault: impl Display) -> String {
    fault.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// An expression over names, whichever their case, with its steps and the work that it may do.
pub struct Pattern {
    automata: Automata,
    steps: Steps,
    /// States that may still be passed over.
    work: u64,
}

impl Pattern {
    /// Compiles an expression that may pass over `work` states, each of which takes about 10 ns and 25 at most. There is none of text
    /// that is no expression, or a very large one: 2 MiB compiled, and 1 MiB of steps, for names of ASCII and for others each.
    pub fn new(expression: &str, work: u64) -> Option<Pattern> {
        let automata = Automata::new(expression, true, Room { program: 2 << 20, steps: 1 << 20 }).ok()?;
        Some(Pattern { steps: automata.steps(), automata, work })
    }

    /// Whether the expression matches in a name.
    ///
    /// # Errors
    /// The work is spent.
    pub fn is_in(&mut self, name: &str) -> Result<bool, TooDear> {
        self.automata.is_in(&mut self.steps, name, &mut self.work)
    }
}

/// Which way a text is walked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the end of the first match: the one that is preferred.
    Forward,
    /// From the end of a match to its begin: the farthest.
    Backward,
}

/// A DFA that is made while it is used, from an NFA of so many states.
#[derive(Debug)]
pub(crate) struct Automaton {
    pub(crate) dfa: DFA,
    pub(crate) states: u64,
}

impl Automaton {
    pub(crate) fn new(hir: &Hir, direction: Direction, room: Room) -> Result<Automaton, String> {
        let large = || format!("it takes more than {} bytes", room.program);
        let is_backward = direction == Direction::Backward;
        let nfa = thompson::Config::new().reverse(is_backward);
        let nfa = nfa.nfa_size_limit(Some(room.program)).which_captures(WhichCaptures::None);
        let nfa = thompson::Compiler::new().configure(nfa).build_from_hir(hir);
        let nfa = nfa.map_err(|fault| fault.size_limit().map_or_else(|| why(&fault), |_| large()))?;
        let states = nfa.states().len() as u64;
        let kind = if is_backward { MatchKind::All } else { MatchKind::LeftmostFirst };
        let dfa = Config::new().match_kind(kind).cache_capacity(room.steps).skip_cache_capacity_check(true);
        let dfa = Builder::new().configure(dfa).build_from_nfa(nfa).map_err(why)?;
        Ok(Automaton { dfa, states })
    }

    fn is_in(&self, steps: &mut Cache, text: &str, work: &mut u64) -> Result<bool, TooDear> {
        let Automaton { dfa, states } = self;
        let mut state = dfa.start_state_forward(steps, &Input::new(text)).map_err(|_| TooDear)?;
        for byte in text.bytes() {
            let mut next = dfa.next_state_untagged(steps, state, byte);
            if next.is_unknown() {
                *work = work.checked_sub(*states).ok_or(TooDear)?;
                next = dfa.next_state(steps, state, byte).map_err(|_| TooDear)?;
            }
            // A match is known one byte after its end; a dead state leads to none.
            if next.is_tagged() {
                return Ok(next.is_match());
            }
            state = next;
        }
        // No more of these steps are new than of those above: they are not counted.
        let last = dfa.next_eoi_state(steps, state).map_err(|_| TooDear)?;
        Ok(last.is_match())
    }
}

/// The same expression for names of ASCII.
fn narrowed(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            let mut class = class.clone();
            class.intersect(&ClassUnicode::new([ClassUnicodeRange::new('\0', '\x7f')]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Repetition(repetition) => {
            let sub = Box::new(narrowed(&repetition.sub));
            Hir::repetition(hir::Repetition { sub, ..repetition.clone() })
        }
        // Nobody asks for groups.
        HirKind::Capture(group) => narrowed(&group.sub),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(narrowed).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(narrowed).collect()),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => hir.clone(),
    }
}

/// Makes classes such as `\w`, and boundaries of words, those of ASCII: in all scripts they have hundreds of states.
fn restrict(ast: &mut Ast) {
    match ast {
        Ast::Assertion(assertion) => {
            let span = assertion.span;
            let item = |kind| ast::FlagsItem { span, kind };
            let not = item(ast::FlagsItemKind::Negation);
            let unicode = item(ast::FlagsItemKind::Flag(ast::Flag::Unicode));
            let flags = ast::Flags { span, items: vec![not, unicode] };
            let own = Box::new(std::mem::replace(ast, Ast::empty(span)));
            *ast = Ast::group(ast::Group { span, kind: ast::GroupKind::NonCapturing(flags), ast: own });
        }
        Ast::ClassPerl(class) => {
            let (span, kind) = (class.span, ClassSet::Item(ascii(class)));
            *ast = Ast::class_bracketed(ast::ClassBracketed { span, negated: false, kind });
        }
        Ast::ClassBracketed(class) => restrict_set(&mut class.kind),
        Ast::Repetition(repetition) => restrict(&mut repetition.ast),
        Ast::Group(group) => restrict(&mut group.ast),
        Ast::Alternation(alternation) => alternation.asts.iter_mut().for_each(restrict),
        Ast::Concat(concat) => concat.asts.iter_mut().for_each(restrict),
        Ast::Empty(_) | Ast::Flags(_) | Ast::Literal(_) | Ast::Dot(_) | Ast::ClassUnicode(_) => {}
    }
}

fn restrict_set(set: &mut ClassSet) {
    match set {
        ClassSet::Item(item) => restrict_item(item),
        ClassSet::BinaryOp(pair) => {
            restrict_set(&mut pair.lhs);
            restrict_set(&mut pair.rhs);
        }
    }
}

fn restrict_item(item: &mut ClassSetItem) {
    match item {
        ClassSetItem::Perl(class) => *item = ascii(class),
        ClassSetItem::Bracketed(class) => restrict_set(&mut class.kind),
        ClassSetItem::Union(union) => union.items.iter_mut().for_each(restrict_item),
        ClassSetItem::Empty(_)
        | ClassSetItem::Literal(_)
        | ClassSetItem::Range(_)
        | ClassSetItem::Ascii(_)
        | ClassSetItem::Unicode(_) => {}
    }
}

fn ascii(class: &ast::ClassPerl) -> ClassSetItem {
    let kind = match class.kind {
        ClassPerlKind::Digit => ClassAsciiKind::Digit,
        ClassPerlKind::Space => ClassAsciiKind::Space,
        ClassPerlKind::Word => ClassAsciiKind::Word,
    };
    ClassSetItem::Ascii(ClassAscii { span: class.span, kind, negated: class.negated })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_in_names() {
        let none = None;
        for (expression, name, expected) in [
            ("^orders\\.", "Orders.eu", Some(true)),
            ("^orders\\.", "new.orders.eu", Some(false)),
            ("EU$", "orders.eu", Some(true)),
            ("", "", Some(true)),
            ("x?", "", Some(true)),
            ("x", "", Some(false)),
            ("^$", "", Some(true)),
            ("ue$", "queue\n", Some(false)),
            ("(?-i)A", "a", Some(false)),
            ("a|b|cd", "xxCDx", Some(true)),
            ("[0-9]{3}-x", "12-x 123-x", Some(true)),
            ("(?:a+)+b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Some(false)),
            // A letter of any script is one, whatever its bytes; both cases of it are the same.
            ("^.{3}$", "日本語", Some(true)),
            ("^[^a]$", "é", Some(true)),
            ("^[à-ö]$", "É", Some(true)),
            ("grÖße", "GRößE", Some(true)),
            ("^\\p{L}+$", "ligne-é", Some(false)),
            ("^\\p{L}+$", "lignÉ", Some(true)),
            // Classes and boundaries are those of ASCII.
            ("^\\w$", "é", Some(false)),
            ("^\\W$", "é", Some(true)),
            ("^[\\w.]+$", "orders.eu_2", Some(true)),
            ("^[^\\w]$", "é", Some(true)),
            ("^\\d$", "٣", Some(false)),
            ("^[\\d-]+$", "1-2", Some(true)),
            ("^\\s$", "\u{a0}", Some(false)),
            ("a\\sb", "a b", Some(true)),
            ("^[\\S&&[^x]]$", "x", Some(false)),
            ("\\bdead\\b", "a.dead.b", Some(true)),
            ("\\bdead\\b", "undead", Some(false)),
            ("\\bdead\\b", "édeadé", Some(true)),
            ("(a\\B)+b", "aab", Some(true)),
            // No expressions, or none that this engine has.
            ("(", "(", none),
            ("a(?=b)", "ab", none),
            ("(a)\\1", "aa", none),
            ("((((a{99}){99}){99}){99})", "a", none),
            ("(?-u:\\xff)", "a", none),
        ] {
            let matched = Pattern::new(expression, 1 << 20).map(|mut own| own.is_in(name).unwrap());
            assert_eq!(matched, expected, "{expression} {name}");
            // The same name, longer and not of ASCII, or the rest of it.
            let anywhere = expression.trim_start_matches('^').trim_end_matches('$') == expression;
            if let (Some(mut own), true) =
                (Pattern::new(expression, 1 << 20), anywhere && expected == Some(true))
            {
                assert!(own.is_in(&format!("ü {name} ü")).unwrap(), "{expression} {name}");
            }
        }
    }

    #[test]
    fn steps_are_forgotten_and_made_again() {
        let mut pattern = Pattern::new("a[ab]{15}c", u64::MAX).unwrap();
        let mut dice = 1_u64;
        for round in 0..2000 {
            let mut name: String = (0..255)
                .map(|_| {
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if dice >> 63 == 0 { 'a' } else { 'b' }
                })
                .collect();
            if round % 2 == 0 {
                name.replace_range(200..201, "a");
                name.replace_range(216..217, "c");
            }
            assert_eq!(pattern.is_in(&name).unwrap(), round % 2 == 0, "{name}");
        }
        assert!(pattern.steps.ascii.clear_count() > 0, "all steps had room");
        let used = pattern.steps.ascii.memory_usage();
        assert!(used <= 2 << 20, "{used}");
    }

    #[test]
    fn new_steps_are_counted_and_known_ones_are_not() {
        let mut pattern = Pattern::new("orders", 1000).unwrap();
        for _ in 0..1000 {
            assert!(pattern.is_in("new.orders").unwrap());
        }
        let left = pattern.work;
        assert!(left < 1000 && pattern.is_in("new.orders").unwrap() && pattern.work == left);
        assert!(pattern.is_in("new.orders, and others").unwrap());
        let mut pattern = Pattern::new("orders", 50).unwrap();
        assert!(pattern.is_in("new.orders").is_err());
    }
}
