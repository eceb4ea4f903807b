//! The house stands: run by `cargo test` so that nobody builds upon a wrong arrow.

#[test]
fn every_arrow_goes_down() {
    let metadata = xtask::cargo::metadata(false).expect("cargo metadata");
    let complaints = xtask::floors::complaints(&metadata);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
