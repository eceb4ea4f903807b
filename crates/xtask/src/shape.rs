//! The shape of the product's code: types that are spread over too many files, functions that have grown long, functions that are
//! public for tests alone.
//!
//! Rules are of the text, which is formatted: a function ends at the closing brace in the column it began at. An item
//! that is over its bound today has a bound of its own here, which may fall and not rise.

use crate::text::product;
use std::collections::{BTreeMap, BTreeSet};

/// How far a type may be spread: the folder of its crate, its name, files with methods of it, its fields.
const TYPES: &[(&str, &str, usize, usize)] = &[("broker", "Log", 4, 4), ("broker", "Shard", 9, 16)];

/// Lines a function may have.
const FUNCTION_LINES_MAX: usize = 100;

/// Functions of a crate that may be longer for now.
const LONG_FUNCTIONS: &[(&str, usize)] =
    &[("adapters", 2), ("broker", 6), ("ctl", 8), ("management", 1), ("perf", 2), ("server", 2), ("sim", 1)];

/// Public functions of a crate that only tests name, for now.
const FOR_TESTS: &[(&str, usize)] =
    &[("amqp10", 1), ("broker", 4), ("cluster", 3), ("journal", 1), ("queue", 1)];

/// The name of the crate a file is of.
pub fn crate_of(name: &str) -> &str {
    name.strip_prefix("crates/").and_then(|rest| rest.split('/').next()).unwrap_or_default()
}

/// Everything that is out of shape.
pub fn complaints(files: &[(String, String)]) -> Vec<String> {
    let product: Vec<(&str, &str)> =
        files.iter().filter_map(|(name, text)| Some((name.as_str(), product(name, text)?))).collect();
    let mut complaints = Vec::new();
    for (krate, name, files_max, fields_max) in TYPES {
        let ours = || product.iter().filter(|(file, _)| crate_of(file) == *krate);
        let spread = ours().filter(|(_, text)| text.lines().any(|line| is_impl_of(line, name))).count();
        if spread > *files_max {
            complaints.push(format!("{krate}::{name} has methods in {spread} files, {files_max} at most"));
        }
        let fields = ours().find_map(|(_, text)| fields(text, name)).unwrap_or_default();
        if fields > *fields_max {
            complaints.push(format!("{krate}::{name} has {fields} fields, {fields_max} at most"));
        }
    }
    let mut long: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (file, text) in &product {
        for (function, line, lines) in functions(text) {
            if lines > FUNCTION_LINES_MAX {
                let of_crate = long.entry(crate_of(file)).or_default();
                of_crate.push(format!("{file}:{line}: {function} has {lines} lines"));
            }
        }
    }
    complaints.extend(over(&long, LONG_FUNCTIONS));
    let idle = for_tests(&product);
    complaints.extend(over(&idle, FOR_TESTS));
    complaints
}

/// Findings of crates that have more than they may.
fn over(found: &BTreeMap<&str, Vec<String>>, bounds: &[(&str, usize)]) -> Vec<String> {
    let bound = |krate: &str| bounds.iter().find(|(name, _)| *name == krate).map_or(0, |(_, bound)| *bound);
    let over = found.iter().filter(|(krate, list)| list.len() > bound(krate));
    over.flat_map(|(krate, list)| {
        let head = format!("{krate} has {}, {} at most:", list.len(), bound(krate));
        std::iter::once(head).chain(list.iter().cloned())
    })
    .collect()
}

/// The line begins methods of `name` that are of no trait.
fn is_impl_of(line: &str, name: &str) -> bool {
    let Some(rest) = line.strip_prefix("impl") else { return false };
    let rest = match rest.strip_prefix('<') {
        Some(generics) => generics.split_once("> ").map_or("", |(_, rest)| rest),
        None => rest.trim_start(),
    };
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    &rest[..end] == name && !line.contains(" for ")
}

/// Fields of the struct `name`, where it is in this text.
fn fields(text: &str, name: &str) -> Option<usize> {
    let is_start = |line: &str| {
        let line = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        line.strip_prefix("struct ").is_some_and(|rest| {
            rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(" {") || rest.starts_with('<'))
        })
    };
    let mut lines = text.lines().skip_while(|line| !is_start(line)).skip(1).peekable();
    lines.peek()?;
    let is_field = |line: &&str| {
        let line = line.strip_prefix("    ").unwrap_or_default();
        line.contains(": ") && !line.starts_with([' ', '/', '#'])
    };
    Some(lines.take_while(|line| *line != "}").filter(is_field).count())
}

/// Each function of a text: its name, where it begins, and how many lines it has.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let is_end = |line: &&str| line.len() == indent + 1 && line.trim_start() == "}";
        // One without a body ends before anything else of its depth begins.
        let body = &lines[at..];
        let open =
            body.iter().position(|line| line.ends_with('{') || line.ends_with(';') || line.ends_with('}'));
        if open.is_none_or(|open| !body[open].ends_with('{')) {
            continue;
        }
        if let Some(len) = body.iter().position(is_end) {
            found.push((name.to_owned(), at + 1, len + 1));
        }
    }
    found
}

/// The name of the function that a line declares.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    for word in ["pub(crate) ", "pub(super) ", "pub ", "const ", "async ", "unsafe "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let rest = rest.strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(&rest[..end])
}

/// Public functions that nothing of the product names but where they are declared.
fn for_tests<'a>(product: &[(&'a str, &str)]) -> BTreeMap<&'a str, Vec<String>> {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, text) in product {
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for word in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
                *named.entry(word).or_default() += 1;
            }
        }
    }
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (file, text) in product {
        for (number, line) in text.lines().enumerate() {
            let is_public =
                line.trim_start().starts_with("pub ") || line.trim_start().starts_with("pub(crate) ");
            let name = is_public.then(|| function_name(line)).flatten();
            if let Some(name) = name.filter(|name| named.get(name) == Some(&1) && seen.insert(*name)) {
                found.entry(crate_of(file)).or_default().push(format!("{file}:{}: {name}", number + 1));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_fields_of_a_type_are_counted() {
        for (line, expected) in [
            ("impl Log {", true),
            ("impl Logs {", false),
            ("impl<'a> Log {", true),
            ("impl<T: Ord> Log<T> {", true),
            ("impl fmt::Display for Log {", false),
            ("impl Log for Other {", false),
            ("    impl Log {", false),
        ] {
            assert_eq!(is_impl_of(line, "Log"), expected, "{line}");
        }
        let text = "pub struct Logs {\n    a: u8,\n}\n/// It.\npub(crate) struct Log {\n    /// a: it is\n    pub(crate) a: u8,\n    b: Vec<\n        u8,\n    >,\n}\nfn x(a: u8) {}\n";
        assert_eq!(fields(text, "Log"), Some(2));
        assert_eq!(fields(text, "Shard"), None);
    }

    #[test]
    fn a_function_ends_where_it_began() {
        let text = "fn a() {\n    fn b(\n        x: u8,\n    ) {\n        x;\n    }\n}\ntrait T {\n    fn c();\n    fn d() {\n    }\n}\n";
        let found = functions(text);
        let expected = [("a".to_owned(), 1, 7), ("b".to_owned(), 2, 5), ("d".to_owned(), 10, 2)];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_only_tests_name_is_found() {
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let mut files = vec![
            file("crates/a/src/lib.rs", "pub fn used() {}\npub fn idle() {}\nfn private() {}\n"),
            file(
                "crates/b/src/lib.rs",
                "fn x() {\n    a::used();\n    // idle is not\n}\n#[cfg(test)]\nmod tests {\n    use a::idle;\n}\n",
            ),
            file("crates/b/tests/x.rs", "use a::idle;\n"),
        ];
        assert_eq!(complaints(&files), ["a has 1, 0 at most:", "crates/a/src/lib.rs:2: idle"]);
        files[1].1 = "fn x() {\n    a::used(a::idle());\n}\n".to_owned();
        assert_eq!(complaints(&files), Vec::<String>::new());
    }

    #[test]
    fn a_long_function_is_found() {
        let lines = |count: usize| format!("fn a() {{\n{}}}\n", "    x;\n".repeat(count - 2));
        let files = |count| vec![("crates/a/src/lib.rs".to_owned(), lines(count))];
        assert_eq!(complaints(&files(100)), Vec::<String>::new());
        assert_eq!(complaints(&files(101))[1], "crates/a/src/lib.rs:1: a has 101 lines");
    }
}
