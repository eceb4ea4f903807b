//! Users that declared the queues and exchanges there are: each name once, of however many it is said.
//!
//! A user who is deleted stays here as long as there is anything of that user's, as in RabbitMQ.

use super::UserDefinition;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names, and of how many queues and exchanges each is said.
#[derive(Clone, Debug, Default)]
pub(super) struct Declarers(BTreeMap<Arc<str>, usize>);

impl Declarers {
    /// The name as a definition is to have it; none: the broker itself declares, in nobody's name.
    pub(super) fn shared(
        &self,
        user: &Arc<str>,
        users: &BTreeMap<Arc<str>, Arc<UserDefinition>>,
    ) -> Option<Arc<str>> {
        let own = || self.0.get_key_value(user).map(|(name, _)| name);
        let known = || users.get_key_value(user).map(|(name, _)| name);
        (!user.is_empty()).then(|| own().or_else(known).unwrap_or(user).clone())
    }

    pub(super) fn add(&mut self, user: Option<&Arc<str>>) {
        if let Some(user) = user {
            *self.0.entry(user.clone()).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, user: Option<&Arc<str>>) {
        if let Some(user) = user
            && let Some(count) = self.0.get_mut(user)
        {
            *count -= 1;
            if *count == 0 {
                self.0.remove(user);
            }
        }
    }

    /// Names, each with how many things are that user's.
    #[cfg(test)]
    pub(super) fn counts(&self) -> BTreeMap<Arc<str>, usize> {
        self.0.clone()
    }

    /// Bytes of memory, near enough.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.keys().map(|name| size_of::<(Arc<str>, usize)>() + name.len()).sum()
    }
}
