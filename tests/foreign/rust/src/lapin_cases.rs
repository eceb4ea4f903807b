//! lapin: 0-9-1 as Rust applications use it.

use crate::{Case, Outcome, QUIET, Say, WAIT, cut, equal, fresh, options, relayed, soon};
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer, ExchangeKind,
};
use std::time::Instant;

pub fn cases() -> Vec<Case> {
    macro_rules! case {
        ($name:literal, $behaviour:literal, $answer:literal, $act:ident) => {
            Case { name: $name, behaviour: $behaviour, answer: $answer, act: || Box::pin($act()) }
        };
    }
    vec![
        case!(
            "publish.confirm",
            "500 persistent messages, confirms awaited afterwards",
            "each acked",
            confirm
        ),
        case!(
            "publish.return",
            "a mandatory message that no queue takes",
            "basic.return 312 `NO_ROUTE` with its ack",
            returned
        ),
        case!(
            "consume.settle",
            "ack, nack of many and reject, with and without requeue",
            "what was requeued comes again, redelivered=true",
            settle
        ),
        case!("consume.prefetch", "a prefetch of 2", "two at once; each ack brings one more", prefetch),
        case!(
            "consume.cancel",
            "a consumer cancelled; a queue deleted under another",
            "both streams end",
            cancel
        ),
        case!("get.published", "publish without confirms, then get on the same channel", "the message", get),
        case!("properties.all", "properties and header types", "equal", properties),
        case!("exchange.route", "direct, topic, fanout and headers exchanges", "routed by each", route),
        case!(
            "error.channel",
            "an absent queue, on one channel of two",
            "404; the other channel lives",
            error
        ),
        case!("error.login", "a wrong password", "403 `ACCESS_REFUSED`", login),
        case!("rpc.direct-reply", "20 calls with `amq.rabbitmq.reply-to`", "each its answer", rpc),
        case!(
            "transaction.commit",
            "a transaction committed, one rolled back",
            "only the first is delivered",
            transaction
        ),
        case!(
            "recovery.cut",
            "automatic recovery after three cuts with unsettled messages",
            "consumer and exclusive queue come back; messages come again, redelivered=true",
            recovery
        ),
    ]
}

async fn connect() -> Outcome<Connection> {
    soon("connect", Connection::connect(&options().uri, ConnectionProperties::default()))
        .await?
        .say("connect")
}

struct Bench {
    connection: Connection,
    channel: Channel,
    queue: String,
}

impl Bench {
    /// A connection, a channel, and a queue that goes with the connection.
    async fn new() -> Outcome<Bench> {
        let connection = connect().await?;
        let channel = connection.create_channel().await.say("channel")?;
        let queue = fresh("queue");
        let exclusive = QueueDeclareOptions { exclusive: true, ..Default::default() };
        channel
            .queue_declare(queue.as_str().into(), exclusive, FieldTable::default())
            .await
            .say("declare")?;
        Ok(Bench { connection, channel, queue })
    }

    async fn fill(&self, bodies: &[&str]) -> Outcome {
        let channel = self.connection.create_channel().await.say("channel")?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.say("confirms")?;
        for body in bodies {
            let confirm = publish(&channel, "", &self.queue, body, BasicProperties::default()).await?;
            equal(confirm, Confirmation::Ack(None), "confirm")?;
        }
        channel.close(200, "done".into()).await.say("close")
    }

    async fn consume(&self, no_ack: bool) -> Outcome<Consumer> {
        consume(&self.channel, &self.queue, no_ack).await
    }
}

async fn consume(channel: &Channel, queue: &str, no_ack: bool) -> Outcome<Consumer> {
    let options = BasicConsumeOptions { no_ack, ..Default::default() };
    channel
        .basic_consume(queue.into(), fresh("tag").into(), options, FieldTable::default())
        .await
        .say("consume")
}

async fn publish(
    channel: &Channel,
    exchange: &str,
    key: &str,
    body: &str,
    properties: BasicProperties,
) -> Outcome<Confirmation> {
    let sent = channel
        .basic_publish(
            exchange.into(),
            key.into(),
            BasicPublishOptions::default(),
            body.as_bytes(),
            properties.with_delivery_mode(2),
        )
        .await
        .say("publish")?;
    soon("confirm", sent).await?.say("confirm")
}

async fn take(consumer: &mut Consumer, count: usize) -> Outcome<Vec<Delivery>> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let next = soon("delivery", consumer.next()).await?;
        taken.push(next.ok_or("the deliveries ended")?.say("delivery")?);
    }
    Ok(taken)
}

/// The same across a cut: the stream may tell of it, and goes on.
async fn take_again(channel: &Channel, consumer: &mut Consumer, count: usize) -> Outcome<Vec<Delivery>> {
    let mut taken = Vec::new();
    while taken.len() < count {
        match soon("delivery", consumer.next()).await?.ok_or("the deliveries ended")? {
            Ok(delivery) => taken.push(delivery),
            Err(why) => soon("recovery", channel.wait_for_recovery(why)).await?.say("recovery")?,
        }
    }
    Ok(taken)
}

async fn quiet(consumer: &mut Consumer) -> Outcome {
    match tokio::time::timeout(QUIET, consumer.next()).await {
        Err(_) => Ok(()),
        Ok(more) => Err(format!("one delivery too many: {more:?}")),
    }
}

/// Bodies; `*` marks a redelivered one.
fn words(deliveries: &[Delivery]) -> String {
    let shown = |it: &Delivery| {
        format!("{}{}", String::from_utf8_lossy(&it.data), if it.redelivered { "*" } else { "" })
    };
    deliveries.iter().map(shown).collect::<Vec<_>>().join(" ")
}

async fn confirm() -> Outcome {
    let it = Bench::new().await?;
    it.channel.confirm_select(ConfirmSelectOptions::default()).await.say("confirms")?;
    let mut sent = Vec::new();
    for _ in 0..500 {
        let properties = BasicProperties::default().with_delivery_mode(2);
        let publishing = it.channel.basic_publish(
            "".into(),
            it.queue.as_str().into(),
            BasicPublishOptions::default(),
            b"x",
            properties,
        );
        sent.push(publishing.await.say("publish")?);
    }
    for confirm in sent {
        equal(soon("confirm", confirm).await?.say("confirm")?, Confirmation::Ack(None), "confirm")?;
    }
    let passive = QueueDeclareOptions { passive: true, ..Default::default() };
    let state = it
        .channel
        .queue_declare(it.queue.as_str().into(), passive, FieldTable::default())
        .await
        .say("passive")?;
    equal(state.message_count(), 500, "messages")
}

async fn returned() -> Outcome {
    let it = Bench::new().await?;
    it.channel.confirm_select(ConfirmSelectOptions::default()).await.say("confirms")?;
    let mandatory = BasicPublishOptions { mandatory: true, ..Default::default() };
    let sent = it.channel.basic_publish(
        "".into(),
        fresh("absent").into(),
        mandatory,
        b"x",
        BasicProperties::default(),
    );
    let confirm = soon("confirm", sent.await.say("publish")?).await?.say("confirm")?;
    let is_ack = confirm.is_ack();
    let back = confirm.take_message().ok_or("no return")?;
    equal(
        (is_ack, back.reply_code, back.reply_text.to_string()),
        (true, 312, "NO_ROUTE".to_owned()),
        "return",
    )
}

async fn settle() -> Outcome {
    let it = Bench::new().await?;
    it.fill(&["1", "2", "3", "4", "5"]).await?;
    let mut consumer = it.consume(false).await?;
    let first = take(&mut consumer, 5).await?;
    first[0].acker.ack(BasicAckOptions::default()).await.say("ack")?;
    first[1].acker.reject(BasicRejectOptions { requeue: false }).await.say("reject")?;
    first[3].acker.nack(BasicNackOptions { multiple: true, requeue: true }).await.say("nack")?;
    equal(words(&take(&mut consumer, 2).await?), "3* 4*".to_owned(), "after nack of many")?;
    first[4].acker.reject(BasicRejectOptions { requeue: true }).await.say("reject")?;
    equal(words(&take(&mut consumer, 1).await?), "5*".to_owned(), "after reject")?;
    quiet(&mut consumer).await
}

async fn prefetch() -> Outcome {
    let it = Bench::new().await?;
    it.fill(&["1", "2", "3", "4"]).await?;
    it.channel.basic_qos(2, BasicQosOptions::default()).await.say("qos")?;
    let mut consumer = it.consume(false).await?;
    let first = take(&mut consumer, 2).await?;
    quiet(&mut consumer).await?;
    first[0].acker.ack(BasicAckOptions::default()).await.say("ack")?;
    equal(words(&take(&mut consumer, 1).await?), "3".to_owned(), "after one ack")?;
    quiet(&mut consumer).await
}

async fn cancel() -> Outcome {
    let it = Bench::new().await?;
    let mut first = it.consume(true).await?;
    it.channel.basic_cancel(first.tag(), BasicCancelOptions::default()).await.say("cancel")?;
    equal(soon("the end", first.next()).await?.is_none(), true, "the cancelled stream has ended")?;
    let mut second = it.consume(true).await?;
    let other = it.connection.create_channel().await.say("channel")?;
    other.queue_delete(it.queue.as_str().into(), QueueDeleteOptions::default()).await.say("delete")?;
    equal(soon("the end", second.next()).await?.is_none(), true, "the stream of the deleted queue has ended")
}

async fn get() -> Outcome {
    let it = Bench::new().await?;
    for number in 0..50 {
        publish(&it.channel, "", &it.queue, &number.to_string(), BasicProperties::default()).await?;
        let got = it
            .channel
            .basic_get(it.queue.as_str().into(), BasicGetOptions { no_ack: true })
            .await
            .say("get")?;
        equal(
            got.map(|got| String::from_utf8_lossy(&got.data).into_owned()),
            Some(number.to_string()),
            "message",
        )?;
    }
    let got =
        it.channel.basic_get(it.queue.as_str().into(), BasicGetOptions { no_ack: true }).await.say("get")?;
    equal(got.is_none(), true, "get-empty")
}

async fn properties() -> Outcome {
    let it = Bench::new().await?;
    let mut headers = FieldTable::default();
    headers.insert("text".into(), AMQPValue::LongString("grün".into()));
    headers.insert("long".into(), AMQPValue::LongLongInt(1 << 40));
    headers.insert("int".into(), AMQPValue::LongInt(-5));
    headers.insert("double".into(), AMQPValue::Double(2.5));
    headers.insert("true".into(), AMQPValue::Boolean(true));
    headers.insert("void".into(), AMQPValue::Void);
    headers.insert("table".into(), AMQPValue::FieldTable(FieldTable::default()));
    let sent = BasicProperties::default()
        .with_headers(headers)
        .with_content_type("text/plain".into())
        .with_content_encoding("utf-8".into())
        .with_priority(7)
        .with_correlation_id("c".into())
        .with_reply_to("r".into())
        .with_expiration("60000".into())
        .with_message_id("m".into())
        .with_timestamp(1_700_000_000)
        .with_type("t".into())
        .with_user_id("guest".into())
        .with_app_id("a".into())
        .with_delivery_mode(2);
    publish(&it.channel, "", &it.queue, "x", sent.clone()).await?;
    let mut consumer = it.consume(true).await?;
    equal(take(&mut consumer, 1).await?[0].properties.clone(), sent, "properties")
}

async fn route() -> Outcome {
    let it = Bench::new().await?;
    let mut consumer = it.consume(true).await?;
    let mut kind = FieldTable::default();
    kind.insert("kind".into(), AMQPValue::LongString("x".into()));
    let mut any = kind.clone();
    any.insert("x-match".into(), AMQPValue::LongString("any".into()));
    let rows = [
        (ExchangeKind::Direct, "key", "key", FieldTable::default()),
        (ExchangeKind::Topic, "a.#", "a.b.c", FieldTable::default()),
        (ExchangeKind::Fanout, "", "any", FieldTable::default()),
        (ExchangeKind::Headers, "", "", any),
    ];
    for (number, (kind_of, pattern, key, arguments)) in rows.into_iter().enumerate() {
        let exchange = fresh("exchange");
        let options = ExchangeDeclareOptions { auto_delete: true, ..Default::default() };
        it.channel
            .exchange_declare(exchange.as_str().into(), kind_of, options, FieldTable::default())
            .await
            .say("declare")?;
        let queue = it.queue.as_str();
        it.channel
            .queue_bind(
                queue.into(),
                exchange.as_str().into(),
                pattern.into(),
                QueueBindOptions::default(),
                arguments,
            )
            .await
            .say("bind")?;
        let body = number.to_string();
        publish(&it.channel, &exchange, key, &body, BasicProperties::default().with_headers(kind.clone()))
            .await?;
        equal(words(&take(&mut consumer, 1).await?), body, "message")?;
    }
    quiet(&mut consumer).await
}

async fn error() -> Outcome {
    let it = Bench::new().await?;
    let other = it.connection.create_channel().await.say("channel")?;
    let absent = fresh("absent");
    let passive = QueueDeclareOptions { passive: true, ..Default::default() };
    let refused = other.queue_declare(absent.as_str().into(), passive, FieldTable::default()).await;
    let why = refused.err().ok_or("not refused")?.to_string();
    let text = format!("NOT_FOUND - no queue '{absent}' in vhost '/'");
    equal(why.contains(&text), true, &why)?;
    it.fill(&["x"]).await
}

async fn login() -> Outcome {
    let wrong = options().uri.replace(":guest@", ":wrong@");
    let refused = soon("connect", Connection::connect(&wrong, ConnectionProperties::default())).await?;
    let why = refused.err().ok_or("not refused")?.to_string();
    equal(why.contains("ACCESS_REFUSED"), true, &why)
}

async fn rpc() -> Outcome {
    let it = Bench::new().await?;
    let asking = it.connection.create_channel().await.say("channel")?;
    let mut answers = consume(&asking, "amq.rabbitmq.reply-to", true).await?;
    let mut calls = it.consume(true).await?;
    for number in 0..20 {
        let properties = BasicProperties::default()
            .with_reply_to("amq.rabbitmq.reply-to".into())
            .with_correlation_id(number.to_string().into());
        publish(&asking, "", &it.queue, &format!("call {number}"), properties).await?;
        let call = take(&mut calls, 1).await?.remove(0);
        let to = call.properties.reply_to().clone().ok_or("no reply-to")?;
        let id = call.properties.correlation_id().clone().ok_or("no correlation id")?;
        let answer = String::from_utf8_lossy(&call.data).to_uppercase();
        publish(&it.channel, "", to.as_str(), &answer, BasicProperties::default().with_correlation_id(id))
            .await?;
        let seen = take(&mut answers, 1).await?.remove(0);
        let id = seen.properties.correlation_id().clone().ok_or("no correlation id")?;
        equal((id.to_string(), words(&[seen])), (number.to_string(), format!("CALL {number}")), "answer")?;
    }
    Ok(())
}

async fn transaction() -> Outcome {
    let it = Bench::new().await?;
    let channel = it.connection.create_channel().await.say("channel")?;
    channel.tx_select().await.say("select")?;
    publish(&channel, "", &it.queue, "kept", BasicProperties::default()).await?;
    channel.tx_commit().await.say("commit")?;
    publish(&channel, "", &it.queue, "dropped", BasicProperties::default()).await?;
    channel.tx_rollback().await.say("rollback")?;
    let mut consumer = it.consume(true).await?;
    equal(words(&take(&mut consumer, 1).await?), "kept".to_owned(), "delivered")?;
    quiet(&mut consumer).await
}

async fn recovery() -> Outcome {
    let other = Bench::new().await?;
    let durable = fresh("durable");
    let declare = QueueDeclareOptions { durable: true, ..Default::default() };
    other
        .channel
        .queue_declare(durable.as_str().into(), declare, FieldTable::default())
        .await
        .say("declare")?;
    for body in ["1", "2"] {
        publish(&other.channel, "", &durable, body, BasicProperties::default()).await?;
    }
    let recovering = ConnectionProperties::default().enable_auto_recover();
    let connection = soon("connect", Connection::connect(&relayed()?, recovering)).await?.say("connect")?;
    let channel = connection.create_channel().await.say("channel")?;
    let own = fresh("own");
    let exclusive = QueueDeclareOptions { exclusive: true, ..Default::default() };
    channel.queue_declare(own.as_str().into(), exclusive, FieldTable::default()).await.say("declare")?;
    let mut from_durable = consume(&channel, &durable, false).await?;
    let mut from_own = consume(&channel, &own, true).await?;
    equal(words(&take(&mut from_durable, 2).await?), "1 2".to_owned(), "before the cut")?;
    let began = Instant::now();
    for turn in 1..=3 {
        cut().await?;
        equal(
            words(&take_again(&channel, &mut from_durable, 2).await?),
            "1* 2*".to_owned(),
            &format!("after cut {turn}"),
        )?;
        // the consumers come back one after the other: until it has its own again, the queue is not there
        let body = turn.to_string();
        loop {
            publish(&other.channel, "", &own, &body, BasicProperties::default()).await?;
            match tokio::time::timeout(QUIET, take_again(&channel, &mut from_own, 1)).await {
                Ok(taken) => {
                    // what the turn before sent twice comes first
                    if words(&taken?) == body {
                        break;
                    }
                }
                Err(_) if began.elapsed() > WAIT => {
                    return Err("nothing came through the exclusive queue".to_owned());
                }
                Err(_) => {}
            }
        }
    }
    tokio::time::timeout(
        WAIT,
        other.channel.queue_delete(durable.as_str().into(), QueueDeleteOptions::default()),
    )
    .await
    .say("delete")?
    .say("delete")?;
    Ok(())
}
