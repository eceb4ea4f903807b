//! The file that lines of the log go to: put aside when it is long, or when a time has come, by RabbitMQ's names
//! (`rabbit.log`, `rabbit.log.0` the last one, ...); and opened anew when somebody else has put it aside.

use base::time::date;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The mode of log files: read by the node's user, and by its group, whose members collect logs. Messages are in none
/// of its lines.
const MODE: u32 = 0o640;
const MODE_FOLDER: u32 = 0o750;

const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;

/// Days in which the next day of any period is.
const DAYS_AHEAD_MAX: u64 = 62;

/// When a file is put aside, and how many are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes from which it is; 0: of any length it stays.
    pub bytes_max: u64,
    /// When it is, whatever its length.
    pub period: Option<Period>,
    /// Files that were put aside and are kept; 0: none, what was written is gone then.
    pub count_max: u32,
    /// Those are compressed.
    pub compresses: bool,
}

/// `$D0`, `$W0D23`, `$M1D0`, `$H30`: hours are UTC, as the times of lines are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Each hour, at this minute.
    Hour(u8),
    /// Each day, at this hour.
    Day(u8),
    /// Each week, on this day (0: Sunday), at this hour.
    Week(u8, u8),
    /// Each month, on this day or its last, at this hour.
    Month(u8, u8),
}

impl Period {
    /// As RabbitMQ and newsyslog write it; an empty text is none.
    ///
    /// # Errors
    /// The values that would be accepted.
    pub fn read(value: &str) -> Result<Option<Period>, String> {
        if value.is_empty() {
            return Ok(None);
        }
        let wrong = || {
            "accepted values: $H0 (minute of each hour), $D0 (hour of each day), $W0D0 (day of the week and hour), \
                        $M1D0 (day of the month and hour)".to_owned()
        };
        let number =
            |text: &str, most: u8| text.parse().ok().filter(|number: &u8| *number <= most).ok_or_else(wrong);
        let both = |text: &str, most: u8| -> Result<(u8, u8), String> {
            let (day, hour) = text.split_once('D').unwrap_or((text, "0"));
            Ok((number(day, most)?, number(hour.split('H').next().unwrap_or(hour), 23)?))
        };
        let rest = value.strip_prefix('$').ok_or_else(wrong)?;
        let (kind, rest) = rest.split_at_checked(1).ok_or_else(wrong)?;
        let period = match kind {
            "H" => Period::Hour(number(rest, 59)?),
            "D" => Period::Day(number(rest.split('H').next().unwrap_or(rest), 23)?),
            "W" => both(rest, 6).map(|(day, hour)| Period::Week(day, hour))?,
            "M" => both(rest, 31).map(|(day, hour)| Period::Month(day.max(1), hour))?,
            _ => return Err(wrong()),
        };
        Ok(Some(period))
    }

    /// The first such time after `now_s`, seconds since 1970.
    fn next(self, now_s: u64) -> u64 {
        if let Period::Hour(minute) = self {
            let at = now_s / HOUR_S * HOUR_S + u64::from(minute) * 60;
            return if at > now_s { at } else { at + HOUR_S };
        }
        let today = now_s / DAY_S;
        let time = |day: u64| {
            let (is_day, hour) = match self {
                Period::Hour(_) => (false, 0),
                Period::Day(hour) => (true, hour),
                // 1970 began on a Thursday.
                Period::Week(own, hour) => ((day + 4) % 7 == u64::from(own), hour),
                Period::Month(own, hour) => {
                    let (.., number) = date(day);
                    let (.., next) = date(day + 1);
                    (number == u64::from(own) || (number < u64::from(own) && next == 1), hour)
                }
            };
            is_day.then_some(day * DAY_S + u64::from(hour) * HOUR_S)
        };
        let times = (today..today + DAYS_AHEAD_MAX).filter_map(time);
        times.into_iter().find(|at| *at > now_s).unwrap_or(u64::MAX)
    }
}

/// See the module.
pub struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    /// Of the file that is open, by which one sees that another is there now.
    identity: (u64, u64),
    bytes: u64,
    /// When it is put aside next, seconds since 1970.
    next_s: u64,
    /// When it was last looked whether it is still there.
    looked_s: u64,
}

impl LogFile {
    /// Opens the file at `path`, which goes on where it ends; makes its folder if need be.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn open(path: PathBuf, rotation: Rotation) -> io::Result<LogFile> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::DirBuilder::new().recursive(true).mode(MODE_FOLDER).create(folder)?;
        }
        let now_s = now_s();
        let next_s = rotation.period.map_or(u64::MAX, |period| period.next(now_s));
        let (file, identity, bytes) = open(&path)?;
        Ok(LogFile { path, rotation, file, identity, bytes, next_s, looked_s: now_s })
    }

    /// Opens it anew where somebody has put it aside, and puts it aside where that is due.
    fn prepare(&mut self, now_s: u64) -> io::Result<()> {
        if self.looked_s != now_s {
            self.looked_s = now_s;
            let is_same =
                std::fs::metadata(&self.path).is_ok_and(|own| (own.dev(), own.ino()) == self.identity);
            if !is_same {
                self.reopen()?;
            }
        }
        let is_long = self.rotation.bytes_max > 0 && self.bytes >= self.rotation.bytes_max;
        if !is_long && now_s < self.next_s {
            return Ok(());
        }
        self.next_s = self.rotation.period.map_or(u64::MAX, |period| period.next(now_s));
        if self.bytes == 0 {
            return Ok(());
        }
        self.put_aside()?;
        self.reopen()
    }

    fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.identity, self.bytes) = open(&self.path)?;
        Ok(())
    }

    fn put_aside(&self) -> io::Result<()> {
        let count = self.rotation.count_max;
        if count == 0 {
            return self.file.set_len(0);
        }
        let place =
            |number: u32, ending: &str| PathBuf::from(format!("{}.{number}{ending}", self.path.display()));
        for ending in ["", ".gz"] {
            // Of a file that is not there nothing is to be moved.
            let _ = std::fs::remove_file(place(count - 1, ending));
            for number in (0..count - 1).rev() {
                let _ = std::fs::rename(place(number, ending), place(number + 1, ending));
            }
        }
        let last = place(0, "");
        std::fs::rename(&self.path, &last)?;
        if self.rotation.compresses {
            compress(&last, &place(0, ".gz"))?;
        }
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Where it cannot be put aside it goes on: a line that is late is better than none.
        let _ = self.prepare(now_s());
        let count = self.file.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn open(path: &Path) -> io::Result<(File, (u64, u64), u64)> {
    let is_new = !path.exists();
    let file = OpenOptions::new().append(true).create(true).mode(MODE).open(path)?;
    if is_new {
        // The node lets nobody read what it makes, unless it says so.
        file.set_permissions(std::fs::Permissions::from_mode(MODE))?;
    }
    let own = file.metadata()?;
    Ok((file, (own.dev(), own.ino()), own.len()))
}

fn compress(from: &Path, to: &Path) -> io::Result<()> {
    let (file, ..) = open(to)?;
    let mut packed = GzEncoder::new(file, Compression::default());
    io::copy(&mut File::open(from)?, &mut packed)?;
    packed.finish()?;
    std::fs::remove_file(from)
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_read_and_come_round() {
        // A Thursday, 2026-11-26 11:30:05.
        let now_s = 1_795_692_605;
        let check = |value: &str, expected: u64| {
            let period = Period::read(value).unwrap().unwrap();
            assert_eq!(period.next(now_s), expected, "{value}");
            assert!(period.next(expected) > expected, "{value}");
        };
        let midnight = now_s / DAY_S * DAY_S;
        check("$H0", midnight + 12 * HOUR_S);
        check("$H45", midnight + 11 * HOUR_S + 45 * 60);
        check("$D0", midnight + DAY_S);
        check("$D23", midnight + 23 * HOUR_S);
        check("$W0D0H16", midnight + 3 * DAY_S);
        check("$W4D12", midnight + 12 * HOUR_S);
        check("$W5", midnight + DAY_S);
        check("$M1D0", midnight + 5 * DAY_S);
        check("$M31D6", midnight + 4 * DAY_S + 6 * HOUR_S);
        assert_eq!(Period::read(""), Ok(None));
        for wrong in ["daily", "$", "$X1", "$D24", "$W7", "$H60", "$D", "D0"] {
            assert!(Period::read(wrong).is_err(), "{wrong}");
        }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("leveret-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let names =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        base::brief::sort(&mut names);
        names
    }

    #[test]
    fn a_long_file_is_put_aside_and_so_many_are_kept() {
        for compresses in [false, true] {
            let folder = folder("long");
            let rotation = Rotation { bytes_max: 4, count_max: 2, compresses, period: None };
            let mut log = LogFile::open(folder.join("r.log"), rotation).unwrap();
            for line in ["one\n", "two\n", "three\n", "four\n"] {
                log.write_all(line.as_bytes()).unwrap();
            }
            let ending = if compresses { ".gz" } else { "" };
            assert_eq!(
                names(&folder),
                ["r.log".to_owned(), format!("r.log.0{ending}"), format!("r.log.1{ending}")]
            );
            assert_eq!(std::fs::read_to_string(folder.join("r.log")).unwrap(), "four\n");
            let mut text = String::new();
            let last = File::open(folder.join(format!("r.log.0{ending}"))).unwrap();
            match compresses {
                true => io::Read::read_to_string(&mut flate2::read::GzDecoder::new(last), &mut text).unwrap(),
                false => io::Read::read_to_string(&mut { last }, &mut text).unwrap(),
            };
            assert_eq!(text, "three\n");
            let mode =
                |name: &str| std::fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode("r.log"), MODE);
            std::fs::remove_dir_all(&folder).unwrap();
        }
    }

    #[test]
    fn a_file_that_is_not_kept_begins_anew_and_one_that_was_moved_is_made_again() {
        let folder = folder("moved");
        let rotation = Rotation { bytes_max: 4, ..Rotation::default() };
        let mut log = LogFile::open(folder.join("r.log"), rotation).unwrap();
        log.write_all(b"one\n").unwrap();
        log.write_all(b"two\n").unwrap();
        assert_eq!(names(&folder), ["r.log"]);
        assert_eq!(std::fs::read_to_string(folder.join("r.log")).unwrap(), "two\n");
        let mut log = LogFile::open(folder.join("r.log"), Rotation::default()).unwrap();
        std::fs::rename(folder.join("r.log"), folder.join("theirs")).unwrap();
        log.looked_s = 0;
        log.write_all(b"three\n").unwrap();
        assert_eq!(std::fs::read_to_string(folder.join("r.log")).unwrap(), "three\n");
        assert_eq!(names(&folder), ["r.log", "theirs"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_time_that_has_come_puts_it_aside() {
        let folder = folder("time");
        let rotation = Rotation { count_max: 1, period: Some(Period::Day(0)), ..Rotation::default() };
        let mut log = LogFile::open(folder.join("r.log"), rotation).unwrap();
        log.write_all(b"one\n").unwrap();
        log.next_s = 1;
        log.write_all(b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(folder.join("r.log.0")).unwrap(), "one\n");
        assert!(log.next_s > now_s());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
