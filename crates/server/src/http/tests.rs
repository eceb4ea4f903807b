use super::lanes::{Job, LaneLine, Lanes, next};
use super::*;
use management::{Attempt, Lane};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream as Client};
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, channel};
use tokio::sync::oneshot;

/// Ends the listeners also where a test fails, which would else wait for them.
struct End<'a>(&'a Notify);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A listener on a port of its own, and where it is.
fn bound(service: Service) -> (Listener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("bound");
    (Listener { service, listener, tls: None }, address)
}

/// Serves while `talk` lasts. `work` gets the requests of all lanes, one after the other.
fn served<T>(limits: Limits, work: impl FnMut(Job) + Send, talk: impl FnOnce(SocketAddr, &Notify) -> T) -> T {
    served_with(Pools::new(&limits).into(), limits, work, talk)
}

/// The same with these pools.
fn served_with<T>(
    pools: Arc<Pools>,
    limits: Limits,
    work: impl FnMut(Job) + Send,
    talk: impl FnOnce(SocketAddr, &Notify) -> T,
) -> T {
    let (listener, address) = bound(Service::Api);
    let (usual, asked) = channel::<Job>();
    let ((jobs, lanes), stop) = (Queues::new(), &Notify::new());
    std::thread::scope(|threads| {
        // When the listener ends nobody is left to send any, which ends who works.
        threads.spawn(move || {
            serve(vec![listener], limits, Gate::default(), (Files::None, Clock::new()), pools, &jobs, stop)
                .expect("serves")
        });
        for line in &*lanes {
            let usual = usual.clone();
            threads.spawn(move || {
                while let Some((asker, job)) = line.take() {
                    line.end(&asker);
                    // A request that nobody works on any more is dropped.
                    let _ = usual.send(job);
                }
            });
        }
        drop(usual);
        threads.spawn(move || asked.into_iter().for_each(work));
        let _end = End(stop);
        talk(address, stop)
    })
}

/// Serves on these listeners while `talk` lasts, which gets the requests of each lane itself.
fn in_lanes<T>(listeners: Vec<Listener>, limits: Limits, talk: impl FnOnce(&Lanes) -> T) -> T {
    let ((jobs, lanes), stop) = (Queues::new(), &Notify::new());
    std::thread::scope(|threads| {
        threads.spawn(move || {
            serve(
                listeners,
                limits,
                Gate::default(),
                (Files::None, Clock::new()),
                Pools::new(&limits).into(),
                &jobs,
                stop,
            )
            .expect("serves")
        });
        let _end = End(stop);
        talk(&lanes)
    })
}

/// The requests of a lane.
fn of(lanes: &Lanes, lane: Lane) -> &LaneLine {
    &lanes[lane as usize]
}

/// The next request of a lane, if it comes in so long.
fn within(line: &LaneLine, patience: Duration) -> Option<Job> {
    let begin = std::time::Instant::now();
    loop {
        match line.try_take() {
            None if begin.elapsed() < patience => std::thread::sleep(Duration::from_millis(2)),
            job => return job,
        }
    }
}

/// A request of a lane, which comes.
fn comes(line: &LaneLine) -> Job {
    within(line, Duration::from_secs(20)).expect("comes")
}

/// A client that has sent this.
fn sends(address: SocketAddr, bytes: &[&[u8]]) -> Client {
    let mut client = Client::connect(address).expect("connects");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    for bytes in bytes {
        // The other side may have closed already.
        let _ = client.write_all(bytes);
    }
    client
}

/// A client that asks for this, with these headers.
fn asks(address: SocketAddr, line: &str, headers: &str) -> Client {
    sends(address, &[format!("{line} HTTP/1.1\r\nhost: h\r\n{headers}\r\n").as_bytes()])
}

/// The status a client is answered with.
fn status(client: &mut Client) -> String {
    let mut line = [0; 12];
    client.read_exact(&mut line).expect("is answered");
    String::from_utf8_lossy(&line[9..]).into_owned()
}

/// The bytes that come back for `sent`, where every request is answered with its body's length.
fn told(limits: Limits, sent: &[&[u8]]) -> String {
    let work = |Job { request, answer, .. }: Job| {
        let status = if request.awaits_body { 100 } else { 200 };
        let body = request.body.len().to_string().into_bytes();
        let _ = answer.send(Response { body, ..Response::empty(status) });
    };
    served(limits, work, |address, _| {
        let mut text = Vec::new();
        let _ = sends(address, sent).read_to_end(&mut text);
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
fn bodies_may_take_long_while_enough_of_them_comes() {
    let usual = Limits { silence_ms_max: 1000, body_bytes_min: 1000, ..Limits::default() };
    let check = |limits: Limits, piece: usize, status: &str| {
        let work = |Job { answer, .. }: Job| drop(answer.send(Response::empty(200)));
        served(limits, work, |address, _| {
            let length = 20 * piece;
            let headers = format!("connection: close\r\ncontent-length: {length}\r\n");
            let mut client = asks(address, "PUT /api/x", &headers);
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(100));
                // The other side may have closed already.
                let _ = client.write_all(&vec![b'x'; piece]);
            }
            let mut text = Vec::new();
            let _ = client.read_to_end(&mut text);
            let text = String::from_utf8_lossy(&text);
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{piece}: {text}");
        });
    };
    check(usual, 500, "200");
    check(usual, 10, "408");
    check(Limits { body_ms_max: 1200, ..usual }, 500, "408");
}

#[test]
fn who_takes_an_answer_too_slowly_is_closed() {
    const LARGE: usize = 40 << 20;
    let limits = Limits { silence_ms_max: 1000, answer_bytes_min: 8 << 20, ..Limits::default() };
    let work = |Job { answer, .. }: Job| {
        let _ = answer.send(Response { body: vec![b'x'; LARGE], ..Response::empty(200) });
    };
    served(limits, work, |address, _| {
        // Something is taken all the time, less than the least.
        let mut client = asks(address, "GET /large", "connection: close\r\n");
        let (mut taken, mut piece) = (0, vec![0; 64 << 10]);
        while let Ok(count @ 1..) = client.read(&mut piece) {
            taken += count;
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(taken < LARGE, "{taken} bytes");
        let mut text = Vec::new();
        asks(address, "GET /large", "connection: close\r\n").read_to_end(&mut text).expect("comes");
        assert!(text.len() > LARGE, "who takes it at once has it");
    });
}

#[test]
fn who_takes_each_of_many_answers_in_time_is_not_closed() {
    const LARGE: usize = 16 << 20;
    let limits = Limits { silence_ms_max: 1000, answer_bytes_min: 100 * LARGE, ..Limits::default() };
    let work = |Job { answer, .. }: Job| {
        let _ = answer.send(Response { body: vec![b'x'; LARGE], ..Response::empty(200) });
    };
    served(limits, work, |address, _| {
        let mut client = sends(address, &[]);
        let mut answer = vec![0; LARGE];
        for number in 0..6 {
            client.write_all(b"GET /large HTTP/1.1\r\nhost: here\r\n\r\n").expect("sent");
            std::thread::sleep(Duration::from_millis(300));
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap_or_else(|why| panic!("answer {number}: {why}"));
                head.push(byte[0]);
            }
            client.read_exact(&mut answer).unwrap_or_else(|why| panic!("answer {number}: {why}"));
        }
    });
}

#[test]
fn health_checks_wait_for_nobody() {
    let (listener, address) = bound(Service::Api);
    in_lanes(vec![listener], Limits::default(), |lanes| {
        let ask = |path: &str| asks(address, &format!("GET {path}"), "");
        let _others = ["/api/queues", "/api/overview", "/healthy"].map(ask);
        let _own = ask("/api/health/checks/local-alarms");
        let asked = of(lanes, Lane::Check);
        assert_eq!(comes(asked).request.path, ["api", "health", "checks", "local-alarms"]);
        assert!(asked.try_take().is_none());
    });
}

#[test]
fn metrics_are_read_when_the_api_has_no_place_left() {
    let limits = Limits { connections_max: 1, metrics_connections_max: 1, ..Limits::default() };
    let [(api, api_at), (metrics, metrics_at)] = [Service::Api, Service::Metrics].map(bound);
    in_lanes(vec![api, metrics], limits, |lanes| {
        let (asked, scraped) = (of(lanes, Lane::Look), of(lanes, Lane::Metrics));
        let _first = asks(api_at, "GET /api/overview", "");
        let held = comes(asked);
        let _second = asks(api_at, "GET /api/queues", "");
        assert!(within(asked, Duration::from_millis(300)).is_none(), "there is no place");
        let _scraper = asks(metrics_at, "GET /metrics", "");
        assert_eq!(comes(scraped).service, Service::Metrics);
        drop(held);
    });
}

#[test]
fn who_asks_for_metrics_holds_up_nobody_else() {
    let (metrics, address) = bound(Service::Metrics);
    in_lanes(vec![metrics], Limits::default(), |lanes| {
        // Any path, and any headers, go to the lane of metrics.
        for (line, headers) in [
            ("GET /metrics/detailed?family=queue_metrics&queue=x", ""),
            ("GET /api/overview", ""),
            ("GET /api/health/checks/local-alarms", ""),
            ("POST /metrics", "content-length: 100000\r\n"),
        ] {
            let _client = asks(address, line, headers);
            assert_eq!(comes(of(lanes, Lane::Metrics)).service, Service::Metrics, "{line}");
        }
        let others = Lane::ALL.into_iter().filter(|lane| *lane != Lane::Metrics);
        others.for_each(|lane| assert!(of(lanes, lane).try_take().is_none(), "{lane:?}"));
    });
}

#[test]
fn bodies_share_a_bound() {
    let limits = Limits { bodies_bytes_max: 50 << 10, silence_ms_max: 1500, ..Limits::default() };
    let (came, has_come) = channel();
    let work = move |job: Job| match (job.request.awaits_body, job.request.body.is_empty()) {
        (true, _) => answer(job, 100),
        (false, true) => answer(job, 200),
        (false, false) => came.send(job).expect("is heard"),
    };
    served(limits, work, |address, _| {
        let put = |length: usize| {
            let head = format!("PUT /x HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
            sends(address, &[head.as_bytes(), &vec![b'x'; length]])
        };
        let mut first = put(40 << 10);
        let held = job(&has_come);
        let (mut second, mut small) = (put(40 << 10), put(10));
        // The first has its answer when all have asked.
        assert_eq!(status(&mut second), "503", "there is no room for both");
        answer(held, 200);
        answer(job(&has_come), 200);
        assert_eq!((status(&mut first), status(&mut small)), ("200".to_owned(), "200".to_owned()));
    });
}

/// Waits until this is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A job of a lane, which comes.
fn job(asked: &Receiver<Job>) -> Job {
    asked.recv_timeout(Duration::from_secs(20)).expect("comes")
}

/// Answers, where somebody still waits for it.
fn answer(job: Job, status: u16) {
    let _ = job.answer.send(Response::empty(status));
}

fn allow(job: Job) {
    assert!(job.request.awaits_body);
    job.answer.send(Response::empty(100)).expect("is waited for");
}

/// Waits until the node has seen that nobody waits for the answer any more.
fn see_gone(job: &Job) {
    until("a client that left is not missed", || job.answer.is_closed());
}

#[test]
fn who_leaves_keeps_the_places_until_nothing_is_done_for_them() {
    let connections = Limits { connections_max: 1, ..Limits::default() };
    let bodies = Limits { bodies_bytes_max: 50 << 10, silence_ms_max: 1500, ..Limits::default() };
    for (limits, length) in [(connections, 0), (bodies, 40 << 10)] {
        let (listener, address) = bound(Service::Api);
        in_lanes(vec![listener], limits, |lanes| {
            let (asked, logins) = (of(lanes, Lane::Look), of(lanes, Lane::Login));
            let put = |path: &str| {
                let head = format!("PUT {path} HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
                sends(address, &[head.as_bytes(), &vec![b'x'; length]])
            };
            let is_large = length > 0;
            let client = put("/api/first");
            if is_large {
                allow(comes(logins));
            }
            let first = comes(asked);
            drop(client);
            see_gone(&first);
            let _second = put("/api/second");
            if is_large {
                allow(comes(logins));
            }
            assert!(within(asked, Duration::from_millis(300)).is_none(), "{length}: there is no place");
            drop(first);
            assert_eq!(comes(asked).request.path, ["api", "second"]);
        });
    }
}

#[test]
fn nobody_gets_among_the_slow_who_may_not_ask() {
    let (listener, address) = bound(Service::Api);
    in_lanes(vec![listener], Limits::default(), |lanes| {
        let (logins, moves) = (of(lanes, Lane::Login), of(lanes, Lane::Move));
        let mut client = sends(address, &[]);
        let mut ask = || {
            let head = "POST /api/x/queues/%2F/q/move HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}";
            client.write_all(head.as_bytes()).expect("sends");
            let asked = comes(logins);
            assert!(asked.request.awaits_body && moves.try_take().is_none());
            asked
        };
        let refused = Response::empty(401);
        ask().answer.send(refused).expect("is waited for");
        // The connection goes on, and who may ask gets further.
        allow(ask());
        let moving = comes(moves).request;
        assert_eq!((&moving.body[..], moving.awaits_body), (&b"{}"[..], false));
    });
}

#[test]
fn what_nobody_waits_for_is_not_begun() {
    let ((jobs, lanes), room) = (Queues::new(), Room::new(pools::places(Service::Api, &Limits::default())));
    let (line, from) = (of(&lanes, Lane::Look), IpAddr::from([127, 0, 0, 1]));
    let ask = |path: &str| {
        let (answer, waits) = oneshot::channel();
        let request = Box::new(Request::new("GET", path, Vec::new(), true).expect("a path"));
        let (place, _) = room.try_take(from, &Arc::default()).expect("is free");
        let job = Job { service: Service::Api, request, answer, _work: place.work(), _room: None };
        jobs.send(Asker::Block(Block::of(from)), job);
        waits
    };
    drop(ask("/left"));
    let _waits = ask("/waits");
    let (asker, job) = next(line, || false).expect("somebody waits");
    assert_eq!((&*job.request.path, room.taken()), (&["waits".to_owned()][..], 1));
    drop(job);
    line.end(&asker);
    let mut late = ask("/late");
    drop(jobs);
    assert!(next(line, || true).is_none(), "the node ends");
    assert!(matches!(late.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    assert_eq!(room.taken(), 0);
}

#[test]
fn what_is_no_request_is_refused_and_who_is_slow_is_closed() {
    let limits = Limits { head_ms_max: 200, silence_ms_max: 200, head_bytes_max: 8192, ..Limits::default() };
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
    // More than the buffers of two sockets take, and more than is left of the bound while one of them waits.
    let large = 40 << 20;
    let work = |Job { request, answer, .. }: Job| {
        let length = if request.path == ["large"] { large } else { 10 };
        let _ = answer.send(Response { body: vec![b'x'; length], ..Response::empty(200) });
    };
    served(limits, work, |address, _| {
        let ask = |path: &str| asks(address, &format!("GET {path}"), "connection: close\r\n");
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
    let work = |Job { request, answer, .. }: Job| {
        let _ = answer.send(match request.authorization.as_deref() {
            Some("right") => Response::empty(200).logged_in(),
            Some("none") => Response::empty(401),
            _ => Response { login: Attempt::HeldBack(400), ..Response::empty(429) },
        });
    };
    served(Limits::default(), work, |address, _| {
        let ask = |how: &str| {
            let begin = std::time::Instant::now();
            let headers = format!("authorization: {how}\r\nconnection: close\r\n");
            let mut text = Vec::new();
            asks(address, "GET /", &headers).read_to_end(&mut text).expect("is answered");
            begin.elapsed() >= Duration::from_millis(400)
        };
        let waited = ["right", "wrong", "none", "wrong"].map(ask);
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
    let mut number = 0..;
    let work = move |job: Job| {
        // The client may be gone.
        let _ = job.answer.send(told(number.next().expect("there is no end of numbers")));
    };
    served(limits, work, |address, stop| {
        hear(&|| asks(address, "GET /api/x/events", "connection: close\r\n"), stop)
    })
}

fn event(body: Vec<u8>, is_last: bool) -> Response {
    let next = (!is_last).then(Box::default);
    let headers = vec![("content-type", "text/event-stream".to_owned())];
    Response { body, headers, next, ..Response::empty(200) }
}

/// All bytes that come until the connection ends.
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
    // The system's buffers of both ends hold some megabytes.
    assert!(taken < 40 * EVENT && asked.into_inner() < 50, "{taken} bytes");
}

#[test]
fn streams_of_events_have_a_bound_and_end_with_the_node() {
    let limits = Limits { event_streams_max: 1, event_gap_ms: 5, ..Limits::default() };
    listen(
        limits,
        |number| event(format!("event {number};").into_bytes(), false),
        |ask, stop| {
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

/// A client from an address of this machine's own that has sent this.
fn sends_from(from: u8, address: SocketAddr, bytes: &[u8]) -> Client {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("is made");
    socket.bind(&SocketAddr::from(([127, 0, 0, from], 0)).into()).expect("is bound");
    socket.connect(&address.into()).expect("connects");
    let mut client = Client::from(socket);
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    let _ = client.write_all(bytes);
    client
}

/// Whether the other side has closed a client that was told nothing.
fn is_closed(client: &mut Client) -> bool {
    client.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
    match client.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

const HALF: &[u8] = b"GET /api/overview HTTP/1.1\r\nhost: h\r\n";

#[test]
fn half_requests_of_one_address_keep_nobody_out() {
    let (young_ms, head_ms_max) = (5000, 60_000);
    let limits = Limits { connections_max: 64, young_ms, head_ms_max, ..Limits::default() };
    served(
        limits,
        |job| answer(job, 200),
        |address, _| {
            let mut halves: Vec<_> = (0..40).map(|_| sends_from(9, address, HALF)).collect();
            let begin = std::time::Instant::now();
            let whole = [HALF, b"connection: close\r\n\r\n"].concat();
            assert_eq!(status(&mut sends_from(1, address, &whole)), "200");
            assert_eq!(status(&mut sends_from(9, address, &whole)), "200", "its own address is not shut out");
            assert!(begin.elapsed() < Duration::from_millis(young_ms), "{:?}", begin.elapsed());
            // Those beyond the share have a moment, and the others their time.
            until("those beyond the share are not closed", || {
                halves.retain_mut(|half| !is_closed(half));
                halves.len() <= 64 / limits.address_share
            });
            assert!(halves.len() >= 4, "{} are open", halves.len());
        },
    );
}

#[test]
fn who_has_logged_in_is_not_closed_for_others() {
    let limits = Limits { connections_max: 16, head_ms_max: 60_000, ..Limits::default() };
    let work = |Job { answer, .. }: Job| drop(answer.send(Response::empty(200).logged_in()));
    served(limits, work, |address, _| {
        let login = b"GET /api/overview HTTP/1.1\r\nhost: h\r\nauthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n";
        let mut known = sends_from(9, address, login);
        assert_eq!(status(&mut known), "200");
        let mut halves: Vec<_> = (0..40).map(|_| sends_from(9, address, HALF)).collect();
        until("none is given up for others", || halves.iter_mut().any(is_closed));
        let mut rest = [0; 4096];
        assert!(known.read(&mut rest).expect("the rest of the answer") > 0);
        known.write_all(login).expect("is open");
        assert_eq!(status(&mut known), "200");
    });
}

#[test]
fn a_body_without_a_length_takes_room_as_it_comes_one_for_a_user() {
    let limits = Limits {
        silence_ms_max: 1500,
        unknown_body_ms_max: 1500,
        bodies_bytes_max: 1 << 20,
        body_bytes_max: 1 << 20,
        ..Limits::default()
    };
    let work = |job: Job| {
        let status = if job.request.awaits_body { 100 } else { 200 };
        answer(job, status);
    };
    let pools = Arc::new(Pools::new(&limits));
    let own = pools.clone();
    let awaits = move |count: u64| {
        until("bodies without a length are listed", || {
            let rows = own.rows();
            let row = rows.iter().find(|row| row.name == "http_bodies_without_length");
            row.expect("is listed").taken == count
        });
    };
    served_with(pools, limits, work, |address, _| {
        let head = b"PUT /x HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n";
        let piece = |length: usize| {
            let mut bytes = format!("{length:x}\r\n").into_bytes();
            bytes.extend(vec![b'x'; length]);
            bytes.extend(b"\r\n");
            bytes
        };
        let end = b"0\r\n\r\n";
        let large = piece(40_000);
        let mut slow = sends_from(9, address, &[&head[..], &large].concat());
        awaits(1);
        // Another address is another peer, and a small one waits for nobody.
        let whole = [&head[..], &large, end].concat();
        assert_eq!(status(&mut sends_from(1, address, &whole)), "200");
        assert_eq!(status(&mut sends_from(9, address, &[&head[..], &piece(100), end].concat())), "200");
        assert_eq!(status(&mut slow), "408", "it did not go on");
        let mut first = sends_from(9, address, &[&head[..], &large].concat());
        awaits(1);
        let mut second = sends_from(9, address, &whole);
        // As long as enough comes of the first one it has its turn.
        let waits = std::thread::spawn(move || status(&mut second));
        while !waits.is_finished() {
            std::thread::sleep(Duration::from_millis(100));
            first.write_all(&piece(20_000)).expect("is open");
        }
        assert_eq!(waits.join().expect("is told"), "429", "it waited for the first one");
        first.write_all(end).expect("is open");
        assert_eq!(status(&mut first), "200");
    });
}

#[test]
fn a_plain_scrape_does_not_wait_for_all_that_look_for_names() {
    let (metrics, address) = bound(Service::Metrics);
    in_lanes(vec![metrics], Limits::default(), |lanes| {
        let line = of(lanes, Lane::Metrics);
        let dear = "GET /metrics/detailed?family=queue_metrics&queue=x";
        let _dear = [(); 3].map(|()| asks(address, dear, ""));
        while line.waiting() < 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _plain = asks(address, "GET /metrics", "");
        while line.waiting() < 4 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let order: Vec<bool> = [(); 4].map(|()| comes(line).request.searches()).into();
        assert_eq!(order, [true, false, true, true]);
    });
}

/// Answers as `management::handle` does, for a user whose password is to be compared first: with the trial, and once
/// that is over with its outcome.
fn handle(job: &Job) -> Response {
    use broker::access::{AccessRules, Claim, Guard, Hashing, Judged};
    match (&job.request.authorization, &job.request.tried) {
        (Some(_), None) => {
            let rules = AccessRules { hashing: Hashing::Argon2id, ..AccessRules::default() };
            let claim = Claim::new(&broker::catalog::Catalog::default(), "dear", "a password", true);
            match claim.judge(base::Now::default(), &Guard::default(), None, &rules) {
                Judged::Trial(trial) => Response { trial: Some(trial), ..Response::empty(503) },
                Judged::Done(done) => panic!("{done:?}"),
            }
        }
        (Some(_), Some(tried)) => Response::empty(if tried.is_ok() { 200 } else { 401 }),
        (None, _) => Response::empty(200),
    }
}

#[test]
fn a_login_that_is_dear_to_compare_holds_up_no_other() {
    let ((jobs, lanes), room) = (Queues::new(), Room::new(pools::places(Service::Api, &Limits::default())));
    let (compare, compared) = channel();
    std::thread::scope(|threads| {
        // Dropped at the end also where the test fails: else the thread would wait.
        let jobs = jobs;
        let ask = |from: u8, authorization: Option<&str>| {
            let (answer, waits) = oneshot::channel();
            let mut request = Request::new("GET", "/api/overview", Vec::new(), true).expect("a path");
            (request.awaits_body, request.authorization) = (true, authorization.map(str::to_owned));
            let from = IpAddr::from([127, 0, 0, from]);
            let (place, _) = room.try_take(from, &Arc::default()).expect("is free");
            let request = Box::new(request);
            let job = Job { service: Service::Api, request, answer, _work: place.work(), _room: None };
            jobs.send(Asker::Block(Block::of(from)), job);
            waits
        };
        let (lanes, is_over) = (&lanes, || false);
        threads.spawn(move || {
            let compare = |trial, then| compare.send((trial, then)).expect("is heard");
            lanes::work_by(handle, compare, usize::MAX, lanes, Lane::Login, is_over);
        });
        let mut dear: Vec<_> = (0..4).map(|_| ask(9, Some("dear"))).collect();
        // One thread answers, also the others of the same address, while four passwords are compared.
        for from in [1, 9] {
            assert_eq!(ask(from, None).blocking_recv().expect("is answered").status, 200);
        }
        assert!(dear.iter_mut().all(|waits| waits.try_recv().is_err()));
        until("their places are theirs, and those of the others are free", || room.taken() == 4);
        for waits in dear {
            let (trial, then): (Box<broker::access::Trial>, management::Compared) =
                compared.recv_timeout(Duration::from_secs(20)).expect("is compared");
            drop(trial);
            then(Err(nobody()));
            assert_eq!(waits.blocking_recv().expect("is answered").status, 401);
        }
    });
    assert_eq!(room.taken(), 0);
}

/// The outcome of a login that nobody may have.
fn nobody() -> broker::access::Denied {
    let rules = broker::access::AccessRules::default();
    let catalog = broker::catalog::Catalog::default();
    broker::access::authenticate(&catalog, "nobody", "x", true, &rules).expect_err("there is no user")
}
