//! How many virtual hosts, exchanges and queues a node may have, how large their arguments and patterns may be, and how
//! dear the patterns of a virtual host's policies: asked of what was planned, before it is done.

use crate::catalog::{self, Binding, Catalog, Change, Object, PolicyDefinition, Reason, Refusal};
use crate::limits::Limits;
use routing::{Arguments, Kind, X_FILTER};

impl Limits {
    /// Whether the node may have what these changes add. It is asked last, so that what is wrong for other reasons is
    /// refused for those; what is there already stays, however much it is.
    pub(crate) fn check(&self, catalog: &Catalog, changes: &[Change]) -> Result<(), Refusal> {
        let refused = |object, text: String| Err(Refusal::precondition(Reason::LimitReached(object), text));
        let is_full = |most: Option<u64>, count: usize| most.filter(|most| count as u64 >= *most);
        let (mut added_exchanges, mut added_queues) = (0, 0);
        for change in changes {
            if let Some((object, arguments)) = arguments_of(change) {
                self.check_arguments(object, arguments)?;
            }
            match change {
                Change::AddVhost(vhost) => {
                    if let Some(most) = is_full(self.vhosts_max, catalog.vhosts().count()) {
                        let name = &vhost.name;
                        return refused(
                            Object::VirtualHost,
                            format!("cannot create vhost '{name}': vhost limit of {most} is reached"),
                        );
                    }
                }
                Change::AddExchange(exchange) => {
                    let count = catalog.exchange_count() + added_exchanges;
                    if let Some(most) = is_full(self.exchanges_max, count) {
                        let named = catalog.exchange_named(exchange.vhost, &exchange.name);
                        return refused(
                            Object::Exchange,
                            format!("cannot declare {named}: exchange limit of {most} is reached"),
                        );
                    }
                    added_exchanges += 1;
                }
                Change::AddQueue(queue) => {
                    if let Some(most) = is_full(self.queues_max, catalog.queue_count() + added_queues) {
                        let name = &queue.name;
                        return refused(
                            Object::Queue,
                            format!(
                                "cannot declare queue '{name}': queue limit in cluster ({most}) is reached"
                            ),
                        );
                    }
                    added_queues += 1;
                }
                Change::SetPolicy(policy) => self.check_programs(catalog, policy)?,
                Change::Bind(binding) => {
                    self.check_words(catalog, binding)?;
                    self.check_filters(catalog, binding)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a pattern has few enough words: each of them may cost a message steps.
    fn check_words(&self, catalog: &Catalog, binding: &Binding) -> Result<(), Refusal> {
        let (key, most) = (binding.key.as_bytes(), self.topic_words_max);
        let Some(words) = routing::pattern_words(key).filter(|words| *words > most) else { return Ok(()) };
        let source = catalog.exchange_by_id(binding.source).map(|source| &source.definition);
        if source.is_none_or(|source| source.kind.chooses_as(&source.arguments) != Kind::Topic) {
            return Ok(());
        }
        Err(Refusal::precondition(
            Reason::TooLarge(Object::Binding),
            format!(
                "topic binding key with wildcards has {words} words: at most {most} are allowed \
                 (leveret.topic_words_max): '{}'",
                binding.key
            ),
        ))
    }

    /// Whether the exchange has room for a binding with a filter.
    fn check_filters(&self, catalog: &Catalog, binding: &Binding) -> Result<(), Refusal> {
        let source =
            catalog.exchange_by_id(binding.source).filter(|_| binding.arguments.get(X_FILTER).is_some());
        let Some(source) = source else { return Ok(()) };
        let refused = |has: String| {
            let named = catalog.exchange_named(source.definition.vhost, &source.definition.name);
            let text = format!("cannot bind with a filter: {named} has {has}");
            Err(Refusal::precondition(Reason::LimitReached(Object::Binding), text))
        };
        let (count, most) = (source.exchange.filters(), self.exchange_filters_max);
        if count >= most {
            return refused(format!("{count} of {most} filters (leveret.exchange_filters_max)"));
        }
        let (bytes, most) = (source.exchange.filters_bytes(), self.exchange_filters_bytes_max);
        if bytes >= most {
            return refused(format!(
                "filters of {bytes} bytes, {most} at most (leveret.exchange_filters_bytes_max)"
            ));
        }
        Ok(())
    }

    /// Whether the patterns of the policies of a virtual host, of the kind of this one, are small enough with it: each object
    /// is held against all of them.
    fn check_programs(&self, catalog: &Catalog, policy: &PolicyDefinition) -> Result<(), Refusal> {
        let Some(most) = self.policy_programs_bytes_max else { return Ok(()) };
        let own = policy.pattern.program_bytes();
        let others = catalog.policies(policy.vhost, policy.kind).filter(|other| other.name != policy.name);
        let bytes = others.map(|other| other.pattern.program_bytes()).sum::<usize>() + own;
        if bytes as u64 <= most || own == 0 {
            return Ok(());
        }
        let vhost = catalog.vhost_definition(policy.vhost).map_or("", |vhost| &vhost.name);
        Err(Refusal::precondition(
            Reason::LimitReached(Object::Policy),
            format!(
                "the pattern of policy '{}' takes {own} bytes compiled, and with those of the other policies of vhost \
                 '{vhost}' {bytes}, where {most} are allowed: shorten it, or raise leveret.policy_patterns_bytes_max",
                policy.name
            ),
        ))
    }

    /// Whether an object may have these arguments: they are kept, and routing may look at each.
    pub(crate) fn check_arguments(&self, object: Object, arguments: &Arguments) -> Result<(), Refusal> {
        let refused = |text: String| {
            Err(Refusal::precondition(Reason::TooLarge(object), format!("{} {text}", object.name())))
        };
        let (count, most) = (arguments.len(), self.arguments_max);
        if count > most {
            return refused(format!(
                "with {count} arguments: at most {most} are allowed (leveret.arguments_max)"
            ));
        }
        let (bytes, most) = (catalog::arguments_len(arguments), self.arguments_bytes_max);
        if bytes > most {
            return refused(format!(
                "with arguments of {bytes} bytes: at most {most} are allowed (leveret.arguments_bytes_max)"
            ));
        }
        Ok(())
    }
}

/// The object that a change makes, where it has arguments.
fn arguments_of(change: &Change) -> Option<(Object, &Arguments)> {
    let (object, arguments) = match change {
        Change::AddExchange(exchange) => (Object::Exchange, &exchange.arguments),
        Change::AddQueue(queue) => (Object::Queue, &queue.arguments),
        Change::Bind(binding) => (Object::Binding, &binding.arguments),
        _ => return None,
    };
    (!arguments.is_empty()).then_some((object, arguments))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Actor, FirstContent, Op, Places, PolicyKind, VhostDefaults, VhostId};
    use base::id::PortId;
    use routing::Value;

    fn filled() -> Catalog {
        let mut catalog = Catalog::default();
        let by = Actor::internal(VhostId::default(), PortId::default());
        for op in FirstContent::guest([0; crate::access::SALT]).requests() {
            let plan = catalog.plan(&by, &op, Places::default()).expect("sound");
            plan.changes.iter().for_each(|change| drop(catalog.apply(change)));
        }
        catalog
    }

    #[test]
    fn patterns_of_policies_have_so_much_room_together() {
        let mut catalog = filled();
        let by = Actor::internal(VhostId(0), PortId::default());
        let limits = Limits { policy_programs_bytes_max: Some(66 << 10), ..Limits::default() };
        let mut set = |name: &str, pattern: &str, limits: &Limits| {
            let op = Op::SetPolicy {
                kind: PolicyKind::User,
                vhost: "/".into(),
                name: name.into(),
                pattern: pattern.into(),
                apply_to: "all".into(),
                priority: 0,
                definition: [("max-length".as_bytes(), Value::long(1))].into_iter().collect(),
            };
            let plan = catalog.plan(&by, &op, Places::default()).expect("nothing else is wrong");
            let refused = limits.check(&catalog, &plan.changes).err().map(|refusal| refusal.reply_text());
            if refused.is_none() {
                plan.changes.iter().for_each(|change| drop(catalog.apply(change)));
            }
            refused
        };
        let dear = "(a|b|c){200}";
        assert_eq!(set("one", dear, &limits), None);
        assert_eq!(set("one", dear, &limits), None, "in the place of itself");
        let refused = set("two", dear, &limits).expect("there is no room for two");
        assert!(refused.contains("leveret.policy_patterns_bytes_max"), "{refused}");
        assert_eq!([set("two", ".*", &limits), set("two", "^orders", &limits)], [None, None]);
        assert_eq!(set("two", dear, &Limits { policy_programs_bytes_max: None, ..limits }), None);
    }

    /// The same with a queue `q`.
    fn with_queue() -> Catalog {
        let mut catalog = filled();
        let declare = Op::DeclareQueue {
            name: "q".into(),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Default::default(),
            random: [0; 16],
        };
        let by = Actor::internal(VhostId(0), PortId::default());
        let plan = catalog.plan(&by, &declare, Places::default()).expect("nothing is wrong");
        plan.changes.iter().for_each(|change| drop(catalog.apply(change)));
        catalog
    }

    #[test]
    fn arguments_are_bounded_by_number_and_by_bytes() {
        let catalog = with_queue();
        let by = Actor::internal(VhostId(0), PortId::default());
        let check = |arguments: Arguments, expected: Option<&str>| {
            let (queue, exchange, key) = ("q".into(), "amq.headers".into(), "".into());
            let bind = Op::BindQueue { queue, exchange, key, arguments };
            let plan = catalog.plan(&by, &bind, Places::default()).expect("nothing else is wrong");
            let refused = Limits::default().check(&catalog, &plan.changes).err();
            assert_eq!(refused.map(|refusal| refusal.reply_text()).as_deref(), expected);
        };
        let many = |count: u32| (0..count).map(|at| (at.to_be_bytes(), Value::Void)).collect();
        let long = |bytes: usize| [(*b"text", Value::Bytes(vec![0; bytes].into()))].into_iter().collect();
        check(many(1024), None);
        let text = "PRECONDITION_FAILED - binding with 1025 arguments: at most 1024 are allowed (leveret.arguments_max)";
        check(many(1025), Some(text));
        check(long(65_000), None);
        let text = "PRECONDITION_FAILED - binding with arguments of 65553 bytes: at most 65536 are allowed (leveret.arguments_bytes_max)";
        check(long(65_536), Some(text));
    }

    #[test]
    fn filters_of_an_exchange_have_so_much_room() {
        let mut catalog = with_queue();
        let by = Actor::internal(VhostId(0), PortId::default());
        let mut bind = |filter: Option<u32>, limits: &Limits| {
            let value = |number| Value::Text(format!("body.a = {number}").into_bytes().into());
            let arguments = filter.map(|number| (X_FILTER, value(number))).into_iter().collect();
            let (queue, exchange, key) = ("q".into(), "amq.fanout".into(), "".into());
            let bind = Op::BindQueue { queue, exchange, key, arguments };
            let plan = catalog.plan(&by, &bind, Places::default()).expect("nothing else is wrong");
            let refused = limits.check(&catalog, &plan.changes).err().map(|refusal| refusal.reply_text());
            if refused.is_none() {
                plan.changes.iter().for_each(|change| drop(catalog.apply(change)));
            }
            refused
        };
        let three = Limits { exchange_filters_max: 3, ..Limits::default() };
        // One that is there already needs no room.
        let asked = [Some(1), Some(2), Some(3), Some(3), None];
        assert_eq!(asked.map(|filter| bind(filter, &three)), [const { None }; 5]);
        let told = bind(Some(4), &three).expect("a fourth");
        assert!(told.ends_with("has 3 of 3 filters (leveret.exchange_filters_max)"), "{told}");
        let small = Limits { exchange_filters_bytes_max: 16 << 10, ..Limits::default() };
        let told = (4..100).find_map(|number| bind(Some(number), &small)).expect("some of them");
        assert!(told.ends_with("16384 at most (leveret.exchange_filters_bytes_max)"), "{told}");
    }

    #[test]
    fn patterns_of_topics_have_so_many_words() {
        let catalog = with_queue();
        let by = Actor::internal(VhostId(0), PortId::default());
        let check = |exchange: &str, first: &str, words: usize, most: usize, expected: Option<&str>| {
            let (queue, key) = ("q".into(), format!("{first}{}", ".".repeat(words - 1)));
            let arguments = Default::default();
            let bind =
                Op::BindQueue { queue, exchange: exchange.into(), key: key.as_str().into(), arguments };
            let plan = catalog.plan(&by, &bind, Places::default()).expect("nothing else is wrong");
            let limits = Limits { topic_words_max: most, ..Limits::default() };
            let refused = limits.check(&catalog, &plan.changes).err().map(|refusal| refusal.reply_text());
            // A long key is cut off, so it comes last.
            let expected = expected.map(|text| format!("PRECONDITION_FAILED - {text}: '{first}"));
            let is_told = |(told, expected): (&String, &String)| told.starts_with(expected.as_str());
            let as_expected = refused.as_ref().zip(expected.as_ref()).map_or(refused == expected, is_told);
            assert!(as_expected, "{exchange} {words}: {refused:?}, not {expected:?}");
        };
        let usual = Limits::default().topic_words_max;
        check("amq.topic", "*", 250, usual, None);
        let text = "topic binding key with wildcards has 251 words: at most 250 are allowed (leveret.topic_words_max)";
        check("amq.topic", "*", 251, usual, Some(text));
        check("amq.topic", "a", 251, usual, None);
        check("amq.direct", "*", 251, usual, None);
        check("amq.topic", "#", 255, usize::MAX, None);
        let text =
            "topic binding key with wildcards has 3 words: at most 2 are allowed (leveret.topic_words_max)";
        check("amq.topic", "#", 3, 2, Some(text));
    }

    #[test]
    fn nothing_is_added_beyond_what_a_node_may_have() {
        let catalog = filled();
        let by = Actor::internal(VhostId(0), PortId::default());
        let exchanges = catalog.exchange_count() as u64;
        let vhost = Op::AddVhost { name: "v".into(), defaults: VhostDefaults::default() };
        let exchange = Op::DeclareExchange {
            name: "e".into(),
            kind: "fanout".into(),
            passive: false,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Default::default(),
        };
        let queue = Op::DeclareQueue {
            name: "q".into(),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Default::default(),
            random: [0; 16],
        };
        let check = |op: &Op, limits: Limits, expected: Option<&str>| {
            let plan = catalog.plan(&by, op, Places::default()).expect("nothing else is wrong");
            let refused = limits.check(&catalog, &plan.changes).err();
            assert_eq!(refused.map(|refusal| refusal.reply_text()).as_deref(), expected);
        };
        let limits = Limits::default();
        let vhosts = |most| Limits { vhosts_max: Some(most), ..limits };
        check(&vhost, vhosts(2), None);
        let text = "PRECONDITION_FAILED - cannot create vhost 'v': vhost limit of 1 is reached";
        check(&vhost, vhosts(1), Some(text));
        let of_exchanges = |most| Limits { exchanges_max: Some(most), ..limits };
        check(&exchange, of_exchanges(exchanges + 1), None);
        let text = format!(
            "PRECONDITION_FAILED - cannot declare exchange 'e' in vhost '/': exchange limit of {exchanges} is reached"
        );
        check(&exchange, of_exchanges(exchanges), Some(&text));
        // A virtual host comes with all its exchanges or not at all.
        check(&vhost, of_exchanges(2 * exchanges), None);
        let plan = catalog.plan(&by, &vhost, Places::default()).expect("nothing else is wrong");
        assert!(of_exchanges(2 * exchanges - 1).check(&catalog, &plan.changes).is_err());
        let queues = |most| Limits { queues_max: Some(most), ..limits };
        check(&queue, queues(1), None);
        let text = "PRECONDITION_FAILED - cannot declare queue 'q': queue limit in cluster (0) is reached";
        check(&queue, queues(0), Some(text));
        // So does a super stream.
        let partitions = vec![("p-0".into(), "0".into()), ("p-1".into(), "1".into())];
        let arguments = Default::default();
        let super_stream = Op::MakeSuperStream { name: "s".into(), partitions, arguments };
        check(&super_stream, queues(2), None);
        let text = "PRECONDITION_FAILED - cannot declare queue 'p-1': queue limit in cluster (1) is reached";
        check(&super_stream, queues(1), Some(text));
    }
}
