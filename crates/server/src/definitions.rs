//! Definitions that are imported when the node starts, before it accepts anybody.
//!
//! Objects they name are made or changed to match, and others stay: a node with data of its own keeps it. A file that
//! cannot be imported keeps the node from starting, since applications would find only a part of what they rely on.

use crate::config::{Config, ShownSetting};
use crate::log::Logger;
use crate::private;
use management::{Node, Request, Response};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Bytes of one file of definitions.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Keys that name files.
const KEYS: [&str; 3] = ["load_definitions", "management.load_definitions", "definitions.local.path"];

/// Files of one folder.
const FILES_MAX: usize = 10_000;

/// Where the digest of what was imported is kept in the data folder.
const DIGEST_NAME: &str = "definitions.sha256";

/// The texts of all files that are named, in the order of their names within each folder.
///
/// # Errors
/// Which cannot be read, and why; or is no JSON object.
pub fn read(config: &Config) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
    let mut texts = Vec::new();
    for path in &config.definitions.paths {
        let is_meant = |shown: &ShownSetting| KEYS.contains(&&*shown.key) && Path::new(&shown.value) == path;
        let setting = config.shown.iter().rev().find(|shown| is_meant(shown));
        let placed = |why: String| setting.map_or_else(|| why.clone(), |setting| setting.placed(&why));
        for file in files(path).map_err(placed)? {
            let failed = |why: &dyn std::fmt::Display| {
                placed(format!("definitions cannot be read from {}: {why}", file.display()))
            };
            let size = std::fs::metadata(&file).map_err(|error| failed(&error))?.len();
            if size > FILE_BYTES_MAX {
                return Err(failed(&format!("it is larger than {FILE_BYTES_MAX} bytes")));
            }
            let text = std::fs::read(&file).map_err(|error| failed(&error))?;
            let unmarked = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
            let parsed: Result<serde_json::Map<String, serde_json::Value>, _> =
                serde_json::from_slice(unmarked);
            parsed.map_err(|error| failed(&error))?;
            texts.push((file, text));
        }
    }
    Ok(texts)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let failed =
        |error: std::io::Error| format!("definitions cannot be read from {}: {error}", path.display());
    if !std::fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|extension| extension == "json") {
            files.push(file);
        }
        if files.len() > FILES_MAX {
            return Err(format!("{} has more than {FILES_MAX} files", path.display()));
        }
    }
    base::brief::sort(&mut files);
    Ok(files)
}

/// Imports what the configuration names.
///
/// # Errors
/// The file that cannot be read or imported, and why.
pub fn load(config: &Config, node: &impl Node, logger: &Logger) -> Result<(), String> {
    if config.definitions.paths.is_empty() {
        return Ok(());
    }
    let texts = read(config)?;
    let mut digest = Sha256::new();
    texts.iter().for_each(|(_, text)| digest.update(text));
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let kept = config.data_dir.join(DIGEST_NAME);
    if config.definitions.skips_unchanged
        && std::fs::read_to_string(&kept).is_ok_and(|own| own.trim() == digest)
    {
        logger.info("definitions are those that were imported before: they are not imported again");
        return Ok(());
    }
    for (file, text) in texts {
        logger.info(format!("importing definitions from {}", file.display()));
        let request = Request::new("POST", "/api/definitions", text, true);
        let mut request = request.ok_or("the path of definitions cannot be decoded")?;
        request.is_own = true;
        let Response { status, body, .. } = management::handle(node, &request);
        if !(200..300).contains(&status) {
            let answer: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let reason =
                answer["reason"].as_str().map_or_else(|| answer["reason"].to_string(), str::to_owned);
            return Err(format!("definitions of {} cannot be imported: {reason}", file.display()));
        }
    }
    // Without it they are imported once more next time, which does no harm.
    if let Err(error) = private::write(&kept, digest.as_bytes(), 0o600) {
        logger.warning(format!("{} cannot be written: {error}", kept.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_folder_come_by_name() {
        let folder = std::env::temp_dir().join(format!("leveret-definitions-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in [("b.json", "{}"), ("a.json", "{\"users\":[]}"), ("c.txt", "no")] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let names: Vec<PathBuf> = files(&folder).unwrap();
        assert_eq!(names, [folder.join("a.json"), folder.join("b.json")]);
        assert_eq!(files(&folder.join("c.txt")).unwrap(), [folder.join("c.txt")]);
        assert!(files(&folder.join("none")).unwrap_err().contains("cannot be read"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
