//! Sends messages to queues by patterns of their routing keys.

use futures_util::StreamExt;
use lapin::options::*;
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer, ExchangeKind};
use std::error::Error;
use std::time::Duration;

const EXCHANGE: &str = "example-topics";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tokio::time::timeout(Duration::from_secs(30), run()).await?
}

async fn run() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    channel.exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, durable, FieldTable::default()).await?;

    // A routing key is words with dots between them. `*` stands for one word, `#` for any number of words.
    let mut orders = subscribe(&channel, "orders.#").await?;
    let mut europe = subscribe(&channel, "*.eu.*").await?;

    for key in ["orders.eu.paid", "orders.us.cancelled", "invoices.eu.sent"] {
        let (options, about) = (BasicPublishOptions::default(), BasicProperties::default());
        channel.basic_publish(EXCHANGE.into(), key.into(), options, b"", about).await?;
        println!("published: {key}");
    }

    for (pattern, subscriber) in [("orders.#", &mut orders), ("*.eu.*", &mut europe)] {
        for _ in 0..2 {
            let message = subscriber.next().await.ok_or("the consumer was cancelled")??;
            println!("received by {pattern}: {}", message.routing_key);
        }
    }
    channel.exchange_delete(EXCHANGE.into(), ExchangeDeleteOptions::default()).await?;
    connection.close(200, "done".into()).await?;
    Ok(())
}

async fn subscribe(channel: &Channel, pattern: &str) -> Result<Consumer, Box<dyn Error>> {
    let queue =
        channel.queue_declare("".into(), QueueDeclareOptions::exclusive(), FieldTable::default()).await?;
    let options = QueueBindOptions::default();
    channel
        .queue_bind(queue.name().clone(), EXCHANGE.into(), pattern.into(), options, FieldTable::default())
        .await?;
    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    Ok(channel.basic_consume(queue.name().clone(), "".into(), options, FieldTable::default()).await?)
}
