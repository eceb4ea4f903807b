//! Settings of the log: the places that lines go to, from which level on, and how they look there.

use super::value::{boolean, bytes, integer, one_of};
use super::verdict::Verdict;
use crate::log::file::{Period, Rotation};
use crate::log::format::{FieldMap, Format, LevelForm, Pattern, TimeForm};
use crate::log::level::Level;
use std::path::PathBuf;

/// The settings of one place that lines go to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// The least level that is written there; `None`: as for all.
    pub level: Option<Level>,
    /// JSON, not plain text.
    pub is_json: bool,
    /// How times look.
    pub time: TimeForm,
    /// How levels look.
    pub level_form: LevelForm,
    /// A message of several lines becomes one.
    pub single_line: bool,
    /// How a line of plain text is put together.
    pub pattern: Pattern,
    /// The fields of a line of JSON.
    pub fields: FieldMap,
    /// Numbers of levels, for the field `verbosity`.
    pub verbosity: Vec<(Level, String)>,
}

impl Output {
    /// How lines look there.
    pub fn format(&self) -> Format {
        Format {
            is_json: self.is_json,
            time: self.time,
            level: self.level_form,
            single_line: self.single_line,
            pattern: self.pattern.clone(),
            fields: self.fields.clone(),
            verbosity: self.verbosity.clone(),
        }
    }

    /// Takes `log.OUTPUT.<name>`; `None` for what is none of these.
    fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        let done = match name {
            "level" => Level::read(value).map(|it| self.level = Some(it)),
            "formatter" => one_of(value, &[("plaintext", false), ("json", true)]).map(|it| self.is_json = it),
            "formatter.time_format" => TimeForm::read(value).map(|it| self.time = it),
            "formatter.level_format" => LevelForm::read(value).map(|it| self.level_form = it),
            "formatter.single_line" => boolean(value).map(|it| self.single_line = it),
            "formatter.plaintext.format" => {
                self.pattern = Pattern::read(value);
                Ok(())
            }
            "formatter.json.field_map" => {
                self.fields = FieldMap::read(value);
                Ok(())
            }
            "formatter.json.verbosity_map" => verbosities(value).map(|it| self.verbosity = it),
            _ => return None,
        };
        Some(done)
    }
}

fn verbosities(value: &str) -> Result<Vec<(Level, String)>, String> {
    let pair = |word: &str| {
        let (level, number) = word.split_once(':').ok_or("accepted values: LEVEL:NUMBER ...")?;
        Ok((Level::read(level)?, number.to_owned()))
    };
    value.split_whitespace().map(pair).collect()
}

/// `log.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogOptions {
    /// Lines go to standard output, or standard error.
    pub has_console: bool,
    /// The console is standard error.
    pub is_stderr: bool,
    /// The settings of the console.
    pub console: Output,
    /// Lines go to this file as well.
    pub file: Option<String>,
    /// Where that file is, unless it says so itself; `None`: `log` in the data folder.
    pub folder: Option<PathBuf>,
    /// The settings of the file.
    pub file_output: Output,
    /// When the file is put aside and a new one begun.
    pub rotation: Rotation,
    /// The least level that is logged at all; `None`: nothing was said.
    pub level: Option<Level>,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            has_console: true,
            is_stderr: false,
            console: Output::default(),
            file: None,
            folder: None,
            file_output: Output::default(),
            rotation: Rotation::default(),
            level: None,
        }
    }
}

impl LogOptions {
    /// The least level that is written to `output`.
    pub fn level_of(&self, output: &Output) -> Level {
        match (self.level, output.level) {
            (Some(all), Some(own)) => all.max(own),
            (level, own) => own.or(level).unwrap_or(Level::Info),
        }
    }

    /// Whether failures that stop the node are told on the console.
    pub fn is_on_console(&self) -> bool {
        self.has_console && self.level_of(&self.console) <= Level::Critical
    }

    /// Takes `log.<name>`.
    pub fn judge(&mut self, name: &str, value: &str) -> Verdict {
        let done = match name {
            "console" => boolean(value).map(|it| self.has_console = it),
            "console.stdio" => {
                one_of(value, &[("stdout", false), ("stderr", true)]).map(|it| self.is_stderr = it)
            }
            "level" | "default.level" => Level::read(value).map(|it| self.level = Some(it)),
            "file" => {
                self.file = (value != "false").then(|| value.to_owned());
                Ok(())
            }
            "dir" => {
                self.folder = Some(value.into());
                Ok(())
            }
            "file.rotation.size" => bytes(value).map(|it| self.rotation.bytes_max = it),
            "file.rotation.count" => integer(value, 0, 10_000).map(|it| self.rotation.count_max = it as u32),
            "file.rotation.compress" => boolean(value).map(|it| self.rotation.compresses = it),
            "file.rotation.date" => Period::read(value).map(|it| self.rotation.period = it),
            "console.use_colors" | "console.color_esc_seqs" => return nothing("lines have no colours"),
            "exchange" => return nothing("lines are not published to an exchange yet"),
            "syslog" | "journald" if value != "false" => {
                return Verdict::Absent("lines go to the console and to files alone".into());
            }
            _ if name.starts_with("console.color_esc_seqs.") => return nothing("lines have no colours"),
            _ => {
                let (output, rest) = name.split_once('.').unwrap_or((name, ""));
                let set = match output {
                    "console" => self.console.set(rest, value),
                    "file" => self.file_output.set(rest, value),
                    "exchange" | "syslog" | "journald" => {
                        return nothing("lines go to the console and to files alone");
                    }
                    _ => return nothing("all categories share one level and go to the same places"),
                };
                match set {
                    Some(done) => done,
                    None => return nothing("nothing of the log is tuned so"),
                }
            }
        };
        done.map_or_else(Verdict::Wrong, |()| Verdict::Works)
    }
}

fn nothing(why: &str) -> Verdict {
    Verdict::Nothing(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_higher_of_two_levels_counts() {
        let check = |lines: &[(&str, &str)], console: Level, file: Level| {
            let mut log = LogOptions::default();
            for (name, value) in lines {
                assert!(matches!(log.judge(name, value), Verdict::Works), "{name}");
            }
            assert_eq!(
                (log.level_of(&log.console), log.level_of(&log.file_output)),
                (console, file),
                "{lines:?}"
            );
        };
        check(&[], Level::Info, Level::Info);
        check(&[("console.level", "debug")], Level::Debug, Level::Info);
        check(&[("default.level", "warning")], Level::Warning, Level::Warning);
        check(&[("default.level", "warning"), ("console.level", "debug")], Level::Warning, Level::Warning);
        check(&[("level", "debug"), ("file.level", "error")], Level::Debug, Level::Error);
        check(&[("console.level", "none")], Level::None, Level::Info);
    }

    #[test]
    fn failures_are_on_the_console_unless_it_is_silent() {
        let check = |name: &str, value: &str, expected: bool| {
            let mut log = LogOptions::default();
            log.judge(name, value);
            assert_eq!(log.is_on_console(), expected, "{name} = {value}");
        };
        check("level", "critical", true);
        check("console", "false", false);
        check("console.level", "none", false);
    }

    #[test]
    fn what_is_not_there_is_refused_or_named() {
        let judge = |name: &str, value: &str| LogOptions::default().judge(name, value);
        assert!(matches!(judge("syslog", "true"), Verdict::Absent(_)));
        assert!(matches!(judge("syslog", "false"), Verdict::Nothing(_)));
        assert!(matches!(judge("exchange", "true"), Verdict::Nothing(_)));
        assert!(matches!(judge("connection.level", "debug"), Verdict::Nothing(_)));
        assert!(matches!(judge("console.formatter", "xml"), Verdict::Wrong(_)));
        assert!(matches!(judge("console.formatter.time_format", "$year"), Verdict::Wrong(_)));
        assert!(matches!(judge("file.formatter.json.verbosity_map", "debug"), Verdict::Wrong(_)));
        assert!(matches!(judge("file.rotation.date", "daily"), Verdict::Wrong(_)));
        assert!(matches!(judge("file.rotation.size", "10 apples"), Verdict::Wrong(_)));
    }
}
