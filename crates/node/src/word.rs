//! Words between nodes, each of which may be lost, come late, come twice, or overtake another.

use crate::fetch::Fetch;
use base::id::{LogId, NodeNo};
use broker::{CATALOG_LOG, CatalogWord, LogWord};
use consensus::Message;

/// A word of one node to another.
#[derive(Clone, Debug)]
pub enum Word {
    /// Of a replica to one of the same log.
    Replica(Box<Message>),
    /// About the state of a log: for the keeper of the node.
    Fetch(Box<Fetch>),
    /// Of a node about the catalog, to the shard that has that log.
    Catalog(CatalogWord),
    /// About a log, between a node that follows it and the one that leads it.
    Log(Box<LogWord>),
}

impl Word {
    /// A replica's word, and the node that it goes to.
    pub fn of_replica(message: Message) -> (NodeNo, Word) {
        (message.to.node(), Word::Replica(Box::new(message)))
    }

    /// The log that it is about: the shard which has that takes it in, unless it is for the keeper.
    pub fn log(&self) -> LogId {
        match self {
            Word::Replica(message) => message.log,
            Word::Fetch(fetch) => fetch.log,
            Word::Catalog(_) => CATALOG_LOG,
            Word::Log(word) => word.log,
        }
    }
}
