//! Finds keys: by name, by the variable of the environment that means one, and the nearest one to a slip of the pen.

use super::absent::ABSENT;
use super::keys::KEYS;
use super::keys::Standing::{self, Served};
use strsim::damerau_levenshtein;

/// Every key; the first that matches counts.
fn all() -> impl Iterator<Item = &'static (&'static str, Standing)> {
    KEYS.iter().chain(ABSENT)
}

/// Finds a key: what it does, and what `$` stood for.
pub fn find(key: &str) -> Option<(Standing, &str)> {
    all().find_map(|(pattern, standing)| matches(pattern, key).map(|name| (*standing, name)))
}

fn matches<'a>(pattern: &str, key: &'a str) -> Option<&'a str> {
    if let Some(family) = pattern.strip_suffix(".*") {
        return key.strip_prefix(family)?.strip_prefix('.').filter(|rest| !rest.is_empty());
    }
    let Some(family) = pattern.strip_suffix('$') else { return (pattern == key).then_some("") };
    // A user's name may hold dots.
    key.strip_prefix(family).filter(|name| !name.is_empty())
}

/// Characters of a key that are compared with those that are known.
const TYPED_MAX: usize = 256;

/// The known key that looks most like `key`: one that goes on behind it, else the one of which the fewest letters differ.
pub fn nearest(key: &str) -> String {
    let candidates = all().map(|(pattern, _)| {
        let Some(family) = pattern.strip_suffix(['$', '*']) else { return (*pattern).to_owned() };
        let words = family.matches('.').count();
        let name = key.splitn(words + 1, '.').nth(words).filter(|name| !name.is_empty());
        format!("{family}{}", name.unwrap_or("NAME"))
    });
    // The work grows with both lengths.
    let typed: String = key.chars().take(TYPED_MAX).collect();
    // A served key is likelier meant than one that does nothing.
    let goes_on = |candidate: &str| candidate.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
    let ranked = candidates.zip(all()).map(|(candidate, (_, standing))| {
        (
            !goes_on(&candidate),
            damerau_levenshtein(&typed, &candidate),
            !matches!(standing, Served(_)),
            candidate,
        )
    });
    ranked.min().map(|(.., candidate)| candidate).unwrap_or_default()
}

/// Keys of one family that have dots of their own, which a variable's name does not show.
const DOTTED: &[&str] = &[
    "log.console.formatter",
    "log.console.formatter.json.field_map",
    "log.console.formatter.json.verbosity_map",
    "log.console.formatter.level_format",
    "log.console.formatter.plaintext.format",
    "log.console.formatter.single_line",
    "log.console.formatter.time_format",
    "log.console.level",
    "log.console.stdio",
    "log.default.level",
    "log.file.formatter",
    "log.file.formatter.json.field_map",
    "log.file.formatter.json.verbosity_map",
    "log.file.formatter.level_format",
    "log.file.formatter.plaintext.format",
    "log.file.formatter.single_line",
    "log.file.formatter.time_format",
    "log.file.level",
    "log.file.rotation.compress",
    "log.file.rotation.count",
    "log.file.rotation.date",
    "log.file.rotation.size",
];

/// The key that a variable `LEVERET_<NAME>` means: words joined by `_`, in capitals; ours without their `leveret.`.
pub fn of_variable(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let flat = |pattern: &str| pattern.trim_start_matches("leveret.").replace(['.', '-'], "_");
    let dotted = DOTTED.iter().find(|key| flat(key) == name).map(|key| (*key).to_owned());
    dotted.or_else(|| {
        all().find_map(|(pattern, _)| match pattern.strip_suffix(['$', '*']) {
            None => (flat(pattern) == name).then(|| (*pattern).to_owned()),
            Some(family) => {
                let rest = name.strip_prefix(&flat(family)).filter(|rest| !rest.is_empty())?;
                Some(format!("{family}{rest}"))
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found() {
        let check = |key: &str, expected: Option<&str>| {
            assert_eq!(find(key).map(|(_, name)| name), expected, "{key}");
        };
        check("heartbeat", Some(""));
        check("listeners.tcp", Some(""));
        check("listeners.tcp.default", Some("default"));
        check("loopback_users.a.b", Some("a.b"));
        check("mqtt.listeners.tcp.default", Some("tcp.default"));
        check("listeners.tcp.", None);
        check("mqtt", None);
        check("heartbeets", None);
    }

    #[test]
    fn the_nearest_key_is_the_one_meant() {
        let check = |key: &str, expected: &str| assert_eq!(nearest(key), expected, "{key}");
        check("heartbeet", "heartbeat");
        check("listener.tcp.default", "listeners.tcp.default");
        check("listeners.tpc.default", "listeners.tcp.default");
        check("vm_memory_high_watermark", "vm_memory_high_watermark.absolute");
        check("disk_free_limit", "disk_free_limit.absolute");
        check("leveret.shard", "leveret.shards");
        check("default_password", "default_pass");
    }

    #[test]
    fn variables_name_keys() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(of_variable(name).as_deref(), expected, "{name}");
        };
        check("HEARTBEAT", Some("heartbeat"));
        check("SHARDS", Some("leveret.shards"));
        check("DATA_DIR", Some("leveret.data_dir"));
        check("LISTENERS_TCP_DEFAULT", Some("listeners.tcp.default"));
        check("VM_MEMORY_HIGH_WATERMARK_RELATIVE", Some("vm_memory_high_watermark.relative"));
        check("LOOPBACK_USERS_GUEST", Some("loopback_users.guest"));
        check("LOG_CONSOLE_LEVEL", Some("log.console.level"));
        check("LOG_FILE", Some("log.file"));
        check("LOG_FILE_ROTATION_SIZE", Some("log.file.rotation.size"));
        check("SERVICE_HOST", None);
    }

    #[test]
    fn a_family_stands_behind_its_members() {
        // The first row that matches counts, so a catch-all may not hide a key of its own.
        for (index, (pattern, _)) in all().enumerate() {
            let key = pattern.replace(['$', '*'], "zzz");
            let first = all().position(|(other, _)| matches(other, &key).is_some());
            assert_eq!(first, Some(index), "{pattern} is hidden");
        }
    }
}
