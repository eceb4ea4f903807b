//! The page at the root of the management port, and at `/api`: what this is, and where to go on.
//!
//! It is static but for the version and where the request came in, needs no login, runs nothing and loads nothing: its
//! policy lets a browser have the one style sheet in it and no more.

use crate::node::{About, Node};
use crate::request::{Method, Request};
use crate::response::{Answer, Response};
use data_encoding::BASE64;
use sha2::{Digest, Sha256};

/// As RabbitMQ calls the listeners of metrics.
const METRICS: &str = "http/prometheus";

/// The same with TLS.
const METRICS_SECURE: &str = "https/prometheus";

const STYLE: &str = "\
:root{color-scheme:light dark;--paper:#fff;--ink:#1b211c;--second:#55605a;--rule:#dcdfd8;--action:#0b5d3b}\
@media(prefers-color-scheme:dark){:root{--paper:#161a18;--ink:#e6eae7;--second:#a3ada7;--rule:#343b37;--action:#7fd6a8}}\
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}\
main{max-width:40rem;margin:0 auto;padding:3rem 1.25rem}\
h1{margin:0;font-size:1.75rem}\
p{margin:.25rem 0 1.5rem;color:var(--second)}\
dl{margin:0;border-top:1px solid var(--rule)}\
dt{padding-top:.75rem;font-weight:600}\
dd{margin:0;padding-bottom:.75rem;border-bottom:1px solid var(--rule)}\
a{color:var(--action)}\
code{font:.875rem/1.5 ui-monospace,monospace;overflow-wrap:anywhere}";

/// Whether a path is this page's.
pub(crate) fn is_at(path: &[&str]) -> bool {
    matches!(path, [] | ["" | "index.html" | "api"] | ["api", "index.html"])
}

/// The page.
///
/// # Errors
/// The response to a method that a page has not.
pub(crate) fn show<N: Node>(node: &N, request: &Request) -> Answer {
    let allowing = |response: Response| response.with("allow", "HEAD, GET, OPTIONS".to_owned());
    match request.method {
        Method::Get | Method::Head => {}
        Method::Options => return Ok(allowing(Response::empty(200))),
        _ => return Err(allowing(Response::empty(405))),
    }
    let body = page(node.about(), request).into_bytes();
    let headers = vec![
        ("content-type", "text/html; charset=utf-8".to_owned()),
        ("cache-control", "no-cache".to_owned()),
        ("content-security-policy", policy()),
        ("referrer-policy", "same-origin".to_owned()),
        ("cross-origin-opener-policy", "same-origin".to_owned()),
    ];
    Ok(Response { headers, body, ..Response::empty(200) })
}

/// The content policy: the style sheet of this page, and nothing else.
fn policy() -> String {
    let style = BASE64.encode(&Sha256::digest(STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; img-src data:; frame-ancestors 'none'; base-uri 'none'; \
         form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
}

fn page(about: &About, request: &Request) -> String {
    let About { product, product_version, version, prefix, .. } = about;
    let metrics = metrics(about, request);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{product}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{product} {product_version}</h1>\n\
         <p>A message broker that speaks to clients and tools as RabbitMQ {version} does. It is running.</p>\n<dl>\n\
         <dt>HTTP API</dt>\n<dd>All paths below <code>{prefix}/api</code>, in \
         <a href=\"{prefix}/api/x/openapi.json\">openapi.json</a>; with a login, for example \
         <a href=\"{prefix}/api/overview\">the overview</a></dd>\n\
         <dt>Metrics</dt>\n<dd>{metrics}</dd>\n\
         <dt>Command line</dt>\n<dd><code>leveret top</code> shows what goes on, <code>leveret ctl help</code> all \
         commands; RabbitMQ's tools work by their names</dd>\n\
         <dt>Guide</dt>\n<dd>In the folder <code>docs/guide</code> that came with this version</dd>\n\
         </dl>\n</main>\n</body>\n</html>\n",
        prefix = escaped(prefix),
        product = escaped(product),
        product_version = escaped(product_version),
        version = escaped(version),
    )
}

/// Where metrics are: a link, where the request says by which name this node is reached.
fn metrics(about: &About, request: &Request) -> String {
    let of = |protocol: &str| about.listeners.iter().find(|listener| listener.protocol == protocol);
    let Some(listener) = of(METRICS).or_else(|| of(METRICS_SECURE)) else {
        return "Not served: <code>prometheus.tcp.port</code> has them served".to_owned();
    };
    let path = match &about.metrics_path[..] {
        [] => "/metrics".to_owned(),
        own => crate::gate::path(own),
    };
    let scheme = if listener.is_secure() { "https" } else { "http" };
    match &request.host {
        Some(host) => {
            let place = escaped(&format!("{scheme}://{}{path}", host.at(listener.port)));
            format!("For Prometheus, at <a href=\"{place}\">{place}</a>")
        }
        None => {
            format!("For Prometheus, at port {} by {scheme}, <code>{}</code>", listener.port, escaped(&path))
        }
    }
}

/// Text as it may stand in a page, also between double quotes.
fn escaped(text: &str) -> String {
    let mut page = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            letter => page.push(letter),
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Authority;
    use crate::node::Listener;

    #[test]
    fn metrics_are_where_the_node_listens_for_them() {
        let check = |protocol: &str, path: &[&str], host: Option<&str>, expected: &str| {
            let listener = Listener { protocol: protocol.to_owned(), port: 1234, ..Listener::default() };
            let metrics_path = path.iter().map(|own| (*own).to_owned()).collect();
            let about = About { listeners: vec![listener], metrics_path, ..About::default() };
            let mut request = Request::new("GET", "/", Vec::new(), true).unwrap();
            request.host = host.and_then(Authority::read);
            let told = metrics(&about, &request);
            assert!(told.contains(expected), "{protocol} {path:?} {host:?}: {told}");
        };
        check(METRICS, &[], Some("localhost:15672"), "<a href=\"http://localhost:1234/metrics\">");
        check(METRICS_SECURE, &["a", "b c"], Some("[::1]"), "<a href=\"https://[::1]:1234/a/b%20c\">");
        check(METRICS, &[], None, "port 1234 by http, <code>/metrics</code>");
        check("http", &[], Some("localhost"), "Not served");
    }

    #[test]
    fn nothing_in_a_page_is_taken_for_its_language() {
        assert_eq!(escaped("<a href=\"x\">&amp;</a>"), "&lt;a href=&quot;x&quot;&gt;&amp;amp;&lt;/a&gt;");
    }
}
