//! Memory that lists take until they are text.

use super::counted::{opened, publisher, subscription};
use super::{Bench, connection};
use crate::request::Request;
use crate::routes::handle;
use data_encoding::BASE64;

/// Bytes of an answer, and of the most memory that making it took.
fn weighed(bench: &Bench, path: &str) -> [usize; 2] {
    let mut request = Request::new("GET", &format!("/api/{path}"), Vec::new(), true).unwrap();
    request.authorization = Some(format!("Basic {}", BASE64.encode(b"guest:guest")));
    let mut response = None;
    let weight = allocation_counter::measure(|| response = Some(handle(bench, &request)));
    let response = response.expect("it is answered");
    assert_eq!(response.status, 200, "{path}");
    [response.body.len(), weight.bytes_max as usize]
}

#[test]
fn a_list_takes_little_more_than_its_text() {
    let bench = Bench::new();
    for number in 0..1500 {
        bench.statuses(&[
            (&format!("PUT queues/v/q{number}"), r#"{"durable": true}"#, 201),
            (&format!("PUT exchanges/v/x{number}"), r#"{"durable": true}"#, 201),
            (&format!("POST bindings/v/e/x{number}/q/q{number}"), r#"{"routing_key": "k"}"#, 201),
        ]);
        let own = format!("127.0.0.1:{number} -> 127.0.0.1:5672");
        bench.connections.lock().unwrap().push(connection(&own, "manager", "v"));
        let mut opened = opened(&bench, "v", &format!("q{number}"));
        let queue = &opened.consumers[0].queue;
        opened.stream_publishers = vec![publisher(1, queue, 1)];
        opened.stream_consumers = vec![subscription(1, queue)];
        bench.opened.lock().unwrap().push((0, opened));
    }
    // All channels and consumers of connections are asked for, also where only some are listed.
    for (list, times) in [
        ("queues", 4),
        ("connections", 4),
        ("channels", 5),
        ("consumers", 5),
        ("bindings", 4),
        ("exchanges", 4),
        ("stream/publishers", 8),
        ("stream/consumers", 8),
    ] {
        let [whole, _] = weighed(&bench, list);
        for query in ["", "?columns=name", "?sort=node", "?page=1&sort=node", "?page=1&page_size=500&name=1"]
        {
            let [_, most] = weighed(&bench, &format!("{list}{query}"));
            assert!(most < times * whole, "{list}{query}: {most} for {whole}");
        }
    }
}
