//! Sends messages that are delivered some time later.

use futures_util::StreamExt;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection, ConnectionProperties, ExchangeKind};
use std::error::Error;
use std::time::Duration;

const EXCHANGE: &str = "example-delays";
const QUEUE: &str = "example-kitchen";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tokio::time::timeout(Duration::from_secs(30), run()).await?
}

async fn run() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    // The argument is the type that the exchange has otherwise: it decides which queues a message goes to.
    let mut arguments = FieldTable::default();
    arguments.insert("x-delayed-type".into(), AMQPValue::LongString("direct".into()));
    let kind = ExchangeKind::Custom("x-delayed-message".into());
    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    channel.exchange_declare(EXCHANGE.into(), kind, durable, arguments).await?;
    channel.queue_declare(QUEUE.into(), QueueDeclareOptions::durable(), FieldTable::default()).await?;
    let options = QueueBindOptions::default();
    channel
        .queue_bind(QUEUE.into(), EXCHANGE.into(), "kitchen".into(), options, FieldTable::default())
        .await?;

    for (drink, delay_ms) in [("coffee", 750), ("tea", 1500), ("water", 0)] {
        let mut headers = FieldTable::default();
        headers.insert("x-delay".into(), AMQPValue::LongInt(delay_ms));
        let about = BasicProperties::default().with_headers(headers);
        let options = BasicPublishOptions::default();
        channel.basic_publish(EXCHANGE.into(), "kitchen".into(), options, drink.as_bytes(), about).await?;
        println!("sent: {drink}, due in {delay_ms} ms");
    }

    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let mut drinks = channel.basic_consume(QUEUE.into(), "".into(), options, FieldTable::default()).await?;
    for _ in 0..3 {
        let drink = drinks.next().await.ok_or("the consumer was cancelled")??;
        println!("received: {}", String::from_utf8_lossy(&drink.data));
    }
    channel.queue_delete(QUEUE.into(), QueueDeleteOptions::default()).await?;
    channel.exchange_delete(EXCHANGE.into(), ExchangeDeleteOptions::default()).await?;
    connection.close(200, "done".into()).await?;
    Ok(())
}
