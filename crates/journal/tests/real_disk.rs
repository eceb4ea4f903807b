//! The suite on the real disk, which lives in the server.

#[allow(dead_code, reason = "the server uses the rest")]
#[path = "../../server/src/disk.rs"]
mod disk;
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
fn a_folder_has_one_owner() {
    let root = folder("owner");
    let first = RealDisk::open(&root, DiskOptions::default()).unwrap();
    assert!(matches!(RealDisk::open(&root, DiskOptions::default()), Err(FolderError::InUse(_))));
    drop(first);
    RealDisk::open(&root, DiskOptions::default()).unwrap();
    std::fs::remove_dir_all(root).unwrap();
}
