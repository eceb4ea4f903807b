//! A network of its own, with a node on the usual ports, in which the commands of a page are run.
//!
//! The pages say 5672 and 15672, which another program of the machine may have. Where the kernel does not allow such a
//! network nothing is run. Programs that a page starts end with it: they are in a process namespace of their own.

use crate::package::LINKS;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The script that runs the steps.
const SCRIPT: &str = include_str!("sandbox.sh");

/// The binary's own name; pages use those of RabbitMQ's tools too.
const NAME: &str = "leveret";

/// Programs of the system that pages use and that not every machine has.
const TOOLS: [&str; 2] = ["curl", "openssl"];

/// Ways to get the namespaces: as root, and as a user whom the kernel lets have users of its own.
const WAYS: [&[&str]; 2] = [
    &["--net", "--pid", "--fork", "--kill-child", "--mount-proc"],
    &["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"],
];

/// One block that is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its line in the page.
    pub line: usize,
    /// It is a program in Python, and no script.
    pub is_python: bool,
    /// It runs a node, and goes on in the background.
    pub is_server: bool,
    /// Its text.
    pub text: String,
    /// The output that the page promises, where it does.
    pub expected: Option<String>,
}

/// A place to run steps in.
#[derive(Debug)]
pub struct Sandbox<'a> {
    broker: &'a Path,
    /// A Python that has pika.
    python: Option<PathBuf>,
    /// The namespaces, or why there are none.
    way: Result<&'static [&'static str], String>,
}

impl<'a> Sandbox<'a> {
    /// A sandbox for the binary `broker`; clients of the foreign suites are under `root`, once those have run.
    pub fn new(broker: &'a Path, root: &Path) -> Sandbox<'a> {
        let python = root.join(".deps/python/bin/python");
        let has_pika = |python: &PathBuf| {
            let tried = Command::new(python).args(["-c", "import pika"]).output();
            tried.is_ok_and(|output| output.status.success())
        };
        Sandbox { broker, python: Some(python).filter(has_pika), way: way() }
    }

    /// Why these steps cannot be run on this machine.
    pub fn why_absent(&self, steps: &[Step]) -> Option<String> {
        if let Err(why) = &self.way {
            return Some(format!("no network of its own can be had here: {why}"));
        }
        if self.python.is_none() && steps.iter().any(|step| step.is_python) {
            return Some("no Python with pika is installed".to_owned());
        }
        let is_used = |tool: &&&str| steps.iter().any(|step| step.text.contains(**tool));
        let is_absent = |tool: &&&str| Command::new(tool).arg("--help").output().is_err();
        let absent = TOOLS.iter().filter(is_used).find(is_absent);
        absent.map(|tool| format!("{tool} is not installed"))
    }

    /// Runs the steps in order, to the first that fails: exit code and output of each that ran.
    ///
    /// # Errors
    /// The node did not start, or a file could not be written.
    pub fn run(&self, steps: &[Step]) -> Result<Vec<(i32, String)>, String> {
        let way = self.way.clone()?;
        let beside = self.broker.parent().unwrap_or(Path::new("."));
        let folder = beside.join(format!("page-{}", std::process::id()));
        let done = self.lay_out(&folder, steps).map_err(|error| format!("{}: {error}", folder.display()));
        let outcomes = done.and_then(|names| self.follow(way, &folder, &names));
        // A folder that stays is no reason to call a page wrong.
        let _ = fs::remove_dir_all(&folder);
        outcomes
    }

    /// Writes what the script reads; the names of the steps, in order.
    fn lay_out(&self, folder: &Path, steps: &[Step]) -> std::io::Result<Vec<String>> {
        for part in ["steps", "bin", "out", "work"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let broker = fs::canonicalize(self.broker)?;
        for name in std::iter::once(NAME).chain(LINKS) {
            symlink(&broker, folder.join("bin").join(name))?;
        }
        if steps.iter().any(|step| step.is_server) {
            fs::write(folder.join("has-server"), "")?;
        }
        fs::write(folder.join("script"), SCRIPT)?;
        let mut names = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            let kind = match step {
                Step { is_server: true, .. } => "server",
                Step { is_python: true, .. } => "python",
                _ => "sh",
            };
            let name = format!("{at:03}.{kind}");
            fs::write(folder.join("steps").join(&name), &step.text)?;
            names.push(name);
        }
        Ok(names)
    }

    fn follow(&self, way: &[&str], folder: &Path, names: &[String]) -> Result<Vec<(i32, String)>, String> {
        let folder = fs::canonicalize(folder).map_err(|error| error.to_string())?;
        let mut command = Command::new("unshare");
        command.args(way).arg("bash").arg(folder.join("script")).arg(&folder);
        command.arg(self.python.as_deref().unwrap_or(Path::new("false"))).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("unshare: {error}"))?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            return Err(format!("the node did not start: {}", String::from_utf8_lossy(&said)));
        }
        let read = |name: String| fs::read(folder.join("out").join(name)).ok();
        let outcome = |name: &String| {
            let code = String::from_utf8(read(format!("{name}.code"))?).ok()?.trim().parse().ok()?;
            let printed = String::from_utf8_lossy(&read(name.clone())?).into_owned();
            Some((code, printed))
        };
        Ok(names.iter().map_while(outcome).collect())
    }
}

/// The first way that the kernel allows.
fn way() -> Result<&'static [&'static str], String> {
    let mut why = "unshare is not installed".to_owned();
    for way in WAYS {
        let tried = Command::new("unshare").args(way).args(["ip", "link", "set", "lo", "up"]).output();
        match tried {
            Ok(output) if output.status.success() => return Ok(way),
            Ok(output) => why = String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => why = format!("unshare: {error}"),
        }
    }
    Err(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Step {
        Step { line: 1, is_python: false, is_server: false, text: text.to_owned(), expected: None }
    }

    #[test]
    fn steps_run_to_the_first_that_fails_beside_their_server() {
        // A node that is a script: it says that it serves, and `leveret` is not needed.
        let folder = std::env::temp_dir().join(format!("leveret-sandbox-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let broker = folder.join("broker");
        fs::write(&broker, "").expect("a file");
        let sandbox = Sandbox { broker: &broker, python: None, way: way() };
        if sandbox.way.is_err() {
            return;
        }
        let server = Step { is_server: true, ..step("echo 'Server startup complete'; exec sleep 30\n") };
        let steps =
            [server.clone(), step("echo one > file\n"), step("cat file\n"), step("false\n"), step("true\n")];
        let outcomes = sandbox.run(&steps).expect("runs");
        let expected = [(0, ""), (0, ""), (0, "one\n"), (1, "")];
        let expected: Vec<(i32, String)> = expected.map(|(code, text)| (code, text.to_owned())).to_vec();
        assert_eq!(outcomes, expected);
        let fails = Step { text: "echo no; exit 3\n".to_owned(), ..server };
        assert_eq!(sandbox.run(&[fails]).expect("runs"), [(1, "no\n".to_owned())]);
        let _ = fs::remove_dir_all(&folder);
    }
}
