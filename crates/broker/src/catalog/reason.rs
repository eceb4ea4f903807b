//! The rule that a refused request broke, as data.
//!
//! Protocols, the HTTP API and imports decide by it. A reason carries what one of them needs to go on or to say it in its
//! own words; what a person is told is the refusal's text.

/// Kind of object that a refusal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// A binding, its key and arguments included.
    Binding,
    /// A channel of AMQP 0-9-1.
    Channel,
    /// A client's connection.
    Connection,
    /// A consumer, known by its tag.
    Consumer,
    /// An unsettled delivery, known by its tag.
    Delivery,
    /// An exchange.
    Exchange,
    /// A log of the node, by its number.
    Log,
    /// A macro of the filter language.
    Macro,
    /// A message.
    Message,
    /// A parameter of the node or of a virtual host.
    Parameter,
    /// The permissions of a user.
    Permission,
    /// A policy.
    Policy,
    /// A queue of any type.
    Queue,
    /// A shard of the node, by its number.
    Shard,
    /// A stream, where a queue of another type is none.
    Stream,
    /// A tag of a user or virtual host.
    Tag,
    /// A routing key of a topic exchange.
    Topic,
    /// A transaction of a channel.
    Transaction,
    /// A user.
    User,
    /// A virtual host.
    VirtualHost,
}

impl Object {
    /// The word that error texts have for it.
    pub fn name(self) -> &'static str {
        match self {
            Object::Binding => "binding",
            Object::Channel => "channel",
            Object::Connection => "connection",
            Object::Consumer => "consumer",
            Object::Delivery => "delivery",
            Object::Exchange => "exchange",
            Object::Log => "log",
            Object::Macro => "macro",
            Object::Message => "message",
            Object::Parameter => "parameter",
            Object::Permission => "permission",
            Object::Policy => "policy",
            Object::Queue => "queue",
            Object::Shard => "shard",
            Object::Stream => "stream",
            Object::Tag => "tag",
            Object::Topic => "topic",
            Object::Transaction => "transaction",
            Object::User => "user",
            Object::VirtualHost => "vhost",
        }
    }
}

/// The rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The node closes the connection for an operator, or for itself.
    Closed,
    /// The queue's log is damaged on disk.
    Damaged,
    /// The connection's own object was deleted, and the connection goes with it.
    Deleted(Object),
    /// An exclusive consumer beside others.
    ExclusiveUse,
    /// There is one by this name already.
    Exists(Object),
    /// Only an unused object was to be deleted.
    InUse(Object),
    /// Declared again with another value.
    Inequivalent {
        /// The argument or property.
        argument: Box<str>,
    },
    /// Publishing to an internal exchange, which is nobody's whatever the permissions.
    InternalExchange {
        /// The exchange as error texts have it: `exchange 'e' in vhost '/'`.
        exchange: Box<str>,
    },
    /// The name, type or content of a new object is none that it can have.
    Invalid(Object),
    /// An argument that the object does not know, or a value that the argument does not have.
    InvalidArgument {
        /// The argument.
        argument: Box<str>,
    },
    /// A property that the type of the new object does not have.
    InvalidProperty {
        /// The property.
        property: Box<str>,
    },
    /// There may be no more of these.
    LimitReached(Object),
    /// The queue is exclusive to another connection.
    Locked {
        /// The queue as error texts have it: `queue 'q' in vhost '/'`.
        queue: Box<str>,
    },
    /// The login failed.
    Login,
    /// The memory alarm holds, and nothing new is kept.
    NoMemory,
    /// The disk is full.
    NoSpace,
    /// Only an empty queue was to be deleted.
    NotEmpty,
    /// There is no such object, or no longer.
    NotFound(Object),
    /// A deprecated feature that the operator has not permitted.
    NotPermitted,
    /// A method, argument or value that Leveret does not serve.
    NotServed,
    /// The user lacks a permission on the object.
    Permission(Object),
    /// No node led the catalog for as long as a client waits.
    NoLeader,
    /// The virtual host is protected from deletion.
    Protected,
    /// A name that is the broker's own, or an object that comes with the virtual host.
    Reserved(Object),
    /// A refusal by another node or connection, of which the code alone is known here.
    Relayed,
    /// Finding where a message goes takes more steps than a message may take.
    RouteTooDear,
    /// A queue refused a message of a transaction.
    Rejected,
    /// The user lacks a tag: administrator, policymaker.
    Role,
    /// Single messages of a queue with one active consumer.
    SingleActive,
    /// A consumer held a delivery for too long.
    TimedOut,
    /// Larger than the limit.
    TooLarge(Object),
    /// A name, key or description is too long.
    TooLong,
    /// Objects of this kind and type do not do this.
    Unsuited(Object),
    /// The channel, group or consumer is in a state in which this is not possible.
    WrongState,
    /// A message says that another user sent it.
    WrongUser,
}
