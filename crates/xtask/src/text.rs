//! Text that may not stand in a tracked file, and files that have grown long.

use std::path::Path;
use std::process::Command;

/// Lines after which a file probably holds two nouns.
const LINES_MAX: usize = 1000;

/// Forbidden texts, where (empty: everywhere), and why. Written in halves so that this file passes its own check.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    (concat!("tod", "o!("), ".rs", "unfinished code"),
    (concat!("unimpl", "emented!("), ".rs", "unfinished code"),
    (concat!("/wo", "rk/"), "", "a path of one machine"),
    (concat!("/ro", "ot/"), "", "a path of one machine"),
    (concat!("/tm", "p/"), "", "a path of one machine"),
    (concat!("pypi", ".org"), "", "a registry host: tools know theirs"),
    (concat!("registry.npm", "js.org"), "", "a registry host: tools know theirs"),
    (concat!("proxy.gol", "ang.org"), "", "a registry host: tools know theirs"),
    (concat!("repo1.mav", "en.org"), "", "a registry host: tools know theirs"),
    (concat!("repo.mav", "en.apache.org"), "", "a registry host: tools know theirs"),
    (concat!("index.crat", "es.io"), "", "a registry host: tools know theirs"),
    (concat!("static.crat", "es.io"), "", "a registry host: tools know theirs"),
];

/// Reads every file git tracks under `root` that is text.
///
/// # Errors
/// Why git could not list them.
pub fn tracked(root: &Path) -> Result<Vec<(String, String)>, String> {
    let output = Command::new("git").current_dir(root).args(["ls-files", "-z"]).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err("not a git checkout".to_owned());
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let read = |name: &str| Some((name.to_owned(), std::fs::read_to_string(root.join(name)).ok()?));
    Ok(names.split('\0').filter(|name| !name.is_empty()).filter_map(read).collect())
}

/// The product's part of a file: up to the tests in it; `None` for a file that is no source of the product.
pub fn product<'a>(name: &str, text: &'a str) -> Option<&'a str> {
    let is_product = name.starts_with("crates/")
        && name.contains("/src/")
        && name.ends_with(".rs")
        && !name.contains("/tests/")
        && !name.ends_with("/tests.rs");
    // Tests in a file of their own are named anywhere among the modules.
    let begins_tests = |at: &usize| {
        let is_line = text[..*at].is_empty() || text[..*at].ends_with('\n');
        let next = text[*at..].lines().nth(1).unwrap_or_default();
        is_line && !(next.starts_with("mod ") && next.ends_with(';'))
    };
    let end = || text.match_indices("#[cfg(test)]").map(|(at, _)| at).find(begins_tests);
    is_product.then(|| &text[..end().unwrap_or(text.len())])
}

/// The lines of the product's code in a file, comments left out, with their numbers from 1.
pub fn code<'a>(name: &str, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> + use<'a> {
    let lines = product(name, text).unwrap_or_default().lines().enumerate();
    lines.filter(|(_, line)| !line.trim_start().starts_with("//")).map(|(at, line)| (at + 1, line))
}

/// Every line that holds forbidden text.
pub fn complaints(files: &[(String, String)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, text) in files {
        for (number, line) in text.lines().enumerate() {
            let hits = FORBIDDEN.iter().filter(|(word, end, _)| name.ends_with(end) && line.contains(word));
            complaints.extend(hits.map(|(word, _, why)| format!("{name}:{}: {word:?} is {why}", number + 1)));
        }
    }
    complaints
}

/// Files longer than [`LINES_MAX`], to be thought about.
pub fn long(files: &[(String, String)]) -> Vec<String> {
    let rust = files.iter().filter(|(name, _)| name.ends_with(".rs"));
    let counted = rust.map(|(name, text)| (name, text.lines().count()));
    counted
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(name, lines)| format!("{name}: {lines} lines"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, expected: usize) {
        assert_eq!(complaints(&[(name.to_owned(), text.to_owned())]).len(), expected, "{name}: {text}");
    }

    #[test]
    fn forbidden_text_is_found_where_it_is_forbidden() {
        let unfinished = concat!("tod", "o!()");
        check("a.rs", unfinished, 1);
        check("a.md", unfinished, 0);
        check("a.md", concat!("see /ro", "ot/notes"), 1);
        check("a.rs", "fn whole() {}", 0);
    }

    #[test]
    fn long_files_are_named() {
        let file = |lines: usize| vec![("a.rs".to_owned(), "\n".repeat(lines))];
        assert!(long(&file(LINES_MAX)).is_empty());
        assert_eq!(long(&file(LINES_MAX + 1)), ["a.rs: 1001 lines"]);
    }
}
