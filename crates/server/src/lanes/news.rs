//! News of nodes for each other: how each is, so that any of them answers for all. They are shown, and nothing is decided by
//! them.
//!
//! A node says them again and again, and only the last of another node counts; so what is lost does no harm.

use base::id::NodeNo;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Another node, as tools see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Met {
    /// Its number.
    pub number: NodeNo,
    /// Its name.
    pub name: String,
    /// The pulse to it is open.
    pub is_reached: bool,
    /// Lanes that this node dials to it, and those of them that are open.
    pub lanes: [u64; 2],
    /// Bytes that were sent, and received.
    pub bytes: [u64; 2],
    /// Its last words, while it is reached.
    pub news: Option<Value>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct News {
    /// Those of this node that are to be sent.
    own: Mutex<Option<Vec<u8>>>,
    told: Mutex<BTreeMap<NodeNo, Value>>,
    /// Bytes that were sent, and received, by node.
    bytes: Mutex<BTreeMap<NodeNo, [u64; 2]>>,
}

impl News {
    /// The news of this node, which are sent next; too long ones are not.
    pub fn set(&self, own: &Value, most: usize) {
        let bytes = own.to_string().into_bytes();
        *held(&self.own) = Some(bytes).filter(|bytes| bytes.len() <= most);
    }

    /// Takes what is to be sent.
    pub fn take(&self) -> Option<Vec<u8>> {
        held(&self.own).take()
    }

    /// Another node says this.
    ///
    /// # Errors
    /// It is no news: a fault of that node.
    pub fn hear(&self, from: NodeNo, bytes: &[u8], most: usize) -> Result<(), String> {
        if bytes.len() > most {
            return Err(format!("news of {} bytes, and {most} is the most", bytes.len()));
        }
        match serde_json::from_slice(bytes) {
            Ok(news @ Value::Object(_)) => {
                held(&self.told).insert(from, news);
                Ok(())
            }
            Ok(_) => Err("news that are no object".to_owned()),
            Err(why) => Err(format!("news that are no JSON: {why}")),
        }
    }

    /// The last words of a node.
    pub fn of(&self, node: NodeNo) -> Option<Value> {
        held(&self.told).get(&node).cloned()
    }

    /// The node is not reached any more: what it said may not be so.
    pub fn forget(&self, node: NodeNo) {
        held(&self.told).remove(&node);
    }

    /// So many bytes more were sent to a node, and received.
    pub fn count(&self, node: NodeNo, more: [u64; 2]) {
        let mut bytes = held(&self.bytes);
        let bytes = bytes.entry(node).or_default();
        bytes.iter_mut().zip(more).for_each(|(all, more)| *all += more);
    }

    /// Bytes that were sent to a node, and received.
    pub fn bytes(&self, node: NodeNo) -> [u64; 2] {
        held(&self.bytes).get(&node).copied().unwrap_or_default()
    }
}

/// No state here is broken by a thread that panicked.
fn held<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_words_of_a_node_count_while_it_is_reached() {
        let news = News::default();
        let node = NodeNo(2);
        for number in [1, 2] {
            news.hear(node, json!({"number": number}).to_string().as_bytes(), 100).expect("news");
        }
        assert_eq!((news.of(node), news.of(NodeNo(3))), (Some(json!({"number": 2})), None));
        news.forget(node);
        assert_eq!(news.of(node), None);
    }

    #[test]
    fn what_is_no_news_is_refused_and_what_is_too_long_is_not_said() {
        let news = News::default();
        let check = |bytes: &[u8], expected: &str| {
            let refused = news.hear(NodeNo(2), bytes, 20).expect_err(expected);
            assert!(refused.contains(expected), "{refused}");
        };
        check(b"[1]", "no object");
        check(b"{", "no JSON");
        check(b"{\"long\": \"long enough\"}", "20 is the most");
        assert_eq!(news.of(NodeNo(2)), None);
        news.set(&json!({"long": "long enough, it is"}), 20);
        assert_eq!(news.take(), None);
        news.set(&json!({"a": 1}), 20);
        assert_eq!((news.take(), news.take()), (Some(b"{\"a\":1}".to_vec()), None));
    }
}
