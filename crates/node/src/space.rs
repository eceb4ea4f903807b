//! The policy of a disk that fills: publishers stop first, and the last of the space is kept.
//!
//! Publishers stop before the disk is full, so that there is room left to settle messages and to move live ones, which
//! makes room. The last quarter of the last file of the journal is for settling messages; a reserve of the device is
//! for snapshots.
//! Invariant: a [`Space`] tells of the journal as it is: it is changed where the journal is, under the same lock.

use base::time::NS_PER_MS;
use journal::{Disk, DiskError, FileName, Journal, SpareMaker};

/// Nanoseconds after which publishers that had to stop have stopped: every shard has had a turn, and handed in its
/// batches.
pub const STILL_NS: u64 = 500 * NS_PER_MS;

/// Full journal files from which on housekeeping moves the live messages in them as fast as it can.
const FULL_FILES_MANY: usize = 8;

/// The signs that shards go by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// The last write found no space, or the work ahead will not find any: publishers must wait, so that there is room
    /// to settle messages, which makes room.
    pub lacks_space: bool,
    /// The last write found no space, or the rest of the last file is for work that makes room: nothing that is kept is
    /// to be newly made.
    pub is_nearly_full: bool,
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Space {
    /// The last write found no space.
    is_out: bool,
    /// There is no space for the work ahead: the next file, or messages that must be moved before files can be used
    /// again.
    is_short: bool,
    /// Little of the last file is left.
    is_nearly_full: bool,
    /// When it was last found to be short; monotonic nanoseconds.
    short_at_ns: u64,
    /// How often it came to lack space.
    shortages: u64,
}

impl Space {
    /// The signs that shards go by.
    pub fn signs(&self) -> Signs {
        Signs {
            lacks_space: self.is_out || self.is_short,
            is_nearly_full: self.is_out || self.is_nearly_full,
        }
    }

    /// The last write found no space.
    pub fn is_out(&self) -> bool {
        self.is_out
    }

    /// There is no space for the work ahead.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// How often it came to lack space. Shards see for themselves when space is lacking, long before they are told; those who
    /// tell them that it is over must not miss a shortage that came and went in between.
    pub fn shortages(&self) -> u64 {
        self.shortages
    }

    /// A write found no space, or found some again. True: that is news.
    pub fn set_out(&mut self, is_out: bool) -> bool {
        let is_news = self.is_out != is_out;
        self.is_out = is_out;
        self.shortages += u64::from(is_news && is_out);
        is_news
    }

    /// Something was written. Messages under way need the room of the file just begun: publishers must hear now that it
    /// is the last. True: that is news.
    pub fn wrote(&mut self, now_ns: u64, journal: &Journal, disk: &dyn Disk) -> bool {
        let is_news = !self.is_short && is_last_file(journal, disk) && self.set_short(now_ns, true);
        self.note_room(journal);
        is_news
    }

    /// The housekeeper has done all it could, and had the space for it or not. True: that changes whether space is
    /// short.
    pub fn judge(&mut self, now_ns: u64, journal: &Journal, disk: &dyn Disk, had_space: bool) -> bool {
        let is_short = !had_space || is_last_file(journal, disk);
        let is_news = is_short != self.is_short && self.set_short(now_ns, is_short);
        self.note_room(journal);
        is_news
    }

    fn set_short(&mut self, now_ns: u64, is_short: bool) -> bool {
        if is_short {
            self.short_at_ns = now_ns;
        }
        let is_news = self.is_short != is_short;
        self.is_short = is_short;
        self.shortages += u64::from(is_news && is_short);
        is_news
    }

    /// Little is left of the file that is written to, and it is the last.
    fn note_room(&mut self, journal: &Journal) {
        if self.is_short || self.is_nearly_full {
            self.is_nearly_full =
                self.is_short && journal.spares() == 0 && journal.room() < room_kept(journal);
        }
    }

    /// A file to be prepared, if one is wanted and there is room for it.
    pub fn wanted_spare(&self, journal: &mut Journal, disk: &dyn Disk) -> Option<SpareMaker> {
        // The second one must leave room to move the messages left in a file, without which none can be used again.
        let files = if journal.spares() == 0 { 1 } else { 2 };
        if has_room(journal, disk, files) { journal.wanted_spare() } else { None }
    }

    /// Released files are used again when a group says on disk that nobody needs them: where space is lacking, publishers wait
    /// for that, and perhaps nobody else writes. True: an empty group is to be written.
    pub fn wants_group(&self, journal: &Journal) -> bool {
        self.signs().lacks_space && journal.has_released()
    }

    /// Whether housekeeping must not spare commits that wait for a flush: they outrun it, or it is all that is left to
    /// be done.
    pub fn is_in_hurry(&self, journal: &Journal) -> bool {
        self.signs().lacks_space || is_pressed(journal)
    }

    /// Bytes of the device that may be taken to move live remains of journal files. The last of the space is for snapshots;
    /// and while publishers run, their messages under way must find a file. `is_quiet`: no batch waits to be written.
    ///
    /// # Errors
    /// The device's error.
    pub fn room_to_move(
        &self,
        now_ns: u64,
        journal: &Journal,
        disk: &dyn Disk,
        is_quiet: bool,
    ) -> Result<u64, DiskError> {
        let needs_file =
            journal.spares() == 0 && journal.room() < self.room_needed(now_ns, journal, is_quiet);
        let kept =
            journal.limits().reserve_bytes() + if needs_file { journal.limits().file_bytes } else { 0 };
        Ok(disk.free_bytes()?.saturating_sub(kept))
    }

    /// Gives up a file that was prepared, because its room is needed more for messages to be moved, or for writes that
    /// come before files can be used again: the file to be removed, if one can be spared, and whether there are new
    /// signs for shards.
    pub fn give_up_spare(
        &mut self,
        now_ns: u64,
        journal: &mut Journal,
        disk: &dyn Disk,
        is_quiet: bool,
    ) -> Option<(FileName, bool)> {
        let spare = journal.give_up_spare(self.room_needed(now_ns, journal, is_quiet))?;
        Some((spare, self.wrote(now_ns, journal, disk)))
    }

    /// Bytes the current file must have left where it may become the last: the messages that publishers may have under
    /// way by the time all have stopped, and a quarter of a file for messages to be settled.
    fn room_needed(&self, now_ns: u64, journal: &Journal, is_quiet: bool) -> u64 {
        let quarter = room_kept(journal);
        if self.is_still(now_ns, is_quiet) { quarter } else { 3 * quarter }
    }

    /// Publishers had to stop, and nothing of theirs is under way any more.
    fn is_still(&self, now_ns: u64, is_quiet: bool) -> bool {
        self.is_short && is_quiet && now_ns.saturating_sub(self.short_at_ns) >= STILL_NS
    }
}

/// The device has room for so many more files, and for snapshots.
fn has_room(journal: &Journal, disk: &dyn Disk, files: u64) -> bool {
    let wanted = files * journal.limits().file_bytes + journal.limits().reserve_bytes();
    // A device that does not tell is taken at its word when it is written to.
    disk.free_bytes().map_or(true, |free| free >= wanted)
}

/// There may be no file after this one.
fn is_last_file(journal: &Journal, disk: &dyn Disk) -> bool {
    journal.spares() == 0 && !has_room(journal, disk, 1)
}

/// There is no file in reserve and the current one is half full, so that the file in the making is the next; or full
/// ones gather.
fn is_pressed(journal: &Journal) -> bool {
    let is_next = journal.spares() == 0 && journal.room() < journal.limits().file_bytes / 2;
    is_next || journal.files().len() > FULL_FILES_MANY
}

/// Bytes of the last file that are for messages to be settled, and for other things that make room.
fn room_kept(journal: &Journal) -> u64 {
    journal.limits().file_bytes / 4
}
