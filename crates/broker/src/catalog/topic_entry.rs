//! A user's topic permissions on an exchange, as the catalog keeps them.

use super::TopicPermissionDefinition;
use crate::access::TopicPermissions;
use std::sync::Arc;

/// A user's topic permissions on an exchange, ready to be asked.
#[derive(Clone, Debug)]
pub(super) struct TopicEntry {
    pub(super) definition: Arc<TopicPermissionDefinition>,
    pub(super) permissions: TopicPermissions,
}

impl TopicEntry {
    /// Patterns that cannot be compiled, which no plan makes, allow nothing.
    pub(super) fn new(definition: Arc<TopicPermissionDefinition>, vhost: &str) -> TopicEntry {
        let TopicPermissionDefinition { user, write, read, .. } = &*definition;
        let permissions = TopicPermissions::new(write, read, user, vhost);
        TopicEntry { permissions: permissions.unwrap_or_else(|_| TopicPermissions::nothing()), definition }
    }
}
