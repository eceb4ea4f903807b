//! The program of the packages: built so that it needs no library of the system and names no folder of this machine.

use crate::cargo::{self, Metadata};
use crate::tool::{output, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Between flags in cargo's variable for them, so that paths may have spaces.
const BETWEEN_FLAGS: &str = "\u{1f}";

/// The broker's version.
///
/// # Errors
/// There is no such crate.
pub fn version(metadata: &Metadata) -> Result<String, String> {
    let server =
        metadata.packages.iter().find(|package| package.name == "server" && package.source.is_none());
    Ok(server.ok_or("the workspace has no crate called server")?.version.clone())
}

/// The name of the file with the program's symbols, by which a debugger finds it.
///
/// # Errors
/// As of [`version`].
pub fn symbols(metadata: &Metadata) -> Result<String, String> {
    Ok(format!("leveret-{}-{}.debug", version(metadata)?, std::env::consts::ARCH))
}

/// Builds it in the workspace's target folder; its path.
///
/// # Errors
/// The compiler's.
pub fn program(metadata: &Metadata, epoch: u64) -> Result<PathBuf, String> {
    let host = cargo::host()?;
    let places = places(metadata)?;
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    // Relocations in their short form, by which the program is 0.4 MB smaller; it applies them itself when it starts.
    let mut of_linker = vec!["--build-id=sha1", "-z,pack-relative-relocs"];
    // Functions whose code is the same are one, 0.5 MB less: nothing tells functions apart by where they are, but a trace may
    // name another of the same code. On other machines rustc takes the system's linker, which does not know this.
    if host.starts_with("x86_64-unknown-linux") {
        of_linker.push("--icf=all");
    }
    flags.extend(of_linker.iter().map(|flag| format!("-Clink-arg=-Wl,{flag}")));
    flags.extend(places.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())));
    // Code in C and assembly, of which some crates are made in part.
    let map = |(from, to): &(PathBuf, &str)| format!("-ffile-prefix-map={}={to}", from.display());
    let flags_c: Vec<String> = places.iter().map(map).collect();
    let mut cargo = cargo::command();
    // A target that is named, though it is this machine: flags are then for the program, not for what runs while it is
    // built.
    cargo.args([
        "build",
        "--release",
        "--locked",
        "--package",
        "server",
        "--bin",
        "leveret",
        "--target",
        &host,
    ]);
    cargo.arg("--target-dir").arg(&metadata.target_directory).current_dir(&metadata.workspace_root);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join(BETWEEN_FLAGS)).env_remove("RUSTFLAGS");
    cargo.env("CFLAGS", flags_c.join(" ")).env("SOURCE_DATE_EPOCH", epoch.to_string());
    run(&mut cargo)?;
    Ok(metadata.target_directory.join(host).join("release").join("leveret"))
}

/// Folders of this machine, and their names in the program. Of several that match, the last counts.
fn places(metadata: &Metadata) -> Result<Vec<(PathBuf, &'static str)>, String> {
    let mut places =
        vec![(metadata.workspace_root.clone(), "/leveret"), (metadata.target_directory.clone(), "/target")];
    let is_crate = |package: &&cargo::Package| package.source.is_some();
    // `.../registry/src/NAME/CRATE/Cargo.toml`, where the name is the registry's on this machine.
    let registries = metadata.packages.iter().filter(is_crate);
    let mut registries: Vec<PathBuf> = registries
        .filter_map(|package| package.manifest_path.ancestors().nth(2).map(Path::to_owned))
        .collect();
    registries.sort();
    registries.dedup();
    if registries.is_empty() {
        return Err("no crate of a registry is in the graph, of which the broker has many".to_owned());
    }
    places.extend(registries.into_iter().map(|folder| (folder, "/crates")));
    Ok(places)
}

/// Sees to it that a program needs nothing of the system: the packages name no libraries, and the image has none.
///
/// # Errors
/// It asks for a loader of libraries, or is no program.
pub fn check_static(program: &Path) -> Result<(), String> {
    let headers = output(Command::new("readelf").args(["--wide", "--program-headers"]).arg(program))?;
    match String::from_utf8_lossy(&headers).contains("INTERP") {
        false => Ok(()),
        true => Err(format!("{} is linked with libraries: packages take one that is not", program.display())),
    }
}

/// Copies a program without its symbols, and its symbols to a file of their own that a debugger finds by the program.
///
/// # Errors
/// The programs'.
pub fn split(built: &Path, program: &Path, symbols: &Path) -> Result<(), String> {
    let objcopy = |options: &[&str], from: &Path, to: &Path| {
        run(Command::new("objcopy").args(options).arg(from).arg(to))
    };
    objcopy(&["--only-keep-debug", "--compress-debug-sections"], built, symbols)?;
    let link = format!("--add-gnu-debuglink={}", symbols.display());
    objcopy(&["--strip-all", &link], built, program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_libraries_is_refused() {
        // The test itself is one.
        let own = std::env::current_exe().unwrap();
        assert!(check_static(&own).unwrap_err().contains("is linked with libraries"));
        assert!(check_static(Path::new("Cargo.toml")).is_err());
    }

    #[test]
    fn folders_of_this_machine_have_other_names() {
        let metadata = cargo::metadata(true).unwrap();
        let places = places(&metadata).unwrap();
        assert_eq!(places[0], (metadata.workspace_root.clone(), "/leveret"));
        assert!(places.iter().any(|(folder, name)| *name == "/crates" && folder.is_dir()), "{places:?}");
    }
}
