use super::*;
use std::io::{Read, Write};
use std::net::TcpStream as Client;

/// Ends the listeners also where a test fails, which would else wait for them.
struct End<'a>(&'a Notify);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn port(listener: std::net::TcpListener) -> Listener {
    Listener { service: Service::Api, listener, tls: None }
}

/// What comes back for bytes, from a listener whose worker answers every request with its body's length.
fn told(limits: Limits, sent: &[&[u8]]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("bound");
    let (usual, asked) = channel::<Job>();
    let jobs = Queues(Lane::ALL.map(|_| usual.clone()));
    drop(usual);
    let stop = Notify::new();
    std::thread::scope(|threads| {
        threads.spawn(|| serve(vec![port(listener)], limits, &jobs, &stop).expect("serves"));
        threads.spawn(move || {
            let next = || asked.recv_timeout(Duration::from_secs(5));
            while let Ok(Job { request, answer, .. }) = next() {
                let status = if request.awaits_body { 100 } else { 200 };
                let body = request.body.len().to_string().into_bytes();
                let _ = answer.send(Response { body, ..Response::empty(status) });
            }
        });
        let mut client = Client::connect(address).expect("connects");
        for bytes in sent {
            // The other side may have closed already.
            let _ = client.write_all(bytes);
        }
        let mut text = Vec::new();
        client.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        let _ = client.read_to_end(&mut text);
        stop.notify_one();
        String::from_utf8_lossy(&text).into_owned()
    })
}

#[test]
fn bodies_have_a_bound() {
    let limits = Limits { body_bytes_max: 100_000, ..Limits::default() };
    let check = |length: usize, sent: usize, status: &str| {
        let head = format!(
            "PUT /api/x HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        let text = told(limits, &[head.as_bytes(), &vec![b'x'; sent]]);
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{length}: {text}");
        text
    };
    assert!(check(5, 5, "200").ends_with("\r\n\r\n5"));
    assert!(check(100_000, 100_000, "200").ends_with("\r\n\r\n100000"));
    check(100_001, 100_001, "413");
}

#[test]
fn health_checks_wait_for_nobody() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("bound");
    let ((jobs, lanes), stop) = (Queues::new(), Notify::new());
    std::thread::scope(|threads| {
        threads.spawn(|| serve(vec![port(listener)], Limits::default(), &jobs, &stop).expect("serves"));
        let ask = |path: &str| {
            let mut client = Client::connect(address).expect("connects");
            write!(client, "GET {path} HTTP/1.1\r\nhost: h\r\n\r\n").expect("sends");
            client
        };
        let _others = ["/api/queues", "/api/overview", "/healthy"].map(ask);
        let _own = ask("/api/health/checks/local-alarms");
        let asked = lanes[Lane::Check as usize].1.lock().expect("sound");
        let Job { request, .. } = asked.recv_timeout(Duration::from_secs(20)).expect("comes");
        assert_eq!(request.path, ["api", "health", "checks", "local-alarms"]);
        assert!(asked.try_recv().is_err());
        stop.notify_one();
    });
}

#[test]
fn metrics_are_read_when_the_api_has_no_place_left() {
    let limits = Limits { connections_max: 1, metrics_connections_max: 1, ..Limits::default() };
    let [api, metrics] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").expect("binds"));
    let [api_at, metrics_at] = [&api, &metrics].map(|own| own.local_addr().expect("bound"));
    let listeners = vec![port(api), Listener { service: Service::Metrics, ..port(metrics) }];
    let ((jobs, lanes), stop) = (Queues::new(), Notify::new());
    std::thread::scope(|threads| {
        threads.spawn(|| serve(listeners, limits, &jobs, &stop).expect("serves"));
        let _end = End(&stop);
        let ask = |address, path: &str| {
            let mut client = Client::connect(address).expect("connects");
            write!(client, "GET {path} HTTP/1.1\r\nhost: h\r\n\r\n").expect("sends");
            client
        };
        let asked = lanes[Lane::Look as usize].1.lock().expect("sound");
        let _first = ask(api_at, "/api/overview");
        let held = job(&asked);
        let _second = ask(api_at, "/api/queues");
        assert!(asked.recv_timeout(Duration::from_millis(300)).is_err(), "there is no place");
        let _scraper = ask(metrics_at, "/metrics");
        assert_eq!(job(&asked).service, Service::Metrics);
        drop(held);
    });
}

#[test]
fn bodies_share_a_bound() {
    let limits = Limits { bodies_bytes_max: 50 << 10, silence_ms_max: 1500, ..Limits::default() };
    let head = |length: usize| format!("PUT /x HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("bound");
    let (usual, asked) = channel::<Job>();
    let (came, has_come) = channel();
    let (jobs, stop) = (Queues(Lane::ALL.map(|_| usual.clone())), Notify::new());
    drop(usual);
    let hear = |mut client: Client| {
        client.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        let mut line = [0; 12];
        client.read_exact(&mut line).expect("is answered");
        String::from_utf8_lossy(&line[9..]).into_owned()
    };
    std::thread::scope(|threads| {
        threads.spawn(|| serve(vec![port(listener)], limits, &jobs, &stop).expect("serves"));
        threads.spawn(move || {
            // The first has its answer when all have asked.
            let mut held = Vec::new();
            while let Ok(job) = asked.recv_timeout(Duration::from_secs(5)) {
                let status = if job.request.awaits_body { 100 } else { 200 };
                let response = Response::empty(status);
                if job.request.body.is_empty() {
                    drop(job.answer.send(response))
                } else {
                    held.push((job, response));
                    came.send(()).expect("is heard")
                }
            }
            held.into_iter().for_each(|(job, response)| drop(job.answer.send(response)));
        });
        let put = |length: usize| {
            let mut client = Client::connect(address).expect("connects");
            client.write_all(head(length).as_bytes()).expect("sends");
            client.write_all(&vec![b'x'; length]).expect("sends");
            client
        };
        let first = put(40 << 10);
        has_come.recv_timeout(Duration::from_secs(20)).expect("comes");
        let (second, small) = (put(40 << 10), put(10));
        assert_eq!(hear(second), "503", "there is no room for both");
        assert_eq!((hear(first), hear(small)), ("200".to_owned(), "200".to_owned()));
        stop.notify_one();
    });
}

/// A job of a lane, which comes.
fn job(asked: &Receiver<Job>) -> Job {
    asked.recv_timeout(Duration::from_secs(20)).expect("comes")
}

fn allow(job: Job) {
    assert!(job.request.awaits_body);
    job.answer.send(Response::empty(100)).expect("is waited for");
}

/// Waits until the node has seen that nobody waits for the answer any more.
fn see_gone(job: &Job) {
    let begin = std::time::Instant::now();
    while !job.answer.is_closed() {
        assert!(begin.elapsed() < Duration::from_secs(20), "a client that left is not missed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn who_leaves_keeps_the_places_until_nothing_is_done_for_them() {
    let connections = Limits { connections_max: 1, ..Limits::default() };
    let bodies = Limits { bodies_bytes_max: 50 << 10, silence_ms_max: 1500, ..Limits::default() };
    for (limits, length) in [(connections, 0), (bodies, 40 << 10)] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("bound");
        let ((jobs, lanes), stop) = (Queues::new(), Notify::new());
        std::thread::scope(|threads| {
            threads.spawn(|| serve(vec![port(listener)], limits, &jobs, &stop).expect("serves"));
            let _end = End(&stop);
            let asked = lanes[Lane::Look as usize].1.lock().expect("sound");
            let put = |path: &str| {
                let mut client = Client::connect(address).expect("connects");
                write!(client, "PUT {path} HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n")
                    .expect("sends");
                client.write_all(&vec![b'x'; length]).expect("sends");
                client
            };
            let is_large = length > 0;
            let client = put("/first");
            if is_large {
                allow(job(&asked));
            }
            let first = job(&asked);
            drop(client);
            see_gone(&first);
            let _second = put("/second");
            if is_large {
                allow(job(&asked));
            }
            assert!(asked.recv_timeout(Duration::from_millis(300)).is_err(), "{length}: there is no place");
            drop(first);
            assert_eq!(job(&asked).request.path, ["second"]);
        });
    }
}

#[test]
fn nobody_gets_among_the_slow_who_may_not_ask() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("bound");
    let ((jobs, lanes), stop) = (Queues::new(), Notify::new());
    std::thread::scope(|threads| {
        threads.spawn(|| serve(vec![port(listener)], Limits::default(), &jobs, &stop).expect("serves"));
        let _end = End(&stop);
        let [looks, moves] =
            [Lane::Look, Lane::Move].map(|lane| lanes[lane as usize].1.lock().expect("sound"));
        let mut client = Client::connect(address).expect("connects");
        client.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        let mut ask = || {
            let head = "POST /api/x/queues/%2F/q/move HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}";
            client.write_all(head.as_bytes()).expect("sends");
            let asked = job(&looks);
            assert!(asked.request.awaits_body && moves.try_recv().is_err());
            asked
        };
        let refused = Response::empty(401);
        ask().answer.send(refused).expect("is waited for");
        // The connection goes on, and who may ask gets further.
        allow(ask());
        let moving = job(&moves).request;
        assert_eq!((&moving.body[..], moving.awaits_body), (&b"{}"[..], false));
    });
}

#[test]
fn what_nobody_waits_for_is_not_begun() {
    let (sender, receiver) = channel();
    let (jobs, places) = (Mutex::new(receiver), Arc::new(Semaphore::new(3)));
    let ask = |path: &str| {
        let (answer, waits) = oneshot::channel();
        let request = Box::new(Request::new("GET", path, Vec::new(), true).expect("a path"));
        let place = Arc::new(places.clone().try_acquire_owned().expect("is free"));
        let job = Job { service: Service::Api, request, answer, _place: place, _room: None };
        sender.send(job).expect("is heard");
        waits
    };
    drop(ask("/left"));
    let _waits = ask("/waits");
    let job = next(&jobs, || false).expect("somebody waits");
    assert_eq!((&*job.request.path, places.available_permits()), (&["waits".to_owned()][..], 2));
    drop(job);
    let mut late = ask("/late");
    drop(sender);
    assert!(next(&jobs, || true).is_none(), "the node ends");
    assert_eq!(late.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    assert_eq!(places.available_permits(), 3);
}

#[test]
fn what_is_no_request_is_refused_and_who_is_slow_is_closed() {
    let limits = Limits { silence_ms_max: 200, head_bytes_max: 8192, ..Limits::default() };
    assert!(told(limits, &[b"GET /api/%zz HTTP/1.1\r\nhost: h\r\n\r\n"]).starts_with("HTTP/1.1 400"));
    assert!(told(limits, &[b"nonsense\r\n\r\n"]).starts_with("HTTP/1.1 400"));
    let head = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(10_000));
    assert!(told(limits, &[head.as_bytes()]).starts_with("HTTP/1.1 431"));
    assert_eq!(told(limits, &[b"GET /api/x HT"]), "");
    let half = b"PUT /api/x HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nx";
    assert!(told(limits, &[half]).starts_with("HTTP/1.1 408"));
}

#[test]
fn answers_share_a_bound() {
    let limits = Limits { answers_bytes_max: 60 << 20, silence_ms_max: 5000, ..Limits::default() };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("bound");
    let (sender, asked) = channel::<Job>();
    let (jobs, stop) = (Queues(Lane::ALL.map(|_| sender.clone())), Notify::new());
    drop(sender);
    // More than the buffers of two sockets take, and more than is left of the bound while one of them waits.
    let large = 40 << 20;
    let ask = |path: &str| {
        let mut client = Client::connect(address).expect("connects");
        client.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        write!(client, "GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").expect("sends");
        client
    };
    let status = |client: &mut Client| {
        let mut line = [0; 12];
        client.read_exact(&mut line).expect("is answered");
        String::from_utf8_lossy(&line[9..]).into_owned()
    };
    std::thread::scope(|threads| {
        threads.spawn(|| serve(vec![port(listener)], limits, &jobs, &stop).expect("serves"));
        threads.spawn(move || {
            while let Ok(Job { request, answer, .. }) = asked.recv_timeout(Duration::from_secs(10)) {
                let length = if request.path == ["large"] { large } else { 10 };
                let _ = answer.send(Response { body: vec![b'x'; length], ..Response::empty(200) });
            }
        });
        let _end = End(&stop);
        let mut slow = ask("/large");
        assert_eq!(status(&mut slow), "200");
        assert_eq!(status(&mut ask("/large")), "503", "the first is not taken yet");
        assert_eq!(status(&mut ask("/small")), "200");
        let mut rest = Vec::new();
        slow.read_to_end(&mut rest).expect("comes to its end");
        assert!(rest.len() > large);
        drop(slow);
        let mut third = ask("/large");
        assert_eq!(status(&mut third), "200", "the room is free again");
    });
}

#[test]
fn who_guesses_waits() {
    let limits = Limits { refusals_free: 1, refusal_delay_ms: 400, ..Limits::default() };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("bound");
    let (sender, asked) = channel::<Job>();
    let (jobs, stop) = (Queues(Lane::ALL.map(|_| sender.clone())), Notify::new());
    drop(sender);
    std::thread::scope(|threads| {
        threads.spawn(|| serve(vec![port(listener)], limits, &jobs, &stop).expect("serves"));
        threads.spawn(move || {
            while let Ok(Job { request, answer, .. }) = asked.recv_timeout(Duration::from_secs(5)) {
                let _ = answer.send(match request.authorization.as_deref() {
                    Some("right") => Response::empty(200).logged_in(),
                    Some("none") => Response::empty(401),
                    _ => Response::wrong_login(),
                });
            }
        });
        let _end = End(&stop);
        let ask = |how: &str| {
            let begin = std::time::Instant::now();
            let mut client = Client::connect(address).expect("connects");
            write!(client, "GET / HTTP/1.1\r\nhost: h\r\nauthorization: {how}\r\nconnection: close\r\n\r\n")
                .expect("sends");
            let mut text = Vec::new();
            client.read_to_end(&mut text).expect("is answered");
            begin.elapsed() >= Duration::from_millis(400)
        };
        let waited = ["wrong", "wrong", "none", "wrong", "right", "wrong"].map(ask);
        assert_eq!([waited[1], waited[3]], [true, true]);
        // Others may be slow by themselves on a busy machine, so that only what must wait is certain.
    });
}

/// Serves events: the answer to each request that comes is `told`, by how many came before. `hear` has what connects a client
/// that asks for them, and what ends the listeners.
fn listen<T>(
    limits: Limits,
    told: impl Fn(u32) -> Response + Send,
    hear: impl FnOnce(&dyn Fn() -> Client, &Notify) -> T,
) -> T {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("bound");
    let (usual, asked) = channel::<Job>();
    let jobs = Queues(Lane::ALL.map(|_| usual.clone()));
    drop(usual);
    let stop = Notify::new();
    std::thread::scope(|threads| {
        threads.spawn(|| serve(vec![port(listener)], limits, &jobs, &stop).expect("serves"));
        let _end = End(&stop);
        threads.spawn(move || {
            for number in 0.. {
                let Ok(job) = asked.recv_timeout(Duration::from_secs(3)) else { return };
                // Who asked may be gone.
                let _ = job.answer.send(told(number));
            }
        });
        let ask = || {
            let mut client = Client::connect(address).expect("connects");
            client.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
            let head = "GET /api/x/events HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
            client.write_all(head.as_bytes()).expect("sends");
            client
        };
        hear(&ask, &stop)
    })
}

fn event(body: Vec<u8>, is_last: bool) -> Response {
    let next = (!is_last).then(Box::default);
    let headers = vec![("content-type", "text/event-stream".to_owned())];
    Response { body, headers, next, ..Response::empty(200) }
}

/// What comes until the connection ends.
fn rest(mut client: Client) -> Vec<u8> {
    let (mut all, mut bytes) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match client.read(&mut bytes) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&bytes[..count]),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "the connection ends");
                return all;
            }
        }
    }
}

#[test]
fn events_follow_each_other_until_the_last() {
    let limits = Limits { event_gap_ms: 20, ..Limits::default() };
    let told = |number: u32| event(format!("event {number};").into_bytes(), number == 2);
    let begin = Instant::now();
    let text = listen(limits, told, |ask, _| String::from_utf8(rest(ask())).expect("is text"));
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("content-type: text/event-stream"), "{text}");
    let events: Vec<_> = text.split("\r\n").filter(|line| line.starts_with("event")).collect();
    assert_eq!(events, ["event 0;", "event 1;", "event 2;"]);
    assert!(text.ends_with("\r\n0\r\n\r\n"), "it ends in order: {text}");
    assert!(begin.elapsed() >= Duration::from_millis(40), "not all at once");
}

#[test]
fn who_may_hear_no_more_is_told_no_more() {
    let limits = Limits { event_gap_ms: 5, ..Limits::default() };
    let told = |number| if number == 0 { event(b"first".to_vec(), false) } else { Response::empty(401) };
    let text = listen(limits, told, |ask, _| String::from_utf8(rest(ask())).expect("is text"));
    assert!(text.contains("first") && text.ends_with("\r\n0\r\n\r\n") && !text.contains("401"), "{text}");
}

#[test]
fn who_takes_no_events_is_closed() {
    const EVENT: usize = 1 << 20;
    let limits = Limits { event_gap_ms: 1, event_wait_ms_max: 200, ..Limits::default() };
    let asked = AtomicUsize::new(0);
    let told = |_| {
        asked.fetch_add(1, Ordering::Relaxed);
        event(vec![b'x'; EVENT], false)
    };
    let taken = listen(limits, told, |ask, _| {
        let client = ask();
        std::thread::sleep(Duration::from_millis(1500));
        let were_asked = asked.load(Ordering::Relaxed);
        let taken = rest(client);
        assert_eq!(asked.load(Ordering::Relaxed), were_asked, "nothing is asked for who does not listen");
        taken.len()
    });
    // What the system holds of both ends is some megabytes.
    assert!(taken < 40 * EVENT && asked.into_inner() < 50, "{taken} bytes");
}

#[test]
fn streams_of_events_have_a_bound_and_end_with_the_node() {
    let limits = Limits { event_streams_max: 1, event_gap_ms: 5, ..Limits::default() };
    listen(
        limits,
        |number| event(format!("event {number};").into_bytes(), false),
        |ask, stop| {
            let status = |client: &mut Client| {
                let mut line = [0; 12];
                client.read_exact(&mut line).expect("is answered");
                String::from_utf8_lossy(&line[9..]).into_owned()
            };
            let mut first = ask();
            assert_eq!(status(&mut first), "200");
            assert_eq!(status(&mut ask()), "503", "there is one");
            drop(first);
            let begin = Instant::now();
            let mut second = ask();
            while status(&mut second) == "503" {
                assert!(
                    begin.elapsed() < Duration::from_secs(20),
                    "the place of one that left is not given back"
                );
                std::thread::sleep(Duration::from_millis(5));
                second = ask();
            }
            stop.notify_one();
            rest(second);
        },
    );
}
