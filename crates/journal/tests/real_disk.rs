//! The suite on the real disk, which lives in the server with what gives back its space.

#[allow(dead_code, reason = "the server uses the rest")]
#[path = "../../server/src/disk.rs"]
mod disk;
#[allow(dead_code, reason = "the server uses the rest")]
#[path = "../../server/src/leftovers.rs"]
mod leftovers;
#[path = "../../server/src/pauses.rs"]
mod pauses;
#[allow(dead_code, reason = "the server uses the rest")]
#[path = "../../server/src/private.rs"]
mod private;
mod suite;

use disk::{DiskOptions, FolderError, RealDisk};
use std::path::PathBuf;

/// A folder that goes away with the test, unless that fails.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("leveret-{name}-{}", std::process::id()));
    let _it_may_not_exist = std::fs::remove_dir_all(&folder);
    folder
}

fn run(name: &str, options: DiskOptions) {
    let root = folder(name);
    let mut number = 0;
    suite::all(|| {
        number += 1;
        Box::new(RealDisk::open(&root.join(number.to_string()), options).unwrap())
    });
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn direct() {
    run("direct", DiskOptions::default());
}

#[test]
fn cached_with_two_descriptors() {
    run("cached", DiskOptions { use_direct: false, descriptors_max: 2, ..DiskOptions::default() });
}

#[test]
fn large_reads_end_where_the_file_does() {
    use journal::{Disk, FileKind, FileName};
    let root = folder("large");
    let disk = RealDisk::open(&root, DiskOptions::default()).unwrap();
    let name = FileName::new(FileKind::Journal, 1);
    let bytes: Vec<u8> = (0..1_000_001u32).map(|at| (at / 7) as u8).collect();
    disk.create(name, 0).unwrap();
    disk.write_at(name, 0, &[std::io::IoSlice::new(&bytes)]).unwrap();
    let mut buffer = base::Buffer::default();
    for offset in [0, 4096, 5000] {
        let read = disk.read_at(name, offset, buffer.stretch(1 << 20)).unwrap();
        assert_eq!(buffer.bytes()[..read], bytes[offset as usize..]);
    }
    drop(disk);
    std::fs::remove_dir_all(root).unwrap();
}

/// By then a thread that cuts a file has begun.
const TIME_TO_CUT: std::time::Duration = std::time::Duration::from_millis(50);

#[test]
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what others see of real files, a while later"
)]
fn a_file_that_is_removed_slowly_is_gone_at_once_and_gives_its_space_back_in_pieces() {
    use journal::{Disk, DiskError, FileKind, FileName};
    use std::os::unix::fs::MetadataExt;
    let root = folder("slowly");
    let disk = RealDisk::open(&root, DiskOptions::default()).unwrap();
    let name = FileName::new(FileKind::Stream, 1);
    for stop_after in [usize::MAX, 2] {
        disk.create(name, 0).unwrap();
        disk.write_at(name, 0, &[std::io::IoSlice::new(&vec![7; 18 << 20])]).unwrap();
        disk.sync(name).unwrap();
        // A reader that has it open sees what becomes of it.
        let path = root.join(name.kind.folder()).join(name.leaf());
        let open = std::fs::File::open(&path).unwrap();
        let mut seen = Vec::new();
        let mut pause = || {
            assert_eq!(disk.list(FileKind::Stream), Ok(Vec::new()), "nobody finds half a file");
            seen.push(open.metadata().unwrap().size() >> 20);
            seen.len() <= stop_after
        };
        disk.remove_slowly(name, &mut pause).unwrap();
        let left = open.metadata().unwrap().size() >> 20;
        match stop_after {
            2 => assert_eq!((&seen[..], left), (&[18, 14, 10][..], 10)),
            _ => assert_eq!((&seen[..], left), (&[18, 14, 10, 6, 2][..], 0)),
        }
        assert_eq!(disk.remove_slowly(name, &mut || true), Err(DiskError::NotFound));
    }
    // The program that linked it has it whole: its space is nobody's to give back.
    let link = root.join("link");
    for is_slow in [false, true] {
        disk.create(name, 18 << 20).unwrap();
        std::fs::hard_link(root.join(name.kind.folder()).join(name.leaf()), &link).unwrap();
        match is_slow {
            true => disk.remove_slowly(name, &mut || true).unwrap(),
            false => disk.remove(name).unwrap(),
        }
        std::thread::sleep(TIME_TO_CUT);
        assert_eq!(std::fs::metadata(&link).unwrap().size(), 18 << 20);
        std::fs::remove_file(&link).unwrap();
    }
    drop(disk);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_folder_has_one_owner() {
    let root = folder("owner");
    let first = RealDisk::open(&root, DiskOptions::default()).unwrap();
    assert!(matches!(RealDisk::open(&root, DiskOptions::default()), Err(FolderError::InUse(_))));
    drop(first);
    RealDisk::open(&root, DiskOptions::default()).unwrap();
    std::fs::remove_dir_all(root).unwrap();
}

/// A disk that does nothing, to see what the journal itself costs.
struct NoDisk;

impl journal::Disk for NoDisk {
    fn create(&self, _: journal::FileName, _: u64) -> Result<(), journal::DiskError> {
        Ok(())
    }

    fn len(&self, _: journal::FileName) -> Result<u64, journal::DiskError> {
        Ok(0)
    }

    fn list(&self, _: journal::FileKind) -> Result<Vec<journal::FileName>, journal::DiskError> {
        Ok(Vec::new())
    }

    fn read_at(&self, _: journal::FileName, _: u64, _: &mut [u8]) -> Result<usize, journal::DiskError> {
        Ok(0)
    }

    fn write_at(
        &self,
        _: journal::FileName,
        _: u64,
        _: &[std::io::IoSlice<'_>],
    ) -> Result<(), journal::DiskError> {
        Ok(())
    }

    fn sync(&self, _: journal::FileName) -> Result<(), journal::DiskError> {
        Ok(())
    }

    fn sync_folder(&self, _: journal::FileKind) -> Result<(), journal::DiskError> {
        Ok(())
    }

    fn rename(&self, _: journal::FileName, _: journal::FileName) -> Result<(), journal::DiskError> {
        Ok(())
    }

    fn remove(&self, _: journal::FileName) -> Result<(), journal::DiskError> {
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64, journal::DiskError> {
        Ok(0)
    }
}

/// Figures, not a check: `cargo test -p journal --profile quick --test real_disk -- --ignored --nocapture`.
#[test]
#[ignore = "takes seconds and measures the machine"]
#[allow(clippy::disallowed_methods, reason = "it measures")]
fn how_fast() {
    use base::Buffer;
    use base::id::{LogId, LogIndex};
    use journal::*;
    use rustix::time::{ClockId, clock_gettime};
    use std::time::Instant;

    let cpu_us = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    let root = std::env::var_os("LEVERET_DISK").map_or_else(|| folder("fast"), PathBuf::from);
    let begun = Instant::now();
    let disk = RealDisk::open(&root, DiskOptions::default()).unwrap();
    let start = Start { secret: 5, from: FileId(0), keep: FileId(0) };
    let (mut journal, _) = Journal::open(&disk, Limits::default(), start, &mut |_| {}).unwrap();
    println!("direct: {}; start on an empty folder: {:?}", disk.is_direct(), begun.elapsed());
    suite::keep_house(&mut journal, &disk);
    // The journal alone.
    let (mut alone, _) = Journal::open(&NoDisk, Limits::default(), start, &mut |_| {}).unwrap();
    let mut places = Vec::new();
    for len in [128, 12_288, 65_536] {
        let mut memory = Buffer::with_capacity(len);
        let (mut seal_us, mut write_us) = (0.0, 0.0);
        for round in 0..20_000u64 {
            let mut batch = Batch::new(LogId(1), LogIndex(round), memory);
            batch.records().extend_zeroed(len);
            let cpu = cpu_us();
            let sealed = [batch.seal(1)];
            let sealed_at = cpu_us();
            alone.write(&NoDisk, &sealed, &mut places).unwrap();
            (seal_us, write_us) = (seal_us + sealed_at - cpu, write_us + cpu_us() - sealed_at);
            let [sealed] = sealed;
            memory = sealed.memory.recycle().unwrap();
            alone.take_rolled().into_iter().for_each(|file| alone.release(file));
        }
        println!("no disk {len:>6}: seal {:.2} us, write {:.2} us", seal_us / 2e4, write_us / 2e4);
    }
    // The floor: the same two calls, nothing around them.
    let bare = FileName::new(FileKind::Journal, 1 << 40);
    let zeros = vec![0; 1 << 20];
    disk.create(bare, 1 << 20).unwrap();
    disk.write_at(bare, 0, &[std::io::IoSlice::new(&zeros)]).unwrap();
    disk.sync(bare).unwrap();
    let mut block = Buffer::default();
    block.extend_zeroed(4096);
    let (begun, cpu) = (Instant::now(), cpu_us());
    for at in 0..4_000 {
        disk.write_at(bare, at % 256 * 4096, &[std::io::IoSlice::new(block.bytes())]).unwrap();
        disk.sync(bare).unwrap();
    }
    let spent = begun.elapsed().as_secs_f64() * 1e6;
    println!("    bare 4096: {:>6.1} us a commit, CPU {:.1} us", spent / 4e3, (cpu_us() - cpu) / 4e3);
    disk.remove(bare).unwrap();
    let mut base = 0;
    for (len, count) in [(128, 5_000), (12_288, 3_000), (65_536, 2_000), (1 << 20, 400), (4 << 20, 100)] {
        let mut slowest = 0.0f64;
        let (begun, cpu) = (Instant::now(), cpu_us());
        let mut spent_cpu = 0.0;
        let mut spent = 0.0;
        for _ in 0..count {
            let mut batch = Batch::new(LogId(1), LogIndex(base), Buffer::with_capacity(len));
            batch.records().extend_zeroed(len);
            let sealed = batch.seal(1);
            base += len as u64;
            let (once, once_cpu) = (Instant::now(), cpu_us());
            journal.write(&disk, &[sealed], &mut places).unwrap();
            let took = once.elapsed().as_secs_f64() * 1e6;
            spent_cpu += cpu_us() - once_cpu;
            spent += took;
            slowest = slowest.max(took);
            if let Some(file) = journal.take_rolled().last() {
                journal.release(*file);
                suite::keep_house(&mut journal, &disk);
            }
        }
        println!(
            "{len:>8} bytes: {:>6.1} us a commit, slowest {slowest:.0}, CPU {:.1} us, {:.0} MB/s (with all: {:.0} ms, CPU {:.0} ms)",
            spent / count as f64,
            spent_cpu / count as f64,
            (len * count) as f64 / spent,
            begun.elapsed().as_secs_f64() * 1e3,
            (cpu_us() - cpu) / 1e3,
        );
    }
    println!("{:?}", journal.counters());
    // A gigabyte to recover.
    let from = journal.end().0;
    for _ in 0..1024 {
        let mut batch = Batch::new(LogId(1), LogIndex(base), Buffer::with_capacity(1 << 20));
        batch.records().extend_zeroed(1 << 20);
        base += 1 << 20;
        journal.write(&disk, &[batch.seal(1)], &mut places).unwrap();
    }
    let (begun, cpu) = (Instant::now(), cpu_us());
    let start = Start { from, keep: from, ..start };
    let (_, recovered) = Journal::open(&disk, Limits::default(), start, &mut |_| {}).unwrap();
    println!(
        "recovery of {} MiB: {:?}, CPU {:.0} ms",
        recovered.record_bytes >> 20,
        begun.elapsed(),
        (cpu_us() - cpu) / 1e3
    );
    drop(disk);
    std::fs::remove_dir_all(root).unwrap();
}
