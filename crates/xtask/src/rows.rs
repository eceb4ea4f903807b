//! The tests that `docs/rows.md` names for each row of the feature table: each must have its row on a page of `docs/compatibility`.

/// Where rows and their tests are.
const ROWS: &str = "docs/rows.md";

/// The folder whose pages have a row for each test.
const TABLES: &str = "docs/compatibility/";

/// The column of tests.
const TESTS: usize = 3;

/// Every name that stands for no test, and every row that has neither a test nor a word why not.
pub fn complaints(files: &[(String, String)]) -> Vec<String> {
    let rows = files.iter().find(|(file, _)| file == ROWS).map(|(_, text)| text.as_str());
    let pages = files.iter().filter(|(file, _)| file.starts_with(TABLES) && file.ends_with(".md"));
    let known: Vec<&str> = pages.flat_map(|(_, text)| known(text)).collect();
    let (Some(rows), false) = (rows, known.is_empty()) else {
        return vec![format!("{ROWS} and {TABLES} belong together")];
    };
    let mut complaints = Vec::new();
    for line in rows.lines().filter(|line| is_row(line)) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (row, tests) = (cells.get(1).unwrap_or(&""), cells.get(TESTS).unwrap_or(&""));
        if tests.is_empty() && cells.get(TESTS + 1).is_none_or(|why| why.is_empty()) {
            complaints.push(format!("{ROWS}: {row} names no test and says not why"));
        }
        for name in tests.split('`').skip(1).step_by(2) {
            if !known.iter().any(|test| fits(name, test)) {
                complaints.push(format!("{ROWS}: {row} names {name}, which {TABLES} does not have"));
            }
        }
    }
    complaints
}

/// A row of a table, its head and the line under that apart.
fn is_row(line: &str) -> bool {
    line.starts_with("| ") && !line.starts_with("| row ")
}

/// The tests that have a row of their own: the second cell of each.
fn known(page: &str) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    rows.filter_map(|line| line.split(" | ").nth(1)?.strip_prefix('`')?.strip_suffix('`')).collect()
}

/// Whether a name, in which `*` stands for anything, stands for a test.
fn fits(name: &str, test: &str) -> bool {
    match name.split_once('*') {
        None => name == test,
        Some((begin, rest)) => {
            let Some(left) = test.strip_prefix(begin) else { return false };
            left.char_indices().map(|(at, _)| &left[at..]).chain([""]).any(|left| fits(rest, left))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_tests() {
        let check =
            |name: &str, test: &str, expected: bool| assert_eq!(fits(name, test), expected, "{name} {test}");
        check("a.b", "a.b", true);
        check("a.b", "a.bc", false);
        check("a.*", "a.b.c", true);
        check("a.*", "a.", true);
        check("a.*-d", "a.b-c-d", true);
        check("a.*-d", "a.b-c", false);
        check("b.*", "a.b.c", false);
    }

    #[test]
    fn rows_without_tests_are_found() {
        let one = "| behaviour | test |\n|---|---|\n| `x` or y | `s.one` | answer | |\n";
        let two = "| behaviour | test |\n|---|---|\n| b | `s.two.classic` | a | |\n";
        let elsewhere = "| behaviour | test |\n|---|---|\n| b | `s.three` | a | |\n";
        let check = |row: &str, expected: usize| {
            let rows = format!("| row | feature | tests | not held |\n|---|---|---|---|\n{row}\n");
            let files = [
                (ROWS.to_owned(), rows),
                (format!("{TABLES}one.md"), one.to_owned()),
                (format!("{TABLES}two.md"), two.to_owned()),
                ("docs/elsewhere.md".to_owned(), elsewhere.to_owned()),
            ];
            assert_eq!(complaints(&files).len(), expected, "{row}: {:?}", complaints(&files));
        };
        check("| A1 | f | `s.one` `s.two.*` | |", 0);
        check("| A1 | f | `s.three` `s.one` `t.*` | |", 2);
        check("| A1 | f | | by hand |", 0);
        check("| A1 | f | | |", 1);
        assert_eq!(complaints(&[]).len(), 1);
    }
}
