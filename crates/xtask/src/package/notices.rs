//! Licences of the crates that the program is made of, which are passed on with it.

use crate::cargo::{self, Metadata, Package};
use crate::tool::output;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Names of files with licences begin so, in any case.
const BEGINNINGS: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// One text with all of them; each licence stands there once, below the crates that it is for.
///
/// # Errors
/// The graph or a file could not be read.
pub fn text(metadata: &Metadata) -> Result<String, String> {
    let mut tree = cargo::command();
    tree.current_dir(&metadata.workspace_root);
    tree.args(["tree", "--package", "server", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let tree = String::from_utf8_lossy(&output(&mut tree)?).into_owned();
    let mut crates: BTreeMap<String, &Package> = BTreeMap::new();
    for line in tree.lines() {
        let mut words = line.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let is_it = |package: &&Package| {
            package.name == name && version.strip_prefix('v') == Some(package.version.as_str())
        };
        if let Some(package) = metadata.packages.iter().find(is_it).filter(|package| package.source.is_some())
        {
            crates.insert(format!("{name} {}", package.version), package);
        }
    }
    let mut texts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut all = String::from("Crates of other people in Leveret, with their licences:\n\n");
    for (name, package) in &crates {
        let _ = writeln!(all, "{name}: {}", package.license.as_deref().unwrap_or("see its licence below"));
        for licence in licences(package)? {
            texts.entry(licence).or_default().push(name);
        }
    }
    for (licence, of) in texts {
        let _ = write!(all, "\n{}\n{}\n\n{}\n", "=".repeat(78), of.join(", "), licence.trim_end());
    }
    Ok(all)
}

/// The texts of a crate's licences.
fn licences(package: &Package) -> Result<Vec<String>, String> {
    let folder = package.manifest_path.parent().unwrap_or(Path::new("."));
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if BEGINNINGS.iter().any(|begin| name.starts_with(begin)) && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    let read = |path: &std::path::PathBuf| std::fs::read(path).map_err(failed);
    files.iter().map(|path| Ok(String::from_utf8_lossy(&read(path)?).into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_the_program_are_named_and_others_are_not() {
        let text = text(&cargo::metadata(true).unwrap()).unwrap();
        assert!(text.contains("\nserde_json ") && text.contains("MIT"), "{}", &text[..2000]);
        // A tool of tests.
        assert!(!text.contains("\nproptest "));
    }
}
