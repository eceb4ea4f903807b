//! Sends a message to a queue and receives it.

use futures_util::StreamExt;
use lapin::options::*;
use lapin::types::FieldTable;
use lapin::{BasicProperties, Connection, ConnectionProperties};
use std::error::Error;
use std::time::Duration;

const QUEUE: &str = "example-hello";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tokio::time::timeout(Duration::from_secs(30), run()).await?
}

async fn run() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.queue_declare(QUEUE.into(), QueueDeclareOptions::durable(), FieldTable::default()).await?;

    // The default exchange has no name. It takes a message to the queue that is named by the routing key.
    let (options, about) = (BasicPublishOptions::default(), BasicProperties::default());
    channel.basic_publish("".into(), QUEUE.into(), options, b"Hello, World!", about).await?;
    println!("sent: Hello, World!");

    let options = BasicConsumeOptions::default();
    let mut messages = channel.basic_consume(QUEUE.into(), "".into(), options, FieldTable::default()).await?;
    let message = messages.next().await.ok_or("the consumer was cancelled")??;
    println!("received: {}", String::from_utf8_lossy(&message.data));
    // The broker keeps a message until it is acknowledged.
    message.ack(BasicAckOptions::default()).await?;

    channel.queue_delete(QUEUE.into(), QueueDeleteOptions::default()).await?;
    connection.close(200, "done".into()).await?;
    Ok(())
}
