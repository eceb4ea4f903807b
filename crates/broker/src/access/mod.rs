//! Access: logins, virtual hosts, permissions.
//!
//! Everything is decided from the catalog and what the peer said; who they are in other systems (certificates, LDAP,
//! tokens) is not known here.

mod argon2id;
mod cache;
mod guard;
mod guesses;
mod login;
mod moments;
mod password;
mod pattern;
mod pcre;
mod permissions;
mod proofs;
mod topic;

pub use argon2id::LONG_SALT;
pub use cache::{AccessCache, CACHE_ENTRIES_MAX};
pub use guard::Guard;
pub use guesses::{FREE_SECONDS, GuessCounts, GuessLimits, Origin, Rate};
pub use login::{
    AccessRules, Anonymous, Claim, Denied, Judged, Mechanisms, Trial, anonymous_claim, authenticate,
    authenticate_anonymous, authenticate_certificate, open_vhost,
};
pub(crate) use password::base64_url;
pub use password::{Hashing, PasswordHash, SALT, Stored};
pub use pattern::{BadPattern, PATTERN_BYTES_MAX, Pattern, STEPS_MAX, given_up};
pub(crate) use permissions::refused;
pub use permissions::{Access, Permissions, Resource};
pub use topic::TopicPermissions;
pub(crate) use topic::topic_refused;
