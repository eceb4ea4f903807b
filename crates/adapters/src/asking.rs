//! The client of a connection as filters know it, for expressions that read its names, and the macros that they may
//! use.

use broker::catalog::{Actor, Catalog};
use filter::{Asker, Macros};

/// The part of an expression's meaning that hangs on the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client<'a> {
    /// The client.
    pub(crate) asker: Asker<'a>,
    /// The macros of its virtual host.
    pub(crate) macros: &'a Macros,
}

impl<'a> Client<'a> {
    /// Of a connection that is open. Nobody logs in with a token yet, so there are no claims.
    pub(crate) fn of(
        catalog: &'a Catalog,
        actor: Option<&'a Actor>,
        client_id: Option<&'a str>,
    ) -> Client<'a> {
        let vhost = actor.and_then(|actor| catalog.vhost_definition(actor.vhost));
        let asker = Asker {
            user: actor.map_or("", |actor| &actor.user),
            vhost: vhost.map_or("", |vhost| &vhost.name),
            client_id,
            claims: &[],
        };
        Client { asker, macros: actor.map_or(Macros::none(), |actor| catalog.macros(actor.vhost)) }
    }
}
