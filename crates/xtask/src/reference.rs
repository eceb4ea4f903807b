//! `cargo xtask reference`: pages of the guide that tables in the code say, and the check that they say so still.
//!
//! Keys of the configuration are read from their table, since a node has no word that lists them. Endpoints, metrics and
//! commands are asked of a running node, so that the pages have what it serves.

use crate::report::Report;
use crate::sandbox::{Sandbox, Step};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Where the pages are.
const FOLDER: &str = "docs/guide/reference/generated/";

/// The table of configuration keys.
const KEYS: &str = "crates/server/src/config/keys.rs";

/// Commands whose answers make the pages, in the order of [`Asked`]; the first gives metrics something to tell of.
const COMMANDS: [&str; 5] = [
    "curl -s -u guest:guest -X PUT localhost:15672/api/queues/%2F/one -d '{\"durable\": true}'",
    "curl -s localhost:15672/api/x/openapi.json",
    "curl -s localhost:15692/metrics localhost:15692/metrics/memory-breakdown",
    "for word in server cluster bench top completions man; do echo \"== $word\"; leveret $word --help; done",
    "leveret ctl help",
];

/// Makes the pages: names and texts.
///
/// # Errors
/// The node did not start or did not answer, or a table has another form.
pub fn pages(sandbox: &Sandbox<'_>, files: &[(String, String)]) -> Result<Vec<(String, String)>, String> {
    let steps = COMMANDS.map(|text| Step {
        line: 1,
        is_python: false,
        is_server: false,
        text: text.to_owned(),
        expected: None,
    });
    if let Some(why) = sandbox.why_absent(&steps) {
        return Err(why);
    }
    let answers = sandbox.run(&steps)?;
    let answer = |at: usize| match answers.get(at) {
        Some((0, text)) => Ok(text.as_str()),
        Some((code, text)) => {
            Err(format!("{} ended with {code}: {}", COMMANDS[at], text.lines().last().unwrap_or("no word")))
        }
        None => Err(format!("{} was not run", COMMANDS[at])),
    };
    let keys = files.iter().find(|(name, _)| name == KEYS).map(|(_, text)| text.as_str());
    let document: Value =
        serde_json::from_str(answer(1)?).map_err(|error| format!("openapi.json: {error}"))?;
    let page = |name: &str, text: String| (format!("{FOLDER}{name}.md"), text);
    Ok(vec![
        page("configuration-keys", keys_page(keys.ok_or_else(|| format!("{KEYS} is not there"))?)?),
        page("http-api", http_page(&document)?),
        page("metrics", metrics_page(answer(2)?)?),
        page("command-line", words_page(answer(3)?, answer(4)?)?),
    ])
}

/// One case for each page: it is what is kept.
pub fn check(report: &mut Report, sandbox: &Sandbox<'_>, files: &[(String, String)]) {
    const NAME: &str = "reference";
    if let Some(why) = sandbox.why_absent(&[]) {
        return report.skip(NAME, &why);
    }
    let pages = match pages(sandbox, files) {
        Ok(pages) => pages,
        Err(why) => return report.fail(NAME, &why),
    };
    for (name, made) in pages {
        let case = format!("{NAME}.{}", name.trim_start_matches(FOLDER).trim_end_matches(".md"));
        let kept = files.iter().find(|(file, _)| *file == name).map(|(_, text)| text.as_str());
        match difference(kept.unwrap_or_default(), &made) {
            None => report.pass(&case),
            Some(line) => {
                report.fail(&case, &format!("{name}:{line} is not what the node has: cargo xtask reference"))
            }
        }
    }
}

/// Writes the pages below `root`.
///
/// # Errors
/// A file could not be written.
pub fn write(root: &Path, pages: &[(String, String)]) -> Result<(), String> {
    for (name, text) in pages {
        let path = root.join(name);
        let folder = path.parent().unwrap_or(root);
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// The first line that differs, counted from 1.
fn difference(kept: &str, made: &str) -> Option<usize> {
    let mut pairs = kept.lines().zip(made.lines());
    let differs = pairs.position(|(one, other)| one != other);
    let shorter = kept.lines().count().min(made.lines().count());
    (kept != made).then(|| differs.unwrap_or(shorter) + 1)
}

/// The head of a page; `cargo xtask reference` is told, so that nobody mends the page itself.
fn head(title: &str, about: &str) -> String {
    format!(
        "# {title}\n\n<!-- Written by `cargo xtask reference`: mend the tables in the code. -->\n\n{about}\n\n"
    )
}

/// A cell of a table.
fn cell(text: &str) -> String {
    text.trim().replace('|', "\\|").replace('\n', " ")
}

/// A key and its standing: `Served`, `Judged`, `Inert` or `Refused`, with the reason of the last two.
fn keys(source: &str) -> Vec<(String, String, String)> {
    let constant = |line: &str| {
        let (name, text) = line.strip_prefix("const ")?.split_once(": &str = \"")?;
        Some((name.to_owned(), text.strip_suffix("\";")?.to_owned()))
    };
    let constants: BTreeMap<String, String> = source.lines().filter_map(constant).collect();
    let table = source.split_once("pub const KEYS").map(|(_, rest)| rest).unwrap_or_default();
    let table = table.split_once("\n];").map(|(table, _)| table).unwrap_or_default();
    let table: Vec<&str> = table.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let table = table.join("\n");
    let row = |entry: &str| {
        let (_, rest) = entry.split_once('"')?;
        let (key, rest) = rest.split_once('"')?;
        let rest = rest.trim_start_matches([',', ' ', '\n']);
        let (standing, rest) = rest.split_once('(')?;
        let reason = match rest.trim_start().strip_prefix('"') {
            Some(text) => text.split_once('"')?.0.to_owned(),
            None => constants.get(rest.split([')', ',']).next()?).cloned().unwrap_or_default(),
        };
        let reason = if matches!(standing, "Inert" | "Refused") { reason } else { String::new() };
        Some((key.to_owned(), standing.to_owned(), reason))
    };
    table.split("\n    (").skip(1).filter_map(row).collect()
}

fn keys_page(source: &str) -> Result<String, String> {
    let mut rows = keys(source);
    if rows.is_empty() {
        return Err(format!("{KEYS} has another form"));
    }
    rows.sort();
    let mut text = head(
        "All configuration keys",
        "Every key of `rabbitmq.conf` that a node knows. `NAME` stands for a word of your choice, `...` for any rest.\n\
         [Configuration](../configuration.md) has the values and defaults of those that work, and the rules.",
    );
    text.push_str("| key | effect |\n|---|---|\n");
    for (key, standing, reason) in &rows {
        let effect = match standing.as_str() {
            "Served" => "works".to_owned(),
            "Judged" => "works, for the values that can be had".to_owned(),
            "Inert" => format!("none: {reason}"),
            "Refused" => format!("stops the start: {reason}"),
            "Tunes" => "none: its authentication backend is not served yet, and `auth_backends` with it stops the start".to_owned(),
            other => return Err(format!("{KEYS}: {key} is {other}")),
        };
        let shown = key.replace('$', "NAME").replace(".*", "...");
        let _ = writeln!(text, "| `{shown}` | {} |", cell(&effect));
    }
    Ok(text)
}

/// The names of fields that an operation takes; those that are needed with a star.
fn fields(operation: &Value) -> String {
    let content = operation["requestBody"]["content"].as_object();
    let schema = content.and_then(|kinds| kinds.values().next()).map(|kind| &kind["schema"]);
    let Some(schema) = schema else { return String::new() };
    let needed =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|it| it == name));
    let names = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name);
    names
        .map(|name| format!("`{name}`{}", if needed(name) { "\\*" } else { "" }))
        .collect::<Vec<_>>()
        .join(", ")
}

fn http_page(document: &Value) -> Result<String, String> {
    let paths = document["paths"].as_object().ok_or("openapi.json has no paths")?;
    let mut text = head(
        "All HTTP endpoints",
        "Every path of the management HTTP API, below `/api`. Fields of a body with a star are needed. The rules are in\n\
         [The management HTTP API](../management.md); `GET /api/x/openapi.json` is the same for programs.",
    );
    let mut sections: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (path, verbs) in paths {
        for verb in ["get", "put", "post", "delete"] {
            let operation = &verbs[verb];
            if operation.is_null() {
                continue;
            }
            let section = operation["tags"][0].as_str().unwrap_or_default();
            let word = |key: &str| cell(operation[key].as_str().unwrap_or_default());
            sections.entry(section).or_default().push(format!(
                "| {} | `{path}` | {} | {} | {} |",
                verb.to_uppercase(),
                word("summary"),
                fields(operation),
                word("description"),
            ));
        }
    }
    for (section, rows) in sections {
        let _ =
            writeln!(text, "## {section}\n\n| verb | path | effect | fields | for |\n|---|---|---|---|---|");
        let _ = writeln!(text, "{}\n", rows.join("\n"));
    }
    Ok(format!("{}\n", text.trim_end()))
}

fn metrics_page(answer: &str) -> Result<String, String> {
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let mut helps: BTreeMap<&str, &str> = BTreeMap::new();
    for line in answer.lines() {
        let (of, rest) = match (line.strip_prefix("# TYPE "), line.strip_prefix("# HELP ")) {
            (Some(rest), _) => (&mut kinds, rest),
            (_, Some(rest)) => (&mut helps, rest),
            _ => continue,
        };
        if let Some((name, text)) = rest.split_once(' ') {
            of.insert(name, text);
        }
    }
    if kinds.is_empty() {
        return Err("no metrics were told".to_owned());
    }
    let mut text = head(
        "All metrics",
        "Every family of metrics at `/metrics` and `/metrics/memory-breakdown`. Paths, labels and the meaning of some\n\
         figures are in [Metrics](../metrics.md).",
    );
    text.push_str("| metric | type | meaning |\n|---|---|---|\n");
    for (name, kind) in kinds {
        let _ = writeln!(text, "| `{name}` | {kind} | {} |", cell(helps.get(name).unwrap_or(&"")));
    }
    Ok(text)
}

/// The parts of an answer that begin with `== NAME`.
fn parts(answer: &str) -> BTreeMap<&str, &str> {
    let named = answer.split("\n== ").map(|part| part.strip_prefix("== ").unwrap_or(part));
    named.filter_map(|part| part.split_once('\n')).collect()
}

fn words_page(own: &str, ctl: &str) -> Result<String, String> {
    let mut text = head(
        "All commands",
        "Every word of `leveret`, and of the administration tools. The rules are in\n[Administration](../administration.md).",
    );
    for (word, help) in parts(own) {
        let _ = writeln!(text, "## leveret {word}\n\n```text\n{}\n```\n", help.trim_end());
    }
    text.push_str(
        "## leveret ctl, rabbitmqctl and its sisters\n\nArguments and options of one: `leveret ctl help COMMAND`.\n",
    );
    let mut count = 0;
    for line in ctl.lines() {
        match line.strip_prefix("   ").and_then(|row| row.split_once(' ')) {
            Some((word, about)) => {
                count += 1;
                let _ = writeln!(text, "| `{word}` | {} |", cell(about));
            }
            // The line that ends with a colon is a group's; the list of all has one too.
            None => {
                if let Some(title) = line.strip_suffix(':').filter(|title| *title != "Available commands") {
                    let _ = writeln!(text, "\n### {title}\n\n| command | effect |\n|---|---|");
                }
            }
        }
    }
    if count == 0 { Err("leveret ctl help told no command".to_owned()) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_read_with_their_standing() {
        let source = "const LATER: &str = \"it is not there yet\";\npub const KEYS: &[(&str, Standing)] = &[\n    // A.\n    \
            (\"b.$\", Inert(LATER)),\n    (\n        \"a\",\n        // A remark.\n        Served(|draft, _, value| x(\"y\")),\n    ),\n    \
            (\n        \"c.*\",\n        Refused(\"no\"),\n    ),\n    (\"b.c.*\", Tunes(Backend::A)),\n];\n(\"d\", Inert(LATER))";
        let found = keys(source);
        let row = |key: &str, standing: &str, reason: &str| {
            (key.to_owned(), standing.to_owned(), reason.to_owned())
        };
        let expected = [
            row("b.$", "Inert", "it is not there yet"),
            row("a", "Served", ""),
            row("c.*", "Refused", "no"),
            row("b.c.*", "Tunes", ""),
        ];
        assert_eq!(found, expected);
        let page = keys_page(source).expect("has keys");
        assert!(page.contains("| `a` | works |\n| `b.NAME` | none: it is not there yet |\n"), "{page}");
        assert!(page.contains("| `b.c...` | none: its authentication backend is not served yet"), "{page}");
        assert!(page.ends_with("| `c...` | stops the start: no |\n"), "{page}");
        assert!(keys_page("").is_err());
    }

    #[test]
    fn endpoints_are_rows_by_section() {
        let body = json!({ "content": { "application/json": { "schema": {
            "properties": { "b": {}, "a": {} }, "required": ["a"] } } } });
        let put = json!({ "tags": ["q"], "summary": "makes | one", "description": "any user", "requestBody": body });
        let page = http_page(&json!({ "paths": { "/q/{name}": { "put": put } } })).expect("has paths");
        let row = "## q\n\n| verb | path | effect | fields | for |\n|---|---|---|---|---|\n\
            | PUT | `/q/{name}` | makes \\| one | `a`\\*, `b` | any user |\n";
        assert!(page.ends_with(row), "{page}");
        assert!(http_page(&json!({})).is_err());
    }

    #[test]
    fn metrics_and_words_are_rows() {
        let page = metrics_page("# HELP b two words\n# TYPE b gauge\nb 1\n# TYPE a counter\na 1\n")
            .expect("has some");
        assert!(page.ends_with("| `a` | counter |  |\n| `b` | gauge | two words |\n"), "{page}");
        assert!(metrics_page("").is_err());
        let ctl = "\nUsage\n\nAvailable commands:\n\nNodes:\n\n   ping  Whether it answers\n\nUse it\n";
        let page = words_page("== man\nWrites\n", ctl).expect("has words");
        let end = "\n### Nodes\n\n| command | effect |\n|---|---|\n| `ping` | Whether it answers |\n";
        assert!(page.contains("## leveret man\n\n```text\nWrites\n```\n") && page.ends_with(end), "{page}");
        assert!(words_page("", "").is_err());
    }

    #[test]
    fn the_first_difference_is_told() {
        let check = |kept: &str, made: &str, expected: Option<usize>| {
            assert_eq!(difference(kept, made), expected, "{kept:?} {made:?}");
        };
        check("a\nb\n", "a\nb\n", None);
        check("a\nb\n", "a\nc\n", Some(2));
        check("a\n", "a\nb\n", Some(2));
        check("", "a\n", Some(1));
    }
}
