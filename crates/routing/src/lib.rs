//! Exchanges, bindings and the topic trie: from a routing key to queues.
