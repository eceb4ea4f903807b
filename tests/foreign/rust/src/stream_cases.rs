//! rabbitmq-stream-client: streams as Rust applications use them.

use crate::{Case, Outcome, QUIET, SKIP, Say, equal, fresh, options, soon};
use futures_util::StreamExt;
use rabbitmq_stream_client::types::{
    HashRoutingMurmurStrategy, Message, OffsetSpecification, RoutingStrategy, SuperStreamConsumer,
};
use rabbitmq_stream_client::{
    ConfirmationStatus, Consumer, Environment, FilterConfiguration, TlsConfiguration,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub fn cases() -> Vec<Case> {
    macro_rules! case {
        ($name:literal, $behaviour:literal, $answer:literal, $act:ident) => {
            Case { name: $name, behaviour: $behaviour, answer: $answer, act: || Box::pin($act()) }
        };
    }
    vec![
        case!(
            "publish.confirm",
            "1,000 messages, each with a confirm",
            "each confirmed, none twice",
            confirm
        ),
        case!("publish.large", "bodies of 1 byte to 900 KB, both ways", "the same bytes", large),
        case!(
            "publish.again",
            "a named producer sends publishing ids 0 to 9 twice",
            "all are confirmed, each is stored once",
            again
        ),
        case!(
            "publish.within",
            "a named producer sends publishing ids 0, 0, 1, 1 at once",
            "two are stored and confirmed, and what came again is told before them",
            within
        ),
        case!(
            "consume.offsets",
            "consumers from first, last, next, an offset and a time",
            "each begins there",
            offsets
        ),
        case!(
            "offset.store",
            "an offset stored and asked for, by two names",
            "each its own; none is an error",
            stored
        ),
        case!(
            "filter.value",
            "a consumer of one filter value of three",
            "only messages of that value are wanted",
            filtered
        ),
        case!(
            "super-stream.hash",
            "300 messages to a super stream of three partitions by hash, then read",
            "each once, from every partition",
            partitions
        ),
        case!(
            "super-stream.single-active",
            "two single active consumers of a super stream, one closed",
            "the other goes on with all partitions, where its answer says",
            single
        ),
        case!(
            "error.absent",
            "a producer and a consumer of an absent stream, which is then deleted",
            "refused",
            absent
        ),
        case!("error.again", "a stream created twice with other arguments", "refused", created_twice),
        case!("error.login", "a wrong password", "refused", login),
        case!(
            "tls.round-trip",
            "a client that speaks TLS creates, writes and reads a stream",
            "served; one that does not trust the broker is not",
            over_tls
        ),
    ]
}

fn place() -> Outcome<(String, String, String)> {
    let rest = options().uri.split_once("://").map_or("", |(_, rest)| rest);
    let (user, host) = rest.split_once('@').ok_or("a URI without a login")?;
    let (user, password) = user.split_once(':').ok_or("a login without a password")?;
    let host = host.split([':', '/']).next().unwrap_or_default();
    Ok((host.to_owned(), user.to_owned(), password.to_owned()))
}

/// One that stays with the address it was given, whatever the broker advertises.
async fn environment() -> Outcome<Environment> {
    let (host, user, password) = place()?;
    let builder = Environment::builder().host(&host).port(options().stream_port);
    let builder = builder.username(&user).password(&password).load_balancer_mode(true);
    soon("connect", builder.build()).await?.say("connect")
}

struct Bench {
    environment: Environment,
    stream: String,
}

impl Bench {
    async fn new() -> Outcome<Bench> {
        let environment = environment().await?;
        let stream = fresh("stream");
        soon("create", environment.stream_creator().create(&stream)).await?.say("create")?;
        Ok(Bench { environment, stream })
    }

    async fn end(self) -> Outcome {
        soon("delete", self.environment.delete_stream(&self.stream)).await?.say("delete")
    }

    /// Publishes these numbers, and waits for their confirms.
    async fn fill(&self, numbers: std::ops::Range<u64>) -> Outcome {
        let producer =
            soon("producer", self.environment.producer().build(&self.stream)).await?.say("producer")?;
        let messages: Vec<Message> = numbers.clone().map(numbered).collect();
        let confirmed =
            soon("confirms", producer.batch_send_with_confirm(messages)).await?.say("confirms")?;
        equal(
            confirmed.iter().filter(|one| one.confirmed()).count() as u64,
            numbers.end - numbers.start,
            "confirmed",
        )?;
        soon("close", producer.close()).await?.say("close")
    }

    async fn consumer(&self, from: OffsetSpecification) -> Outcome<Consumer> {
        soon("consumer", self.environment.consumer().offset(from).build(&self.stream)).await?.say("consumer")
    }

    /// The numbers in so many messages, and their offsets.
    async fn read(&self, from: OffsetSpecification, count: usize) -> Outcome<Vec<(u64, u64)>> {
        let mut consumer = self.consumer(from).await?;
        let found = take(&mut consumer, count).await?;
        quiet(&mut consumer).await?;
        soon("close", consumer.handle().close()).await?.say("close")?;
        Ok(found)
    }
}

fn numbered(number: u64) -> Message {
    Message::builder().body(number.to_string()).build()
}

fn number(message: &Message) -> Outcome<u64> {
    let text =
        message.data().and_then(|data| std::str::from_utf8(data).ok()).ok_or("a message without a number")?;
    text.parse().say("a number")
}

async fn take(consumer: &mut Consumer, count: usize) -> Outcome<Vec<(u64, u64)>> {
    let mut found = Vec::new();
    while found.len() < count {
        let delivery =
            soon("a message", consumer.next()).await?.ok_or("the consumer ended")?.say("a message")?;
        found.push((delivery.offset(), number(delivery.message())?));
    }
    Ok(found)
}

async fn quiet(consumer: &mut Consumer) -> Outcome {
    match tokio::time::timeout(QUIET, consumer.next()).await {
        Err(_) => Ok(()),
        Ok(more) => Err(format!("more came: {more:?}")),
    }
}

fn same(numbers: std::ops::Range<u64>) -> Vec<(u64, u64)> {
    numbers.map(|number| (number, number)).collect()
}

async fn confirm() -> Outcome {
    let bench = Bench::new().await?;
    let producer =
        soon("producer", bench.environment.producer().build(&bench.stream)).await?.say("producer")?;
    let confirmed = Arc::new(AtomicU32::new(0));
    for number in 0..1000 {
        let confirmed = confirmed.clone();
        let told = move |status: Result<_, _>| {
            let is_ok = status.is_ok_and(|status: ConfirmationStatus| status.confirmed());
            confirmed.fetch_add(u32::from(is_ok), Ordering::Relaxed);
            std::future::ready(())
        };
        soon("send", producer.send(numbered(number), told)).await?.say("send")?;
    }
    let deadline = tokio::time::Instant::now() + crate::WAIT;
    while confirmed.load(Ordering::Relaxed) < 1000 && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    equal(confirmed.load(Ordering::Relaxed), 1000, "confirms")?;
    equal(bench.read(OffsetSpecification::First, 1000).await?, same(0..1000), "offsets and numbers")?;
    soon("close", producer.close()).await?.say("close")?;
    bench.end().await
}

async fn large() -> Outcome {
    let bench = Bench::new().await?;
    let producer =
        soon("producer", bench.environment.producer().build(&bench.stream)).await?.say("producer")?;
    let bodies: Vec<Vec<u8>> = [1, 255, 256, 70_000, 900_000]
        .iter()
        .map(|len| (0..*len).map(|at| (at % 251) as u8).collect())
        .collect();
    for body in &bodies {
        let message = Message::builder().body(body.clone()).build();
        let status = soon("confirm", producer.send_with_confirm(message)).await?.say("confirm")?;
        equal(status.confirmed(), true, "confirmed")?;
    }
    let mut consumer = bench.consumer(OffsetSpecification::First).await?;
    for body in &bodies {
        let delivery =
            soon("a message", consumer.next()).await?.ok_or("the consumer ended")?.say("a message")?;
        equal(delivery.message().data() == Some(body.as_slice()), true, "the same bytes")?;
    }
    soon("close", producer.close()).await?.say("close")?;
    soon("close", consumer.handle().close()).await?.say("close")?;
    bench.end().await
}

async fn again() -> Outcome {
    let bench = Bench::new().await?;
    for _ in 0..2 {
        let builder = bench.environment.producer().name("again");
        let mut producer = soon("producer", builder.build(&bench.stream)).await?.say("producer")?;
        for id in 0..10 {
            let message = Message::builder().body(id.to_string()).publishing_id(id).build();
            let status = soon("confirm", producer.send_with_confirm(message)).await?.say("confirm")?;
            equal((status.confirmed(), status.publishing_id()), (true, id), "confirmed")?;
        }
        soon("close", producer.close()).await?.say("close")?;
    }
    equal(bench.read(OffsetSpecification::First, 10).await?, same(0..10), "offsets and numbers")?;
    bench.end().await
}

/// Where two equal ids come in one frame of confirms the client fails, and goes on waiting.
async fn within() -> Outcome {
    let bench = Bench::new().await?;
    let builder = bench.environment.producer().name("within");
    let mut producer = soon("producer", builder.build(&bench.stream)).await?.say("producer")?;
    let message = |id: u64| Message::builder().body(id.to_string()).publishing_id(id).build();
    let messages = [0, 0, 1, 1].map(message).to_vec();
    let confirmed = soon("confirms", producer.batch_send_with_confirm(messages)).await?.say("confirms")?;
    let ids: Vec<u64> = confirmed.iter().map(ConfirmationStatus::publishing_id).collect();
    equal(ids, vec![0, 1], "confirmed")?;
    equal(bench.read(OffsetSpecification::First, 2).await?, same(0..2), "offsets and numbers")?;
    soon("close", producer.close()).await?.say("close")?;
    bench.end().await
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

async fn offsets() -> Outcome {
    let bench = Bench::new().await?;
    bench.fill(0..50).await?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let between = now_ms();
    tokio::time::sleep(Duration::from_millis(50)).await;
    bench.fill(50..100).await?;
    equal(bench.read(OffsetSpecification::First, 100).await?, same(0..100), "from the first")?;
    equal(bench.read(OffsetSpecification::Offset(70), 30).await?, same(70..100), "from an offset")?;
    let since = bench.read(OffsetSpecification::Timestamp(between), 50).await?;
    equal(since, same(50..100), "from a time")?;
    let mut last = bench.consumer(OffsetSpecification::Last).await?;
    let (offset, _) = take(&mut last, 1).await?[0];
    equal((50..100).contains(&offset), true, "from the last chunk")?;
    let mut next = bench.consumer(OffsetSpecification::Next).await?;
    quiet(&mut next).await?;
    bench.fill(100..110).await?;
    equal(take(&mut next, 10).await?, same(100..110), "what comes next")?;
    for consumer in [&last, &next] {
        soon("close", consumer.handle().close()).await?.say("close")?;
    }
    bench.end().await
}

async fn stored() -> Outcome {
    let bench = Bench::new().await?;
    bench.fill(0..10).await?;
    let mut consumers = Vec::new();
    for (name, offset) in [("one", 3), ("two", 8)] {
        let builder = bench.environment.consumer().name(name).offset(OffsetSpecification::First);
        let consumer = soon("consumer", builder.build(&bench.stream)).await?.say("consumer")?;
        equal(soon("query", consumer.query_offset()).await?.is_err(), true, "none is stored")?;
        soon("store", consumer.store_offset(offset)).await?.say("store")?;
        let seen = soon("query", consumer.query_offset()).await?.say("query")?;
        equal(seen, offset, "what was stored")?;
        consumers.push(consumer);
    }
    for (consumer, offset) in consumers.iter().zip([3, 8]) {
        equal(soon("query", consumer.query_offset()).await?.say("query")?, offset, "what each stored")?;
        soon("close", consumer.handle().close()).await?.say("close")?;
    }
    bench.end().await
}

fn value(message: &Message) -> String {
    ["a", "b", "c"][number(message).unwrap_or(0) as usize / 10 % 3].to_owned()
}

async fn filtered() -> Outcome {
    let bench = Bench::new().await?;
    let builder = bench.environment.producer().filter_value_extractor(value);
    let producer = soon("producer", builder.build(&bench.stream)).await?.say("producer")?;
    for first in [0, 10, 20] {
        let messages = (first..first + 10).map(numbered).collect();
        soon("confirms", producer.batch_send_with_confirm(messages)).await?.say("confirms")?;
    }
    let wanted =
        FilterConfiguration::new(vec!["b".to_owned()], false).post_filter(|message| value(message) == "b");
    let builder = bench.environment.consumer().offset(OffsetSpecification::First).filter_input(Some(wanted));
    let mut consumer = soon("consumer", builder.build(&bench.stream)).await?.say("consumer")?;
    equal(take(&mut consumer, 10).await?, same(10..20), "those of the value")?;
    quiet(&mut consumer).await?;
    soon("close", producer.close()).await?.say("close")?;
    soon("close", consumer.handle().close()).await?.say("close")?;
    bench.end().await
}

async fn taken(
    consumer: &mut SuperStreamConsumer,
    count: usize,
) -> Outcome<(BTreeSet<u64>, BTreeSet<String>)> {
    let (mut numbers, mut streams) = (BTreeSet::new(), BTreeSet::new());
    while numbers.len() < count {
        let delivery =
            soon("a message", consumer.next()).await?.ok_or("the consumer ended")?.say("a message")?;
        equal(numbers.insert(number(delivery.message())?), true, "none twice")?;
        streams.insert(delivery.stream().clone());
    }
    Ok((numbers, streams))
}

fn key(message: &Message) -> String {
    number(message).unwrap_or(0).to_string()
}

/// Publishes these numbers to a super stream, each where its hash says.
async fn spread(environment: &Environment, name: &str, numbers: std::ops::Range<u64>) -> Outcome {
    let strategy =
        RoutingStrategy::HashRoutingStrategy(HashRoutingMurmurStrategy { routing_extractor: &key });
    let mut producer =
        soon("producer", environment.super_stream_producer(strategy).build(name)).await?.say("producer")?;
    let confirmed = Arc::new(AtomicU32::new(0));
    let count = (numbers.end - numbers.start) as u32;
    for number in numbers {
        let confirmed = confirmed.clone();
        let told = move |status: Result<_, _>| {
            let is_ok = status.is_ok_and(|status: ConfirmationStatus| status.confirmed());
            confirmed.fetch_add(u32::from(is_ok), Ordering::Relaxed);
            std::future::ready(())
        };
        soon("send", producer.send(numbered(number), told)).await?.say("send")?;
    }
    let deadline = tokio::time::Instant::now() + crate::WAIT;
    while confirmed.load(Ordering::Relaxed) < count && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    equal(confirmed.load(Ordering::Relaxed), count, "confirms")?;
    soon("close", producer.close()).await?.say("close")
}

async fn partitions() -> Outcome {
    let environment = environment().await?;
    let name = fresh("super");
    soon("create", environment.stream_creator().create_super_stream(&name, 3, None)).await?.say("create")?;
    spread(&environment, &name, 0..300).await?;
    let mut builder = environment.super_stream_consumer().offset(OffsetSpecification::First);
    let mut consumer = soon("consumer", builder.build(&name)).await?.say("consumer")?;
    let (numbers, streams) = taken(&mut consumer, 300).await?;
    equal(numbers, (0..300).collect(), "the messages")?;
    equal(streams, (0..3).map(|partition| format!("{name}-{partition}")).collect(), "the partitions")?;
    soon("close", consumer.handle().close()).await?.say("close")?;
    soon("delete", environment.delete_super_stream(&name)).await?.say("delete")
}

async fn single() -> Outcome {
    let environment = environment().await?;
    let name = fresh("single");
    soon("create", environment.stream_creator().create_super_stream(&name, 2, None)).await?.say("create")?;
    spread(&environment, &name, 0..100).await?;
    let mut consumers = Vec::new();
    for _ in 0..2 {
        let mut builder = environment
            .super_stream_consumer()
            .name("group")
            .enable_single_active_consumer(true)
            .offset(OffsetSpecification::First)
            .consumer_update(|_active, _context| std::future::ready(OffsetSpecification::First));
        consumers.push(soon("consumer", builder.build(&name)).await?.say("consumer")?);
    }
    let (mut second, mut first) = (consumers.remove(1), consumers.remove(0));
    // A partition each, once the group has settled; whoever is left has both, from where it says: the first.
    let mut seen = BTreeSet::new();
    while seen.len() < 100 {
        let came = soon("a message", futures_util::future::select(first.next(), second.next()))
            .await?
            .factor_first()
            .0;
        seen.insert(number(came.ok_or("a consumer ended")?.say("a message")?.message())?);
    }
    soon("close", first.handle().close()).await?.say("close")?;
    spread(&environment, &name, 100..150).await?;
    let mut numbers = BTreeSet::new();
    while numbers.len() < 150 {
        let came = soon("a message", second.next()).await?.ok_or("the consumer ended")?.say("a message")?;
        numbers.insert(number(came.message())?);
        seen.insert(number(came.message())?);
        if seen.len() == 150 && (100..150).all(|number| numbers.contains(&number)) {
            break;
        }
    }
    soon("close", second.handle().close()).await?.say("close")?;
    soon("delete", environment.delete_super_stream(&name)).await?.say("delete")
}

async fn absent() -> Outcome {
    let environment = environment().await?;
    let name = fresh("absent");
    equal(soon("producer", environment.producer().build(&name)).await?.is_err(), true, "no producer")?;
    equal(soon("consumer", environment.consumer().build(&name)).await?.is_err(), true, "no consumer")?;
    equal(soon("delete", environment.delete_stream(&name)).await?.is_err(), true, "nothing to delete")
}

async fn created_twice() -> Outcome {
    let bench = Bench::new().await?;
    let other = bench.environment.stream_creator().max_age(Duration::from_secs(60));
    let seen = soon("create", other.create(&bench.stream)).await?;
    equal(seen.is_err(), true, "refused")?;
    bench.end().await
}

async fn login() -> Outcome {
    let (host, user, _) = place()?;
    let builder = Environment::builder().host(&host).port(options().stream_port);
    let seen = soon("connect", builder.username(&user).password("wrong").build()).await?;
    equal(seen.is_err(), true, "refused")
}

/// One over TLS, which trusts this root.
async fn secure(root: &str) -> Outcome<Environment> {
    let port = options().stream_tls.ok_or(format!("{SKIP}needs --broker, and openssl"))?;
    let (_, user, password) = place()?;
    let tls = TlsConfiguration::builder().add_root_certificates(format!("{}/{root}", options().certificates));
    let builder = Environment::builder().host("localhost").port(port).tls(tls.build().say("TLS")?);
    let builder = builder.username(&user).password(&password).load_balancer_mode(true);
    soon("connect", builder.build()).await?.say("connect")
}

async fn over_tls() -> Outcome {
    let bench = Bench { environment: secure("ca.pem").await?, stream: fresh("tls") };
    soon("create", bench.environment.stream_creator().create(&bench.stream)).await?.say("create")?;
    bench.fill(0..100).await?;
    equal(bench.read(OffsetSpecification::First, 100).await?, same(0..100), "offsets and numbers")?;
    equal(secure("strangers.pem").await.is_err(), true, "who trusts others is not served")?;
    bench.end().await
}
