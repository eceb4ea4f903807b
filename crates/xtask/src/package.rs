//! `cargo xtask package`: the broker as it is installed, as packages of Debian and of RPM, as an archive, and as an image.
//!
//! All have the same program, which is linked statically: one build serves every distribution, and an image with nothing
//! else in it. It is stripped, with its symbols in a file of their own. The packages of one commit are the same bytes
//! wherever they are made: times are the commit's, and paths of the machine are in none of them.

mod build;
mod image;
mod layout;
mod notices;
mod packer;
mod tree;

use crate::cargo::{self, Metadata};
use crate::report::Report;
use crate::tool::{output, run};
pub use layout::LINKS;
use layout::Layout;
use std::path::{Path, PathBuf};
use std::process::Command;
use tree::Tree;

/// Bytes of the stripped program.
const PROGRAM_BYTES_MAX: u64 = 16_000_000;

/// A way to install the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For Debian and its relatives.
    Deb,
    /// For Fedora, openSUSE and their relatives.
    Rpm,
    /// To be unpacked anywhere.
    Tarball,
    /// The files of a container image, with its Dockerfile.
    Image,
}

impl Kind {
    /// All of them, in the order of making.
    pub const ALL: [Kind; 4] = [Kind::Deb, Kind::Rpm, Kind::Tarball, Kind::Image];

    /// As it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Deb => "deb",
            Kind::Rpm => "rpm",
            Kind::Tarball => "tarball",
            Kind::Image => "image",
        }
    }
}

/// The packages that are asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Which; none: all.
    pub kinds: Vec<Kind>,
    /// A program that is packaged in place of one that is built.
    pub binary: Option<PathBuf>,
    /// Where they are put, in place of `target/package`.
    pub folder: Option<PathBuf>,
}

impl Order {
    /// Reads the words behind `cargo xtask package`.
    ///
    /// # Errors
    /// The word that means nothing.
    pub fn read(words: &[&str]) -> Result<Order, String> {
        let mut order = Order::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut path = || words.next().map(PathBuf::from).ok_or_else(|| format!("{word} takes a path"));
            match *word {
                "--binary" => order.binary = Some(path()?),
                "--folder" => order.folder = Some(path()?),
                name => match Kind::ALL.into_iter().find(|kind| kind.name() == name) {
                    Some(kind) => order.kinds.push(kind),
                    None => return Err(format!("no package is called {name}")),
                },
            }
        }
        Ok(order)
    }
}

/// Facts about the packages of one run.
struct Work {
    /// The workspace.
    root: PathBuf,
    /// Where packages are put.
    folder: PathBuf,
    /// The broker's version.
    version: String,
    /// The time of all files, seconds since 1970.
    epoch: u64,
    /// The stripped program.
    program: PathBuf,
    /// Licences of the crates that the program is made of.
    notices: String,
}

impl Work {
    /// A file of `packaging`.
    fn source(&self, name: &str) -> PathBuf {
        self.root.join("packaging").join(name)
    }

    /// Runs the program that is packaged; its output.
    fn ask(&self, words: &[&str]) -> Result<Vec<u8>, String> {
        output(Command::new(&self.program).args(words))
    }
}

/// Makes the packages, a line for each.
pub fn package(order: &Order) -> Report {
    let mut report = Report::default();
    let work = match cargo::metadata(true).and_then(|metadata| prepare(&metadata, order)) {
        Ok(work) => work,
        Err(why) => {
            report.fail("package.program", &why);
            return report;
        }
    };
    report.pass("package.program");
    let kinds = if order.kinds.is_empty() { &Kind::ALL[..] } else { &order.kinds };
    for kind in kinds {
        let name = format!("package.{}", kind.name());
        match make(&work, *kind) {
            Ok(made) => {
                report.pass(&name);
                println!("   {}", made.display());
            }
            Err(why) => report.fail(&name, &why),
        }
    }
    report
}

/// Builds the program once more, in another folder: it has to be the one in `folder`, byte for byte.
pub fn check_again(report: &mut Report, folder: &Path) {
    const NAME: &str = "package.same-program";
    let again = || -> Result<bool, String> {
        let mut metadata = cargo::metadata(true)?;
        let place = metadata.target_directory.join("package-again");
        let epoch = epoch(&metadata.workspace_root)?;
        metadata.target_directory = place.join("target");
        let built = build::program(&metadata, epoch)?;
        let program = place.join("leveret");
        let symbols = place.join(build::symbols(&metadata)?);
        build::split(&built, &program, &symbols)?;
        let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let is_same = read(&program)? == read(&folder.join("leveret"))?;
        std::fs::remove_dir_all(&place).map_err(|error| error.to_string())?;
        Ok(is_same)
    };
    match again() {
        Ok(true) => report.pass(NAME),
        Ok(false) => report.fail(NAME, "another folder makes other bytes"),
        Err(why) => report.fail(NAME, &why),
    }
}

/// The program, built where none is given, stripped; its symbols are put beside the packages.
fn prepare(metadata: &Metadata, order: &Order) -> Result<Work, String> {
    let root = metadata.workspace_root.clone();
    let version = build::version(metadata)?;
    let epoch = epoch(&root)?;
    let built = match &order.binary {
        Some(binary) => binary.clone(),
        None => build::program(metadata, epoch)?,
    };
    let folder = order.folder.clone().unwrap_or_else(|| metadata.target_directory.join("package"));
    let made = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(made)?;
    let folder = folder.canonicalize().map_err(made)?;
    let program = folder.join("leveret");
    let symbols = folder.join(build::symbols(metadata)?);
    build::check_static(&built)?;
    build::split(&built, &program, &symbols)?;
    let bytes = std::fs::metadata(&program).map_err(made)?.len();
    if bytes > PROGRAM_BYTES_MAX {
        return Err(format!("the stripped program has {bytes} bytes, {PROGRAM_BYTES_MAX} at most"));
    }
    Ok(Work { notices: notices::text(metadata)?, root, folder, version, epoch, program })
}

/// The time of the packages: the one that the environment gives, or the commit's.
fn epoch(root: &Path) -> Result<u64, String> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(given) => given,
        Err(_) => {
            let told = output(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]))?;
            String::from_utf8_lossy(&told).into_owned()
        }
    };
    text.trim().parse().map_err(|_| format!("{text:?} is no time: SOURCE_DATE_EPOCH has seconds since 1970"))
}

fn make(work: &Work, kind: Kind) -> Result<PathBuf, String> {
    let place = work.folder.join(kind.name());
    let mut tree = Tree::new(&place)?;
    match kind {
        Kind::Deb | Kind::Rpm => {
            let layout = if kind == Kind::Deb { Layout::Debian } else { Layout::Rpm };
            layout.fill(work, &mut tree, "tree/")?;
            packer::pack(work, kind, tree)
        }
        Kind::Tarball => archive(work, tree),
        Kind::Image => image::lay(work, tree),
    }
}

/// The archive, in which all is below a folder of its name.
fn archive(work: &Work, mut tree: Tree) -> Result<PathBuf, String> {
    let name = format!("leveret-{}-{}-linux", work.version, std::env::consts::ARCH);
    Layout::Anywhere.fill(work, &mut tree, &format!("{name}/"))?;
    tree.date(work.epoch)?;
    let packed = work.folder.join(format!("{name}.tar.gz"));
    let plain = work.folder.join(format!("{name}.tar"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg("--file").arg(&plain).arg("--directory").arg(tree.root()).arg(&name);
    run(&mut tar)?;
    // Without a name and a time of its own.
    run(Command::new("gzip").args(["--best", "--no-name", "--force"]).arg(&plain))?;
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_packages_and_places() {
        let check = |words: &[&str], expected: Result<Order, &str>| {
            assert_eq!(Order::read(words), expected.map_err(str::to_owned), "{words:?}");
        };
        check(&[], Ok(Order::default()));
        check(&["deb", "image"], Ok(Order { kinds: vec![Kind::Deb, Kind::Image], ..Order::default() }));
        let binary = Some(PathBuf::from("leveret"));
        check(&["--binary", "leveret"], Ok(Order { binary, ..Order::default() }));
        check(&["deb", "--folder"], Err("--folder takes a path"));
        check(&["snap"], Err("no package is called snap"));
    }
}
