use super::*;

const GUEST: &str = "Basic Z3Vlc3Q6Z3Vlc3Q=";
const SOMEBODY: &str = "Basic c29tZWJvZHk6eA==";

fn gate() -> Gate {
    let read = |text: &str| Authority::read(text).expect(text);
    let origins = [("1", "https://ours.example"), ("2", "http://127.0.0.1:9999")];
    Gate {
        rules: GateRules {
            origins: origins.map(|(name, origin)| (name.to_owned(), origin.to_owned())).into(),
            max_age_s: 77,
            hosts: BTreeMap::from([
                ("1".to_owned(), read("front.example")),
                ("2".to_owned(), read("side.example:8080")),
            ]),
            prefix: Vec::new(),
            transport_policy: None,
        },
        names: vec![read("hare.field.example")],
        loopback_users: vec!["guest".into()],
        sessions: None,
    }
}

/// Lines of a head, `; ` between them, as a request of it by a client on this machine.
fn asked<T>(
    line: &str,
    lines: &str,
    user: &str,
    ask: impl FnOnce(&Head<'_>, &Request) -> Result<T, Response>,
) -> Result<T, Response> {
    let (method, path) = line.split_once(' ').unwrap();
    let of = |name: &str| -> Vec<&[u8]> {
        let pairs = lines.split("; ").filter_map(|line| line.split_once(": "));
        pairs.filter(|(own, _)| *own == name).map(|(_, value)| value.as_bytes()).collect()
    };
    let headers = of("access-control-request-headers");
    let head = Head {
        target: None,
        hosts: of("host"),
        origins: of("origin"),
        sites: of("sec-fetch-site"),
        bodies: of("content-type"),
        headers: headers.first().map(|value| std::str::from_utf8(value).unwrap()),
        names_host: !lines.contains("HTTP/1.0"),
        is_secure: lines.contains("TLS"),
        cookies: of("cookie").first().map(|value| std::str::from_utf8(value).unwrap()),
        mode: of("sec-fetch-mode").first().copied(),
        is_marked: lines.contains("x-leveret"),
    };
    let mut request = Request::new(method, path, Vec::new(), true).unwrap();
    request.authorization = Some(user.to_owned());
    ask(&head, &request)
}

/// The status of a request that is refused; 0: it passes.
fn status(line: &str, lines: &str, user: &str) -> u16 {
    asked(line, lines, user, |head, request| gate().judge(head, request)).err().map_or(0, |no| no.status)
}

#[test]
fn pages_of_others_change_nothing() {
    let check = |lines: &str, expected: u16| {
        let lines = format!("host: localhost:15672; {lines}");
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            assert_eq!(status(&format!("{method} /api/x"), &lines, GUEST), expected, "{method} {lines}");
        }
        // They may look: browsers keep the answers from them.
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert_eq!(status(&format!("{method} /api/x"), &lines, GUEST), 0, "{method} {lines}");
        }
    };
    check("", 0);
    // Programs say nothing of pages, with any type of body.
    for kind in ["application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
    {
        check(&format!("content-type: {kind}"), 0);
        check(&format!("content-type: {kind}; origin: https://evil.example"), 403);
        check(&format!("content-type: {kind}; origin: http://localhost:15672"), 0);
        check(&format!("content-type: {kind}; origin: https://ours.example"), 0);
        check(&format!("content-type: {kind}; sec-fetch-site: cross-site"), 403);
    }
    check("origin: null", 403);
    check("origin: http://localhost:3000", 403);
    check("origin: https://localhost:15672", 0);
    check("origin: http://127.0.0.1:15672", 403);
    check("origin: http://[::1]:15672", 403);
    check("origin: http://evil.localhost:15672", 403);
    check("origin: http://localhost:15672.evil.example", 403);
    check("origin: http://localhost:15672@evil.example", 403);
    check("origin: HTTP://LocalHost.:15672", 0);
    check("origin: garbage", 403);
    check("origin: \u{e4}", 403);
    check("origin: http://localhost:15672; origin: https://evil.example", 403);
    check("origin: https://ours.example; origin: https://ours.example", 403);
    check("sec-fetch-site: same-site", 403);
    check("sec-fetch-site: none", 0);
    check("sec-fetch-site: none; origin: https://evil.example", 403);
    check("sec-fetch-site: same-origin", 0);
    check("sec-fetch-site: same-origin; origin: null", 0);
    check("sec-fetch-site: SAME-ORIGIN", 403);
    check("sec-fetch-site: ", 403);
    check("sec-fetch-site: same-origin; sec-fetch-site: cross-site", 403);
    check("sec-fetch-site: cross-site; origin: https://ours.example", 0);
    check("sec-fetch-site: cross-site; origin: http://127.0.0.1:9999", 0);
    check("origin: http://127.0.0.1:9998", 403);
    check("origin: http://ours.example", 403);
    check("origin: HTTPS://Ours.Example", 0);
    // A proxy that asks under a name of its own.
    check("origin: http://front.example", 0);
    check("origin: https://front.example", 0);
    check("origin: https://front.example:8080", 403);
    check("origin: https://side.example:8080", 0);
    check("origin: https://side.example", 403);
    check("TLS; origin: http://localhost:15672", 403);
    check("TLS; origin: https://localhost:15672", 0);
}

#[test]
fn where_all_pages_are_let_in_browsers_ask_first() {
    let mut gate = gate();
    gate.rules.origins.insert("3".to_owned(), "*".to_owned());
    let check = |line: &str, lines: &str, expected: u16| {
        let lines = format!("host: localhost:15672; {lines}");
        let judged = asked(line, &lines, GUEST, |head, request| gate.judge(head, request));
        assert_eq!(judged.err().map_or(0, |no| no.status), expected, "{line} {lines}");
    };
    let evil = "origin: https://evil.example; sec-fetch-site: cross-site";
    check("PUT /api/x", evil, 0);
    check("DELETE /api/x", evil, 0);
    check("POST /api/x", &format!("{evil}; content-type: application/json"), 0);
    check("POST /api/x", &format!("{evil}; content-type: application/json;charset=utf-8"), 0);
    check("POST /api/x", evil, 403);
    check("POST /api/x", &format!("{evil}; content-type: text/plain; charset=utf-8"), 403);
    check("POST /api/x", &format!("{evil}; content-type: Multipart/Form-Data;boundary=x"), 403);
    check("POST /api/x", &format!("{evil}; content-type: application/x-www-form-urlencoded ;a=b"), 403);
    check("POST /api/x", &format!("{evil}; content-type: a/b; content-type: text/plain"), 403);
    check("POST /api/x", "origin: null; content-type: application/json", 403);
    check("POST /api/x", "sec-fetch-site: cross-site; content-type: application/json", 403);
}

#[test]
fn who_may_come_from_here_alone_comes_by_a_name_of_this_machine() {
    let check = |host: &str, expected: u16| {
        let lines = format!("host: {host}");
        assert_eq!(status("GET /api/overview", &lines, GUEST), expected, "{host}");
        assert_eq!(status("PUT /api/users/x", &lines, GUEST), expected, "{host}");
        // Others are let in from everywhere.
        let somebody = if expected == 400 { 400 } else { 0 };
        assert_eq!(status("GET /api/overview", &lines, SOMEBODY), somebody, "{host}");
        let metrics = asked("GET /metrics", &lines, "", |head, request| gate().judge_metrics(head, request));
        assert_eq!(metrics.err().map_or(0, |no| no.status), expected, "{host}");
        // A form that names the user says it where the gate does not look.
        let passed = asked("POST /api/login", &lines, SOMEBODY, |head, request| gate().judge(head, request));
        assert_eq!(passed.is_ok_and(|passed| passed.is_local), expected == 0, "{host}");
    };
    for ours in [
        "localhost",
        "localhost:15672",
        "LOCALHOST",
        "localhost.",
        "web.localhost:1",
        "127.0.0.1:15672",
        "[::1]:15672",
        "[::ffff:127.0.0.1]",
        "10.1.2.3",
        "hare",
        "Hare:15672",
        "hare.field.example",
        "front.example:15672",
        "side.example",
        "",
    ] {
        check(ours, 0);
    }
    for foreign in [
        "evil.example:15672",
        "localhost.evil.example",
        "evil.localhost.example",
        "127.0.0.1.evil.example",
        "127.1",
        "hare.example",
        "x.hare",
        "field.example",
        "not.localhost.com",
    ] {
        check(foreign, 403);
    }
    for bad in
        ["guest@localhost", "localhost/evil.example", "local host", "localhost:99999", "::1", "localhost:x"]
    {
        check(bad, 400);
    }
    assert_eq!(status("GET /api/overview", "", GUEST), 400);
    assert_eq!(status("GET /api/overview", "HTTP/1.0", GUEST), 0);
    assert_eq!(status("GET /api/overview", "host: localhost; host: localhost", GUEST), 400);
    assert_eq!(status("GET /api/overview", "host: localhost; host: evil.example", GUEST), 400);
}

#[test]
fn a_target_with_a_host_has_that_of_the_header() {
    let check = |target: &str, expected: u16| {
        let lines = "host: localhost:15672";
        let judged = asked("GET /api/x", lines, GUEST, |head, request| {
            gate().judge(&Head { target: Some(target), ..head.clone() }, request)
        });
        assert_eq!(judged.err().map_or(0, |no| no.status), expected, "{target}");
    };
    check("localhost:15672", 0);
    check("LOCALHOST:15672", 0);
    check("evil.example", 400);
    check("guest:guest@localhost:15672", 400);
    check("localhost", 400);
}

#[test]
fn browsers_are_told_what_pages_may_do() {
    let check = |line: &str, lines: &str, expected: &[(&str, &str)]| {
        let lines = format!("host: localhost:15672; {lines}");
        let passed = asked(line, &lines, GUEST, |head, request| gate().judge(head, request)).unwrap();
        let mut response = Response::empty(200).with("allow", "HEAD, GET, OPTIONS".to_owned());
        passed.tell(&mut response);
        let mut told: Vec<_> = response.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        told.retain(|(name, _)| *name != "allow");
        told.sort_unstable();
        assert_eq!(told, expected, "{line} {lines}");
    };
    let credentials = ("access-control-allow-credentials", "true");
    let origin = ("access-control-allow-origin", "https://ours.example");
    check("GET /api/x", "origin: https://ours.example", &[credentials, origin]);
    check("GET /api/x", "origin: https://evil.example", &[]);
    check("GET /api/x", "origin: null", &[]);
    check("GET /api/x", "", &[]);
    check("OPTIONS /api/x", "origin: https://evil.example", &[]);
    let methods = ("access-control-allow-methods", "HEAD, GET, OPTIONS");
    let age = ("access-control-max-age", "77");
    check("OPTIONS /api/x", "origin: https://ours.example", &[credentials, methods, origin, age]);
    let headers = ("access-control-allow-headers", "authorization, content-type");
    check(
        "OPTIONS /api/x",
        "origin: https://ours.example; access-control-request-headers: authorization, content-type",
        &[credentials, headers, methods, origin, age],
    );
}

#[test]
fn a_path_begins_behind_the_prefix() {
    let check = |path: &str, expected: Result<&[&str], u16>| {
        let mut gate = gate();
        gate.rules.prefix = vec!["a".to_owned(), "b c".to_owned()];
        let mut request = Request::new("GET", path, Vec::new(), true).unwrap();
        let entered = gate.enter(&mut request).map_err(|refused| refused.status);
        assert_eq!(
            entered.map(|()| request.path.iter().map(String::as_str).collect()),
            expected.map(<[_]>::to_vec)
        );
    };
    check("/a/b%20c/api/queues", Ok(&["api", "queues"]));
    check("/%61/b%20c/api/queues/", Ok(&["api", "queues"]));
    check("/a/b%20c", Ok(&[]));
    check("/api/queues", Err(404));
    check("/a/api/queues", Err(404));
    check("/A/b%20c/api/queues", Err(404));
    check("//a/b%20c/api/queues", Err(404));
    check("/a%2Fb%20c/api", Err(404));
    check("/", Err(301));
    assert_eq!(path(&["a".to_owned(), "b c\r\n\u{e4}".to_owned()]), "/a/b%20c%0D%0A%C3%A4");
}

#[test]
fn a_cookie_counts_where_no_foreign_page_can_have_sent_it() {
    let sessions = Arc::new(WebSessions::new(Default::default(), base::Secrets::simulated(3)));
    let now = Now::default();
    let secret = sessions.begin(now, "guest", GUEST.to_owned());
    let gate = Gate { sessions: Some(sessions), ..gate() };
    let check = |line: &str, lines: &str, expected: bool| {
        let lines = format!("host: localhost:15672; cookie: leveret-session-15672={secret}; {lines}");
        let known = asked(line, &lines, "", |head, request| {
            let mut request = Request { authorization: None, ..request.clone() };
            gate.recognize(now, head, &mut request);
            assert_eq!(request.session.is_some(), request.authorization.is_some());
            Ok(request.authorization.as_deref() == Some(GUEST))
        });
        assert_eq!(known.unwrap(), expected, "{line} {lines}");
    };
    let read = "GET /api/overview";
    check(read, "", false);
    check(read, "x-leveret: 1", true);
    check(read, "sec-fetch-site: same-origin", true);
    check(read, "origin: http://localhost:15672", true);
    check(read, "sec-fetch-site: none", false);
    for foreign in [
        "sec-fetch-site: cross-site",
        "sec-fetch-site: same-site",
        "origin: http://evil.example",
        "origin: null",
    ] {
        check(read, foreign, false);
        check(read, &format!("{foreign}; x-leveret: 1"), false);
    }
    // A page that may use the API, with a login of its own.
    check(read, "origin: https://ours.example; x-leveret: 1", false);
    for write in ["PUT /api/queues/%2F/a", "DELETE /api/queues/%2F/a", "POST /api/x/session"] {
        check(write, "sec-fetch-site: same-origin", false);
        check(write, "origin: http://localhost:15672", false);
        check(write, "origin: http://localhost:15672; x-leveret: 1", true);
        check(write, "origin: http://evil.example; x-leveret: 1", false);
    }
}

#[test]
fn a_cookie_is_of_one_port_and_no_login_in_place_of_another() {
    let sessions = Arc::new(WebSessions::new(Default::default(), base::Secrets::simulated(3)));
    let secret = sessions.begin(Now::default(), "guest", GUEST.to_owned());
    let gate = Gate { sessions: Some(sessions), ..gate() };
    let check = |host: &str, own: &str, expected: &str| {
        let lines = format!("host: {host}; cookie: leveret-session-15672={secret}; x-leveret: 1");
        let known = asked("GET /api/overview", &lines, own, |head, request| {
            let mut request = request.clone();
            request.authorization = request.authorization.filter(|own| !own.is_empty());
            gate.recognize(Now::default(), head, &mut request);
            Ok(request.authorization.unwrap_or_default())
        });
        assert_eq!(known.unwrap(), expected, "{host} {own}");
    };
    check("localhost:15672", "", GUEST);
    check("localhost:15673", "", "");
    check("localhost", "", "");
    check("localhost:15672", SOMEBODY, SOMEBODY);
}
