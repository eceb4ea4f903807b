//! Puts the sources of a configuration together: finds the files, reads them, and applies what they say in order.
//!
//! Nothing ends at the first problem: all are told at once, so that one who moves here mends a file once.

use super::advanced::{self, Step};
use super::cluster;
use super::draft::Draft;
use super::secret::Decoder;
use super::syntax::{self, Error, Fault, Origin, Setting};
use super::terms::{self, Term};
use super::value::boolean;
use super::{Config, environment, places};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a configuration is looked for.
pub struct Sources<'a> {
    /// `--config`.
    pub file: Option<PathBuf>,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--set`, in order, as `KEY=VALUE`.
    pub settings: Vec<String>,
    /// All of it.
    pub environment: BTreeMap<String, String>,
    /// The machine's name.
    pub host: String,
    /// The text of a file.
    pub read: &'a dyn Fn(&Path) -> std::io::Result<String>,
    /// The files of a folder, in any order.
    pub list: &'a dyn Fn(&Path) -> std::io::Result<Vec<PathBuf>>,
}

/// A configuration that was read, and whether it can be used.
pub struct Loaded {
    /// The configuration by the usable settings. To be used only where there is no problem.
    pub config: Config,
    /// Settings that do nothing here.
    pub inert: usize,
    /// Settings and files that cannot be used, in the order of reading.
    pub problems: Vec<Error>,
}

impl Loaded {
    /// The configuration, where all of it can be used.
    ///
    /// # Errors
    /// All problems, where there is one.
    pub fn usable(self) -> Result<Config, Vec<Error>> {
        if self.problems.is_empty() { Ok(self.config) } else { Err(self.problems) }
    }

    /// One more thing that cannot be used, which no setting by itself could tell.
    pub fn refuse(&mut self, why: String) {
        self.problems.push(nowhere(why));
    }

    fn count(&self, fault: Fault) -> usize {
        self.problems.iter().filter(|problem| problem.fault == fault).count()
    }
}

/// The report of `--check-config`: what has no effect, what cannot be used, and how many of each there are.
impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))?;
        for problem in &self.problems {
            let fault = match problem.fault {
                Fault::Refused => "refused",
                Fault::Unknown => "unknown",
            };
            writeln!(f, "{fault}: {problem}")?;
        }
        let can = if self.problems.is_empty() { "can" } else { "cannot" };
        let (served, inert) = (self.config.settings.len(), self.inert);
        let (refused, unknown) = (self.count(Fault::Refused), self.count(Fault::Unknown));
        let files: Vec<String> = self.config.files.iter().map(|file| file.display().to_string()).collect();
        let of = if files.is_empty() { "no files".to_owned() } else { files.join(", ") };
        write!(
            f,
            "the configuration {can} be used: served {served}, without effect {inert}, refused {refused}, \
             unknown {unknown} ({of})"
        )
    }
}

/// Puts everything together.
pub fn load(sources: &Sources<'_>) -> Loaded {
    let mut draft = Draft::new(Config::new(&sources.host));
    let variable = |name: &str| sources.environment.get(name).cloned();
    // Lists of nodes are compared with it.
    environment::name_node(&mut draft, &sources.environment);
    // A file that the command line names is all there is of files.
    let usual = if sources.file.is_none() { places::find(sources) } else { places::Found::default() };
    let files = files(sources, &usual, &mut draft);
    let mut steps = Vec::new();
    for path in &files {
        match read_file(sources, path) {
            Ok(text) if is_classic(path, &text) => steps.extend(advanced::read(path, &text)),
            Ok(text) => steps.extend(lines(syntax::read(&path.to_string_lossy(), &text, &variable))),
            Err(error) => steps.push(Step::Fail(error)),
        }
    }
    // As with RabbitMQ, it wins over rabbitmq.conf.
    let advanced_file = advanced_file(sources, files.first(), &usual);
    if let Some(path) = &advanced_file {
        match read_file(sources, path) {
            Ok(text) => steps.extend(advanced::read(path, &text)),
            Err(error) => steps.push(Step::Fail(error)),
        }
    }
    steps.extend(environment::steps(&sources.environment));
    steps.extend(enabled_plugins(sources, &usual));
    let line = |setting: &String| syntax::read_line(setting, Origin::CommandLine, &variable);
    let said = lines(sources.settings.iter().map(line).collect());
    let mut said = said;
    decrypt(sources, steps.iter_mut().chain(&mut said));
    draft.size_hint = last_of("cluster_formation.target_cluster_size_hint", steps.iter().chain(&said));
    let is_tried = last_of(cluster::EXPERIMENTAL, steps.iter().chain(&said));
    draft.cluster.is_tried = is_tried.is_some_and(|value| boolean(&value) == Ok(true));
    if draft.cluster.is_tried {
        steps.retain(|step| !environment::is_of_nodes(step));
        steps.extend(environment::steps_of_nodes(&sources.environment));
    }
    steps.into_iter().for_each(|step| take(&mut draft, step));
    environment::apply_rest(&mut draft, &sources.environment);
    said.into_iter().for_each(|step| take(&mut draft, step));
    let of_backends = draft.backends.warnings();
    draft.config.warnings.extend(of_backends);
    let (inert, mut problems) = (draft.inert, std::mem::take(&mut draft.problems));
    let mut of_nodes = std::mem::take(&mut draft.cluster);
    if let Some(path) = of_nodes.cookie_file().cloned() {
        match read_file(sources, &path) {
            Ok(_) if of_nodes.has_cookie() => {
                let why = "a cookie that is given outright counts";
                draft.config.warnings.push(format!("leveret.cluster.cookie_file has no effect: {why}"));
            }
            Ok(text) => of_nodes.set_cookie(text.trim_end_matches(['\r', '\n']).as_bytes()),
            Err(error) => problems.push(error),
        }
    }
    let mut config = draft.finish();
    match of_nodes.finish(&config.node_name, config.logs) {
        Ok(own) => config.cluster = own.map(Box::new),
        // A setting that could not be read is not missing.
        Err(_) if !problems.is_empty() => {}
        Err(why) => problems.push(nowhere(config.placed(&why, &[cluster::EXPERIMENTAL]))),
    }
    if let Some(name) = config.vhost_defaults.empty_policy() {
        let message = format!("default_policies.operator.{name} sets nothing for the queues it is for");
        problems.push(nowhere(config.placed(&message, &[])));
    }
    config.files = files.into_iter().chain(advanced_file).collect();
    if let Some(folder) = &sources.data_dir {
        config.data_dir.clone_from(folder);
    }
    Loaded { config, inert, problems }
}

fn lines(read: Vec<Result<Setting, Error>>) -> Vec<Step> {
    read.into_iter().map(|line| line.map_or_else(Step::Fail, Step::Set)).collect()
}

/// The step of the plugins in the file of `RABBITMQ_ENABLED_PLUGINS_FILE`, or in the usual one:
/// `[rabbitmq_management,rabbitmq_mqtt].`
fn enabled_plugins(sources: &Sources<'_>, usual: &places::Found) -> Option<Step> {
    const VARIABLE: &str = "RABBITMQ_ENABLED_PLUGINS_FILE";
    let named = sources.environment.get(VARIABLE).filter(|path| !path.is_empty());
    let path = named.map(PathBuf::from).or_else(|| usual.plugins.clone())?;
    // As with RabbitMQ, without the file nothing is enabled.
    let text = (sources.read)(&path).unwrap_or_default();
    let plugins = match terms::read(&text) {
        Ok(Term::List(plugins)) => plugins,
        _ => Vec::new(),
    };
    let names = plugins.iter().filter_map(|plugin| match plugin {
        Term::Atom(name) => Some(name.as_str()),
        _ => None,
    });
    let line_of =
        |name: &str| text.lines().position(|line| line.contains(name)).map_or(1, |at| at as u32 + 1);
    let origin = |name: &str| match named {
        Some(_) => Origin::Environment(VARIABLE.to_owned()),
        None => {
            Origin::Term { path: path.to_string_lossy().into(), line: line_of(name), name: "plugins".into() }
        }
    };
    environment::plugins(origin, names)
}

/// Decrypts the values that are written encrypted, wherever they stand, by what any of the settings says of that.
fn decrypt<'a>(sources: &Sources<'_>, steps: impl Iterator<Item = &'a mut Step>) {
    let steps: Vec<&mut Step> = steps.collect();
    let mut decoder = Decoder::default();
    for step in &steps {
        let Step::Set(setting) = &**step else { continue };
        let Some(name) = setting.key.strip_prefix("config_entry_decoder.") else { continue };
        // A wrong value of it is reported when it is applied.
        let _ = match name {
            "passphrase_file" => read_file(sources, Path::new(&setting.value))
                .map(|text| decoder.set("passphrase", text.trim_end_matches(['\r', '\n'])).is_ok())
                .unwrap_or_default(),
            name => decoder.set(name, &setting.value).is_ok(),
        };
    }
    for step in steps {
        if let Step::Set(setting) = step
            && let Err(error) = decoder.open(setting)
        {
            *step = Step::Fail(error);
        }
    }
}

/// The last value of a key.
fn last_of<'a>(key: &str, steps: impl DoubleEndedIterator<Item = &'a Step>) -> Option<String> {
    steps.rev().find_map(|step| match step {
        Step::Set(setting) if setting.key == key => Some(setting.value.clone()),
        _ => None,
    })
}

fn take(draft: &mut Draft, step: Step) {
    match step {
        Step::Set(setting) => draft.apply(&setting),
        Step::Forget(family) => draft.forget(&family),
        Step::Tunes { backend, origin } => draft.tunes(backend, &origin, "", ""),
        Step::PassedOver { what, why } => draft.passed_over(&what, &why),
        Step::Note(warning) => draft.config.warnings.push(warning),
        Step::Fail(error) => draft.problems.push(error),
    }
}

/// An error that no line of a configuration can be blamed for.
pub fn nowhere(message: String) -> Error {
    Error { fault: Fault::Refused, origin: None, marked: String::new(), message, hint: String::new() }
}

fn read_file(sources: &Sources<'_>, path: &Path) -> Result<String, Error> {
    let text = (sources.read)(path).map_err(|error| nowhere(format!("{}: {error}", path.display())))?;
    match text.len() <= syntax::FILE_BYTES_MAX {
        true => Ok(text),
        false => Err(nowhere(format!("{} is larger than {} bytes", path.display(), syntax::FILE_BYTES_MAX))),
    }
}

/// The classic format is a term of Erlang; RabbitMQ tells it by the ending of the name, or where there is none by the text.
fn is_classic(path: &Path, text: &str) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("conf") => false,
        Some("config") => true,
        _ => terms::read(text).is_ok(),
    }
}

/// The main file, then those of the folder `RABBITMQ_CONFIG_FILES` in the order of their names; the usual ones where
/// nothing names others.
fn files(sources: &Sources<'_>, usual: &places::Found, draft: &mut Draft) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let named = sources.environment.get("RABBITMQ_CONFIG_FILE").filter(|name| !name.is_empty());
    match (&sources.file, named) {
        (Some(file), _) => files.push(file.clone()),
        (None, Some(name)) => files.push(main_file(sources, name, draft)),
        (None, None) => files.extend(usual.main.clone()),
    }
    let Some(folder) = sources.environment.get("RABBITMQ_CONFIG_FILES") else {
        files.extend(usual.further.iter().cloned());
        return files;
    };
    let folder = folder.strip_suffix("/*.conf").unwrap_or(folder);
    match conf_files(sources, Path::new(folder)) {
        Ok(listed) => files.extend(listed),
        Err(error) => {
            let message = format!("environment variable RABBITMQ_CONFIG_FILES: {folder}: {error}");
            draft.problems.push(nowhere(message));
        }
    }
    files
}

/// The files of a folder that end with `.conf`, in the order of their names.
pub(super) fn conf_files(sources: &Sources<'_>, folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut listed = (sources.list)(folder)?;
    listed.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
    base::brief::sort(&mut listed);
    Ok(listed)
}

/// The file that a name stands for, which is often given without its ending.
fn main_file(sources: &Sources<'_>, name: &str, draft: &mut Draft) -> PathBuf {
    let is_there = |name: &str| (sources.read)(Path::new(name)).is_ok();
    if name.ends_with(".conf") || name.ends_with(".config") || is_there(name) {
        return name.into();
    }
    let (classic, new) = (format!("{name}.config"), format!("{name}.conf"));
    if !is_there(&classic) {
        return new.into();
    }
    if is_there(&new) {
        // As with RabbitMQ.
        draft.config.warnings.push(format!("{classic} is used, and {new} beside it is not"));
    }
    classic.into()
}

/// Where `advanced.config` is: named, or beside the main file if it is there, or where it usually is.
fn advanced_file(sources: &Sources<'_>, file: Option<&PathBuf>, usual: &places::Found) -> Option<PathBuf> {
    if let Some(named) = sources.environment.get("RABBITMQ_ADVANCED_CONFIG_FILE") {
        return Some(match named.ends_with(".config") {
            true => PathBuf::from(named),
            false => PathBuf::from(format!("{named}.config")),
        });
    }
    let beside = file.and_then(|file| Some(file.parent()?.join("advanced.config")));
    let beside = beside.filter(|beside| file != Some(beside) && (sources.read)(beside).is_ok());
    beside.or_else(|| usual.advanced.clone())
}
