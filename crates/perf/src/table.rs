//! Figures for people: numbers with commas, in columns.

use std::fmt::Write;

/// A whole number with commas.
pub fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Columns under each other, the first to the left, the others to the right.
pub fn table(header: &[&str], lines: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column)).map(String::len);
        cells.max().unwrap_or(0).max(header[column].len())
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut text = String::new();
    let mut write = |cells: Vec<&str>| {
        for (column, cell) in cells.iter().enumerate() {
            let width = widths[column];
            let _ = match column {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    };
    write(header.to_vec());
    for line in lines {
        write(line.iter().map(String::as_str).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0.0, "0"), (999.4, "999"), (1000.0, "1,000"), (12_345_678.0, "12,345,678")] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn columns_line_up() {
        let text = table(&["case", "n"], &[vec!["a".to_owned(), "12".to_owned()]]);
        assert_eq!(text, "case   n\na     12\n");
    }
}
