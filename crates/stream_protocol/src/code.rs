//! Response codes: how a request ended, why a message was not taken, why a connection closes.

/// A response code. Peers may know more of them than are named here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ResponseCode(pub u16);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal;)*) => {
        impl ResponseCode {
            $($(#[$doc])* pub const $name: ResponseCode = ResponseCode($number);)*

            /// Its meaning in words; `None` for an unknown code.
            pub fn text(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// It was done.
    OK = 0x01 "ok";
    /// No such stream.
    STREAM_DOES_NOT_EXIST = 0x02 "stream does not exist";
    /// The connection has a subscription with this id.
    SUBSCRIPTION_ID_ALREADY_EXISTS = 0x03 "subscription id already exists";
    /// The connection has no subscription with this id.
    SUBSCRIPTION_ID_DOES_NOT_EXIST = 0x04 "subscription id does not exist";
    /// The stream is there already.
    STREAM_ALREADY_EXISTS = 0x05 "stream already exists";
    /// The stream has no leader at present.
    STREAM_NOT_AVAILABLE = 0x06 "stream not available";
    /// The server does not offer this mechanism.
    SASL_MECHANISM_NOT_SUPPORTED = 0x07 "SASL mechanism not supported";
    /// The client's credentials are wrong.
    AUTHENTICATION_FAILURE = 0x08 "authentication failure";
    /// The mechanism's rules were broken.
    SASL_ERROR = 0x09 "SASL error";
    /// The mechanism wants more.
    SASL_CHALLENGE = 0x0a "SASL challenge";
    /// The user may log in from the server's own machine alone.
    SASL_AUTHENTICATION_FAILURE_LOOPBACK = 0x0b "SASL authentication failure loopback";
    /// No access to the virtual host.
    VIRTUAL_HOST_ACCESS_FAILURE = 0x0c "virtual host access failure";
    /// A frame that cannot be decoded, or that is out of place.
    UNKNOWN_FRAME = 0x0d "unknown frame";
    /// A frame over the bound that was agreed on.
    FRAME_TOO_LARGE = 0x0e "frame too large";
    /// The server's own fault.
    INTERNAL_ERROR = 0x0f "internal error";
    /// No permission.
    ACCESS_REFUSED = 0x10 "access refused";
    /// Something is not as the request takes it to be.
    PRECONDITION_FAILED = 0x11 "precondition failed";
    /// The connection has no publisher with this id.
    PUBLISHER_DOES_NOT_EXIST = 0x12 "publisher does not exist";
    /// No offset was stored, or none is there that was asked for.
    NO_OFFSET = 0x13 "no offset";
    /// A secret was renewed with another mechanism.
    SASL_CANNOT_CHANGE_MECHANISM = 0x14 "SASL cannot change mechanism";
    /// A secret was renewed for another user.
    SASL_CANNOT_CHANGE_USERNAME = 0x15 "SASL cannot change username";
}

impl ResponseCode {
    /// The request was done.
    pub fn is_ok(self) -> bool {
        self == ResponseCode::OK
    }
}

impl std::fmt::Display for ResponseCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.text() {
            Some(text) => write!(f, "{:#04x} ({text})", self.0),
            None => write!(f, "{:#04x}", self.0),
        }
    }
}

impl std::fmt::Debug for ResponseCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
