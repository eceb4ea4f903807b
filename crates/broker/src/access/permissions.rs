//! Permissions of one user in one virtual host: three patterns over the names of its queues and exchanges.

use super::pattern::{BadPattern, Pattern};
use crate::catalog::{Object, Reason, Refusal};

/// A kind of access to a queue or an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Make, delete or look at it.
    Configure,
    /// Put something in.
    Write,
    /// Take something out.
    Read,
}

impl Access {
    /// As error texts have it.
    pub fn name(self) -> &'static str {
        match self {
            Access::Configure => "configure",
            Access::Write => "write",
            Access::Read => "read",
        }
    }
}

/// The thing: a queue or exchange by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource<'a> {
    /// A queue.
    Queue(&'a str),
    /// An exchange; the default one has the empty name.
    Exchange(&'a str),
}

impl<'a> Resource<'a> {
    /// The name that patterns are matched with: the default exchange has one for this.
    #[inline]
    pub fn pattern_name(self) -> &'a str {
        match self {
            Resource::Exchange("") => "amq.default",
            Resource::Queue(name) | Resource::Exchange(name) => name,
        }
    }

    /// `queue` or `exchange`.
    pub fn kind(self) -> &'static str {
        self.object().name()
    }

    /// The kind of object, as refusals have it.
    pub fn object(self) -> Object {
        match self {
            Resource::Queue(_) => Object::Queue,
            Resource::Exchange(_) => Object::Exchange,
        }
    }
}

/// The three patterns of a user in a virtual host.
#[derive(Clone, Debug, PartialEq)]
pub struct Permissions {
    /// Names that may be made, deleted and looked at.
    pub configure: Pattern,
    /// Names that may be written to.
    pub write: Pattern,
    /// Names that may be read from.
    pub read: Pattern,
}

impl Permissions {
    /// Compiles the three patterns.
    pub fn new(configure: &str, write: &str, read: &str) -> Result<Permissions, BadPattern> {
        Ok(Permissions {
            configure: Pattern::new(configure)?,
            write: Pattern::new(write)?,
            read: Pattern::new(read)?,
        })
    }

    /// Whether they allow it.
    pub fn allow(&self, access: Access, resource: Resource<'_>) -> bool {
        let pattern = match access {
            Access::Configure => &self.configure,
            Access::Write => &self.write,
            Access::Read => &self.read,
        };
        pattern.matches(resource.pattern_name())
    }
}

/// The no that follows from permissions.
pub(crate) fn refused(access: Access, resource: Resource<'_>, vhost: &str, user: &str) -> Refusal {
    let text = format!(
        "{} access to {} '{}' in vhost '{vhost}' refused for user '{user}'",
        access.name(),
        resource.kind(),
        resource.pattern_name(),
    );
    Refusal::access(Reason::Permission(resource.object()), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_access_has_its_pattern() {
        let permissions = Permissions::new("^c", "^w", "^amq\\.default$").unwrap();
        let rows = [
            (Access::Configure, Resource::Queue("c1"), true),
            (Access::Configure, Resource::Queue("w1"), false),
            (Access::Write, Resource::Exchange("w1"), true),
            (Access::Write, Resource::Exchange(""), false),
            (Access::Read, Resource::Exchange(""), true),
            (Access::Read, Resource::Queue(""), false),
        ];
        for (access, resource, expected) in rows {
            assert_eq!(permissions.allow(access, resource), expected, "{access:?} {resource:?}");
        }
    }
}
