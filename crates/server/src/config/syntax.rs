//! The lines of `rabbitmq.conf`: `key = value`, one a line.
//!
//! `#` begins a comment, at the start of a line or behind a value; `\#` is the character. A value in single quotes is
//! taken as it stands (`\'` is a quote); elsewhere `$(NAME)` is replaced by that variable of the environment.
//! Knows no key: what a key means is [`super::keys`]' matter.

use std::fmt;
use std::sync::Arc;

/// Bytes of one configuration file.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// One `key = value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Dotted words.
    pub key: String,
    /// Without quotes, variables filled in.
    pub value: String,
    /// Where it was written.
    pub origin: Origin,
    /// Its value was encrypted: it is shown nowhere.
    pub is_secret: bool,
}

impl Setting {
    /// One whose value may be shown, as far as its key lets it.
    pub fn new(key: String, value: String, origin: Origin) -> Setting {
        Setting { key, value, origin, is_secret: false }
    }
}

/// Where a setting was written. Later variants win over earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A line of a file.
    File {
        /// As the user named it.
        path: Arc<str>,
        /// From 1.
        line: u32,
        /// The line itself.
        text: Arc<str>,
    },
    /// A term of a file in Erlang's format: `advanced.config`, or a main file in the classic format.
    Term {
        /// As the user named it.
        path: Arc<str>,
        /// From 1; that of the application's setting.
        line: u32,
        /// Application and key, as in `rabbit.tcp_listeners`.
        name: Arc<str>,
    },
    /// A variable of the environment, by name.
    Environment(String),
    /// `--set`.
    CommandLine,
}

impl Origin {
    /// The place, for people; a setting of the command line is told by its key.
    pub fn place(&self, key: &str) -> String {
        match self {
            Origin::File { path, line, .. } => format!("{path}:{line}"),
            Origin::Term { path, line, name } => format!("{path}:{line}: {name}"),
            Origin::Environment(name) => format!("environment variable {name}"),
            Origin::CommandLine => format!("--set {key}"),
        }
    }

    /// Which of the four; higher wins.
    pub fn layer(&self) -> u8 {
        match self {
            Origin::File { .. } => 0,
            Origin::Term { .. } => 1,
            Origin::Environment(_) => 2,
            Origin::CommandLine => 3,
        }
    }
}

/// Whether a setting is one that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is known, and asks for what cannot be had.
    Refused,
    /// Nothing is known by this name.
    Unknown,
}

/// Why a configuration cannot be used: where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Which of the two.
    pub fault: Fault,
    /// Where it was written; `None` for what is nowhere.
    pub origin: Option<Origin>,
    /// The part of the line that is meant.
    pub marked: String,
    /// The fault, in words.
    pub message: String,
    /// The remedy; may be empty.
    pub hint: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{}: ", origin.place(&self.marked))?;
        }
        f.write_str(&self.message)?;
        if let Some(Origin::File { text, .. }) = &self.origin {
            write!(f, "\n  {text}")?;
            if let Some(at) = text.find(self.marked.as_str()).filter(|_| !self.marked.is_empty()) {
                let before = text[..at].chars().count();
                let marks = self.marked.chars().count();
                write!(f, "\n  {:before$}{:^<marks$}", "", "")?;
            }
        }
        if !self.hint.is_empty() {
            write!(f, "\n  {}", self.hint)?;
        }
        Ok(())
    }
}

/// Reads the settings of one file, in order; each line by itself is a setting, or cannot be read: it is none, or names a
/// variable that is not set. `variable` looks up the environment.
pub fn read(
    path: &str,
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<Result<Setting, Error>> {
    let path: Arc<str> = path.into();
    let mut settings = Vec::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let origin =
            Origin::File { path: path.clone(), line: index as u32 + 1, text: line.trim_end().into() };
        settings.push(read_line(trimmed, origin, variable));
    }
    settings
}

/// Reads one `key = value`, wherever it was written.
///
/// # Errors
/// As of [`read`].
pub fn read_line(
    line: &str,
    origin: Origin,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Setting, Error> {
    let fail = |marked: &str, message: String, hint: &str| Error {
        fault: Fault::Refused,
        origin: Some(origin.clone()),
        marked: marked.to_owned(),
        message,
        hint: hint.to_owned(),
    };
    let Some((key, value)) = line.split_once('=') else {
        return Err(fail(line, "not a setting".into(), "a setting is written: key = value"));
    };
    let key = key.trim();
    if key.is_empty() || key.contains(char::is_whitespace) || key.contains(['#', '\'']) {
        return Err(fail(key, format!("'{key}' is not a key"), "a key is words joined by dots"));
    }
    let value = match read_value(value.trim(), variable) {
        Ok(value) => value,
        Err(message) => return Err(fail(value.trim(), message, "")),
    };
    Ok(Setting::new(key.to_owned(), value, origin))
}

fn read_value(value: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    match value.strip_prefix('\'') {
        Some(quoted) => read_quoted(quoted),
        None => read_plain(value, variable),
    }
}

fn read_quoted(quoted: &str) -> Result<String, String> {
    let mut value = String::new();
    let mut rest = quoted.chars();
    loop {
        match rest.next() {
            None => return Err("the closing quote is missing".into()),
            Some('\'') => break,
            Some('\\') if rest.as_str().starts_with('\'') => {
                rest.next();
                value.push('\'');
            }
            Some(other) => value.push(other),
        }
    }
    let behind = rest.as_str().trim_start();
    match behind.is_empty() || behind.starts_with('#') {
        true => Ok(value),
        false => Err(format!("'{behind}' stands behind the closing quote")),
    }
}

fn read_plain(mut rest: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut value = String::new();
    while let Some(next) = rest.chars().next() {
        if next == '#' {
            break;
        } else if let Some(behind) = rest.strip_prefix("\\#") {
            value.push('#');
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix("$(") {
            let (name, behind) = behind.split_once(')').ok_or("the closing bracket of $( is missing")?;
            value.push_str(&variable(name).ok_or_else(|| format!("environment variable {name} is not set"))?);
            rest = behind;
        } else {
            value.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    let value = value.trim();
    match value.is_empty() {
        true => Err("the value is missing".into()),
        false => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn variable(name: &str) -> Option<String> {
        (name == "NAME").then(|| "filled".to_owned())
    }

    fn check(line: &str, expected: Option<(&str, &str)>) {
        let read = read("f", line, &variable);
        let first = read.first().and_then(|setting| setting.as_ref().ok());
        let pair = first.map(|setting| (setting.key.as_str(), setting.value.as_str()));
        assert_eq!(pair, expected, "{line}: {read:?}");
    }

    #[test]
    fn settings_are_read() {
        check("a = b", Some(("a", "b")));
        check("  a.b.c=1 ", Some(("a.b.c", "1")));
        check("a = b # comment", Some(("a", "b")));
        check("a = b\\#c", Some(("a", "b#c")));
        check("a = b = c", Some(("a", "b = c")));
        check("a = 'b # c' # d", Some(("a", "b # c")));
        check("a = 'it\\'s'", Some(("a", "it's")));
        check("a = ''", Some(("a", "")));
        check("a = x-$(NAME)-y", Some(("a", "x-filled-y")));
        check("a = '$(NAME)'", Some(("a", "$(NAME)")));
        check("# a = b", None);
        check("", None);
    }

    #[test]
    fn broken_lines_are_named() {
        let check = |line: &str, expected: &str| {
            let lines = read("my.conf", line, &variable);
            let error = lines.into_iter().find_map(Result::err).expect("broken").to_string();
            assert_eq!(error, expected);
        };
        check(
            "\nheartbeat",
            "my.conf:2: not a setting\n  heartbeat\n  ^^^^^^^^^\n  a setting is written: key = value",
        );
        check("a = $(NONE)", "my.conf:1: environment variable NONE is not set\n  a = $(NONE)\n      ^^^^^^^");
        check("a = $(NAME", "my.conf:1: the closing bracket of $( is missing\n  a = $(NAME\n      ^^^^^^");
        check("a = 'x", "my.conf:1: the closing quote is missing\n  a = 'x\n      ^^");
        check("a = 'x' y", "my.conf:1: 'y' stands behind the closing quote\n  a = 'x' y\n      ^^^^^");
        check("a =", "my.conf:1: the value is missing\n  a =");
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,80}(\n\\PC{0,40}){0,3}") {
            for error in read("f", &text, &variable).into_iter().filter_map(Result::err) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
