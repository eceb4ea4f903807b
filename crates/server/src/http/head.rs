//! The head of a request, as the gate looks at it.

use super::asker::Service;
use super::line::Line;
use hyper::Version;
use hyper::header::{ACCESS_CONTROL_REQUEST_HEADERS, CONTENT_TYPE, COOKIE, HOST, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use management::{Head, Passed, Request, Response};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Of the web interface: pages of other origins may not send it unasked.
const MARK: HeaderName = HeaderName::from_static("x-leveret");

/// Whether a request is let in. Its path then begins where nothing is configured to be before it.
pub fn judge(line: &Line, head: &Parts, request: &mut Request) -> Result<Passed, Response> {
    let all = |name: HeaderName| head.headers.get_all(name).iter().map(|value| value.as_bytes()).collect();
    let asked = head.headers.get(ACCESS_CONTROL_REQUEST_HEADERS);
    let said = Head {
        target: head.uri.authority().map(|target| target.as_str()),
        hosts: all(HOST),
        origins: all(ORIGIN),
        sites: all(SITE),
        bodies: all(CONTENT_TYPE),
        headers: asked.and_then(|asked| asked.to_str().ok()),
        names_host: head.version >= Version::HTTP_11,
        is_secure: line.tls.is_some(),
        cookies: head.headers.get(COOKIE).and_then(|cookies| cookies.to_str().ok()),
        mode: head.headers.get(MODE).map(|mode| mode.as_bytes()),
        is_marked: head.headers.contains_key(MARK),
    };
    request.is_secure = said.is_secure;
    let gate = &line.shared.gate;
    match line.service {
        Service::Metrics => gate.judge_metrics(&said, request).map(|()| Passed::default()),
        Service::Api => {
            gate.recognize(line.shared.clock.now(), &said, request);
            let passed = gate.judge(&said, request)?;
            request.is_loopback = passed.is_local;
            request.host.clone_from(&passed.host);
            gate.enter(request)?;
            Ok(passed)
        }
    }
}
