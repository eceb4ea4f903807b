//! README and guide: pages of a bearable length, and blocks of commands that do as the page says.
//!
//! A block is marked by the words behind its fence. `sh` is run by bash and must end with 0; `python` is run where
//! pika is installed. An `output` block right behind one holds all that it prints, with `...` for any part of a line
//! or, alone, for any lines. Marks: `long` is for the long run, `fragment` is shown and not run, and `server` is a
//! command that runs a node, in the background from then on. A page without `server` finds a node with an empty data
//! folder on the usual ports. The blocks of a page run in order, in one folder.

use crate::markdown::{self, Block};
use crate::report::Report;
use crate::sandbox::{Sandbox, Step};
use crate::suites::Depth;

/// The folder of the guide.
const FOLDER: &str = "docs/guide/";

/// Its exact pages, which may be long.
const REFERENCE: &str = "docs/guide/reference/";

/// Its pages for one task each.
const TASKS: &str = "docs/guide/how-to/";

/// Words of a page for one task.
const TASK_WORDS_MAX: usize = 600;

/// Words of any other page but those of the reference.
const PAGE_WORDS_MAX: usize = 1500;

/// Marks that a block may bear behind its language.
const MARKS: [&str; 3] = ["long", "server", "fragment"];

/// Whether a file is README or a page of the guide.
pub fn is_page(name: &str) -> bool {
    name == "README.md" || (name.starts_with(FOLDER) && name.ends_with(".md"))
}

/// Pages that are too long, and blocks whose marks say nothing.
pub fn complaints(files: &[(String, String)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, text) in files.iter().filter(|(name, _)| is_page(name)) {
        let words = text.split_whitespace().count();
        let most = words_max(name);
        if words > most {
            complaints.push(format!("{name}: {words} words, of {most}: exact rules belong to the reference"));
        }
        let mut before = None;
        for block in markdown::blocks(text) {
            if let Some(why) = fault(&block, before.as_ref()) {
                complaints.push(format!("{name}:{}: {why}", block.line));
            }
            before = Some(block);
        }
    }
    complaints
}

fn words_max(name: &str) -> usize {
    match name {
        _ if name.starts_with(REFERENCE) => usize::MAX,
        _ if name.starts_with(TASKS) => TASK_WORDS_MAX,
        _ => PAGE_WORDS_MAX,
    }
}

fn fault(block: &Block, before: Option<&Block>) -> Option<String> {
    let follows = || block.is_adjacent && before.is_some_and(is_run);
    if block.language().is_empty() {
        return Some("a block names its language: sh, output, python, text, ini, json, ...".to_owned());
    }
    if block.language() == "output" && !follows() {
        return Some("output stands right behind the block that prints it".to_owned());
    }
    let unknown = block.marks.iter().skip(1).find(|mark| !MARKS.contains(&mark.as_str()));
    unknown.map(|mark| format!("{mark} is no mark of a block: {}", MARKS.join(", ")))
}

/// Whether a block is ever run.
fn is_run(block: &Block) -> bool {
    matches!(block.language(), "sh" | "python") && !block.has("fragment")
}

/// The name of a page's case.
fn case(name: &str) -> String {
    let page = name.strip_prefix(FOLDER).unwrap_or(name).trim_end_matches(".md");
    format!("guide.{}", page.to_lowercase().replace('/', "."))
}

/// The steps of a page: its blocks that are run, each with the output it should have.
fn steps(text: &str, depth: Depth) -> Vec<Step> {
    let blocks = markdown::blocks(text);
    let expected =
        |at: usize| blocks.get(at + 1).filter(|next| next.language() == "output" && next.is_adjacent);
    let is_due = |block: &Block| is_run(block) && (depth == Depth::Long || !block.has("long"));
    let run = blocks.iter().enumerate().filter(|(_, block)| is_due(block));
    run.map(|(at, block)| Step {
        line: block.line,
        is_python: block.language() == "python",
        is_server: block.has("server"),
        text: block.text.clone(),
        expected: expected(at).map(|next| next.text.clone()),
    })
    .collect()
}

/// Runs the pages of `files` whose case has `only` in its name; each page is a case.
pub fn check(
    report: &mut Report,
    sandbox: &Sandbox<'_>,
    files: &[(String, String)],
    only: &str,
    depth: Depth,
) {
    for (name, text) in files.iter().filter(|(name, _)| is_page(name)) {
        let (case, steps) = (case(name), steps(text, depth));
        if steps.is_empty() || !case.contains(only) {
            continue;
        }
        match sandbox.why_absent(&steps) {
            Some(why) => report.skip(&case, &why),
            None => report.check(&case, &told(name, &steps, sandbox.run(&steps))),
        }
    }
}

/// The steps of a page that did not do as it says.
fn told(name: &str, steps: &[Step], outcomes: Result<Vec<(i32, String)>, String>) -> Vec<String> {
    let outcomes = match outcomes {
        Ok(outcomes) => outcomes,
        Err(why) => return vec![format!("{name}: {why}")],
    };
    let mut complaints = Vec::new();
    for (step, (code, printed)) in steps.iter().zip(&outcomes) {
        let place = format!("{name}:{}", step.line);
        match &step.expected {
            _ if *code != 0 => {
                complaints.push(format!("{place}: it ended with {code} and printed\n{printed}"))
            }
            Some(expected) if !fits(expected, printed) => {
                complaints.push(format!("{place}: it printed\n{printed}  where the page says\n{expected}"));
            }
            _ => {}
        }
    }
    if complaints.is_empty() && outcomes.len() < steps.len() {
        complaints.push(format!("{name}: {} of {} blocks were run", outcomes.len(), steps.len()));
    }
    complaints
}

/// Whether a block printed as its page says, line by line; numbers of blanks do not count.
fn fits(expected: &str, printed: &str) -> bool {
    // Columns are set apart by one blank or more, and by tabs where programs read them.
    let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = |text: &str| text.trim().lines().map(line).collect::<Vec<_>>();
    lines_fit(&lines(expected), &lines(printed))
}

fn lines_fit(expected: &[String], printed: &[String]) -> bool {
    match expected {
        [] => printed.is_empty(),
        [any, rest @ ..] if any == "..." => (0..=printed.len()).any(|at| lines_fit(rest, &printed[at..])),
        [line, rest @ ..] => printed
            .split_first()
            .is_some_and(|(first, others)| line_fits(line, first) && lines_fit(rest, others)),
    }
}

/// Whether a line is as the page has it, with `...` for any part.
fn line_fits(expected: &str, printed: &str) -> bool {
    match expected.split_once("...") {
        None => expected == printed,
        Some((begin, rest)) => printed.strip_prefix(begin).is_some_and(|left| {
            let mut places = left.char_indices().map(|(at, _)| at).chain([left.len()]);
            places.any(|at| line_fits(rest, &left[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_names_and_bounds() {
        let check = |name: &str, expected: &str, most: usize| {
            assert_eq!((case(name).as_str(), words_max(name)), (expected, most), "{name}");
        };
        check("README.md", "guide.readme", PAGE_WORDS_MAX);
        check("docs/guide/how-to/work-queues.md", "guide.how-to.work-queues", TASK_WORDS_MAX);
        check("docs/guide/reference/queues.md", "guide.reference.queues", usize::MAX);
        assert!(is_page("README.md") && is_page("docs/guide/README.md"));
        assert!(!is_page("docs/roadmap.md") && !is_page("crates/README.md"));
    }

    #[test]
    fn blocks_bear_marks_that_mean_something() {
        let check = |page: &str, expected: usize| {
            let files = [("README.md".to_owned(), page.to_owned())];
            assert_eq!(complaints(&files).len(), expected, "{page}: {:?}", complaints(&files));
        };
        check("```sh\ntrue\n```\n```output\n```\n", 0);
        check("```python fragment\n```\n", 0);
        check("```\ntrue\n```\n", 1);
        check("```sh\ntrue\n```\nwords\n```output\n```\n", 1);
        check("```sh fragment\ntrue\n```\n```output\n```\n", 1);
        check("```sh quick\ntrue\n```\n", 1);
        check(&"word ".repeat(PAGE_WORDS_MAX + 1), 1);
    }

    #[test]
    fn steps_are_blocks_that_are_run() {
        let page = "```sh\na\n```\n```output\n1\n```\n```sh long\nb\n```\n```python\nc\n```\n\n```python fragment\nd\n```\n";
        let usual = steps(page, Depth::Usual);
        let texts: Vec<&str> = usual.iter().map(|step| step.text.as_str()).collect();
        assert_eq!(texts, ["a\n", "c\n"]);
        assert_eq!((usual[0].expected.as_deref(), usual[1].expected.as_deref()), (Some("1\n"), None));
        assert!(usual[1].is_python && usual[1].line == 10);
        assert_eq!(steps(page, Depth::Long).len(), 3);
    }

    #[test]
    fn output_is_compared_with_room_for_what_changes() {
        let check = |expected: &str, printed: &str, is_so: bool| {
            assert_eq!(fits(expected, printed), is_so, "{expected:?} {printed:?}");
        };
        check("a\nb\n", "a  \nb\n\n", true);
        check("  a b\n", "a\tb\n", true);
        check("a\nb\n", "a\n", false);
        check("", "a", false);
        check("id ... of ...\n", "id 17 of 20\n", true);
        check("id ... of\n", "id 17 of 20\n", false);
        check("a\n...\nd\n", "a\nb\nc\nd\n", true);
        check("a\n...\nd\n", "a\nd\n", true);
        check("a\n...\n", "b\n", false);
        check("...ü...", "xü", true);
    }

    #[test]
    fn a_step_that_fails_or_prints_otherwise_is_told() {
        let step = |expected: Option<&str>| Step {
            line: 7,
            is_python: false,
            is_server: false,
            text: String::new(),
            expected: expected.map(str::to_owned),
        };
        let check = |expected: Option<&str>, outcome: Result<Vec<(i32, String)>, String>, count: usize| {
            assert_eq!(told("a.md", &[step(expected)], outcome.clone()).len(), count, "{outcome:?}");
        };
        check(None, Ok(vec![(0, "any".to_owned())]), 0);
        check(Some("one"), Ok(vec![(0, "one".to_owned())]), 0);
        check(Some("one"), Ok(vec![(0, "two".to_owned())]), 1);
        check(Some("one"), Ok(vec![(1, "one".to_owned())]), 1);
        check(None, Ok(Vec::new()), 1);
        check(None, Err("no broker".to_owned()), 1);
    }
}
