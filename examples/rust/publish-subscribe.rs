//! Publishes news to every subscriber through a fanout exchange.

use futures_util::StreamExt;
use lapin::options::*;
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer, ExchangeKind};
use std::error::Error;
use std::time::Duration;

const EXCHANGE: &str = "example-news";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tokio::time::timeout(Duration::from_secs(30), run()).await?
}

async fn run() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    channel.exchange_declare(EXCHANGE.into(), ExchangeKind::Fanout, durable, FieldTable::default()).await?;

    let mut first = subscribe(&channel).await?;
    let mut second = subscribe(&channel).await?;

    for news in ["rain on Saturday", "sun on Sunday"] {
        let (options, about) = (BasicPublishOptions::default(), BasicProperties::default());
        channel.basic_publish(EXCHANGE.into(), "".into(), options, news.as_bytes(), about).await?;
        println!("published: {news}");
    }

    for (name, subscriber) in [("first", &mut first), ("second", &mut second)] {
        for _ in 0..2 {
            let news = subscriber.next().await.ok_or("the consumer was cancelled")??;
            println!("{name} subscriber: {}", String::from_utf8_lossy(&news.data));
        }
    }
    channel.exchange_delete(EXCHANGE.into(), ExchangeDeleteOptions::default()).await?;
    connection.close(200, "done".into()).await?;
    Ok(())
}

/// A queue for each subscriber. An exclusive queue goes with its connection; the broker makes up its name.
async fn subscribe(channel: &Channel) -> Result<Consumer, Box<dyn Error>> {
    let queue =
        channel.queue_declare("".into(), QueueDeclareOptions::exclusive(), FieldTable::default()).await?;
    let options = QueueBindOptions::default();
    channel
        .queue_bind(queue.name().clone(), EXCHANGE.into(), "".into(), options, FieldTable::default())
        .await?;
    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    Ok(channel.basic_consume(queue.name().clone(), "".into(), options, FieldTable::default()).await?)
}
