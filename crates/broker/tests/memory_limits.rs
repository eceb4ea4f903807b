//! Limits of users and virtual hosts are bounds of their accounts in the ledger.

use crate::node;

use broker::catalog::{Op, UserLimits, VhostLimits};
use broker::ledger::{AccountRow, Bound};
use node::Node;

fn ask(node: &mut Node, op: Op) {
    let (now, port) = (node.now, node.ports[0]);
    node.shards[0].request(now, port, 5, op);
    node.settle();
    assert_eq!(node.take_seen(), ["0: Done"]);
}

/// The bounds of the user and of the virtual host that the node has.
fn bounds(node: &Node) -> [Option<(Bound, Option<u64>)>; 2] {
    let rows = node.shards[0].ledger().rows();
    let of = |rows: Vec<AccountRow>, name: &str| {
        rows.into_iter().find(|row| *row.name == *name).map(|row| (row.bound, row.most))
    };
    [of(rows.users, "guest"), of(rows.vhosts, "/")]
}

#[test]
fn limits_set_the_bounds_of_accounts() {
    let mut node = Node::new(1);
    let of_user = |memory_bytes_max| {
        let limits = UserLimits { memory_bytes_max, ..UserLimits::default() };
        Op::SetUserLimits { user: "guest".into(), limits }
    };
    let of_vhost = |memory_bytes_max| {
        let limits = VhostLimits { memory_bytes_max, ..VhostLimits::default() };
        Op::SetVhostLimits { vhost: "/".into(), limits }
    };
    let shares = [Some((Bound::LoneUser, None)), Some((Bound::Vhost, None))];
    assert_eq!(bounds(&node), shares);
    ask(&mut node, of_user(Some(5_000_000_000)));
    ask(&mut node, of_vhost(Some(7)));
    let set = [Some((Bound::UserLimit, Some(5_000_000_000))), Some((Bound::VhostLimit, Some(7)))];
    assert_eq!(bounds(&node), set);
    // A node that starts goes by them too.
    let mut restarted = node.restarted();
    assert!(restarted.finish_recovery(node.now).is_empty());
    let rows = restarted.ledger().rows();
    assert_eq!(rows.users.iter().map(|row| row.most).collect::<Vec<_>>(), [Some(5_000_000_000)]);
    assert_eq!(rows.vhosts.iter().map(|row| row.most).collect::<Vec<_>>(), [Some(7)]);
    ask(&mut node, of_user(None));
    ask(&mut node, of_vhost(None));
    assert_eq!(bounds(&node), shares);
}
