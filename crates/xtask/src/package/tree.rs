//! A folder that files are laid out in, with the modes that they will have; every time is the same in the end.

use crate::tool::run;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The mode of files that anybody reads.
pub const PLAIN: u32 = 0o644;

/// The mode of programs.
pub const PROGRAM: u32 = 0o755;

/// See the module.
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// An empty one in place of what was at `root`.
    ///
    /// # Errors
    /// The system's.
    pub fn new(root: &Path) -> Result<Tree, String> {
        if root.exists() {
            std::fs::remove_dir_all(root).map_err(|error| at(root, &error))?;
        }
        let tree = Tree { root: root.to_owned() };
        tree.folder("", PROGRAM)?;
        Ok(tree)
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes a folder with this mode; folders above it are for everybody to read.
    ///
    /// # Errors
    /// The system's.
    pub fn folder(&self, name: &str, mode: u32) -> Result<PathBuf, String> {
        let path = self.root.join(name);
        let parents: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
        for folder in parents.into_iter().rev() {
            std::fs::create_dir(folder).map_err(|error| at(folder, &error))?;
            set_mode(folder, PROGRAM)?;
        }
        set_mode(&path, mode)?;
        Ok(path)
    }

    /// Writes a file.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), String> {
        let path = self.place(name)?;
        std::fs::write(&path, bytes).map_err(|error| at(&path, &error))?;
        set_mode(&path, mode)
    }

    /// Copies a file of another place.
    ///
    /// # Errors
    /// The system's.
    pub fn copy(&self, from: &Path, name: &str, mode: u32) -> Result<(), String> {
        let bytes = std::fs::read(from).map_err(|error| at(from, &error))?;
        self.write(name, &bytes, mode)
    }

    /// Writes a file packed by gzip, under its name with `.gz`.
    ///
    /// # Errors
    /// The system's, or the program's.
    pub fn zip(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        self.write(name, bytes, PLAIN)?;
        run(Command::new("gzip").args(["--best", "--no-name", "--force"]).arg(self.root.join(name)))
    }

    /// Makes a link to `target`.
    ///
    /// # Errors
    /// The system's.
    pub fn link(&self, target: &str, name: &str) -> Result<(), String> {
        let path = self.place(name)?;
        symlink(target, &path).map_err(|error| at(&path, &error))
    }

    /// Gives all in it this time, seconds since 1970.
    ///
    /// # Errors
    /// The programs'.
    pub fn date(&self, epoch: u64) -> Result<(), String> {
        let mut find = Command::new("find");
        find.arg(&self.root).args(["-exec", "touch", "--no-dereference"]);
        find.arg(format!("--date=@{epoch}")).args(["{}", "+"]);
        run(&mut find)
    }

    fn place(&self, name: &str) -> Result<PathBuf, String> {
        if let Some((folder, _)) = name.rsplit_once('/')
            && !self.root.join(folder).exists()
        {
            self.folder(folder, PROGRAM)?;
        }
        Ok(self.root.join(name))
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, mode).map_err(|error| at(path, &error))
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn modes_and_times_are_as_asked_for() {
        let root = std::env::temp_dir().join(format!("tree-{}", std::process::id()));
        let tree = Tree::new(&root).unwrap();
        tree.write("a/b/program", b"", PROGRAM).unwrap();
        tree.folder("a/secret", 0o700).unwrap();
        tree.link("b/program", "a/link").unwrap();
        tree.date(86_400).unwrap();
        let check = |name: &str, mode: u32| {
            let found = root.join(name).symlink_metadata().unwrap();
            assert_eq!((found.mode() & 0o777, found.mtime()), (mode, 86_400), "{name}");
        };
        check("a", 0o755);
        check("a/b/program", 0o755);
        check("a/secret", 0o700);
        check("a/link", 0o777);
        let again = Tree::new(&root).unwrap();
        assert!(!again.root().join("a").exists());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
