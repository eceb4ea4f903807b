//! Consumers as they are listed.

use super::Adapter;
use super::links::{ConsumerAt, End};
use broker::catalog::Catalog;
use broker::{ConsumerRow, Opened};

impl Adapter {
    /// What is open, into `opened`.
    pub(crate) fn list(&self, catalog: &Catalog, opened: &mut Opened) {
        let links = self.sessions.iter().flat_map(|session| &session.links);
        opened.senders = links.filter(|link| link.is_publishing()).count() as u32;
        for (handle, ConsumerAt { session: id, link, at, .. }) in self.consumers.iter() {
            let session = self.sessions.iter().find(|session| session.id == *id);
            let found = session.and_then(|session| session.links.iter().find(|own| own.id == *link));
            let (Some(at), Some(End::Source { settled, .. })) = (at, found.map(|link| &link.end)) else {
                continue;
            };
            let Some(queue) = catalog.queue(at.queue).cloned() else { continue };
            opened.consumers.push(ConsumerRow {
                handle,
                tag: format!("ctag-{}", link.0),
                queue,
                channel: id.0,
                settles: !settled,
                exclusive: false,
                prefetch: 0,
                arguments: None,
            });
        }
    }
}
