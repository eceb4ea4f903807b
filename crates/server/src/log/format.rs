//! How a line of the log looks: plain text by a pattern, or an object of JSON with RabbitMQ's names of fields.

use crate::config::value::one_of;
use crate::log::level::Level;
use base::time::date;
use std::fmt::Write as _;

/// The domain that RabbitMQ's own lines have.
const DOMAIN: &str = "rabbitmq";

/// A line before it is written.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Microseconds since 1970.
    pub at_us: u64,
    /// How bad it is.
    pub level: Level,
    /// The number of the line's source; stands where RabbitMQ has a process.
    pub source: u32,
    /// The text; may have several lines.
    pub text: &'a str,
}

/// How times look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeForm {
    /// `2026-11-21 19:10:42.194624+00:00`.
    #[default]
    Space,
    /// The same with a `T`.
    T,
    /// Microseconds since 1970.
    Microseconds,
    /// Seconds since 1970, with a fraction.
    Seconds,
    /// `2026-11-21 19:10:42.194`.
    Lager,
}

impl TimeForm {
    /// As the configuration names it.
    ///
    /// # Errors
    /// The values that would be accepted.
    pub fn read(value: &str) -> Result<TimeForm, String> {
        let words = [
            ("rfc3339_space", TimeForm::Space),
            ("rfc3339_T", TimeForm::T),
            ("epoch_usecs", TimeForm::Microseconds),
            ("epoch_secs", TimeForm::Seconds),
            ("lager_default", TimeForm::Lager),
        ];
        one_of(value, &words)
    }

    fn is_number(self) -> bool {
        matches!(self, TimeForm::Microseconds | TimeForm::Seconds)
    }

    fn write(self, at_us: u64, to: &mut String) {
        let (days, second) = (at_us / 86_400_000_000, at_us / 1_000_000 % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let fraction = at_us % 1_000_000;
        let between = if self == TimeForm::T { 'T' } else { ' ' };
        let day = format_args!("{year:04}-{month:02}-{day:02}{between}{hour:02}:{minute:02}:{second:02}");
        // Nothing fails to be written to memory.
        let _ = match self {
            TimeForm::Space | TimeForm::T => write!(to, "{day}.{fraction:06}+00:00"),
            TimeForm::Lager => write!(to, "{day}.{:03}", fraction / 1000),
            TimeForm::Microseconds => write!(to, "{at_us}"),
            TimeForm::Seconds => write!(to, "{}.{fraction:06}", at_us / 1_000_000),
        };
    }
}

/// How levels look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelForm {
    /// Letters, at most; 0: the whole word.
    letters: u8,
    upper: bool,
}

impl LevelForm {
    /// As the configuration names it.
    ///
    /// # Errors
    /// The values that would be accepted.
    pub fn read(value: &str) -> Result<LevelForm, String> {
        let words = [
            ("lc", 0, false),
            ("uc", 0, true),
            ("lc3", 3, false),
            ("uc3", 3, true),
            ("lc4", 4, false),
            ("uc4", 4, true),
        ];
        one_of(value, &words.map(|(word, letters, upper)| (word, LevelForm { letters, upper })))
    }

    fn name(self, level: Level) -> String {
        let short = match (level, self.letters) {
            (_, 0) => level.name(),
            (Level::Debug, 3) => "dbg",
            (Level::Debug, _) => "dbug",
            (Level::Info, 3) => "inf",
            (Level::Notice, 3) => "ntc",
            (Level::Notice, _) => "noti",
            (Level::Warning, 3) => "wrn",
            (Level::Warning, _) => "warn",
            (Level::Error, 3) => "err",
            (Level::Error, _) => "erro",
            (Level::Critical, 3) => "crt",
            (Level::Critical, _) => "crit",
            (Level::Info | Level::None, _) => level.name(),
        };
        if self.upper { short.to_ascii_uppercase() } else { short.to_owned() }
    }
}

/// `$time [$level] $pid $msg`: what of a line stands where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable(String),
}

impl Default for Pattern {
    fn default() -> Pattern {
        Pattern::read("$time [$level] $pid $msg")
    }
}

impl Pattern {
    /// Takes any text: a word behind `$` is the name of a field.
    pub fn read(pattern: &str) -> Pattern {
        let mut pieces = Vec::new();
        let mut rest = pattern;
        while let Some(at) = rest.find('$') {
            let behind = &rest[at + 1..];
            let end = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(behind.len());
            let text = if end == 0 { &rest[..=at] } else { &rest[..at] };
            pieces.push(Piece::Text(text.to_owned()));
            if end > 0 {
                pieces.push(Piece::Variable(behind[..end].to_owned()));
            }
            rest = &behind[end..];
        }
        pieces.push(Piece::Text(rest.to_owned()));
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Pattern(pieces)
    }
}

/// `time level:severity gl:- *:-`: which fields a line of JSON has, by which names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMap {
    /// Fields and their names, in order.
    named: Vec<(String, String)>,
    /// Those that are left out.
    dropped: Vec<String>,
    /// Fields that are not named come behind.
    has_rest: bool,
}

impl Default for FieldMap {
    fn default() -> FieldMap {
        FieldMap::read("time level msg")
    }
}

impl FieldMap {
    /// Takes any words.
    pub fn read(words: &str) -> FieldMap {
        let mut map = FieldMap { named: Vec::new(), dropped: Vec::new(), has_rest: true };
        for word in words.split_whitespace() {
            match word.split_once(':').unwrap_or((word, word)) {
                ("*", "-") => map.has_rest = false,
                ("*", _) => map.has_rest = true,
                (field, "-") => map.dropped.push(field.to_owned()),
                (field, name) => map.named.push((field.to_owned(), name.to_owned())),
            }
        }
        map
    }
}

/// Fields that a line has, in the order in which they stand where none is given.
const FIELDS: [&str; 5] = ["time", "level", "msg", "pid", "domain"];

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Format {
    /// JSON, not plain text.
    pub is_json: bool,
    /// How times look.
    pub time: TimeForm,
    /// How levels look.
    pub level: LevelForm,
    /// A message of several lines becomes one.
    pub single_line: bool,
    /// How a line of plain text is put together.
    pub pattern: Pattern,
    /// The fields of a line of JSON.
    pub fields: FieldMap,
    /// Numbers of levels.
    pub verbosity: Vec<(Level, String)>,
}

impl Format {
    /// Writes a line, and its end; in plain text each line of the text by itself.
    pub fn write(&self, line: &Line<'_>, to: &mut String) {
        let joined;
        let text = match self.single_line && line.text.contains('\n') {
            true => {
                let parts = line.text.split('\n').map(|part| part.trim().trim_end_matches(','));
                joined = parts.collect::<Vec<_>>().join(", ");
                joined.as_str()
            }
            false => line.text,
        };
        let line = Line { text, ..*line };
        if self.is_json {
            return self.write_json(&line, to);
        }
        for text in text.split('\n') {
            for piece in &self.pattern.0 {
                match piece {
                    Piece::Text(text) => to.push_str(text),
                    Piece::Variable(name) => self.write_field(name, &Line { text, ..line }, to),
                }
            }
            to.push('\n');
        }
    }

    /// A field in plain text. Text from peers is escaped, so that nobody can forge a line.
    fn write_field(&self, name: &str, line: &Line<'_>, to: &mut String) {
        match name {
            "msg" => {
                for c in line.text.chars() {
                    if c.is_control() { to.extend(c.escape_default()) } else { to.push(c) }
                }
            }
            // As with RabbitMQ.
            name => to.push_str(&self.field(name, line).unwrap_or_else(|| format!("<unknown {name}>"))),
        }
    }

    fn field(&self, name: &str, line: &Line<'_>) -> Option<String> {
        match name {
            "time" => {
                let mut time = String::new();
                self.time.write(line.at_us, &mut time);
                Some(time)
            }
            "level" => Some(self.level.name(line.level)),
            "msg" => Some(line.text.to_owned()),
            "pid" => Some(format!("<0.{}.0>", line.source)),
            "domain" => Some(DOMAIN.to_owned()),
            "verbosity" => {
                let own = self.verbosity.iter().find(|(level, _)| *level == line.level);
                own.map(|(_, number)| number.clone())
            }
            _ => None,
        }
    }

    fn write_json(&self, line: &Line<'_>, to: &mut String) {
        let map = &self.fields;
        let is_said = |field: &&str| {
            map.has_rest
                && !map.named.iter().any(|(own, _)| own == field)
                && !map.dropped.iter().any(|own| own == field)
        };
        let named = map.named.iter().map(|(field, name)| (field.as_str(), name.as_str()));
        let rest = FIELDS.iter().copied().filter(is_said).map(|field| (field, field));
        let mut begin = '{';
        for (field, name) in named.chain(rest) {
            let Some(value) = self.field(field, line) else { continue };
            let is_number = (field == "time" && self.time.is_number())
                || (field == "verbosity" && value.parse::<i64>().is_ok());
            let value = if is_number { value } else { serde_json::Value::from(value).to_string() };
            let _ = write!(to, "{begin}{}:{value}", serde_json::Value::from(name));
            begin = ',';
        }
        to.push_str(if begin == '{' { "{}\n" } else { "}\n" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line<'_> = Line {
        at_us: 1_795_288_242_194_624,
        level: Level::Info,
        source: 7,
        text: "one \"2\"\ntwo\r\u{1b}[0m",
    };

    fn check(format: &Format, expected: &str) {
        let mut block = String::new();
        format.write(&LINE, &mut block);
        assert_eq!(block, expected);
    }

    #[test]
    fn lines_look_as_operators_know_them_and_cannot_be_forged() {
        let expected = "2026-11-21 19:10:42.194624+00:00 [info] <0.7.0> one \"2\"\n\
                        2026-11-21 19:10:42.194624+00:00 [info] <0.7.0> two\\r\\u{1b}[0m\n";
        check(&Format::default(), expected);
    }

    #[test]
    fn lines_of_json_have_the_fields_that_rabbitmq_gives_them() {
        let json = Format { is_json: true, ..Format::default() };
        let text = "one \\\"2\\\"\\ntwo\\r\\u001b[0m";
        let expected = format!(
            "{{\"time\":\"2026-11-21 19:10:42.194624+00:00\",\"level\":\"info\",\"msg\":\"{text}\",\"pid\":\"<0.7.0>\",\"domain\":\"rabbitmq\"}}\n"
        );
        check(&json, &expected);
        let verbosity = vec![(Level::Info, "6".to_owned())];
        let fields = FieldMap::read("verbosity:v time msg:message domain file level:- *:-");
        let time = TimeForm::Microseconds;
        let mapped = Format { fields, verbosity, time, ..json.clone() };
        check(
            &mapped,
            &format!(
                "{{\"v\":6,\"time\":1795288242194624,\"message\":\"{text}\",\"domain\":\"rabbitmq\"}}\n"
            ),
        );
        check(&Format { fields: FieldMap::read("*:-"), ..json }, "{}\n");
    }

    #[test]
    fn parts_of_a_line_can_be_chosen() {
        let check_form = |time: &str, level: &str, pattern: &str, expected: &str| {
            let (time, level) = (TimeForm::read(time).unwrap(), LevelForm::read(level).unwrap());
            let format = Format {
                time,
                level,
                single_line: true,
                pattern: Pattern::read(pattern),
                ..Format::default()
            };
            check(&format, expected);
        };
        check_form("rfc3339_T", "uc3", "$time|$level$", "2026-11-21T19:10:42.194624+00:00|INF$\n");
        check_form("epoch_secs", "lc4", "$time $level", "1795288242.194624 info\n");
        check_form("epoch_usecs", "uc", "$level", "INFO\n");
        check_form("lager_default", "lc", "$time $nope", "2026-11-21 19:10:42.194 <unknown nope>\n");
        check_form("rfc3339_space", "lc", "$pid: $msg", "<0.7.0>: one \"2\", two\\r\\u{1b}[0m\n");
        assert!(TimeForm::read("$year").unwrap_err().contains("rfc3339_space"));
        let short = |level| LevelForm::read("lc3").unwrap().name(level);
        let all = [Level::Debug, Level::Notice, Level::Warning, Level::Error, Level::Critical].map(short);
        assert_eq!(all, ["dbg", "ntc", "wrn", "err", "crt"]);
    }
}
