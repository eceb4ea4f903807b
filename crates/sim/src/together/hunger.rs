//! Consumers at rest: none waits for a message that is ready.
//!
//! A leader hears of consumers from their nodes, and how much each may have. One that is forgotten, or is taken to have had more
//! than it had, waits for ever, and no message is lost or comes twice.

use crate::client::Client;
use crate::oracle::Check;
use crate::rules::Rules;
use crate::world::World;
use broker::QueueRow;

/// Nothing in the rules of a queue keeps a ready message from a consumer with credit.
fn gives_at_once(rules: &Rules) -> bool {
    rules.unsettled_max.is_none() && !rules.is_grouped && !rules.bars
}

impl World {
    /// No queue has something ready that a consumer has credit for.
    pub fn check_hunger(&self, rows: &[QueueRow]) -> Check {
        if self.cluster.is_none() || self.has_faults {
            return Ok(());
        }
        let clients: Vec<&Client> = self.clients.iter().flatten().collect();
        for row in rows.iter().filter(|row| row.ready > 0) {
            let Some(queue) = self.oracle.number_of(&row.definition.name) else { continue };
            if self.oracle.is_damaged(queue) || !gives_at_once(self.oracle.rules_of(queue)) {
                continue;
            }
            let hungry = clients.iter().find_map(|client| {
                let consumer = client.hungry().find(|consumer| consumer.queue == queue)?;
                Some((client.number, consumer.handle))
            });
            if let Some((client, consumer)) = hungry {
                return Err(format!(
                    "queue {queue} says {} ready, and consumer {consumer} of connection {client} waits",
                    row.ready
                ));
            }
        }
        Ok(())
    }
}
