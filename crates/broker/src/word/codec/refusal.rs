//! Refusals as bytes.

use super::Fault;
use super::wire::{Wire, put_text, take_text, wire_enum};
use crate::catalog::{Object, Reason, Refusal, ReplyCode};
use base::{Output, Reader};

wire_enum!(ReplyCode {
    1 ConnectionForced,
    2 AccessRefused,
    3 NotFound,
    4 ResourceLocked,
    5 PreconditionFailed,
    6 ResourceError,
    7 NotAllowed,
    8 NotImplemented,
    9 InternalError,
    10 WrongUser,
    11 WorkExceeded,
});

wire_enum!(Object {
    1 Binding,
    2 Channel,
    3 Connection,
    4 Consumer,
    5 Delivery,
    6 Exchange,
    7 Log,
    8 Macro,
    9 Message,
    10 Parameter,
    11 Permission,
    12 Policy,
    13 Queue,
    14 Shard,
    15 Stream,
    16 Tag,
    17 Topic,
    18 Transaction,
    19 User,
    20 VirtualHost,
});

wire_enum!(Reason {
    1 Closed,
    2 Damaged,
    3 Deleted(object),
    4 ExclusiveUse,
    5 Exists(object),
    6 InUse(object),
    7 Inequivalent { argument },
    8 InternalExchange { exchange },
    9 Invalid(object),
    10 InvalidArgument { argument },
    11 InvalidProperty { property },
    12 LimitReached(object),
    13 Locked { queue },
    14 Login,
    15 NoMemory,
    16 NoSpace,
    17 NotEmpty,
    18 NotFound(object),
    19 NotPermitted,
    20 NotServed,
    21 Permission(object),
    22 Protected,
    23 Reserved(object),
    24 Relayed,
    25 RouteTooDear,
    26 Rejected,
    27 Role,
    28 SingleActive,
    29 TimedOut,
    30 TooLarge(object),
    31 TooLong,
    32 Unsuited(object),
    33 WrongState,
    34 WrongUser,
    35 NoLeader,
});

impl Wire for Refusal {
    fn put(&self, out: &mut Output) {
        self.reason.put(out);
        self.code.put(out);
        put_text(self.peer_text(), out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Refusal, Fault> {
        let (reason, code) = (Wire::take(reader)?, Wire::take(reader)?);
        Ok(Refusal::new(code, reason, take_text(reader)?))
    }
}
