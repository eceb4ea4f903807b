//! Changes and snapshots of the catalog: any bytes are read without panic, and what was read survives writing.
#![no_main]

use broker::catalog::{Catalog, Change};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(change) = Change::decode(bytes) {
        let again = Change::decode(&change.encode());
        assert_eq!(again.as_ref(), Ok(&change));
        Catalog::default().apply(&change);
    }
    for version in [1, 2] {
        read_snapshot(version, bytes);
    }
});

/// A snapshot of a catalog of one node, or of one that nodes agree on.
fn read_snapshot(version: u8, bytes: &[u8]) {
    let mut snapshot = [b"LVRTCAT".as_slice(), &[version]].concat();
    snapshot.extend(bytes);
    if let Ok(catalog) = Catalog::read_snapshot(&snapshot) {
        let mut written = Vec::new();
        catalog.write_snapshot(&mut written);
        let mut again = Vec::new();
        Catalog::read_snapshot(&written).expect("what was written is read").write_snapshot(&mut again);
        assert_eq!(written, again);
    }
}
