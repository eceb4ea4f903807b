//! The trail in the log of orders that the administration socket carries out by itself, in RabbitMQ's words where it has
//! some. Orders that come as requests of the HTTP API leave theirs there ([`management::trail`]).

use crate::log::Logger;
use crate::log::level::Level;
use management::TOOL_USER;
use management::trail::{of_request, quoted, signed};

/// An order to stop all but the process.
pub const STOP_APP: &str = "RabbitMQ is asked to stop";

/// An order to end.
pub const STOP: &str = "RabbitMQ is asked to stop, and its process to end";

/// An order to a stopped node to go on.
pub const START_APP: &str = "RabbitMQ is asked to start";

/// An order to give memory back.
pub const TRIM: &str = "Memory that is not needed goes back to the system";

const MIB: u64 = 1 << 20;

/// Writes a line with the user that tools act as.
pub fn tell(logger: &Logger, line: &str) {
    tell_at(logger, Level::Info, line);
}

/// The same at another level.
pub fn tell_at(logger: &Logger, level: Level, line: &str) {
    logger.log(level, signed(line, TOOL_USER));
}

/// Publishers wait from `limit` bytes of memory on, where there are `total`.
pub fn memory_limit(limit: u64, total: u64) -> String {
    let (limit_mib, total_mib) = (limit / MIB, total / MIB);
    format!(
        "Memory high watermark set to {limit_mib} MiB ({limit} bytes) of {total_mib} MiB ({total} bytes) total"
    )
}

/// Publishers wait below `limit` bytes of free disk.
pub fn disk_limit(limit: u64) -> String {
    format!("Disk free limit set to {}MB", limit / 1_000_000)
}

/// Another level of the log. The line is there if the one before or the one from now on lets it be.
pub fn set_level(logger: &Logger, level: Level) {
    let line = format!("Logging: changing primary log level to {}", level.name());
    let is_taken = logger.takes(Level::Info);
    if is_taken {
        tell(logger, &line);
    }
    logger.set_level(level);
    if !is_taken {
        tell(logger, &line);
    }
}

/// A log is at another shard now.
pub fn moved_log(log: u32, shard: u16) -> String {
    format!("Moved log {log} to shard {shard}")
}

/// A password of a user was tried: `denied` is the reason why it did not do.
pub fn authenticated(logger: &Logger, user: &str, denied: Option<&str>) {
    let user = quoted(user);
    match denied {
        None => tell(logger, &format!("User {user} authenticated successfully")),
        Some(why) => {
            let why = management::trail::on_one_line(why);
            tell_at(logger, Level::Warning, &format!("User {user} failed to authenticate: {why}"));
        }
    }
}

/// The lines of the first content of a node, which nobody asked for.
pub fn first_content(requests: &[broker::catalog::Op]) -> Vec<String> {
    requests.iter().flat_map(of_request).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::catalog::FirstContent;

    #[test]
    fn lines_are_rabbitmqs() {
        let check = |line: String, expected: &str| assert_eq!(line, expected);
        check(
            memory_limit(2_000_000_000, 25_276_502_016),
            "Memory high watermark set to 1907 MiB (2000000000 bytes) of 24105 MiB (25276502016 bytes) total",
        );
        check(disk_limit(2_527_650_201), "Disk free limit set to 2527MB");
        check(
            first_content(&FirstContent::guest([0; 4]).requests()).join("\n"),
            "Adding vhost '/' (description: '', tags: [])\nCreated user 'guest'\n\
             Successfully set user tags for user 'guest' to [administrator]\n\
             Successfully set permissions for user 'guest' in virtual host '/' to '.*', '.*', '.*'",
        );
    }

    #[test]
    fn a_change_of_the_level_is_told_where_either_level_lets_it_be() {
        for (from, to, expected) in [
            (Level::Info, Level::Error, 1),
            (Level::Error, Level::Debug, 1),
            (Level::Debug, Level::Info, 1),
            (Level::Error, Level::Warning, 0),
        ] {
            let (logger, writer) = crate::log::start(from, std::io::sink()).expect("starts");
            set_level(&logger, to);
            let kept = logger.clone();
            drop(logger);
            writer.finish();
            assert_eq!(kept.last(9).len(), expected, "{from:?} {to:?}");
        }
    }
}
