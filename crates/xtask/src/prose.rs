//! Prose of comments and documents: sentences begin with a noun, and documents are no wider than one can read.

/// Columns of a line of prose in a document.
const COLUMNS_MAX: usize = 120;

/// Relative pronouns that no comment and no heading begins with: what they stand for has a name.
const PRONOUNS: [&str; 3] = ["Who", "Whom", "What"];

/// Comments and headings that begin with a pronoun, and lines of documents that are too wide.
pub fn complaints(files: &[(String, String)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, text) in files {
        let mut complain = |at: usize, why: &str| complaints.push(format!("{name}:{}: {why}", at + 1));
        if name.ends_with(".rs") {
            begins(text).for_each(|at| complain(at, "a comment begins with a relative pronoun"));
        } else if name.ends_with(".md") {
            let heading = |line: &str| line.starts_with('#') && is_pronoun(line.trim_start_matches('#'));
            for (at, line) in prose(text) {
                if heading(line) {
                    complain(at, "a heading begins with a relative pronoun");
                }
                if line.chars().count() > COLUMNS_MAX && !line.starts_with('|') {
                    complain(at, "a line of prose is wider than 120 columns");
                }
            }
        }
    }
    complaints
}

/// Lines of comments at which one begins with a pronoun.
fn begins(text: &str) -> impl Iterator<Item = usize> {
    let mut was_comment = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let comment = line.trim_start().strip_prefix("//");
        let begins = !std::mem::replace(&mut was_comment, comment.is_some());
        let words = comment?.trim_start_matches(['/', '!']);
        (begins && is_pronoun(words)).then_some(at)
    })
}

/// The text begins with a pronoun, and asks nothing.
fn is_pronoun(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    PRONOUNS.contains(&first) && !text.trim_end().ends_with('?')
}

/// The lines of a document that are neither in a block of code nor indented as one.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence && !line.starts_with("    ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, expected: &[&str]) {
        assert_eq!(complaints(&[(name.to_owned(), text.to_owned())]), expected, "{text}");
    }

    #[test]
    fn comments_begin_with_nouns() {
        let why = "a comment begins with a relative pronoun";
        check("a.rs", "fn f() {}\n    /// What it is.\n", &[&format!("a.rs:2: {why}")]);
        check("a.rs", "//! Whom it serves.\n", &[&format!("a.rs:1: {why}")]);
        check("a.rs", "/// The thing.\n/// What follows is its second line.\n", &[]);
        check("a.rs", "// What is this?\n// Whatever it is.\nlet what = \"// What\";\n", &[]);
    }

    #[test]
    fn documents_have_headings_with_nouns_and_lines_that_fit() {
        let wide = "x".repeat(121);
        check("a.md", "## Who reads\n", &["a.md:1: a heading begins with a relative pronoun"]);
        check("a.md", "# What is it?\nWho reads this\n", &[]);
        check("a.md", &format!("\n{wide}\n"), &["a.md:2: a line of prose is wider than 120 columns"]);
        check("a.md", &format!("| {wide} |\n    {wide}\n```text\n{wide}\n```\n"), &[]);
        check("a.md", &"é".repeat(120), &[]);
    }
}
