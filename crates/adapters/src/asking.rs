//! The client of a connection as filters know it, for expressions that read its names.

use broker::catalog::{Actor, Catalog};
use filter::Asker;

/// The client of a connection that is open. Nobody logs in with a token yet, so there are no claims.
pub(crate) fn asker<'a>(
    catalog: &'a Catalog,
    actor: Option<&'a Actor>,
    client_id: Option<&'a str>,
) -> Asker<'a> {
    let vhost = actor.and_then(|actor| catalog.vhost_definition(actor.vhost));
    Asker {
        user: actor.map_or("", |actor| &actor.user),
        vhost: vhost.map_or("", |vhost| &vhost.name),
        client_id,
        claims: &[],
    }
}
