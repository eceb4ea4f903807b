//! Announcements of the node's alarms.

use super::Wording;
use super::announce::{Announcement, text};

impl Wording<'_> {
    pub(super) fn alarm(&self, source: &str, is_raised: bool) -> Announcement {
        Announcement::new(if is_raised { "alarm.set" } else { "alarm.cleared" }, |fields| {
            text(fields, "source", source);
            text(fields, "node", self.node);
        })
    }
}
