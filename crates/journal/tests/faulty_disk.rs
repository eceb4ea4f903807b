//! The suite on the double.

mod suite;

use journal::FaultyDisk;

#[test]
fn without_faults() {
    let mut seed = 0;
    suite::all(|| {
        seed += 1;
        Box::new(FaultyDisk::new(seed))
    });
}
