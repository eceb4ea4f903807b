//! Commands by number, and which versions of them are spoken.

use crate::error::Malformed;
use crate::list::Item;
use base::Reader;

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        /// The command a frame carries.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Key { $($(#[$doc])* $name = $number,)* }

        impl Key {
            /// The command with this number.
            pub fn from_number(number: u16) -> Option<Key> {
                match number {
                    $($number => Some(Key::$name),)*
                    _ => None,
                }
            }
        }
    };
}

keys! {
    /// Announces a publisher.
    DeclarePublisher = 1;
    /// Messages of a publisher.
    Publish = 2;
    /// Messages that were taken.
    PublishConfirm = 3;
    /// Messages that were not.
    PublishError = 4;
    /// Asks for the highest publishing id.
    QueryPublisherSequence = 5;
    /// Ends a publisher.
    DeletePublisher = 6;
    /// Begins a subscription.
    Subscribe = 7;
    /// A chunk for a subscription.
    Deliver = 8;
    /// Asks for more chunks.
    Credit = 9;
    /// Keeps an offset.
    StoreOffset = 10;
    /// Asks for a kept offset.
    QueryOffset = 11;
    /// Ends a subscription.
    Unsubscribe = 12;
    /// Creates a stream.
    Create = 13;
    /// Deletes a stream.
    Delete = 14;
    /// Asks for the nodes of streams.
    Metadata = 15;
    /// Tells that this has changed.
    MetadataUpdate = 16;
    /// Peers introduce themselves.
    PeerProperties = 17;
    /// Asks for SASL mechanisms.
    SaslHandshake = 18;
    /// Logs in, or renews the secret.
    SaslAuthenticate = 19;
    /// Proposes and settles bounds.
    Tune = 20;
    /// Chooses a virtual host.
    Open = 21;
    /// Ends the connection.
    Close = 22;
    /// A sign of life.
    Heartbeat = 23;
    /// Asks which partitions a routing key goes to.
    Route = 24;
    /// Asks for all partitions.
    Partitions = 25;
    /// Tells a consumer whether it is the active one.
    ConsumerUpdate = 26;
    /// Peers tell which versions they speak.
    ExchangeCommandVersions = 27;
    /// Asks for a stream's figures.
    StreamStats = 28;
    /// Creates partitions and their exchange.
    CreateSuperStream = 29;
    /// Deletes them.
    DeleteSuperStream = 30;
    /// Asks which offset a specification stands for.
    ResolveOffsetSpec = 31;
}

/// The versions of a command that a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The command's number, which may be one that nobody here knows.
    pub key: u16,
    /// The lowest.
    pub min: u16,
    /// The highest.
    pub max: u16,
}

const fn versions(key: Key, max: u16) -> Versions {
    Versions { key: key as u16, min: 1, max }
}

/// The commands RabbitMQ 4.3.6 announces: those it takes from clients, but for those of the opening.
pub const SERVER_VERSIONS: [Versions; 20] = [
    versions(Key::DeclarePublisher, 1),
    versions(Key::Publish, 2),
    versions(Key::QueryPublisherSequence, 1),
    versions(Key::DeletePublisher, 1),
    versions(Key::Subscribe, 1),
    versions(Key::Credit, 1),
    versions(Key::StoreOffset, 1),
    versions(Key::QueryOffset, 1),
    versions(Key::Unsubscribe, 1),
    versions(Key::Create, 1),
    versions(Key::Delete, 1),
    versions(Key::Metadata, 1),
    versions(Key::Close, 1),
    versions(Key::Heartbeat, 1),
    versions(Key::Route, 1),
    versions(Key::Partitions, 1),
    versions(Key::StreamStats, 1),
    versions(Key::CreateSuperStream, 1),
    versions(Key::DeleteSuperStream, 1),
    versions(Key::ResolveOffsetSpec, 1),
];

/// The commands this end announces as a client: those it takes from servers.
pub const CLIENT_VERSIONS: [Versions; 5] = [
    versions(Key::PublishConfirm, 1),
    versions(Key::PublishError, 1),
    versions(Key::Deliver, 2),
    versions(Key::MetadataUpdate, 1),
    versions(Key::ConsumerUpdate, 1),
];

impl<'a> Item<'a> for Versions {
    fn read(reader: &mut Reader<'a>) -> Result<Versions, Malformed> {
        Ok(Versions { key: reader.u16()?, min: reader.u16()?, max: reader.u16()? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        for number in [self.key, self.min, self.max] {
            out.extend(number.to_be_bytes());
        }
    }
}
