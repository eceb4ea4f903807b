//! Files of the web interface, answered before the lanes: they ask nothing of the node.

use super::answers::Shown;
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
    LOCATION, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use management::{Method, Request};
use std::path::PathBuf;
use ui::File;

/// A browser keeps a file for a year, as its address has its digest.
const KEPT: &str = "public, max-age=31536000, immutable";

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// Where the files of the web interface come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Files {
    /// They are not served.
    None,
    /// The program.
    #[default]
    Own,
    /// A folder, for those who work on them.
    Folder(PathBuf),
}

impl Files {
    /// The answer to a request for a file; `target`: its path as the browser has it, `known`: the digests of what it has.
    /// None: it is for no file.
    pub fn answer(&self, request: &Request, target: &str, known: Option<&str>) -> Option<Shown> {
        if *self == Files::None || !matches!(request.method, Method::Get | Method::Head) {
            return None;
        }
        let file = ui::find(&request.path)?;
        if file.is_page() && !target.ends_with('/') && !target.ends_with(".html") {
            return Some(moved(target));
        }
        let etag = format!("\"{}\"", ui::HASH);
        let is_known = known.is_some_and(|known| known.split(',').any(|own| own.trim() == etag));
        let (body, is_packed) = match self {
            Files::Folder(folder) => (read(folder, file), false),
            _ if request.takes_gzip => (Bytes::from_static(file.gzip), true),
            _ => (Bytes::from_static(file.plain), false),
        };
        let is_of_folder = matches!(self, Files::Folder(_));
        let is_unchanged = is_known && !is_of_folder;
        let body = if is_unchanged || request.method == Method::Head { Bytes::new() } else { body };
        let mut answer = Response::new(Either::Left(Full::new(body)));
        if is_unchanged {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = answer.headers_mut();
        let mut say =
            |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
        say(CONTENT_TYPE, file.kind());
        say(CACHE_CONTROL, if file.is_page() || is_of_folder { "no-cache" } else { KEPT });
        say(CONTENT_SECURITY_POLICY, ui::POLICY);
        say(X_CONTENT_TYPE_OPTIONS, "nosniff");
        say(REFERRER_POLICY, "same-origin");
        say(OPENER_POLICY, "same-origin");
        say(VARY, "accept-encoding");
        if is_packed {
            say(CONTENT_ENCODING, "gzip");
        }
        if !is_of_folder && let Ok(etag) = HeaderValue::from_str(&etag) {
            headers.insert(ETAG, etag);
        }
        Some(answer)
    }
}

/// The page is at the same path with a slash at its end: addresses in it begin from there.
fn moved(target: &str) -> Shown {
    let mut answer = Response::new(Either::Left(Full::new(Bytes::new())));
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(place) = HeaderValue::from_str(&format!("{target}/")) {
        answer.headers_mut().insert(LOCATION, place);
    }
    answer
}

/// The file as it is in a folder now. The page is the program's: it has the addresses.
fn read(folder: &std::path::Path, file: &'static File) -> Bytes {
    match file.is_page() {
        true => Bytes::from_static(file.plain),
        false => {
            std::fs::read(folder.join(file.name)).map_or_else(|_| Bytes::from_static(file.plain), Bytes::from)
        }
    }
}
