//! Lists of what RabbitMQ's plugins run: they answer, with nothing in them.

use super::Bench;
use serde_json::{Value, json};

/// Statuses for an administrator, one that watches, and one of a virtual host alone.
#[test]
fn lists_of_plugins_answer_those_that_they_are_for() {
    let bench = Bench::new();
    let check = |line: &str, expected: [u16; 3]| {
        let found = ["guest", "monitor", "manager"].map(|user| bench.ask(user, line, ""));
        assert_eq!(found.each_ref().map(|answer| answer.0), expected, "{line}");
        if expected[0] == 200 {
            assert_eq!(found[0].1, json!([]), "{line}");
        }
    };
    for list in ["shovels", "federation-links"] {
        check(&format!("GET {list}"), [200, 200, 401]);
        check(&format!("GET {list}/v"), [200, 200, 401]);
        check(&format!("GET {list}/none-such"), [404, 404, 401]);
    }
    check("GET federation-links/v/state/down", [200, 200, 401]);
    check("GET federation-links/state/down", [200, 200, 401]);
    // Traces are for administrators, and ask for no virtual host.
    for list in ["traces", "traces/v", "traces/none-such", "traces/node/x", "traces/node/x/none-such"] {
        check(&format!("GET {list}"), [200, 401, 401]);
    }
    check("GET trace-files", [200, 401, 401]);
    check("GET trace-files/node/x", [200, 401, 401]);
    for one in ["traces/v/t", "traces/node/x/v/t", "trace-files/t.log", "trace-files/node/x/t.log"] {
        check(&format!("GET {one}"), [404, 401, 401]);
        check(&format!("DELETE {one}"), [404, 401, 401]);
        check(&format!("PUT {one}"), [405, 405, 405]);
    }
    // A page of a list that has none is a page.
    let page = bench.get("shovels?page=1");
    assert_eq!((&page["total_count"], &page["items"]), (&Value::from(0), &json!([])));
}
