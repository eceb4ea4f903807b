//! The tool that makes packages of a folder: one file says what is in those of Debian and of RPM.

use super::tree::Tree;
use super::{Kind, Work};
use crate::tool::{Packaged, run};
use std::path::PathBuf;
use std::process::Command;

/// It reads one manifest for both kinds of packages, puts links in them, and takes its times from the environment;
/// cargo-deb and cargo-generate-rpm have a manifest each, and are compiled for minutes.
const NFPM: Packaged<'_> = Packaged {
    program: "nfpm",
    version: "2.48.0",
    package: "nfpm",
    sha256: "e9ee0bd2382f312c8d6fcdf48ac89f1347d3ba309c278c9c0aa4004327dcf61d",
};

/// Files of `packaging` that the manifest names.
const PARTS: [&str; 8] = [
    "deb/postinst",
    "deb/postrm",
    "deb/prerm",
    "leveret.conf",
    "nfpm.yaml",
    "rpm/postinstall",
    "rpm/postremove",
    "rpm/preremove",
];

/// Makes the package of the files below `tree/`.
///
/// # Errors
/// The tool cannot be had, or its own.
pub fn pack(work: &Work, kind: Kind, tree: Tree) -> Result<PathBuf, String> {
    for part in PARTS {
        tree.copy(&work.source(part), part, if part.contains('/') { 0o755 } else { 0o644 })?;
    }
    tree.date(work.epoch)?;
    let (arch, version) = (std::env::consts::ARCH, &work.version);
    // The tool knows architectures by the names of Go.
    let (arch_go, arch_deb) = match arch {
        "x86_64" => ("amd64", "amd64"),
        "aarch64" => ("arm64", "arm64"),
        other => (other, other),
    };
    let name = match kind {
        Kind::Deb => format!("leveret_{version}-1_{arch_deb}.deb"),
        _ => format!("leveret-{version}-1.{arch}.rpm"),
    };
    let target = work.folder.join(name);
    let mut nfpm = Command::new(NFPM.install(&work.root)?);
    nfpm.current_dir(tree.root()).args(["package", "--config", "nfpm.yaml", "--packager", kind.name()]);
    nfpm.arg("--target").arg(&target).stdout(std::process::Stdio::null());
    nfpm.env("SOURCE_DATE_EPOCH", work.epoch.to_string());
    nfpm.env("PACKAGE_VERSION", version).env("PACKAGE_ARCH", arch_go);
    run(&mut nfpm)?;
    Ok(target)
}
