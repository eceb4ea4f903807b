//! The queues there are, by virtual host and name: gathered from the shards once, and kept by their changes since.
//!
//! A page of queues by name needs all names, but rows of the shards for the page's queues alone.

use broker::QueuesNow;
use broker::catalog::{QueueChange, QueueDefinition};
use std::sync::{Arc, Mutex, PoisonError};

/// All queues, by virtual host and name.
pub type Names = Arc<[Arc<QueueDefinition>]>;

/// The queues that are known, and their version.
#[derive(Debug, Default)]
pub struct QueueNames(Mutex<Option<(u64, Names)>>);

impl QueueNames {
    /// The queues there are. `now` tells their version, and the changes since one; `gather` has all of them, in any
    /// order. A gathered list is kept where every shard knew the version before, and the changes made meanwhile are
    /// known.
    /// Other callers wait meanwhile.
    pub fn get<E>(
        &self,
        now: impl Fn(Option<u64>) -> Result<QueuesNow, E>,
        gather: impl FnOnce() -> Result<Vec<Arc<QueueDefinition>>, E>,
    ) -> Result<Names, E> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = now(kept.as_ref().map(|(version, _)| *version))?;
        if let (Some((version, names)), Some(changes)) = (&mut *kept, &before.changes) {
            if !changes.is_empty() {
                *names = with(names.to_vec(), changes);
                *version = before.version;
            }
            return Ok(names.clone());
        }
        *kept = None;
        let mut queues = gather()?;
        // Of two of a name one went while they were gathered, and the other came.
        queues.sort_unstable_by(|a, b| key(a).cmp(&key(b)).then(b.id.cmp(&a.id)));
        queues.dedup_by(|next, own| key(next) == key(own));
        if before.is_settled {
            let after = now(Some(before.version))?;
            if let Some(changes) = &after.changes {
                let names = with(queues, changes);
                *kept = Some((after.version, names.clone()));
                return Ok(names);
            }
        }
        Ok(queues.into())
    }

    /// Nobody asks any more.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn key(queue: &QueueDefinition) -> (&str, &str) {
    (&queue.vhost_name, &queue.name)
}

/// Sorted queues after these changes, of which they may have had some.
fn with(mut queues: Vec<Arc<QueueDefinition>>, changes: &[QueueChange]) -> Names {
    for change in changes {
        let (QueueChange::Came(queue) | QueueChange::Went(queue)) = change;
        let found = queues.binary_search_by(|own| key(own).cmp(&key(queue)));
        match (change, found) {
            (QueueChange::Came(queue), Ok(at)) => queues[at] = queue.clone(),
            (QueueChange::Came(queue), Err(at)) => queues.insert(at, queue.clone()),
            (QueueChange::Went(queue), Ok(at)) if queues[at].id == queue.id => drop(queues.remove(at)),
            (QueueChange::Went(_), _) => {}
        }
    }
    queues.into()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use base::id::{LogId, QueueId};
    use broker::catalog::{QueueType, VhostId};
    use std::cell::Cell;

    /// A durable classic queue: its number, and its names as `VHOST/QUEUE`.
    pub(crate) fn queue(id: u64, name: &str) -> Arc<QueueDefinition> {
        let (vhost, name) = name.split_once('/').unwrap();
        Arc::new(QueueDefinition {
            id: QueueId(id),
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

    fn came(id: u64, name: &str) -> QueueChange {
        QueueChange::Came(queue(id, name))
    }

    fn went(id: u64, name: &str) -> QueueChange {
        QueueChange::Went(queue(id, name))
    }

    fn told(names: &Names) -> String {
        let each = names.iter().map(|queue| format!("{}/{}", queue.vhost_name, queue.name));
        each.collect::<Vec<_>>().join(" ")
    }

    /// Answers of a catalog, one after the other.
    type Answers = Vec<(u64, bool, Option<Vec<QueueChange>>)>;

    #[test]
    fn they_are_gathered_again_only_where_what_has_changed_is_not_known() {
        let names = QueueNames::default();
        let check = |answers: Answers, asked: &[Option<u64>], gathers: bool, expected: &str| {
            let (gathered, at) = (Cell::new(false), Cell::new(0));
            let now = |known| {
                assert_eq!(known, asked[at.get()]);
                let (version, is_settled, changes) = answers[at.replace(at.get() + 1)].clone();
                Ok::<_, ()>(QueuesNow { version, is_settled, changes })
            };
            let gather = || {
                gathered.set(true);
                let all = [(1, "v/b"), (2, "a/z"), (0, "v/a"), (3, "v/a"), (4, "a-b/c")];
                Ok(all.map(|(id, name)| queue(id, name)).to_vec())
            };
            assert_eq!(told(&names.get(now, gather).unwrap()), expected);
            assert_eq!((gathered.get(), at.get()), (gathers, asked.len()));
        };
        let all = "a/z a-b/c v/a v/b";
        // A list that not every shard knew is not kept, nor one of which too much changed meanwhile.
        check(vec![(7, false, None)], &[None], true, all);
        check(vec![(7, true, None), (900, true, None)], &[None, Some(7)], true, all);
        // The gathered list may have some of the changes made meanwhile.
        let meanwhile =
            vec![went(0, "v/a"), went(4, "a-b/c"), came(5, "v/aa"), came(3, "v/a"), went(8, "v/none")];
        check(vec![(7, true, None), (9, false, Some(meanwhile))], &[None, Some(7)], true, "a/z v/a v/aa v/b");
        check(vec![(9, false, Some(vec![]))], &[Some(9)], false, "a/z v/a v/aa v/b");
        // One that came again after it went is another.
        let since = vec![went(1, "v/b"), came(9, "v/b"), went(1, "v/b"), went(2, "a/z"), came(10, "z/z")];
        check(vec![(14, false, Some(since))], &[Some(9)], false, "v/a v/aa v/b z/z");
        check(vec![(14, true, Some(vec![]))], &[Some(14)], false, "v/a v/aa v/b z/z");
        check(vec![(999, true, None), (999, true, Some(vec![]))], &[Some(14), Some(999)], true, all);
        names.forget();
        check(vec![(999, true, None), (999, true, Some(vec![]))], &[None, Some(999)], true, all);
    }

    #[test]
    fn who_fails_to_gather_them_leaves_none() {
        let names = QueueNames::default();
        let settled = |_| Ok(QueuesNow { version: 1, is_settled: true, changes: None });
        assert_eq!(names.get(settled, || Err("no")).err(), Some("no"));
        assert_eq!(names.get(|_| Err("busy"), || Ok(vec![])).err(), Some("busy"));
        let fails = |known: Option<u64>| if known.is_some() { Err("no") } else { settled(None) };
        assert_eq!(names.get(fails, || Ok(vec![])).err(), Some("no"));
        assert_eq!(names.get(settled, || Ok(vec![queue(1, "v/q")])).unwrap().len(), 1);
    }
}
