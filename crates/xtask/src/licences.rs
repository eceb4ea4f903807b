//! Which licences the code we build on may have.
//!
//! Reads SPDX expressions as manifests write them (`OR`, `AND`, `WITH`, brackets, and `/` of old for `OR`). Works offline;
//! known vulnerabilities are cargo-deny's business.

use crate::cargo::Metadata;

/// Licences that ask for no more than a notice.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Every crate whose licence is missing or not allowed.
pub fn complaints(metadata: &Metadata) -> Vec<String> {
    let judge = |package: &crate::cargo::Package| match &package.license {
        None => Some(format!("{} {} names no licence", package.name, package.version)),
        Some(licence) if !is_allowed(licence) => {
            Some(format!("{} {} is under {licence}", package.name, package.version))
        }
        Some(_) => None,
    };
    metadata.packages.iter().filter_map(judge).collect()
}

/// Whether the expression can be met with allowed licences alone. One that cannot be read is not allowed.
pub fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    any_of(&mut rest, 0) == Some(true) && rest.is_empty()
}

/// Nesting an expression may have.
const DEPTH_MAX: usize = 8;

fn any_of(words: &mut &[&str], depth: usize) -> Option<bool> {
    let mut allowed = all_of(words, depth)?;
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        allowed |= all_of(words, depth)?;
    }
    Some(allowed)
}

fn all_of(words: &mut &[&str], depth: usize) -> Option<bool> {
    let mut allowed = one(words, depth)?;
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        allowed &= one(words, depth)?;
    }
    Some(allowed)
}

fn one(words: &mut &[&str], depth: usize) -> Option<bool> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    if *first == "(" {
        let inner = (depth < DEPTH_MAX).then(|| any_of(words, depth + 1)).flatten()?;
        *words = words.strip_prefix(&[")"])?;
        return Some(inner);
    }
    // An exception only ever permits more than the licence it stands beside.
    if let ["WITH", _exception, rest @ ..] = *words {
        *words = rest;
    }
    Some(ALLOWED.contains(first))
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn expressions_are_judged() {
        let check = |expression: &str, expected: bool| {
            assert_eq!(is_allowed(expression), expected, "{expression}");
        };
        check("MIT", true);
        check("MIT OR Apache-2.0", true);
        check("MIT/Apache-2.0", true);
        check("GPL-3.0", false);
        check("GPL-3.0 OR MIT", true);
        check("GPL-3.0 AND MIT", false);
        check("(MIT OR Apache-2.0) AND Unicode-3.0", true);
        check("(MIT OR Apache-2.0) AND OpenSSL", false);
        check("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true);
        check("", false);
        check("MIT AND", false);
        check("(MIT", false);
        check("MIT)", false);
        check(&"(".repeat(100), false);
    }
}
