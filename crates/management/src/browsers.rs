//! Messages as browsers see them: `management.ui.messages`.

use crate::call::Call;
use crate::node::{BrowsersSee, Node};
use crate::response::Response;

/// The parts of messages that the client of a request may see, its permissions apart.
pub(crate) fn seen<N: Node>(call: &Call<'_, N>) -> BrowsersSee {
    match &call.request.session {
        Some(_) => call.node.about().browsers_see,
        None => BrowsersSee::Full,
    }
}

/// The response to a browser that may not see messages.
pub(crate) fn not_shown() -> Response {
    Response::not_authorised("Messages are not shown to browsers here (management.ui.messages).")
}
