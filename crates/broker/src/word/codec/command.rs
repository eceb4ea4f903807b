//! Commands for queues as bytes, and what connections are told of them.

use super::Fault;
use super::wire::{Wire, put_text, take_text, wire_enum, wire_struct};
use crate::catalog::{Change, QueueDefinition};
use crate::placed::queue::modified::Modified;
use crate::placed::stream::{StreamCommand, StreamReply};
use crate::request::{Browse, Credit, Held, LeaseOver, NewConsumer, QueueCommand, Reply, SettleAt};
use crate::selector::Selector;
use base::{Output, Reader};
use filter::{Asker, Macros, Names};
use message::record::Outcome;
use std::sync::Arc;

wire_enum!(Credit {
    1 Prefetch(most),
    2 Link,
});

wire_struct!(Browse { from, held });

wire_struct!(NewConsumer { credit, settled, exclusive, priority, browses, timeout_ms });

wire_struct!(SettleAt { token, positions, rejects });

wire_struct!(LeaseOver { handle, asked, over, is_late });

wire_struct!(Modified { handle, range, outcome, annotations, due_at_ms });

wire_enum!(Held {
    1 Kept,
    2 Fails,
    3 GoesBack,
});

wire_enum!(Outcome {
    1 Accepted,
    2 Rejected,
    3 Released,
    4 Failed,
    5 Undeliverable,
});

impl Wire for Selector {
    /// Its text: what its client knew is in it.
    fn put(&self, out: &mut Output) {
        put_text(&self.expression().to_string(), out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Selector, Fault> {
        let nobody = Asker { user: "", vhost: "", client_id: None, claims: &[] };
        let text = take_text(reader)?;
        Selector::parse(text.as_bytes(), Names::Own, Macros::none(), &nobody).map_err(|_| Fault::Selector)
    }
}

/// Streams are on no log that nodes agree on: nothing for one is sent, and what is written here is read by nobody.
const OF_STREAM: u8 = 0;

impl Wire for StreamCommand {
    fn put(&self, out: &mut Output) {
        out.extend(&[OF_STREAM]);
    }

    fn take(_reader: &mut Reader<'_>) -> Result<StreamCommand, Fault> {
        Err(Fault::OfStream)
    }
}

impl Wire for StreamReply {
    fn put(&self, out: &mut Output) {
        out.extend(&[OF_STREAM]);
    }

    fn take(_reader: &mut Reader<'_>) -> Result<StreamReply, Fault> {
        Err(Fault::OfStream)
    }
}

wire_enum!(QueueCommand {
    1 Consume { token, handle, consumer },
    2 Select { token, handle, consumer, selector },
    3 Cancel { token, handle, held },
    4 Get { token, handle, settled, behind, by_node },
    5 Pick { token, handle, position },
    6 Credit { handle, limit, drain, echo },
    7 Prefetch { handle, prefetch },
    8 Pause { handle, paused },
    9 Settle { handle, range, outcome },
    10 Accept { handle, ranges },
    11 Unsent { handle, range },
    12 LeaseOver(over),
    13 SettleOver { handle, range },
    14 Renew { handle, range },
    15 Modify(modified),
    16 Purge { token },
    17 Discard { token, position },
    18 SettleAt(settle),
    19 Delete { token, if_unused, if_empty },
    20 Counts { token },
    21 Stream(command),
    22 Leave,
});

impl Wire for QueueDefinition {
    /// As the change that adds it, and the name of its virtual host.
    fn put(&self, out: &mut Output) {
        let added = Change::AddQueue(Arc::new(self.clone())).encode();
        (added.len() as u32).put(out);
        out.extend(&added);
        put_text(&self.vhost_name, out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<QueueDefinition, Fault> {
        let len = reader.u32_le()? as usize;
        let added = Change::decode(reader.take(len)?).map_err(Fault::Change)?;
        let Change::AddQueue(queue) = added else { return Err(Fault::NoQueue) };
        let vhost_name = take_text(reader)?.into();
        Ok(QueueDefinition { vhost_name, ..(*queue).clone() })
    }
}

wire_enum!(Reply {
    1 Done,
    2 Unchanged,
    3 Declared { queue, is_new, ready, consumers },
    4 Purged { messages },
    5 Settled { missing },
    6 Deleted { messages },
    7 Consuming,
    8 Cancelled,
    9 Empty,
    10 Stream(reply),
    11 MayDelete { queue, messages },
});
