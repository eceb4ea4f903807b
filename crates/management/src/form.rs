//! Uploads as browsers and `curl -F` send them: `multipart/form-data` (RFC 7578) with a file in it.
//!
//! Borrowed from the body: an upload is as large as a body may be. A part's header says its name; everything else of it
//! is passed over. Text before the first boundary and behind the last is nobody's.

use std::collections::BTreeMap;

/// Parts of a form.
const PARTS_MAX: usize = 64;

/// Bytes of a part's header.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// Bytes of a boundary, RFC 2046 §5.1.1.
const BOUNDARY_BYTES_MAX: usize = 70;

/// The type of a body without its parameters, in small letters.
pub fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A parameter of a header, unquoted: `boundary` in `multipart/form-data; boundary="x"`.
fn parameter(header: &str, wanted: &str) -> Option<String> {
    let mut rest = header.split_once(';')?.1;
    loop {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let (value, next) = after.split_once(';').unwrap_or((after, ""));
                (value.trim().to_owned(), next)
            }
        };
        if name.trim_matches([' ', '\t', ';']).eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = next;
    }
}

/// Text up to its closing quote, and the rest behind that.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(letters.next()?.1),
            _ => value.push(letter),
        }
    }
    None
}

/// The parts of a form by their names, of two of a name the last. `None`: the body is no form of this type.
pub fn parts<'b>(content_type: &str, body: &'b [u8]) -> Option<BTreeMap<String, &'b [u8]>> {
    let boundary = parameter(content_type, "boundary")?;
    if boundary.is_empty() || boundary.len() > BOUNDARY_BYTES_MAX {
        return None;
    }
    let line = format!("\r\n--{boundary}");
    let mut rest = match body.strip_prefix(&line.as_bytes()[2..]) {
        Some(rest) => rest,
        None => &body[find(body, line.as_bytes())? + line.len()..],
    };
    let mut parts = BTreeMap::new();
    for _ in 0..=PARTS_MAX {
        if rest.starts_with(b"--") {
            return Some(parts);
        }
        let after = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
        // Headers end with an empty line, also where there are none.
        let part = rest[after..].strip_prefix(b"\r\n")?;
        let (head, content) = match part.strip_prefix(b"\r\n") {
            Some(content) => (&part[..0], content),
            None => {
                let end = find(&part[..part.len().min(HEAD_BYTES_MAX)], b"\r\n\r\n")?;
                (&part[..end], &part[end + 4..])
            }
        };
        let end = find(content, line.as_bytes())?;
        if let Some(name) = name(head) {
            parts.insert(name, &content[..end]);
        }
        rest = &content[end + line.len()..];
    }
    None
}

/// The name of a part in its header.
fn name(head: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(head);
    let disposition = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    parameter(disposition, "name")
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let (first, mut from) = (*what.first()?, 0);
    loop {
        from += bytes.get(from..)?.iter().position(|byte| *byte == first)?;
        if bytes[from..].starts_with(what) {
            return Some(from);
        }
        from += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content_type: &str, body: &str, expected: Option<&[(&str, &str)]>) {
        let found = parts(content_type, body.as_bytes());
        let found: Option<Vec<(String, String)>> = found.map(|parts| {
            parts
                .into_iter()
                .map(|(name, value)| (name, String::from_utf8_lossy(value).into_owned()))
                .collect()
        });
        let expected: Option<Vec<(String, String)>> =
            expected.map(|rows| rows.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect());
        assert_eq!(found, expected, "{content_type} {body:?}");
    }

    #[test]
    fn files_are_found_in_forms() {
        let form = "multipart/form-data; boundary=xx";
        let curl = "--xx\r\nContent-Disposition: form-data; name=\"file\"; filename=\"d;a.json\"\r\n\
                    Content-Type: application/octet-stream\r\n\r\n{\"a\":1}\r\n--xx--\r\n";
        check(form, curl, Some(&[("file", "{\"a\":1}")]));
        check("Multipart/Form-Data; charset=utf-8; Boundary=\"xx\"", curl, Some(&[("file", "{\"a\":1}")]));
        check(form, &format!("preamble\r\n{curl}epilogue"), Some(&[("file", "{\"a\":1}")]));
        let two = "--xx\r\ncontent-disposition: form-data; name=redirect\r\n\r\n../#/\r\n--xx \r\n\
                   Content-Disposition: form-data; filename=\"name=\\\"a\\\"\"; name=\"file\"\r\n\r\na\r\n--x\r\nb\r\n--xx--";
        check(form, two, Some(&[("file", "a\r\n--x\r\nb"), ("redirect", "../#/")]));
        check(form, "--xx--", Some(&[]));
        check(form, "--xx\r\n\r\nno header\r\n--xx--", Some(&[]));
        check(form, "--xx\r\nContent-Disposition: form-data; name=\"\"\r\n\r\n\r\n--xx--", Some(&[("", "")]));
    }

    #[test]
    fn what_is_no_form_is_refused() {
        let form = "multipart/form-data; boundary=xx";
        for body in [
            "",
            "--yy",
            "--xx",
            "--xx\r\n",
            "--xxx\r\n\r\n--xx--",
            "--xx\r\nA: b\r\n\r\nopen",
            "--xx\r\nA: b\r\n--xx--",
        ] {
            check(form, body, None);
        }
        check("multipart/form-data", "--xx--", None);
        check("multipart/form-data; boundary=", "----", None);
        check("multipart/form-data; boundary=\"xx", "--xx--", None);
        check(&format!("multipart/form-data; boundary={}", "x".repeat(71)), "--xx--", None);
        let many = format!("{}--xx--", "--xx\r\n\r\n\r\n".repeat(PARTS_MAX + 1));
        check(form, &many, None);
        let long = format!("--xx\r\nA: {}\r\n\r\n\r\n--xx--", "a".repeat(HEAD_BYTES_MAX));
        check(form, &long, None);
    }
}
