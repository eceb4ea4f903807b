//! A client's controller of transactions over AMQP 1.0 (part 4): one at a time, and all it says is in it while it lasts.

use super::{Seen, Transaction};
use amqp10::{
    Attach, Body, Connection, Control as Request, Delivery, LinkId, Outcome, Role, SessionId, Source, Target,
};
use std::collections::BTreeMap;

/// Tokens from here on are requests, those before are messages.
pub(super) const CONTROL: u64 = 1 << 63;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// The transaction under way.
    pub(super) transaction: Option<Vec<u8>>,
    coordinator: Option<(LinkId, bool)>,
    declaring: Option<u64>,
    /// Discharges that are not answered, each with the transaction it commits; none where it rolls back.
    discharges: BTreeMap<u64, Option<Transaction>>,
    requests: u64,
}

impl Control {
    pub(super) fn is_waiting(&self) -> bool {
        self.declaring.is_some() || !self.discharges.is_empty()
    }

    pub(super) fn attached(&mut self, link: LinkId) {
        if let Some((_, is_attached)) = self.coordinator.as_mut().filter(|(of, _)| *of == link) {
            *is_attached = true;
        }
    }

    /// Attaches to the coordinator, or declares a transaction where that is done.
    pub(super) fn begin(&mut self, connection: &mut Connection, session: SessionId) {
        if self.coordinator.is_none() {
            let target = Some(Target { is_coordinator: true, ..Target::default() });
            let source = Some(Source::default());
            let attach = Attach { target, source, ..Attach::new("control", Role::Sender) };
            self.coordinator = connection.attach(session, &attach).map(|link| (link, false));
        } else if self.transaction.is_none() && !self.is_waiting() {
            self.declaring = self.ask(connection, session, &Request::Declare { is_global: false });
        }
    }

    /// Discharges the transaction: commits it, or rolls it back where `held` is none.
    pub(super) fn end(
        &mut self,
        connection: &mut Connection,
        session: SessionId,
        held: Option<&Transaction>,
    ) {
        let Some(id) = self.transaction.take() else { return };
        let discharge = Request::Discharge { id: &id, fail: held.is_none() };
        let token =
            self.ask(connection, session, &discharge).expect("a controller has credit for one request");
        self.discharges.insert(token, held.cloned());
    }

    /// Sends a request: its token, where it can be sent now.
    fn ask(&mut self, connection: &mut Connection, session: SessionId, request: &Request<'_>) -> Option<u64> {
        let (link, _) = self.coordinator.filter(|(_, is_attached)| *is_attached)?;
        let mut body = Vec::new();
        request.write(&mut body);
        self.requests += 1;
        let token = CONTROL + self.requests;
        let (tag, head) = (self.requests.to_be_bytes(), [&body[..]]);
        let delivery = Delivery { tag: &tag, settled: false, token, head: &head, body: Body::Bytes(&[]) };
        connection.transfer(session, link, &delivery).ok().map(|_| token)
    }

    /// Takes the coordinator's answer to a request.
    pub(super) fn answered(&mut self, token: u64, outcome: Option<&Outcome<'_>>, seen: &mut Vec<Seen>) {
        if self.declaring.take_if(|of| *of == token).is_some() {
            match outcome {
                Some(Outcome::Declared(id)) => {
                    self.transaction = Some(id.to_vec());
                    seen.push(Seen::Begun);
                }
                other => seen.push(Seen::Failed(format!("declare is answered with {other:?}"))),
            }
        } else if let Some(Some(held)) = self.discharges.remove(&token) {
            match outcome {
                Some(Outcome::Accepted) => seen.extend(held.published.into_iter().map(Seen::Confirmed)),
                Some(Outcome::Rejected(_)) => seen.push(Seen::Undone(held)),
                other => seen.push(Seen::Failed(format!("discharge is answered with {other:?}"))),
            }
        }
    }
}
