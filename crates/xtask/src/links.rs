//! Links between documents: the file of each is there, and so is the heading.

use crate::markdown;
use std::path::Path;

/// Every relative link of a document whose file or heading does not exist; `root` holds files that are no text.
pub fn complaints(files: &[(String, String)], root: &Path) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".md")) {
        for (line, target) in links(text) {
            if let Some(why) = fault(files, root, name, target) {
                complaints.push(format!("{name}:{line}: {target}: {why}"));
            }
        }
    }
    complaints
}

/// The targets of a document's links and pictures, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, line) in markdown::lines_outside(text) {
        for (begin, end) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"'), ("srcset=\"", '"')] {
            let ends = line.match_indices(begin).filter(|(place, _)| !is_quoted(line, *place));
            found.extend(ends.filter_map(|(place, _)| {
                let target = line[place + begin.len()..].split(end).next()?;
                Some((at, target))
            }));
        }
    }
    found
}

/// Whether a place of a line is between backticks.
fn is_quoted(line: &str, place: usize) -> bool {
    line[..place].matches('`').count() % 2 == 1
}

fn fault(files: &[(String, String)], root: &Path, from: &str, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = (if path.is_empty() { Some(from.to_owned()) } else { resolve(from, path) }) else {
        return Some("it leaves the repository");
    };
    let text = files.iter().find(|(name, _)| *name == path).map(|(_, text)| text);
    let is_folder = || files.iter().any(|(name, _)| name.starts_with(&format!("{path}/")));
    if text.is_none() && !is_folder() && !root.join(&path).is_file() {
        return Some("there is no such file");
    }
    let is_there =
        heading.is_empty() || text.is_some_and(|text| headings(text).iter().any(|it| it == heading));
    (!is_there).then_some("there is no such heading")
}

/// The path of `target` from the root, where it is named in the file `from`.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a page's headings, as renderers make them: a second one of a name is numbered.
fn headings(page: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let lines = markdown::lines_outside(page).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (line.starts_with('#') && title.starts_with(' ')).then(|| anchor(title.trim()))
    });
    for name in lines {
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

/// The anchor of a title: small letters, digits, `-` and `_`, with `-` for each space.
fn anchor(title: &str) -> String {
    // Of a link in a title the words count.
    let mut words = String::new();
    let mut rest = title;
    while let Some((before, after)) = rest.split_once("](") {
        words.push_str(before);
        rest = after.split_once(')').map(|(_, rest)| rest).unwrap_or_default();
    }
    words.push_str(rest);
    let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_renderers() {
        let check = |title: &str, expected: &str| assert_eq!(anchor(title), expected);
        check("AMQP 0-9-1", "amqp-0-9-1");
        check("Messages: looking, moving, sending back", "messages-looking-moving-sending-back");
        check("`x-death` and `cc`", "x-death-and-cc");
        check("The [guide](a.md) here", "the-guide-here");
        assert_eq!(headings("# A\n## B\n```\n# c\n```\n## B\n"), ["a", "b", "b-1"]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let check = |text: &str, expected: usize| {
            let files = [
                ("docs/a.md".to_owned(), format!("# One\n\n{text}\n")),
                ("docs/sub/b.md".to_owned(), "## Two words\n".to_owned()),
                ("LICENSE".to_owned(), String::new()),
            ];
            let found = complaints(&files, Path::new("nowhere"));
            assert_eq!(found.len(), expected, "{text}: {found:?}");
        };
        check("[x](sub/b.md) [y](sub/b.md#two-words) [z](#one) [l](../LICENSE) [f](sub)", 0);
        check("[x](https://example.org/a) `[y](c.md)`", 0);
        check("[x](b.md) [y](sub/b.md#three) [z](#two) [l](../../x)", 4);
        check("<img src=\"sub/b.md\"> <img src=\"c.svg\">", 1);
        check("```text\n[x](c.md)\n```", 0);
    }
}
