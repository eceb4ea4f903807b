//! The page at the root.

use super::Bench;
use crate::request::Request;
use crate::response::Response;
use crate::routes::handle;

fn ask(bench: &Bench, method: &str, path: &str) -> Response {
    handle(bench, &Request::new(method, path, Vec::new(), false).expect(path))
}

#[test]
fn everybody_gets_the_page_and_nothing_else_is_one() {
    let bench = Bench::new();
    for path in ["/", "", "/api", "/api/", "/index.html", "/api/index.html", "/?a=b"] {
        let page = ask(&bench, "GET", path);
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{path}: {policy}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"), "{path}");
        let head = ask(&bench, "HEAD", path);
        assert_eq!((head.status, head.headers, head.body.len()), (200, page.headers, 0), "{path}");
        assert_eq!(ask(&bench, "PUT", path).status, 405, "{path}");
        assert_eq!(ask(&bench, "OPTIONS", path).header("allow"), Some("HEAD, GET, OPTIONS"), "{path}");
    }
    for path in ["/x", "/index.html/x", "/api/index.htm", "/api//", "//api"] {
        assert_eq!(ask(&bench, "GET", path).status, 404, "{path}");
    }
    assert_eq!(*bench.looks.lock().unwrap(), 0, "nobody is asked for a login");
}

#[test]
fn names_of_the_node_are_text() {
    let mut bench = Bench::new();
    bench.about.product = "<b>\"hare\"&amp;</b>".to_owned();
    bench.about.prefix = "/a%20b".to_owned();
    let page = String::from_utf8(ask(&bench, "GET", "/").body).unwrap();
    assert!(page.contains("<h1>&lt;b&gt;&quot;hare&quot;&amp;amp;&lt;/b&gt;"), "{page}");
    assert!(page.contains("href=\"/a%20b/api/x/openapi.json\""), "{page}");
}
