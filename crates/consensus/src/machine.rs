//! The engine's view of what applies entries: it is told what is agreed on, and keeps nothing of it.

use crate::engine::{
    Snapshot, TheirId, TheirMembers, TheirMeta, TheirSnapshot, Types, from_entry, from_id, from_meta,
    to_stored_members,
};
use crate::entry::{Entry, EntryId, ReplicaId, Vote};
use crate::message::SnapshotName;
use crate::store::Store;
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, StoredMembership};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use tokio::sync::oneshot;

/// A snapshot of another replica's, which is to be had here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installing {
    /// Its name.
    pub snapshot: SnapshotName,
    /// All that it takes to have it.
    pub manifest: Vec<u8>,
}

/// A snapshot that a leader has, of more than this replica knows to be agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The leader.
    pub from: ReplicaId,
    /// The vote that it leads by.
    pub vote: Vote,
    /// The snapshot, and what it takes to have it.
    pub installing: Installing,
}

/// News for the shell.
#[derive(Default)]
pub(crate) struct Told {
    /// Agreed on, in order.
    pub(crate) agreed: VecDeque<Entry>,
    /// The last entry that is agreed on, as far as was told.
    pub(crate) applied: Option<EntryId>,
    /// Of leaders, since the last call.
    pub(crate) offers: Vec<Offer>,
    /// The engine was asked to install a snapshot, and has not answered.
    pub(crate) is_asked: bool,
    /// To be installed.
    pub(crate) installing: Option<Install>,
}

/// A snapshot that is to be had here.
pub(crate) struct Install {
    pub(crate) installing: Installing,
    /// Writes that have to be on disk before it may be there. Entries that do not go with it are taken away by them:
    /// after a crash, those would be in its log.
    pub(crate) after: u64,
    /// It was handed out.
    pub(crate) is_told: bool,
    /// The task that waits for it.
    pub(crate) done: oneshot::Sender<()>,
}

/// See the module.
pub(crate) struct Machine {
    applied: Option<TheirId>,
    members: TheirMembers,
    store: Store,
    told: Rc<RefCell<Told>>,
}

impl Machine {
    /// That of a replica whose snapshot is this.
    pub(crate) fn new(snapshot: &SnapshotName, store: Store, told: Rc<RefCell<Told>>) -> Machine {
        let members = match snapshot.last {
            Some(_) => to_stored_members(snapshot),
            None => TheirMembers::default(),
        };
        told.borrow_mut().applied = snapshot.last;
        Machine { applied: snapshot.last.map(crate::engine::to_id), members, store, told }
    }

    fn snapshot(&self) -> Option<TheirSnapshot> {
        let snapshot = self.store.with(|kept| kept.snapshot.clone());
        snapshot.map(|(meta, snapshot)| TheirSnapshot { meta, snapshot })
    }
}

/// Snapshots are made by the shell, before the engine asks for one.
pub(crate) struct Builder(Store);

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Snapshot;

    async fn build_snapshot(&mut self) -> Result<TheirSnapshot, io::Error> {
        let made = self.0.with(|kept| kept.snapshot.clone());
        let (meta, snapshot) = made.ok_or_else(|| io::Error::other("there is no snapshot"))?;
        Ok(TheirSnapshot { meta, snapshot })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = Snapshot;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<TheirId>, TheirMembers), io::Error> {
        Ok((self.applied, self.members.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: futures_util::Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin,
    {
        use futures_util::StreamExt;
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            self.applied = Some(entry.log_id);
            if let EntryPayload::Membership(members) = &entry.payload {
                self.members = StoredMembership::new(Some(entry.log_id), members.clone());
            }
            let entry = from_entry(entry);
            let mut told = self.told.borrow_mut();
            told.applied = Some(entry.id);
            told.agreed.push_back(entry);
            drop(told);
            if let Some(responder) = responder {
                responder.send(());
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder(self.store.clone())
    }

    async fn install_snapshot(&mut self, meta: &TheirMeta, snapshot: Snapshot) -> Result<(), io::Error> {
        let (done, installed) = oneshot::channel();
        let name = from_meta(meta, snapshot.end);
        let installing = Installing { snapshot: name, manifest: snapshot.manifest.clone() };
        let after = self.store.with(|kept| kept.pushed());
        {
            let mut told = self.told.borrow_mut();
            // Entries that were agreed on before are in it.
            told.agreed.clear();
            told.installing = Some(Install { installing, after, is_told: false, done });
        }
        installed.await.map_err(|_| io::Error::other("the snapshot was not installed"))?;
        (self.applied, self.members) = (meta.last_log_id, meta.last_membership.clone());
        self.told.borrow_mut().applied = meta.last_log_id.map(from_id);
        self.store.with(|kept| kept.keep_snapshot(meta.clone(), snapshot)).map_err(io::Error::other)
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<TheirSnapshot>, io::Error> {
        Ok(self.snapshot())
    }
}
