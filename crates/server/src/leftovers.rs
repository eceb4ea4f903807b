//! The space of removed files, given back piece by piece.
//!
//! A filesystem that tells the device of 64 MiB at once keeps it busy for 10 ms and longer, so that flushes wait. So a
//! large file that has lost its name is cut shorter and shorter, and the pauses in between grow with the time a piece
//! takes. A thread does that while there is something to be done.
//! Not here: removing files that streams have let go, which may be a thousand ([`crate::sweeper`]).

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "part of the real disk, with a thread of its own"
)]

use crate::pauses::Pauses;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are given back at a time, and pieces that the device hears of together.
const PIECE: u64 = 4 << 20;
const PIECES_TOLD: u64 = 8;

/// Files that wait, and are open meanwhile; the space of more goes at once.
pub const WAITING_MAX: usize = 128;

/// A file that has no name any more.
#[derive(Debug)]
pub struct Leftover {
    descriptor: Arc<OwnedFd>,
    /// Bytes.
    len: u64,
}

/// Those that wait. See the module.
#[derive(Debug, Default)]
pub struct Leftovers(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    files: VecDeque<Leftover>,
    /// A thread is at it.
    is_served: bool,
}

impl Leftover {
    /// The file behind a descriptor that is about to lose its name, if it has more than one piece, and no other name: it is not
    /// ours alone then.
    pub fn of(descriptor: Arc<OwnedFd>) -> Option<Leftover> {
        let status = rustix::fs::fstat(&*descriptor).ok()?;
        let len = status.st_size as u64;
        (len > PIECE && status.st_nlink <= 1).then_some(Leftover { descriptor, len })
    }

    /// Gives the space back. `pause` is called in front of each piece; when it says `false`, the rest goes at once.
    pub fn give_back(self, pause: &mut dyn FnMut() -> bool) {
        let Leftover { descriptor, mut len } = self;
        while len > 0 && pause() {
            len = len.saturating_sub(PIECE);
            // The device hears of freed space with the filesystem's own commit, seconds later. What is to be told then is kept
            // small; a commit for each piece would be worse for those who write.
            let is_told = (len / PIECE).is_multiple_of(PIECES_TOLD);
            // Space that cannot be given back now goes with the descriptor.
            if !cut(&descriptor, len) || (is_told && rustix::fs::fsync(&*descriptor).is_err()) {
                break;
            }
        }
    }
}

fn cut(descriptor: &OwnedFd, len: u64) -> bool {
    loop {
        match rustix::fs::ftruncate(descriptor, len) {
            Err(Errno::INTR) => {}
            cut => return cut.is_ok(),
        }
    }
}

impl Leftovers {
    /// The file's space is given back when those before it are gone; at once where `most` wait.
    pub fn add(self: &Arc<Leftovers>, leftover: Leftover, most: usize) {
        let mut waiting = self.waiting();
        if waiting.files.len() >= most {
            drop(waiting);
            drop(leftover);
            return;
        }
        waiting.files.push_back(leftover);
        if !waiting.is_served {
            let leftovers = self.clone();
            let thread = std::thread::Builder::new().name("leftovers".into());
            waiting.is_served = thread.spawn(move || leftovers.serve()).is_ok();
            if !waiting.is_served {
                waiting.files.clear();
            }
        }
    }

    fn serve(&self) {
        while let Some(leftover) = self.next() {
            let mut pauses = Pauses::begin();
            leftover.give_back(&mut || {
                pauses.pause();
                true
            });
        }
    }

    fn next(&self) -> Option<Leftover> {
        let mut waiting = self.waiting();
        let next = waiting.files.pop_front();
        waiting.is_served = next.is_some();
        next
    }

    /// No state here is broken by a thread that panicked.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// A file of so many bytes, without a name but where it has a second one, and a second descriptor of it.
    fn file(len: u64, second: Option<&Path>) -> (Option<Leftover>, File) {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("leveret-leftover-{}-{number}", std::process::id()));
        let file = File::create_new(&path).unwrap();
        file.set_len(len).unwrap();
        if let Some(second) = second {
            std::fs::hard_link(&path, second).unwrap();
        }
        let leftover = Leftover::of(Arc::new(OwnedFd::from(file.try_clone().unwrap())));
        std::fs::remove_file(&path).unwrap();
        (leftover, file)
    }

    fn wait_for(leftovers: &Leftovers) {
        while leftovers.waiting().is_served {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn space_goes_piece_by_piece_while_there_is_time() {
        for (time_for, left) in [(9, 0), (3, 0), (2, PIECE), (0, 2 * PIECE + 1)] {
            let (leftover, file) = file(2 * PIECE + 1, None);
            let mut pauses = 0;
            leftover.unwrap().give_back(&mut || {
                pauses += 1;
                pauses <= time_for
            });
            let expected = if left == PIECE { 1 } else { left };
            assert_eq!(file.metadata().unwrap().len(), expected, "{time_for}");
        }
        assert!(file(PIECE, None).0.is_none(), "one piece is not worth it");
        let second = std::env::temp_dir().join(format!("leveret-leftover-{}", std::process::id()));
        assert!(file(PIECE + 1, Some(&second)).0.is_none(), "somebody has it under another name");
        std::fs::remove_file(&second).unwrap();
    }

    #[test]
    fn who_removes_does_not_wait() {
        let leftovers = Arc::new(Leftovers::default());
        let files: Vec<File> = (0..WAITING_MAX + 9)
            .map(|_| {
                let (leftover, file) = file(PIECE + 1, None);
                leftovers.add(leftover.unwrap(), WAITING_MAX);
                file
            })
            .collect();
        assert!(leftovers.waiting().files.len() <= WAITING_MAX);
        wait_for(&leftovers);
        let cut = files.iter().filter(|file| file.metadata().unwrap().len() == 0).count();
        assert!(cut >= WAITING_MAX, "{cut}");
        // The thread is gone: another comes.
        let (leftover, file) = file(PIECE + 1, None);
        leftovers.add(leftover.unwrap(), WAITING_MAX);
        wait_for(&leftovers);
        assert_eq!(file.metadata().unwrap().len(), 0);
    }
}
