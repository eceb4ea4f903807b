//! The parts of a snapshot that only queues with features have: `docs/formats/queue-snapshot.md`.
//!
//! Which there are is said by a bit each of the flags.

use crate::deadlines::{Deadlines, Due};
use crate::dedup_window::Window;
use crate::features::Features;
use crate::groups::Groups;
use crate::levels::Levels;
use crate::line::Line;
use crate::live::Live;
use crate::settings::{Priorities, STRICT_MAX, Settings};
use crate::snapshot_fields::{SnapshotError, put, put_ranges, read_ranges, read_varint};
use base::cursor::Reader;
use base::put_varint;
use base::ranges::Range;
use base::{RangeSet, Sink};
use message::record::SizesKept;
use std::sync::Arc;

const SETTINGS: u32 = 2;
const LEVELS: u32 = 4;
const DEADLINES: u32 = 8;
const SIZES: u32 = 16;
/// Needs version 3.
pub(crate) const DUES: u32 = 32;
/// Needs version 3.
pub(crate) const ANNOTATIONS: u32 = 64;
/// Needs version 4.
pub(crate) const WINDOW: u32 = 128;
/// Needs version 5.
pub(crate) const GROUPS: u32 = 256;
/// Needs version 6.
pub(crate) const UNWEIGHED: u32 = 512;
/// Needs version 7.
pub(crate) const BARRIERS: u32 = 1024;

/// All that are known.
pub(crate) const SECTIONS: u32 =
    SETTINGS | LEVELS | DEADLINES | SIZES | DUES | ANNOTATIONS | WINDOW | GROUPS | UNWEIGHED | BARRIERS;

impl Features {
    /// Those this queue has.
    pub(crate) fn sections(&self, line: &Line) -> u32 {
        let flag = |is_there, flag| if is_there { flag } else { 0 };
        let settings = self.settings;
        flag(settings != Settings::plain(settings.counts), SETTINGS)
            | flag(!self.levels.is_empty(), LEVELS)
            | flag(self.deadlines.has_any(&line.live), DEADLINES)
            | flag(settings.keeps_sizes() && line.live.count() > 0, SIZES)
            | flag(self.delays.dues().has_any(&line.live), DUES)
            | flag(!self.annotations.has_none(), ANNOTATIONS)
            | flag(self.window.is_some(), WINDOW)
            | flag(self.groups.as_ref().is_some_and(|groups| !groups.is_empty()), GROUPS)
            | flag(settings.sizes == SizesKept::All, UNWEIGHED)
            | flag(self.barriers.as_ref().is_some_and(|barriers| !barriers.is_empty()), BARRIERS)
    }

    pub(crate) fn write_sections(&self, line: &Line, out: &mut impl Sink) {
        let sections = self.sections(line);
        if sections & SETTINGS != 0 {
            write_settings(self.settings, out);
        }
        if sections & LEVELS != 0 {
            let levels = self.levels.members();
            put(out, levels.len() as u64);
            for (level, members) in levels {
                out.put(&[level]);
                put_ranges(out, &members);
            }
        }
        if sections & DEADLINES != 0 {
            write_times(&self.deadlines, &line.live, |_| None, out);
        }
        if sections & SIZES != 0 {
            for part in line.live.all() {
                for seq in part.first..=part.last {
                    put_varint(out, self.weights.sizes().sum(Range { first: seq, last: seq }));
                }
            }
        }
        if sections & DUES != 0 {
            write_times(self.delays.dues(), &line.live, |due| Some(u8::from(due.is_changed)), out);
        }
        if sections & ANNOTATIONS != 0 {
            let runs = self.annotations.runs();
            put(out, runs.len() as u64);
            for (range, annotations) in runs {
                put_varint(out, range.first - line.live.head());
                put_varint(out, range.last - range.first);
                put_varint(out, annotations.len() as u64);
                out.put(&annotations[..]);
            }
        }
        if let Some(window) = &self.window {
            window.write(out);
        }
        if let Some(groups) = self.groups.as_ref().filter(|groups| !groups.is_empty()) {
            groups.write(&line.live, out);
        }
        if sections & UNWEIGHED != 0 {
            let unweighed = self.weights.unweighed().map_or((0, 0), |range| (range.first, range.last + 1));
            put(out, unweighed.0);
            put(out, unweighed.1);
        }
        if let Some(barriers) = self.barriers.as_ref().filter(|barriers| !barriers.is_empty()) {
            put_ranges(out, barriers.marks());
        }
    }

    /// Reads the bytes of [`Features::write_sections`], of a queue whose line is this.
    pub(crate) fn read_sections(
        sections: u32,
        line: &Line,
        reader: &mut Reader<'_>,
    ) -> Result<Features, SnapshotError> {
        let counts = line.returns.counts();
        let mut features = Features::new(Settings::plain(counts));
        if sections & SETTINGS != 0 {
            features.settings = read_settings(counts, reader)?;
        }
        if sections & LEVELS != 0 {
            features.read_levels(&line.live, reader)?;
        }
        if sections & DEADLINES != 0 {
            let deadlines = &mut features.deadlines;
            let insert = |due: Due| deadlines.insert(due.at_ms, due.range);
            read_times("deadlines", false, &line.live, reader, insert)?;
        }
        if sections & SIZES != 0 {
            features.read_sizes(&line.live, reader)?;
        }
        if sections & DUES != 0 {
            let dues = features.delays.dues_mut();
            read_times("dues", true, &line.live, reader, |due| match due.is_changed {
                true => dues.change(due.at_ms, due.range),
                false => dues.insert(due.at_ms, due.range),
            })?;
        }
        if sections & ANNOTATIONS != 0 {
            features.read_annotations(line, reader)?;
        }
        if sections & WINDOW != 0 {
            features.window = Some(Box::new(Window::read(reader)?));
        }
        if sections & GROUPS != 0 {
            features.groups = Some(Box::new(Groups::read(&line.live, reader)?));
        }
        if sections & UNWEIGHED != 0 {
            features.read_unweighed(&line.live, reader)?;
        }
        if sections & BARRIERS != 0 {
            features.read_barriers(&line.live, reader)?;
        }
        Ok(features)
    }

    fn read_levels(&mut self, live: &Live, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let broken = Err(SnapshotError::Broken("levels"));
        let priorities = self.settings.priorities;
        let level_max = if priorities == Priorities::Strict { STRICT_MAX } else { u8::MAX };
        let mut least = 0u16;
        let mut seen = RangeSet::new();
        let mut all = Vec::new();
        let levels = reader.u64_le()?;
        for _ in 0..levels {
            let level = reader.u8()?;
            let members = read_ranges(reader, live.head(), live.next_seq(), "levels")?;
            let is_level = u16::from(level) >= least && level <= level_max && level != priorities.usual();
            if !is_level || members.is_empty() {
                return broken;
            }
            least = u16::from(level) + 1;
            for range in members.iter() {
                if !live.has_all(range) || seen.insert(range) != range.len() {
                    return broken;
                }
                all.push((level, range));
            }
        }
        all.sort_unstable_by_key(|(_, range)| range.first);
        self.levels = Levels::of(&all);
        if levels == 0 { broken } else { Ok(()) }
    }

    fn read_sizes(&mut self, live: &Live, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let broken = Err(SnapshotError::Broken("sizes"));
        if !self.settings.keeps_sizes() || live.count() == 0 {
            return broken;
        }
        for part in live.all() {
            for seq in part.first..=part.last {
                let Ok(bytes) = u32::try_from(read_varint(reader, "sizes")?) else { return broken };
                self.weights.sizes_mut().push(seq, bytes, 0);
            }
        }
        Ok(())
    }

    fn read_unweighed(&mut self, live: &Live, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let (first, end) = (reader.u64_le()?, reader.u64_le()?);
        let unweighed = match (first, end) {
            (0, 0) => None,
            (first, end) if first < end && end <= live.next_seq() => Some(Range { first, last: end - 1 }),
            _ => return Err(SnapshotError::Broken("unweighed")),
        };
        if !self.settings.keeps_sizes() {
            return Err(SnapshotError::Broken("unweighed"));
        }
        self.weights.set_unweighed(unweighed);
        self.settings.sizes = SizesKept::All;
        Ok(())
    }

    fn read_barriers(&mut self, live: &Live, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let marks = read_ranges(reader, live.head(), live.next_seq(), "barriers")?;
        if marks.is_empty() || !marks.iter().all(|range| live.has_all(range)) {
            return Err(SnapshotError::Broken("barriers"));
        }
        self.barriers.get_or_insert_default().fill(marks);
        Ok(())
    }

    fn read_annotations(&mut self, line: &Line, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        const PART: &str = "annotations";
        let broken = Err(SnapshotError::Broken(PART));
        if !line.returns.counts() {
            return broken;
        }
        let mut before: Option<(u64, Arc<[u8]>)> = None;
        let runs = reader.u64_le()?;
        for _ in 0..runs {
            let first = line.live.head().checked_add(read_varint(reader, PART)?);
            let more = read_varint(reader, PART)?;
            let last = first.and_then(|first| first.checked_add(more));
            let len = usize::try_from(read_varint(reader, PART)?);
            let (Some(first), Some(last), Ok(len)) = (first, last, len) else { return broken };
            let annotations: Arc<[u8]> = reader.take(len)?.into();
            // In order, and no two that would have been one run.
            let is_next = before
                .as_ref()
                .is_none_or(|(before, of)| *before < first && (*before + 1 < first || *of != annotations));
            if !is_next || last >= line.live.next_seq() {
                return broken;
            }
            // All of it is counted, which bounds the cost of a run; and live, since counted positions are.
            let mut counted = line.returns.recorded_within(Range { first, last });
            for seq in first..=last {
                if counted.next().is_none_or(|(of, _)| of != seq) {
                    return broken;
                }
                self.annotations.put(seq, annotations.clone());
            }
            before = Some((last, annotations));
        }
        if runs == 0 { broken } else { Ok(()) }
    }
}

fn write_times(times: &Deadlines, live: &Live, more: impl Fn(&Due) -> Option<u8>, out: &mut impl Sink) {
    let at = out.size();
    put(out, 0);
    let (mut runs, mut before_ms) = (0u64, 0);
    for due in times.in_order(live) {
        put_varint(out, due.at_ms - before_ms);
        put_varint(out, due.range.first - live.head());
        put_varint(out, due.range.last - due.range.first);
        more(&due).inspect(|more| out.put(&[*more]));
        before_ms = due.at_ms;
        runs += 1;
    }
    // How many there are is known only now: they are not all in memory at once.
    out.patch(at, &runs.to_le_bytes());
}

/// Tells `each` of the times in the section `part`; with a byte more of each where `has_more`.
fn read_times(
    part: &'static str,
    has_more: bool,
    live: &Live,
    reader: &mut Reader<'_>,
    mut each: impl FnMut(Due),
) -> Result<(), SnapshotError> {
    let broken = Err(SnapshotError::Broken(part));
    let mut seen = RangeSet::new();
    let mut before: Option<Due> = None;
    let runs = reader.u64_le()?;
    for _ in 0..runs {
        let later_ms = read_varint(reader, part)?;
        let first = live.head().checked_add(read_varint(reader, part)?);
        let last =
            first.zip(Some(read_varint(reader, part)?)).and_then(|(first, more)| first.checked_add(more));
        let more = if has_more { reader.u8()? } else { 0 };
        let at_ms = before.map_or(0, |before| before.at_ms).checked_add(later_ms);
        let (Some(first), Some(last), Some(at_ms), 0 | 1) = (first, last, at_ms, more) else {
            return broken;
        };
        let range = Range { first, last };
        let is_changed = more == 1;
        // In order, and no two that would have been one run.
        let is_next = before.is_none_or(|before| {
            let last = before.range.last;
            before.at_ms < at_ms || last < first && (last + 1 < first || before.is_changed != is_changed)
        });
        if !is_next || !live.has_all(range) || seen.insert(range) != range.len() {
            return broken;
        }
        let due = Due { at_ms, range, is_changed };
        each(due);
        before = Some(due);
    }
    if runs == 0 { broken } else { Ok(()) }
}

/// ```text
///   0            1              2       3        4   8          16
///   | priorities | priority max | sizes | has ttl | 0 | ttl (ms) |
/// ```
fn write_settings(settings: Settings, out: &mut impl Sink) {
    let (priorities, priority_max) = match settings.priorities {
        Priorities::None => (0, 0),
        Priorities::UpTo(max) => (1, max),
        Priorities::Strict => (2, 0),
    };
    out.put(&[
        priorities,
        priority_max,
        u8::from(settings.keeps_sizes()),
        u8::from(settings.ttl_ms.is_some()),
    ]);
    out.put(&[0; 4]);
    put(out, settings.ttl_ms.unwrap_or(0));
}

fn read_settings(counts: bool, reader: &mut Reader<'_>) -> Result<Settings, SnapshotError> {
    let broken = SnapshotError::Broken("settings");
    let (priorities, priority_max, sizes, has_ttl) = (reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?);
    let (reserved, ttl_ms) = (reader.u32_le()?, reader.u64_le()?);
    let priorities = match (priorities, priority_max, counts) {
        (0, 0, false) => Priorities::None,
        (1, max, _) => Priorities::UpTo(max),
        (2, 0, true) => Priorities::Strict,
        _ => return Err(broken),
    };
    let ttl_ms = match (has_ttl, ttl_ms) {
        (0, 0) => None,
        (1, ttl_ms) => Some(ttl_ms),
        _ => return Err(broken),
    };
    let kept = if sizes == 1 { SizesKept::Coming } else { SizesKept::None };
    let settings = Settings { counts, ttl_ms, priorities, sizes: kept };
    let is_said = sizes <= 1 && reserved == 0 && settings != Settings::plain(counts);
    if is_said { Ok(settings) } else { Err(broken) }
}
