//! Folders of the system where a configuration is looked for when nothing names one: `/etc/leveret`, then `/etc/rabbitmq`.
//!
//! The first that sets anything is taken, and the other is not looked into: settings of two brokers do not mix. Files
//! that only have comments set nothing, so that a package can bring one along without hiding what RabbitMQ left.

use super::load::{Sources, conf_files};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folders, and the names of the main file in each; of several the first counts.
const FOLDERS: [(&str, &[&str]); 2] = [
    ("/etc/leveret", &["leveret.conf", "rabbitmq.conf", "rabbitmq.config"]),
    ("/etc/rabbitmq", &["rabbitmq.conf", "rabbitmq.config"]),
];

/// The folder of further files.
const FURTHER: &str = "conf.d";

/// The files of the folder that is taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The main file.
    pub main: Option<PathBuf>,
    /// Files of `conf.d`, in the order of their names.
    pub further: Vec<PathBuf>,
    /// `advanced.config`.
    pub advanced: Option<PathBuf>,
    /// `enabled_plugins`.
    pub plugins: Option<PathBuf>,
}

/// Looks at the folders.
pub(super) fn find(sources: &Sources<'_>) -> Found {
    let found = FOLDERS.iter().map(|(folder, names)| look(sources, Path::new(folder), names));
    found.into_iter().find(|found| found.says_anything(sources)).unwrap_or_default()
}

fn look(sources: &Sources<'_>, folder: &Path, names: &[&str]) -> Found {
    // A file that may not be read is there: the start is refused by name when it is read.
    let is_there = |path: &PathBuf| match (sources.read)(path) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    };
    let file = |name: &str| Some(folder.join(name)).filter(is_there);
    let further = folder.join(FURTHER);
    // So is a folder that may not be listed: it stands for its files, and cannot be read either.
    let further = conf_files(sources, &further).unwrap_or_else(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Vec::new(),
        _ => vec![further],
    });
    Found {
        main: names.iter().find_map(|name| file(name)),
        further,
        advanced: file("advanced.config"),
        plugins: file("enabled_plugins"),
    }
}

impl Found {
    fn says_anything(&self, sources: &Sources<'_>) -> bool {
        // Comments begin with `#`, in Erlang's format with `%`.
        let sets = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with(['#', '%']);
        let mut files = self.main.iter().chain(&self.further).chain(&self.advanced).chain(&self.plugins);
        files.any(|path| (sources.read)(path).map_or(true, |text| text.lines().any(sets)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;
    use std::collections::BTreeMap;

    /// Files that there are, variables and `--config`; the files that are read, and the problem where there is one.
    fn check(
        there: &[(&str, &str)],
        variables: &[(&str, &str)],
        file: Option<&str>,
        read: &[&str],
        why: &str,
    ) {
        let there: BTreeMap<PathBuf, &str> =
            there.iter().map(|(path, text)| (PathBuf::from(path), *text)).collect();
        let text = |path: &Path| {
            let text = there.get(path).map(|text| (*text).to_owned());
            text.ok_or_else(|| ErrorKind::NotFound.into())
        };
        let list = |folder: &Path| -> std::io::Result<Vec<PathBuf>> {
            Ok(there.keys().filter(|path| path.parent() == Some(folder)).cloned().collect())
        };
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let loaded = load(&Sources {
            file: file.map(PathBuf::from),
            data_dir: None,
            settings: Vec::new(),
            environment: variables.iter().map(owned).collect(),
            host: "hare".to_owned(),
            read: &text,
            list: &list,
        });
        let problems: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
        let named = problems.iter().any(|problem| problem.contains(why));
        assert!(if why.is_empty() { problems.is_empty() } else { named }, "{problems:?}");
        let files: Vec<&str> = loaded.config.files.iter().filter_map(|path| path.to_str()).collect();
        assert_eq!(files, read, "{there:?} {variables:?} {file:?}");
    }

    #[test]
    fn the_first_folder_that_sets_anything_is_taken() {
        let (ours, theirs) = (("/etc/leveret/leveret.conf", "heartbeat = 1"), "/etc/rabbitmq/rabbitmq.conf");
        check(&[], &[], None, &[], "");
        check(&[ours, (theirs, "heartbeat = 2")], &[], None, &[ours.0], "");
        check(&[(theirs, "heartbeat = 2")], &[], None, &[theirs], "");
        check(&[(ours.0, "# nothing\n\n"), (theirs, "heartbeat = 2")], &[], None, &[theirs], "");
        let named = "/etc/leveret/rabbitmq.conf";
        check(&[(named, "heartbeat = 3")], &[], None, &[named], "");
        let classic = "/etc/rabbitmq/rabbitmq.config";
        check(&[(classic, "[{rabbit, [{heartbeat, 4}]}].")], &[], None, &[classic], "");
    }

    #[test]
    fn files_beside_the_main_one_count() {
        let further = ["/etc/rabbitmq/conf.d/10-a.conf", "/etc/rabbitmq/conf.d/20-b.conf"];
        let (first, second) = ((further[0], "heartbeat = 10"), (further[1], "heartbeat = 20"));
        check(&[second, first, ("/etc/rabbitmq/conf.d/note.txt", "?")], &[], None, &further, "");
        let advanced = ("/etc/rabbitmq/advanced.config", "[{rabbit, [{heartbeat, 4}]}].");
        check(&[first, advanced], &[], None, &[further[0], advanced.0], "");
        // A main file that is named elsewhere leaves the others where they are, as in RabbitMQ's image.
        let own = ("/own/rabbit.conf", "heartbeat = 1");
        let variable = [("RABBITMQ_CONFIG_FILE", "/own/rabbit")];
        check(&[first, advanced, own], &variable, None, &[own.0, further[0], advanced.0], "");
        check(&[first, advanced, own], &[], Some(own.0), &[own.0], "");
    }

    #[test]
    fn a_folder_that_may_not_be_listed_stops_the_start() {
        let check = |listing: ErrorKind, expected: &[&str]| {
            let loaded = load(&Sources {
                file: None,
                data_dir: None,
                settings: Vec::new(),
                environment: BTreeMap::new(),
                host: "hare".to_owned(),
                read: &|path| match path.ends_with(FURTHER) {
                    true => Err(ErrorKind::IsADirectory.into()),
                    false => Err(ErrorKind::NotFound.into()),
                },
                list: &|_| Err(listing.into()),
            });
            let problems: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
            assert_eq!(problems.len(), expected.len(), "{problems:?}");
            let named = problems.iter().zip(expected).all(|(problem, name)| problem.contains(name));
            assert!(named, "{problems:?}");
        };
        check(ErrorKind::NotFound, &[]);
        check(ErrorKind::NotADirectory, &[]);
        check(ErrorKind::PermissionDenied, &["/etc/leveret/conf.d"]);
    }

    #[test]
    fn plugins_that_are_not_served_stop_the_start() {
        let plugins = "/etc/rabbitmq/enabled_plugins";
        check(&[(plugins, "[rabbitmq_management,rabbitmq_prometheus].")], &[], None, &[], "");
        let why = "/etc/rabbitmq/enabled_plugins:1: plugins: rabbitmq_shovel, rabbitmq_mqtt cannot be used";
        check(&[(plugins, "[rabbitmq_shovel,rabbitmq_stream,rabbitmq_mqtt].")], &[], None, &[], why);
        let variable = [("RABBITMQ_ENABLED_PLUGINS_FILE", "/own/plugins")];
        check(&[(plugins, "[rabbitmq_mqtt].")], &variable, None, &[], "");
    }
}
