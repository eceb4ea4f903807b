//! Hands tasks to a worker so that no task is lost when the broker, the publisher or the worker ends.

use futures_util::StreamExt;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use std::error::Error;
use std::time::Duration;

const QUEUE: &str = "example-tasks";
const PERSISTENT: u8 = 2;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tokio::time::timeout(Duration::from_secs(30), run()).await?
}

async fn run() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    // Durable: queue and persistent messages are there after a restart of the broker.
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    channel.queue_declare(QUEUE.into(), QueueDeclareOptions::durable(), arguments).await?;

    // Publisher confirms: the wait is over once the task is stored.
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    for number in 1..=3 {
        let task = format!("task {number}");
        let about = BasicProperties::default().with_delivery_mode(PERSISTENT);
        let options = BasicPublishOptions::default();
        let confirmation =
            channel.basic_publish("".into(), QUEUE.into(), options, task.as_bytes(), about).await?.await?;
        if !confirmation.is_ack() {
            return Err("the broker could not take the task".into());
        }
        println!("confirmed: {task}");
    }

    // Prefetch: a worker has one task at a time, so several workers share the work evenly.
    channel.basic_qos(1, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut tasks = channel.basic_consume(QUEUE.into(), "".into(), options, FieldTable::default()).await?;
    for _ in 0..3 {
        let task = tasks.next().await.ok_or("the consumer was cancelled")??;
        println!("done: {}", String::from_utf8_lossy(&task.data));
        // After the work, not before: an unacknowledged task goes to another worker when this one ends.
        task.ack(BasicAckOptions::default()).await?;
    }

    let passive = QueueDeclareOptions { passive: true, ..Default::default() };
    let state = channel.queue_declare(QUEUE.into(), passive, FieldTable::default()).await?;
    println!("left in the queue: {}", state.message_count());
    channel.queue_delete(QUEUE.into(), QueueDeleteOptions::default()).await?;
    connection.close(200, "done".into()).await?;
    Ok(())
}
