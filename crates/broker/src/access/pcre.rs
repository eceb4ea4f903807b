//! Patterns as RabbitMQ takes them (PCRE2), in the words of the engine that has look-around.
//!
//! Both engines read most of a pattern alike. What one of them spells or means otherwise is written out here: letters behind a
//! backslash, classes, quoted text, comments. What is left is refused by name, since a pattern that means something else than its
//! author thinks is worse than none: calls of groups, verbs, and escapes that nobody knows.

use std::iter::Peekable;
use std::str::CharIndices;

/// Letters of a class that stand for more than one, as PCRE2 has them without Unicode.
const DIGITS: &str = "0-9";
const WORD: &str = "A-Za-z0-9_";
const SPACE: &str = "\\x{9}-\\x{D}\\x{20}";
const HORIZONTAL: &str = "\\x{9}\\x{20}";
const VERTICAL: &str = "\\x{A}-\\x{D}";

/// A pattern, translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Translated {
    /// For the engine.
    pub text: String,
    /// It cannot be matched in one pass: it looks around, refers back, or forbids to go back.
    pub backtracks: bool,
}

struct Reader<'a> {
    source: &'a str,
    letters: Peekable<CharIndices<'a>>,
    out: String,
    backtracks: bool,
    /// Groups that capture, in all of the pattern.
    groups: usize,
    /// Those of them that have begun.
    begun: usize,
    resets: bool,
    refers: bool,
}

/// Writes a pattern of PCRE2's for the engine.
///
/// # Errors
/// The error names the part that is not served or not understood.
pub(super) fn translated(source: &str) -> Result<Translated, String> {
    let mut reader = Reader {
        source,
        letters: source.char_indices().peekable(),
        out: String::with_capacity(source.len() + 8),
        backtracks: false,
        groups: groups(source),
        begun: 0,
        resets: false,
        refers: false,
    };
    while let Some((at, letter)) = reader.letters.next() {
        match letter {
            '\\' => reader.escape()?,
            '[' => reader.class()?,
            '(' => reader.group(at)?,
            '{' => reader.brace(at),
            '*' | '+' | '?' | '}' => reader.quantified(letter),
            other => reader.out.push(other),
        }
    }
    if reader.resets && reader.refers {
        return Err("references into groups that are numbered anew are not served".to_owned());
    }
    Ok(Translated { text: reader.out, backtracks: reader.backtracks })
}

/// How many groups capture. What looks like one in a class or behind a backslash is none.
fn groups(source: &str) -> usize {
    let (mut count, mut in_class) = (0, false);
    let mut letters = source.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => {
                letters.next();
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                let rest = &source[at + 1..];
                let is_named =
                    (rest.starts_with("?<") && !rest.starts_with("?<=") && !rest.starts_with("?<!"))
                        || rest.starts_with("?P<")
                        || rest.starts_with("?'");
                count += usize::from(is_named || !rest.starts_with(['?', '*']));
            }
            _ => {}
        }
    }
    count
}

impl Reader<'_> {
    fn rest(&mut self) -> &str {
        let at = self.letters.peek().map_or(self.source.len(), |(at, _)| *at);
        &self.source[at..]
    }

    fn eats(&mut self, text: &str) -> bool {
        if !self.rest().starts_with(text) {
            return false;
        }
        for _ in text.chars() {
            self.letters.next();
        }
        true
    }

    /// Letters as long as they are of a kind.
    fn take_while(&mut self, is_it: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some((_, letter)) = self.letters.next_if(|(_, letter)| is_it(*letter)) {
            taken.push(letter);
        }
        taken
    }

    /// A letter that means itself.
    fn literal(&mut self, letter: char) {
        if letter.is_alphanumeric() || letter == '_' || !letter.is_ascii() {
            self.out.push(letter);
        } else {
            self.out.push_str(&format!("\\x{{{:X}}}", u32::from(letter)));
        }
    }

    fn code(&mut self, code: u32) -> Result<(), String> {
        let letter = char::from_u32(code).ok_or("a number that is no letter's")?;
        self.out.push_str(&format!("\\x{{{:X}}}", u32::from(letter)));
        Ok(())
    }

    /// A quantifier, or what closes nothing; a `+` behind one makes it possessive.
    fn quantified(&mut self, letter: char) {
        if letter == '}' {
            return self.literal('}');
        }
        self.out.push(letter);
        self.backtracks |= letter == '+' && self.out.len() > 1 && {
            let before = &self.out[..self.out.len() - 1];
            before.ends_with(['*', '+', '?'])
                || (before.ends_with('}') && !before.ends_with("\\x{7D}") && ends_counted(before))
        };
    }

    /// `{` counts, or is itself.
    fn brace(&mut self, at: usize) {
        let inside = self.source[at + 1..].split_once('}').map(|(inside, _)| inside.to_owned());
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let counted = inside.and_then(|inside| match inside.split_once(',') {
            None if is_number(&inside) => Some(inside.clone()),
            Some(("", most)) if is_number(most) => Some(format!("0,{most}")),
            Some((least, most)) if is_number(least) && (most.is_empty() || is_number(most)) => {
                Some(inside.clone())
            }
            _ => None,
        });
        match counted {
            Some(counted) => {
                let _ = self.take_while(|letter| letter != '}');
                self.letters.next();
                self.out.push_str(&format!("{{{counted}}}"));
            }
            None => self.literal('{'),
        }
    }

    /// The part behind a backslash outside of a class.
    fn escape(&mut self) -> Result<(), String> {
        let Some((_, letter)) = self.letters.next() else { return Err("it ends in a backslash".to_owned()) };
        match letter {
            'Q' => self.quoted(),
            'E' => {}
            'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'h' | 'H' | 'v' | 'V' => {
                let of = class_of(letter).unwrap_or_default();
                let not = if letter.is_ascii_uppercase() { "^" } else { "" };
                self.out.push_str(&format!("[{not}{of}]"));
            }
            'N' if !self.rest().starts_with('{') => self.out.push_str("[^\\x{A}]"),
            'R' => {
                self.backtracks = true;
                self.out.push_str("(?>\\x{D}\\x{A}|[\\x{A}-\\x{D}])");
            }
            'A' | 'z' | 'b' | 'B' => self.out.extend(['\\', letter]),
            'Z' | 'K' | 'G' => {
                self.backtracks = true;
                self.out.extend(['\\', letter]);
            }
            'k' => {
                let close = match self.letters.next() {
                    Some((_, '<')) => '>',
                    Some((_, '{')) => '}',
                    Some((_, '\'')) => '\'',
                    _ => return Err("\\k names no group".to_owned()),
                };
                let name = self.take_while(|letter| letter != close);
                self.letters.next().ok_or("\\k names no group")?;
                self.refer(&format!("\\k<{name}>"));
            }
            'g' => {
                let is_braced = self.eats("{");
                let is_relative = self.eats("-");
                let number: Option<usize> = self.take_while(|letter| letter.is_ascii_digit()).parse().ok();
                let number = match is_relative {
                    true => number.and_then(|back| (self.begun + 1).checked_sub(back)),
                    false => number,
                };
                let number = number.filter(|number| (1..=self.groups).contains(number));
                match number {
                    Some(number) if !is_braced || self.eats("}") => self.refer(&format!("(?:\\{number})")),
                    _ => return Err("\\g refers to no group by its number".to_owned()),
                }
            }
            '1'..='9' => {
                let more = self.take_while(|letter| letter.is_ascii_digit());
                let digits = format!("{letter}{more}");
                let number: usize = digits.parse().unwrap_or(usize::MAX);
                if number <= self.groups || number < 10 {
                    if number > self.groups {
                        return Err("reference to non-existent subpattern".to_owned());
                    }
                    self.refer(&format!("(?:\\{digits})"));
                } else {
                    let octal: String = digits.chars().take(3).take_while(|digit| *digit < '8').collect();
                    let code =
                        u32::from_str_radix(&octal, 8).map_err(|_| format!("\\{digits} is no number"))?;
                    self.code(code)?;
                    digits[octal.len()..].chars().for_each(|digit| self.out.push(digit));
                }
            }
            other => self.one(other)?,
        }
        Ok(())
    }

    fn refer(&mut self, text: &str) {
        (self.backtracks, self.refers) = (true, true);
        self.out.push_str(text);
    }

    /// The meaning of a letter behind a backslash, in a class or not: one letter, or those of a property.
    fn one(&mut self, letter: char) -> Result<(), String> {
        match letter {
            '0' => {
                let mut octal = String::new();
                while octal.len() < 2
                    && let Some((_, digit)) = self.letters.next_if(|(_, digit)| ('0'..'8').contains(digit))
                {
                    octal.push(digit);
                }
                self.code(u32::from_str_radix(&octal, 8).unwrap_or(0))?;
            }
            'x' => {
                let digits = if self.eats("{") {
                    let digits = self.take_while(|letter| letter != '}');
                    self.letters.next().ok_or("\\x{ has no end")?;
                    digits
                } else {
                    let mut digits = String::new();
                    while digits.len() < 2
                        && let Some((_, digit)) = self.letters.next_if(|(_, digit)| digit.is_ascii_hexdigit())
                    {
                        digits.push(digit);
                    }
                    if digits.is_empty() { "0".to_owned() } else { digits }
                };
                self.code(u32::from_str_radix(&digits, 16).map_err(|_| "\\x without a number")?)?;
            }
            'a' => self.code(7)?,
            'e' => self.code(0x1B)?,
            'f' => self.code(0xC)?,
            'n' => self.code(0xA)?,
            'r' => self.code(0xD)?,
            't' => self.code(9)?,
            'p' | 'P' => {
                let name = if self.eats("{") {
                    let name = self.take_while(|letter| letter != '}');
                    self.letters.next().ok_or("a property has no end")?;
                    name
                } else {
                    self.letters.next().map(|(_, letter)| letter.to_string()).unwrap_or_default()
                };
                if name.is_empty()
                    || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_^".contains(letter))
                {
                    return Err("a property has no name".to_owned());
                }
                self.out.push_str(&format!("\\{letter}{{{name}}}"));
            }
            other if other.is_ascii_alphanumeric() => {
                return Err(format!("unrecognized character follows \\: {other}"));
            }
            other => self.literal(other),
        }
        Ok(())
    }

    /// Text between `\Q` and `\E`, or the end.
    fn quoted(&mut self) {
        while self.letters.peek().is_some() && !self.eats("\\E") {
            if let Some((_, letter)) = self.letters.next() {
                self.literal(letter);
            }
        }
    }

    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.eats("^") {
            self.out.push('^');
        }
        // A bracket that closes it first is a letter of it.
        if self.eats("]") {
            self.literal(']');
        }
        // The letter before, which a range may begin with.
        let mut is_single = false;
        loop {
            let Some((_, letter)) = self.letters.next() else {
                return Err("missing terminating ] for character class".to_owned());
            };
            match letter {
                ']' => break,
                '[' if self.rest().starts_with(':') => {
                    let name = self.rest()[1..].split_once(":]").map(|(name, _)| name.to_owned());
                    let Some(name) =
                        name.filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '^'))
                    else {
                        self.literal('[');
                        is_single = true;
                        continue;
                    };
                    self.eats(&format!(":{name}:]"));
                    self.out.push_str(&format!("[:{name}:]"));
                    is_single = false;
                }
                '[' if self.rest().starts_with(['.', '=']) => {
                    return Err("collating elements are not served".to_owned());
                }
                '-' if is_single && !self.rest().starts_with(']') && !self.begins_kind() => {
                    self.out.push('-');
                    is_single = false;
                    continue;
                }
                '\\' => {
                    let Some((_, letter)) = self.letters.next() else {
                        return Err("it ends in a backslash".to_owned());
                    };
                    is_single = !matches!(letter, 'p' | 'P');
                    match letter {
                        'Q' => self.quoted(),
                        'E' => {}
                        'b' => self.code(8)?,
                        letter if class_of(letter).is_some() => {
                            let of = class_of(letter).unwrap_or_default();
                            match letter.is_ascii_uppercase() {
                                true => self.out.push_str(&format!("[^{of}]")),
                                false => self.out.push_str(of),
                            }
                            is_single = false;
                        }
                        '1'..='7' => {
                            let more = self.take_while(|digit| ('0'..'8').contains(&digit));
                            let octal: String = format!("{letter}{more}").chars().take(3).collect();
                            self.code(u32::from_str_radix(&octal, 8).unwrap_or(0))?;
                            more.chars().skip(2).for_each(|digit| self.out.push(digit));
                        }
                        other => self.one(other)?,
                    }
                }
                other => {
                    self.literal(other);
                    is_single = true;
                }
            }
        }
        self.out.push(']');
        Ok(())
    }

    /// The next part of a class stands for more than one letter.
    fn begins_kind(&mut self) -> bool {
        let rest = self.rest();
        rest.starts_with("[:")
            || rest
                .strip_prefix('\\')
                .and_then(|rest| rest.chars().next())
                .is_some_and(|letter| class_of(letter).is_some() || matches!(letter, 'p' | 'P'))
    }

    fn group(&mut self, at: usize) -> Result<(), String> {
        let rest = &self.source[at + 1..];
        if rest.starts_with('*') {
            return Err("verbs are not served".to_owned());
        }
        if !rest.starts_with('?') {
            self.begun += 1;
            self.out.push('(');
            return Ok(());
        }
        if self.eats("?#") {
            let _ = self.take_while(|letter| letter != ')');
            return self.letters.next().map(|_| ()).ok_or_else(|| "a comment has no end".to_owned());
        }
        if self.eats("?C") {
            // A place where a program may look on; nothing does.
            let _ = self.take_while(|letter| letter.is_ascii_digit());
            return if self.eats(")") { Ok(()) } else { Err("a callout has no end".to_owned()) };
        }
        if self.eats("?|") {
            self.resets = true;
            self.out.push_str("(?:");
            return Ok(());
        }
        if self.eats("?P=") {
            let name = self.take_while(|letter| letter != ')');
            self.letters.next().ok_or("a reference has no end")?;
            self.refer(&format!("\\k<{name}>"));
            return Ok(());
        }
        for (from, to, backtracks) in [
            ("?:", "(?:", false),
            ("?=", "(?=", true),
            ("?!", "(?!", true),
            ("?<=", "(?<=", true),
            ("?<!", "(?<!", true),
            ("?>", "(?>", true),
            ("?P<", "(?<", false),
            ("?<", "(?<", false),
        ] {
            if self.eats(from) {
                self.out.push_str(to);
                self.backtracks |= backtracks;
                self.begun += usize::from(to == "(?<");
                return Ok(());
            }
        }
        if self.eats("?'") {
            let name = self.take_while(|letter| letter != '\'');
            self.letters.next().ok_or("a name has no end")?;
            self.begun += 1;
            self.out.push_str(&format!("(?<{name}>"));
            return Ok(());
        }
        if self.eats("?(") {
            return self.condition();
        }
        // Flags, for a group or from here on.
        let flags = rest[1..].split([':', ')']).next().unwrap_or_default();
        if !flags.is_empty() && flags.chars().all(|flag| "imsx-".contains(flag)) {
            self.eats("?");
            let flags = self.take_while(|letter| letter != ':' && letter != ')');
            self.out.push_str(&format!("(?{flags}"));
            if let Some((_, end)) = self.letters.next() {
                self.out.push(end);
            }
            return Ok(());
        }
        Err("this kind of group is not served".to_owned())
    }

    /// `(?(1)yes|no)`, by number or name.
    fn condition(&mut self) -> Result<(), String> {
        self.backtracks = true;
        self.refers = true;
        let asked = self.take_while(|letter| letter != ')');
        let name = asked.trim_matches(['<', '>', '\'']);
        let is_number = asked.bytes().all(|byte| byte.is_ascii_digit());
        let is_name = name.len() + 2 == asked.len();
        if asked.is_empty() || !(is_number || is_name) || self.letters.next().is_none() {
            return Err("this condition is not served".to_owned());
        }
        match is_number {
            true => self.out.push_str(&format!("(?({asked})")),
            false => self.out.push_str(&format!("(?(<{name}>)")),
        }
        Ok(())
    }
}

/// The letters that a letter behind a backslash, or its capital, stands for.
fn class_of(letter: char) -> Option<&'static str> {
    match letter.to_ascii_lowercase() {
        'd' => Some(DIGITS),
        'w' => Some(WORD),
        's' => Some(SPACE),
        'h' => Some(HORIZONTAL),
        'v' => Some(VERTICAL),
        _ => None,
    }
}

/// Whether text ends in a quantifier with numbers, and not in a letter's.
fn ends_counted(text: &str) -> bool {
    let Some(at) = text.rfind('{') else { return false };
    !text[..at].ends_with("\\x") && !text[..at].ends_with("\\p") && !text[..at].ends_with("\\P")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_are_written_out() {
        let check = |source: &str, expected: &str, backtracks: bool| {
            let found = translated(source);
            let expected = Translated { text: expected.to_owned(), backtracks };
            assert_eq!(found.as_ref(), Ok(&expected), "{source}");
        };
        check("^a.*$|b", "^a.*$|b", false);
        check(r"^(?!amq\.).*", r"^(?!amq\x{2E}).*", true);
        check(r"\d\W\h\N", r"[0-9][^A-Za-z0-9_][\x{9}\x{20}][^\x{A}]", false);
        check(r"[\w-]+[^]a][a-c\-]", r"[A-Za-z0-9_\x{2D}]+[^\x{5D}a][a-c\x{2D}]", false);
        check(
            "[[:alpha:]_][[a]&&b]",
            r"[[:alpha:]_][\x{5B}a]\x{26}\x{26}b]".replace(r"\x{26}\x{26}b]", "&&b]").as_str(),
            false,
        );
        check(r"\Qa.b\E.c", r"a\x{2E}b.c", false);
        check("q{", r"q\x{7B}", false);
        check("q{a}", r"q\x{7B}a\x{7D}", false);
        check("q{2,3}q{4}q{,5}", "q{2,3}q{4}q{0,5}", false);
        check("q++a*+b?+c{2}+", "q++a*+b?+c{2}+", true);
        check("q+?", "q+?", false);
        check(r"\x{41}+\}+", r"\x{41}+\x{7D}+", false);
        check(r"(a)\1\161\07", r"(a)(?:\1)\x{71}\x{7}", true);
        check(r"(a)(?<n>b)\g{-1}\g1", r"(a)(?<n>b)(?:\2)(?:\1)", true);
        check("(?#all)a(?C1)", "a", false);
        check("(?P<n>a)(?P=n)", r"(?<n>a)\k<n>", true);
        check("(?'n'a)", "(?<n>a)", false);
        check("(?i-s:A)(?x)", "(?i-s:A)(?x)", false);
        check("(?|(a)|(b))", "(?:(a)|(b))", false);
        check("(a)?(?(1)b|c)", "(a)?(?(1)b|c)", true);
        check(r"\<\>é", r"\x{3C}\x{3E}é", false);
    }

    #[test]
    fn what_means_something_else_is_refused() {
        for source in [
            r"\q",
            "a\\",
            "[a",
            "(*FAIL)",
            "(?1)",
            "(?R)",
            "(?&n)",
            "(?P>n)",
            r"\g{-1}",
            r"(a)\g{-2}",
            r"\g",
            r"\k",
            "(?|(a)|(b))\\1",
            "(?(R)a)",
            "(?(?=a)b)",
            r"\2",
            "(?#",
            "(?J)",
            r"\X",
            r"\x{110000}",
            r"\x{zz}",
            "[[.a.]]",
            r"\p{}",
            r"\p{L",
        ] {
            assert!(translated(source).is_err(), "{source}");
        }
    }
}
