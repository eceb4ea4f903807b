//! The house stands: run by `cargo test` so that nobody builds upon a wrong arrow.

#[test]
fn every_arrow_goes_down() {
    let metadata = xtask::cargo::metadata(false).expect("cargo metadata");
    let complaints = xtask::floors::complaints(&metadata);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn secrets_come_from_no_dice() {
    let metadata = xtask::cargo::metadata(false).expect("cargo metadata");
    // Without git nobody can say which files are the product's.
    let Ok(files) = xtask::text::tracked(&metadata.workspace_root) else { return };
    let complaints = xtask::secrets::complaints(&files);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
