//! fe2o3-amqp: 1.0 as Rust applications use it. Queues are made over 0-9-1 with lapin.

use crate::{Case, Outcome, QUIET, Say, cut, equal, fresh, options, relayed, soon};
use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::link::delivery::Delivery;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::definitions;
use fe2o3_amqp::types::messaging::{Header, Message, MessageId, Modified, Outcome as State, Properties};
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::FieldTable;

pub fn cases() -> Vec<Case> {
    macro_rules! case {
        ($name:literal, $behaviour:literal, $answer:literal, $act:ident) => {
            Case { name: $name, behaviour: $behaviour, answer: $answer, act: || Box::pin($act()) }
        };
    }
    vec![
        case!("send.outcomes", "100 durable messages, an unroutable one", "accepted; released", send),
        case!(
            "receive.outcomes",
            "accept, reject, release, modify",
            "released and modified come again; only failures count",
            receive
        ),
        case!("receive.credit", "credit of 2, then of 1", "so many come", credit),
        case!("receive.close", "a receiver closed with unsettled messages", "they come again", close),
        case!("send.large", "a body of 2 MiB, both ways", "the same bytes", large),
        case!("message.properties", "header and properties", "equal", message),
        case!(
            "error.not-found",
            "a receiver for an absent queue",
            "`amqp:not-found`; the connection lives",
            not_found
        ),
        case!("error.login", "a wrong password", "refused by SASL", login),
        case!(
            "connection.cut",
            "three cuts with unsettled messages, connected anew each time",
            "they come again",
            reconnect
        ),
    ]
}

async fn connect(uri: &str) -> Outcome<ConnectionHandle<()>> {
    soon("connect", Connection::open(fresh("container"), uri)).await?.say("connect")
}

struct Bench {
    admin: lapin::Connection,
    queue: String,
    connection: ConnectionHandle<()>,
    session: SessionHandle<()>,
}

impl Bench {
    async fn new() -> Outcome<Bench> {
        let properties = lapin::ConnectionProperties::default();
        let admin =
            soon("connect", lapin::Connection::connect(&options().uri, properties)).await?.say("connect")?;
        let queue = fresh("queue");
        let declare = QueueDeclareOptions { durable: true, ..Default::default() };
        let channel = admin.create_channel().await.say("channel")?;
        channel.queue_declare(queue.as_str().into(), declare, FieldTable::default()).await.say("declare")?;
        let mut connection = connect(&options().uri).await?;
        let session = soon("begin", Session::begin(&mut connection)).await?.say("begin")?;
        Ok(Bench { admin, queue, connection, session })
    }

    async fn end(mut self) -> Outcome {
        soon("end", self.session.end()).await?.say("end")?;
        soon("close", self.connection.close()).await?.say("close")?;
        let channel = self.admin.create_channel().await.say("channel")?;
        channel
            .queue_delete(self.queue.as_str().into(), QueueDeleteOptions::default())
            .await
            .say("delete")?;
        Ok(())
    }

    fn address(&self) -> String {
        format!("/queues/{}", self.queue)
    }

    async fn sender(&mut self, address: &str) -> Outcome<Sender> {
        soon("attach", Sender::attach(&mut self.session, fresh("sender"), address)).await?.say("attach")
    }

    async fn receiver(&mut self, credit: u32) -> Outcome<Receiver> {
        let address = self.address();
        receiver(&mut self.session, &address, credit).await
    }

    async fn fill(&mut self, bodies: &[&str]) -> Outcome {
        let address = self.address();
        let mut sender = self.sender(&address).await?;
        for body in bodies {
            let state = soon("outcome", sender.send(durable(body))).await?.say("send")?;
            equal(matches!(state, State::Accepted(_)), true, "accepted")?;
        }
        soon("close", sender.close()).await?.say("close")
    }
}

fn durable(body: &str) -> Message<fe2o3_amqp::types::messaging::AmqpValue<String>> {
    Message::builder().header(Header { durable: true, ..Default::default() }).value(body.to_owned()).build()
}

/// A receiver whose credit is what the case grants.
async fn receiver(session: &mut SessionHandle<()>, address: &str, credit: u32) -> Outcome<Receiver> {
    let builder = Receiver::builder()
        .name(fresh("receiver"))
        .source(address)
        .credit_mode(fe2o3_amqp::link::receiver::CreditMode::Manual);
    let mut receiver = soon("attach", builder.attach(session)).await?.say("attach")?;
    receiver.set_credit(credit).await.say("credit")?;
    Ok(receiver)
}

async fn take(receiver: &mut Receiver, count: usize) -> Outcome<Vec<Delivery<String>>> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.push(soon("message", receiver.recv::<String>()).await?.say("message")?);
    }
    Ok(taken)
}

async fn quiet(receiver: &mut Receiver) -> Outcome {
    match tokio::time::timeout(QUIET, receiver.recv::<String>()).await {
        Err(_) => Ok(()),
        Ok(more) => Err(format!("one message too many: {:?}", more.map(|it| it.body().clone()))),
    }
}

/// Bodies; `*` and the count mark one that failed before.
fn words(deliveries: &[Delivery<String>]) -> String {
    let shown = |it: &Delivery<String>| {
        let count = it.message().header.as_ref().map_or(0, |header| header.delivery_count);
        if count > 0 { format!("{}*{count}", it.body()) } else { it.body().clone() }
    };
    deliveries.iter().map(shown).collect::<Vec<_>>().join(" ")
}

async fn send() -> Outcome {
    let mut it = Bench::new().await?;
    let bodies: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    it.fill(&bodies.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let mut receiver = it.receiver(100).await?;
    equal(words(&take(&mut receiver, 100).await?), bodies.join(" "), "bodies")?;
    let mut nowhere = it.sender(&format!("/exchanges/amq.direct/{}", fresh("key"))).await?;
    let state = soon("outcome", nowhere.send(durable("x"))).await?.say("send")?;
    equal(matches!(state, State::Released(_)), true, "released")?;
    it.end().await
}

async fn receive() -> Outcome {
    let mut it = Bench::new().await?;
    it.fill(&["1", "2", "3", "4", "5"]).await?;
    let mut receiver = it.receiver(10).await?;
    let first = take(&mut receiver, 5).await?;
    receiver.accept(&first[0]).await.say("accept")?;
    receiver
        .reject(&first[1], definitions::Error::new(definitions::AmqpError::NotAllowed, None, None))
        .await
        .say("reject")?;
    receiver.release(&first[2]).await.say("release")?;
    equal(words(&take(&mut receiver, 1).await?), "3".to_owned(), "released")?;
    for (delivery, failed, expected) in [(&first[3], true, "4*1"), (&first[4], false, "5")] {
        let modified =
            Modified { delivery_failed: Some(failed), undeliverable_here: None, message_annotations: None };
        receiver.modify(delivery, modified).await.say("modify")?;
        equal(words(&take(&mut receiver, 1).await?), expected.to_owned(), "modified")?;
    }
    quiet(&mut receiver).await?;
    it.end().await
}

async fn credit() -> Outcome {
    let mut it = Bench::new().await?;
    it.fill(&["1", "2", "3", "4"]).await?;
    let mut receiver = it.receiver(2).await?;
    equal(words(&take(&mut receiver, 2).await?), "1 2".to_owned(), "with 2")?;
    quiet(&mut receiver).await?;
    receiver.set_credit(1).await.say("credit")?;
    equal(words(&take(&mut receiver, 1).await?), "3".to_owned(), "with 1")?;
    quiet(&mut receiver).await?;
    it.end().await
}

async fn close() -> Outcome {
    let mut it = Bench::new().await?;
    it.fill(&["1", "2", "3"]).await?;
    let mut first = it.receiver(2).await?;
    take(&mut first, 2).await?;
    soon("close", first.close()).await?.say("close")?;
    let mut second = it.receiver(10).await?;
    let bodies: Vec<String> = take(&mut second, 3).await?.iter().map(|it| it.body().clone()).collect();
    equal(bodies.join(" "), "1 2 3".to_owned(), "again")?;
    it.end().await
}

async fn large() -> Outcome {
    let mut it = Bench::new().await?;
    let body: String = (0..2 << 20).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    it.fill(&[&body]).await?;
    let mut receiver = it.receiver(1).await?;
    equal(take(&mut receiver, 1).await?[0].body() == &body, true, "equal")?;
    it.end().await
}

async fn message() -> Outcome {
    let mut it = Bench::new().await?;
    let properties = Properties {
        message_id: Some(MessageId::Ulong(42)),
        correlation_id: Some(MessageId::String("c".to_owned())),
        to: Some("/to".to_owned()),
        subject: Some("s".to_owned()),
        reply_to: Some("/r".to_owned()),
        content_type: Some("text/plain".into()),
        group_id: Some("g".to_owned()),
        group_sequence: Some(3),
        ..Default::default()
    };
    let header = Header { durable: true, priority: 7.into(), ..Default::default() };
    let sent = Message::builder().header(header).properties(properties.clone()).value("x".to_owned()).build();
    let address = it.address();
    let mut sender = it.sender(&address).await?;
    soon("outcome", sender.send(sent)).await?.say("send")?;
    let mut receiver = it.receiver(1).await?;
    let seen = take(&mut receiver, 1).await?.remove(0);
    equal(seen.message().properties.clone(), Some(properties), "properties")?;
    let header = seen.message().header.clone().ok_or("no header")?;
    equal((header.durable, header.priority), (true, 7.into()), "header")?;
    it.end().await
}

async fn not_found() -> Outcome {
    let mut it = Bench::new().await?;
    let mut session = soon("begin", Session::begin(&mut it.connection)).await?.say("begin")?;
    let refused = receiver(&mut session, &format!("/queues/{}", fresh("absent")), 1)
        .await
        .err()
        .ok_or("not refused")?;
    equal(refused.contains("NotFound"), true, &refused)?;
    it.fill(&["x"]).await?;
    it.end().await
}

async fn login() -> Outcome {
    let wrong = options().uri.replace(":guest@", ":wrong@");
    let refused = connect(&wrong).await.err().ok_or("not refused")?;
    equal(refused.contains("Sasl") || refused.contains("sasl"), true, &refused)
}

async fn reconnect() -> Outcome {
    let mut it = Bench::new().await?;
    it.fill(&["1", "2", "3"]).await?;
    let address = it.address();
    for turn in 1..=3 {
        let mut connection = connect(&relayed()?).await?;
        let mut session = soon("begin", Session::begin(&mut connection)).await?.say("begin")?;
        let mut receiver = receiver(&mut session, &address, 10).await?;
        let bodies: Vec<String> = take(&mut receiver, 3).await?.iter().map(|it| it.body().clone()).collect();
        equal(bodies.join(" "), "1 2 3".to_owned(), &format!("turn {turn}"))?;
        cut().await?;
        equal(soon("the cut", connection.on_close()).await?.is_err(), true, "the client hears of the cut")?;
    }
    it.end().await
}
