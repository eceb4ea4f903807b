//! Files of a crate that import one another in a circle: to read one of them is to read all.
//!
//! An import goes to the file that has the name, also where another file hands it on (`pub use`).

use crate::shape::crate_of;
use crate::text::product;
use std::collections::{BTreeMap, BTreeSet};

/// Files a circle may have.
const FILES_MAX: usize = 5;

/// Every circle that is too large.
pub fn complaints(files: &[(String, String)]) -> Vec<String> {
    let mut crates: BTreeMap<&str, BTreeMap<Vec<&str>, (&str, &str)>> = BTreeMap::new();
    for (name, text) in files {
        if let Some(text) = product(name, text) {
            let modules = crates.entry(crate_of(name)).or_default();
            modules.insert(module_of(name), (name, text));
        }
    }
    let mut complaints = Vec::new();
    for (krate, modules) in &crates {
        for circle in circles(modules).into_iter().filter(|circle| circle.len() > FILES_MAX) {
            complaints.push(format!(
                "{krate}: {} files import one another: {}",
                circle.len(),
                circle.join(" ")
            ));
        }
    }
    complaints
}

/// The path of the module that a file is.
fn module_of(name: &str) -> Vec<&str> {
    let inside = name.split_once("/src/").map_or("", |(_, inside)| inside);
    let mut path: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
    if matches!(path.last(), Some(&"mod" | &"lib" | &"main")) {
        path.pop();
    }
    path
}

type Modules<'a> = BTreeMap<Vec<&'a str>, (&'a str, &'a str)>;

fn circles<'a>(modules: &Modules<'a>) -> Vec<Vec<&'a str>> {
    let keys: Vec<&Vec<&str>> = modules.keys().collect();
    let number: BTreeMap<&Vec<&str>, usize> = keys.iter().enumerate().map(|(at, key)| (*key, at)).collect();
    let edges: Vec<BTreeSet<usize>> = keys
        .iter()
        .map(|key| {
            let paths = imports(key, modules[*key].1);
            let found = paths.iter().filter_map(|path| resolve(modules, path, 0));
            found.filter_map(|to| number.get(&to).copied()).filter(|to| keys[*to] != *key).collect()
        })
        .collect();
    let reach: Vec<BTreeSet<usize>> = (0..keys.len()).map(|from| reached(&edges, from)).collect();
    let mut seen = BTreeSet::new();
    let mut circles = Vec::new();
    for at in 0..keys.len() {
        if !reach[at].contains(&at) || !seen.insert(at) {
            continue;
        }
        let circle: Vec<usize> =
            reach[at].iter().copied().filter(|other| reach[*other].contains(&at)).collect();
        seen.extend(&circle);
        circles.push(circle.iter().map(|at| modules[keys[*at]].0).collect());
    }
    circles
}

fn reached(edges: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut next: Vec<usize> = edges[from].iter().copied().collect();
    while let Some(at) = next.pop() {
        if found.insert(at) {
            next.extend(&edges[at]);
        }
    }
    found
}

/// Every path into its own crate that a file names, from the crate's root; those that it only hands on are left out.
fn imports(module: &[&str], text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = strip_comments(text);
    // Statements first, which are then taken out.
    while let Some(Use { before, is_handed_on, statement, after }) = next_use(&rest) {
        if !is_handed_on {
            expand(&statement, &mut Vec::new(), &mut found);
        }
        rest = format!("{before}\n{after}");
    }
    let is_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let own: Vec<String> = children(&rest).map(|child| format!("{child}::")).collect();
    for begin in ["crate::", "super::"].into_iter().chain(own.iter().map(String::as_str)) {
        // Behind another part it is a path of its own.
        for (at, _) in rest.match_indices(begin).filter(|(at, _)| !rest[..*at].ends_with(is_of_path)) {
            let path: String = rest[at..].chars().take_while(|c| is_of_path(*c)).collect();
            found.push(path.split("::").map(str::to_owned).collect());
        }
    }
    found.into_iter().filter_map(|path| from_root(module, &path)).collect()
}

/// The modules below its own that a file declares.
fn children(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (before, name) = line.trim().strip_suffix(';')?.rsplit_once("mod ")?;
        let is_declaration = before.is_empty() || before.starts_with("pub");
        (is_declaration && !name.contains(|c: char| !c.is_alphanumeric() && c != '_')).then_some(name)
    })
}

fn strip_comments(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// A `use` statement at the beginning of a line.
struct Use {
    /// The lines before it.
    before: String,
    /// It is public.
    is_handed_on: bool,
    statement: String,
    after: String,
}

/// The next `use` statement.
fn next_use(text: &str) -> Option<Use> {
    for (at, _) in text.match_indices("use ") {
        let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let visibility = text[begin..at].trim();
        if visibility.is_empty() || visibility == "pub" || visibility.starts_with("pub(") {
            let (statement, after) = text[at + 4..].split_once(';')?;
            return Some(Use {
                before: text[..begin].to_owned(),
                is_handed_on: !visibility.is_empty(),
                statement: statement.to_owned(),
                after: after.to_owned(),
            });
        }
    }
    None
}

/// All paths of a use tree.
fn expand(tree: &str, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        let mut whole = prefix.clone();
        whole.extend(path.split("::").map(|part| part.trim().to_owned()));
        found.push(whole);
        return;
    };
    let depth = prefix.len();
    prefix.extend(tree[..open].split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
    let inner = tree[open + 1..].trim_end().trim_end_matches('}');
    let (mut level, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain(std::iter::once((inner.len(), ','))) {
        match c {
            '{' => level += 1,
            '}' => level -= 1,
            ',' if level == 0 => {
                if !inner[start..at].trim().is_empty() {
                    expand(&inner[start..at], prefix, found);
                }
                start = (at + 1).min(inner.len());
            }
            _ => {}
        }
    }
    prefix.truncate(depth);
}

/// A path as it is from the crate's root; `None`: it leads elsewhere, or into the file itself.
fn from_root(module: &[&str], path: &[String]) -> Option<Vec<String>> {
    let mut base: Vec<String> = module.iter().map(|part| (*part).to_owned()).collect();
    let mut rest = path;
    match path.first().map(String::as_str) {
        Some("crate") => {
            base.clear();
            rest = &path[1..];
        }
        Some("super") => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop()?;
                rest = &rest[1..];
            }
        }
        Some("self") => rest = &path[1..],
        // A module of this file's, perhaps: a path into another crate finds none.
        _ => {}
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

/// The module that has the item of a path, through those that hand it on.
fn resolve<'a>(modules: &Modules<'a>, path: &[String], depth: usize) -> Option<Vec<&'a str>> {
    let fits = |key: &&Vec<&str>| key.len() <= path.len() && key.iter().zip(path).all(|(a, b)| a == b);
    let key = modules.keys().filter(fits).max_by_key(|key| key.len())?;
    let Some(name) = path.get(key.len()) else { return Some(key.clone()) };
    if depth < 8
        && let Some(handed_on) = handed_on(key, modules[key].1, name)
        && let Some(found) = resolve(modules, &handed_on, depth + 1)
    {
        return Some(found);
    }
    Some(key.clone())
}

/// Where a module that hands `name` on has it from.
fn handed_on(module: &[&str], text: &str, name: &str) -> Option<Vec<String>> {
    let mut rest = strip_comments(text);
    while let Some(Use { is_handed_on, statement, after, .. }) = next_use(&rest) {
        if is_handed_on {
            let mut found = Vec::new();
            expand(&statement, &mut Vec::new(), &mut found);
            if let Some(path) = found.iter().find(|path| path.last().is_some_and(|last| last == name)) {
                return from_root(module, path);
            }
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, String)> =
            files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        complaints(&files)
    }

    type Change<'a> = &'a dyn Fn(&mut Vec<(String, String)>);

    #[test]
    fn a_circle_is_found_however_it_is_written() {
        let ring: Vec<(String, String)> = (0..6)
            .map(|at| (format!("crates/a/src/m{at}.rs"), format!("use crate::m{}::X;\n", (at + 1) % 6)))
            .collect();
        let check = |change: Change<'_>, expected: usize| {
            let mut files = ring.clone();
            change(&mut files);
            let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(found(&files).len(), expected, "{files:?}");
        };
        check(&|_| {}, 1);
        check(&|files| files[0].1 = "fn x() {\n    crate::m1::x();\n}\n".into(), 1);
        check(&|files| files[0].1 = "use crate::{m1::{X, Y}, z::W};\n".into(), 1);
        check(&|files| files[0].1 = "use super::m1;\nfn x() {\n    m1::x();\n}\n".into(), 1);
        check(&|files| files[0].1 = "use super::m1::X;\n".into(), 1);
        check(&|files| files[0].1 = "// use crate::m1::X;\n".into(), 0);
        check(&|files| files[0].1 = "pub use crate::m1::X;\n".into(), 0);
        check(&|files| files[0].1 = "use b::m1::X;\n".into(), 0);
        // Through a module of its own, without a statement.
        let below = |text: &'static str| {
            move |files: &mut Vec<(String, String)>| {
                files[0].1 = text.into();
                files.push(("crates/a/src/m0/below.rs".into(), "use crate::m1::X;\n".into()));
            }
        };
        check(&below("mod below;\nfn x() {\n    below::x();\n}\n"), 1);
        check(&below("pub(crate) mod below;\nfn x() {\n    below::x();\n}\n"), 1);
        check(&below("mod below;\nfn x() {\n    y::below::x();\n}\n"), 0);
        check(&below("fn x() {\n    below::x();\n}\n"), 0);
        // Imports count behind what is handed on, and behind tests that are in a file of their own.
        check(&|files| files[0].1 = "pub use b::Y;\npub(crate) use b::Z;\nuse crate::m1::X;\n".into(), 1);
        check(&|files| files[0].1 = "#[cfg(test)]\nmod tests;\nuse crate::m1::X;\n".into(), 1);
        // An item that the root hands on belongs to its own module.
        check(
            &|files| {
                files[0].1 = "use crate::X;\n".into();
                files.push(("crates/a/src/lib.rs".into(), "pub use m1::X;\n".into()));
            },
            1,
        );
        check(&|files| files[0].1 = "use crate::m1::X;\n#[cfg(test)]\nmod tests {}\n".into(), 1);
        check(
            &|files| files[0].1 = "fn x() {}\n#[cfg(test)]\nmod tests {\n    use crate::m1::X;\n}\n".into(),
            0,
        );
    }

    #[test]
    fn small_circles_are_no_complaint() {
        let files =
            [("crates/a/src/a.rs", "use crate::b::X;\n"), ("crates/a/src/b.rs", "use crate::a::Y;\n")];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
