//! Appends events to a stream and reads them from the third one on. Reading takes nothing away from a stream.

use futures_util::StreamExt;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use std::error::Error;
use std::time::Duration;

const STREAM: &str = "example-events";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tokio::time::timeout(Duration::from_secs(30), run()).await?
}

async fn run() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("stream".into()));
    arguments.insert("x-max-age".into(), AMQPValue::LongString("1D".into()));
    channel.queue_declare(STREAM.into(), QueueDeclareOptions::durable(), arguments).await?;

    for number in 0..5 {
        let event = format!("event {number}");
        let (options, about) = (BasicPublishOptions::default(), BasicProperties::default());
        let confirmation =
            channel.basic_publish("".into(), STREAM.into(), options, event.as_bytes(), about).await?.await?;
        if !confirmation.is_ack() {
            return Err("the broker could not take the event".into());
        }
        println!("appended: {event}");
    }

    // Offsets count from 0. An offset may also be "first", "last", "next", a timestamp, or an age such as "1h".
    // Readers of streams need a prefetch, and acknowledgements to be given more.
    channel.basic_qos(10, BasicQosOptions::default()).await?;
    let mut from = FieldTable::default();
    from.insert("x-stream-offset".into(), AMQPValue::LongLongInt(2));
    let options = BasicConsumeOptions::default();
    let mut events = channel.basic_consume(STREAM.into(), "".into(), options, from).await?;
    for _ in 0..3 {
        let event = events.next().await.ok_or("the consumer was cancelled")??;
        let headers = event.properties.headers().as_ref();
        let offset = match headers.and_then(|all| all.inner().get("x-stream-offset")) {
            Some(AMQPValue::LongLongInt(offset)) => *offset,
            _ => return Err("an event without an offset".into()),
        };
        println!("read at offset {offset}: {}", String::from_utf8_lossy(&event.data));
        event.ack(BasicAckOptions::default()).await?;
    }
    channel.queue_delete(STREAM.into(), QueueDeleteOptions::default()).await?;
    connection.close(200, "done".into()).await?;
    Ok(())
}
