//! The first content of a new node: the configuration's `default_*` keys.

use super::{Op, VhostDefaults};
use crate::access::{PasswordHash, SALT};

/// See the module.
#[derive(Clone, Debug)]
pub struct FirstContent {
    /// The first virtual host.
    pub vhost: Box<str>,
    /// The settings it begins with.
    pub defaults: VhostDefaults,
    /// The first user.
    pub user: Box<str>,
    /// Its password, hashed with a salt the caller rolled.
    pub password: PasswordHash,
    /// Its tags.
    pub tags: Vec<Box<str>>,
    /// Its rights in the first virtual host: configure, write, read, each a regular expression.
    pub permissions: [Box<str>; 3],
}

impl FirstContent {
    /// Virtual host `/`, and the administrator guest with the password guest, who may do everything.
    pub fn guest(salt: [u8; SALT]) -> FirstContent {
        FirstContent {
            vhost: "/".into(),
            defaults: VhostDefaults::default(),
            user: "guest".into(),
            password: PasswordHash::new("guest", salt),
            tags: vec!["administrator".into()],
            permissions: [".*", ".*", ".*"].map(Box::from),
        }
    }

    /// The requests that make it, in their order: the same as anybody's.
    pub fn requests(self) -> Vec<Op> {
        let FirstContent { vhost, defaults, user, password, tags, permissions } = self;
        let [configure, write, read] = permissions;
        vec![
            Op::AddVhost { name: vhost.clone(), defaults },
            Op::AddUser { name: user.clone(), password: Some(password), tags },
            Op::SetPermissions { user, vhost, configure, write, read },
        ]
    }
}
