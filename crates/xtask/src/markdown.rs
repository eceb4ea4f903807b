//! Markdown as the checks read it: fenced blocks, and the lines outside of them.

/// A fenced block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its first fence, counted from 1.
    pub line: usize,
    /// The words behind that fence: a language, then marks.
    pub marks: Vec<String>,
    /// Its lines, without the indentation of the fence.
    pub text: String,
    /// Nothing but blank lines stands between it and the block in front.
    pub is_adjacent: bool,
}

impl Block {
    /// The language it is in; empty where the fence names none.
    pub fn language(&self) -> &str {
        self.marks.first().map(String::as_str).unwrap_or_default()
    }

    /// Whether its fence bears `mark` behind the language.
    pub fn has(&self, mark: &str) -> bool {
        self.marks.iter().skip(1).any(|own| own == mark)
    }
}

/// The fence that a line begins with: its indentation, and the words behind it.
fn fence(line: &str) -> Option<(usize, &str)> {
    let bare = line.trim_start();
    bare.strip_prefix("```").map(|words| (line.len() - bare.len(), words.trim()))
}

/// Every fenced block of a page; one that is not closed ends with the page.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    let mut is_adjacent = false;
    for (at, line) in page.lines().enumerate() {
        match (fence(line), open.take()) {
            (Some(_), Some((block, _))) => {
                blocks.push(block);
                is_adjacent = true;
            }
            (None, Some((mut block, indent))) => {
                let spaces = line.len() - line.trim_start().len();
                block.text.push_str(&line[indent.min(spaces)..]);
                block.text.push('\n');
                open = Some((block, indent));
            }
            (Some((indent, words)), None) => {
                let marks = words.split_whitespace().map(str::to_owned).collect();
                open = Some((Block { line: at + 1, marks, text: String::new(), is_adjacent }, indent));
            }
            (None, None) => is_adjacent &= line.trim().is_empty(),
        }
    }
    blocks.extend(open.map(|(block, _)| block));
    blocks
}

/// The lines of a page outside of its fenced blocks, with their numbers from 1.
pub fn lines_outside(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    page.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = fence(line).is_some();
        in_block ^= is_fence;
        (!in_block && !is_fence).then_some((at + 1, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_language_and_lines() {
        let page = "a\n```sh long\necho 1\n```\n\n```output\n1\n```\nb\n1. c\n   ```\n   x\n     y\n   ```\n";
        let found = blocks(page);
        let check = |at: usize, line: usize, language: &str, text: &str, is_adjacent: bool| {
            let block = &found[at];
            assert_eq!((block.line, block.language(), block.text.as_str()), (line, language, text));
            assert_eq!(block.is_adjacent, is_adjacent, "{at}");
        };
        check(0, 2, "sh", "echo 1\n", false);
        check(1, 6, "output", "1\n", true);
        check(2, 11, "", "x\n  y\n", false);
        assert!(found[0].has("long") && !found[0].has("sh") && !found[1].has("long"));
        assert_eq!(blocks("```sh\necho").len(), 1);
        let outside: Vec<(usize, &str)> = lines_outside(page).collect();
        assert_eq!(outside, [(1, "a"), (5, ""), (9, "b"), (10, "1. c")]);
    }
}
