//! Which queues there are, by virtual host and name: gathered from the shards once, as long as no queue comes or goes.
//!
//! A page of queues by name needs all names, and of the page's queues alone what a shard knows.

use broker::catalog::QueueDefinition;
use std::sync::{Arc, Mutex, PoisonError};

/// What the queues are, by virtual host and name.
pub type Names = Arc<[Arc<QueueDefinition>]>;

/// What was gathered last, and which version of the catalog's queues that is.
#[derive(Debug, Default)]
pub struct QueueNames(Mutex<Option<(u64, Names)>>);

impl QueueNames {
    /// The queues of `version`; `gather` has them in any order where they are not known. They are kept if every shard knew
    /// that version, as `is_settled` says, and `version_after` is still the same. Who asks meanwhile waits.
    pub fn get<E>(
        &self,
        (version, is_settled): (u64, bool),
        gather: impl FnOnce() -> Result<Vec<Arc<QueueDefinition>>, E>,
        version_after: impl FnOnce() -> Result<u64, E>,
    ) -> Result<Names, E> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, names)) = &*kept
            && *of == version
        {
            return Ok(names.clone());
        }
        *kept = None;
        let mut queues = gather()?;
        queues.sort_unstable_by(|a, b| (&a.vhost_name, &a.name).cmp(&(&b.vhost_name, &b.name)));
        let names: Names = queues.into();
        if is_settled && version_after()? == version {
            *kept = Some((version, names.clone()));
        }
        Ok(names)
    }

    /// Nobody asks any more.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::{LogId, QueueId};
    use broker::catalog::{QueueType, VhostId};
    use std::cell::Cell;

    fn queue((vhost, name): (&str, &str)) -> Arc<QueueDefinition> {
        Arc::new(QueueDefinition {
            id: QueueId(1),
            vhost: VhostId(0),
            vhost_name: vhost.into(),
            name: name.into(),
            log: LogId(0),
            queue_type: QueueType::Classic,
            durable: true,
            exclusive: None,
            auto_delete: false,
            declared_by: None,
            arguments: Default::default(),
        })
    }

    #[test]
    fn they_are_gathered_again_only_where_they_may_be_others() {
        let names = QueueNames::default();
        let gathered = Cell::new(0);
        let check = |version: u64, is_settled: bool, after: u64, gathers: bool| {
            let gather = || {
                gathered.set(gathered.get() + 1);
                Ok::<_, ()>([("v", "b"), ("a", "z"), ("v", "a"), ("a-b", "c")].map(queue).to_vec())
            };
            let before = gathered.get();
            let found = names.get((version, is_settled), gather, || Ok(after)).unwrap();
            let found: Vec<_> = found.iter().map(|queue| (&*queue.vhost_name, &*queue.name)).collect();
            assert_eq!(found, [("a", "z"), ("a-b", "c"), ("v", "a"), ("v", "b")]);
            assert_eq!(gathered.get() > before, gathers, "{version} {is_settled} {after}");
        };
        // One that not every shard knew, and one that changed meanwhile.
        check(1, false, 1, true);
        check(1, true, 2, true);
        check(2, true, 2, true);
        check(2, false, 2, false);
        check(3, true, 3, true);
        check(3, true, 3, false);
        names.forget();
        check(3, true, 3, true);
    }

    #[test]
    fn who_fails_to_gather_them_leaves_none() {
        let names = QueueNames::default();
        assert_eq!(names.get((1, true), || Err("no"), || Ok(1)).err(), Some("no"));
        assert_eq!(names.get((1, true), || Ok(vec![]), || Err("no")).err(), Some("no"));
        assert_eq!(names.get((1, true), || Ok::<_, ()>(vec![queue(("v", "q"))]), || Ok(1)).unwrap().len(), 1);
    }
}
