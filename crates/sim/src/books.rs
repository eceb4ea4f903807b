//! The journal and what waits for it. When the writer comes, and whether a shard writes inside its own turn, is rolled.

use base::id::ShardId;
use base::{Now, Random};
use journal::{FaultyDisk, Journal, Place, Sealed, WriteError};
use node::Stop;
use node::commit::{self, Line, Moment, Written};
use node::space::Space;

/// See the module.
#[derive(Debug)]
pub struct Books {
    /// The commit path.
    pub journal: Journal,
    /// How much space there is for it.
    pub space: Space,
    /// Batches that wait for the writer.
    pub line: Line,
    disk: FaultyDisk,
}

impl Books {
    /// Those of a node that comes up.
    pub fn new(journal: Journal, disk: FaultyDisk) -> Books {
        Books { journal, space: Space::default(), line: Line::default(), disk }
    }

    /// A shard hands in batches: see [`node::turn::Turn::hand_in`].
    pub fn hand_in(
        &mut self,
        now: Now,
        dice: &mut Random,
        (shard, outstanding): (ShardId, usize),
        sealed: &mut Vec<Sealed>,
        written: &mut Vec<Written>,
    ) -> Result<usize, Stop> {
        let is_out_of_space = self.space.is_out();
        let is_alone = outstanding == 0 && !is_out_of_space && dice.one_in(3);
        let moment = Moment { outstanding, is_alone, is_quick: true, is_out_of_space };
        if moment.writes_at_once() {
            let Books { journal, space, disk, .. } = self;
            let result = commit::write_at_once(sealed, &mut Vec::new(), written, |batches, places| {
                let result = journal.write(disk, batches, places);
                space.wrote(now.mono_ns, journal, disk);
                result
            });
            match result {
                Ok(()) => return Ok(0),
                Err(WriteError::NoSpace) => _ = self.space.set_out(true),
                Err(error @ WriteError::Fatal(_)) => return Err(Stop(error.to_string())),
            }
        }
        let count = sealed.len();
        self.line.push(shard, sealed);
        Ok(count)
    }

    /// The writer writes the batches gathered; the batches that are on disk now, by shard.
    pub fn write(&mut self, now: Now) -> Result<Vec<(ShardId, Vec<Written>)>, Stop> {
        let mut done = Vec::new();
        if self.line.is_empty() {
            return Ok(done);
        }
        let Books { journal, space, line, disk } = self;
        let result = line.write(&mut done, |batches, places| {
            let result = journal.write(disk, batches, places);
            space.wrote(now.mono_ns, journal, disk);
            result
        });
        match result {
            Ok(()) => space.set_out(false),
            Err(WriteError::NoSpace) => space.set_out(true),
            Err(error @ WriteError::Fatal(_)) => return Err(Stop(error.to_string())),
        };
        Ok(done)
    }

    /// Writes a batch that no shard gave out; where it is. None where there is no space for it.
    pub fn write_alone(&mut self, now: Now, batch: Sealed) -> Result<Option<Place>, Stop> {
        let mut places = Vec::new();
        let result = self.journal.write(&self.disk, &[batch], &mut places);
        self.space.wrote(now.mono_ns, &self.journal, &self.disk);
        match result {
            Ok(()) => Ok(places.pop()),
            // Nobody writes it again, so that it would never be seen that there is space.
            Err(WriteError::NoSpace) => Ok(None),
            Err(error @ WriteError::Fatal(_)) => Err(Stop(error.to_string())),
        }
    }

    /// Files that were let go of are used again, though nobody writes.
    pub fn use_released(&mut self, now: Now) {
        if self.space.wants_group(&self.journal) {
            // A device that failed fails the next commit; and one without space has none.
            let _ = self.journal.write(&self.disk, &[], &mut Vec::new());
            self.space.wrote(now.mono_ns, &self.journal, &self.disk);
        }
    }

    /// Writes the group after which rot is told from a torn write. False where there is no space for it.
    pub fn seal_end(&mut self) -> Result<bool, Stop> {
        match self.journal.write(&self.disk, &[], &mut Vec::new()) {
            Ok(()) => Ok(true),
            Err(WriteError::NoSpace) => Ok(false),
            Err(error @ WriteError::Fatal(_)) => Err(Stop(error.to_string())),
        }
    }
}
