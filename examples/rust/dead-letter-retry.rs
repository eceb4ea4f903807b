//! Tries an order three times, with a pause between the attempts, and then puts it aside.

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use std::error::Error;
use std::time::Duration;

const ORDERS: &str = "example-orders";
const WAITING: &str = "example-orders-waiting";
const FAILED: &str = "example-orders-failed";
const ATTEMPTS_MAX: i64 = 3;
const PERSISTENT: u8 = 2;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tokio::time::timeout(Duration::from_secs(30), run()).await?
}

async fn run() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    // A rejected order goes to the queue of those that wait ...
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
    arguments.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString(WAITING.into()));
    channel.queue_declare(ORDERS.into(), QueueDeclareOptions::durable(), arguments).await?;
    // ... where nobody consumes. It expires after 300 ms and goes back.
    let mut arguments = FieldTable::default();
    arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(300));
    arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
    arguments.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString(ORDERS.into()));
    channel.queue_declare(WAITING.into(), QueueDeclareOptions::durable(), arguments).await?;
    channel.queue_declare(FAILED.into(), QueueDeclareOptions::durable(), FieldTable::default()).await?;

    publish(&channel, ORDERS, b"order 7").await?;
    println!("sent: order 7");

    let options = BasicConsumeOptions::default();
    let mut orders = channel.basic_consume(ORDERS.into(), "".into(), options, FieldTable::default()).await?;
    loop {
        let order = orders.next().await.ok_or("the consumer was cancelled")??;
        let attempt = attempts_before(&order) + 1;
        if attempt < ATTEMPTS_MAX {
            println!("attempt {attempt} failed: {}", String::from_utf8_lossy(&order.data));
            order.reject(BasicRejectOptions { requeue: false }).await?;
            continue;
        }
        println!("attempt {attempt} failed, given up: {}", String::from_utf8_lossy(&order.data));
        // The copy is confirmed before the original is acknowledged, so the order is always in one of the queues.
        publish(&channel, FAILED, &order.data).await?;
        order.ack(BasicAckOptions::default()).await?;
        break;
    }

    let failed = channel.basic_get(FAILED.into(), BasicGetOptions { no_ack: true }).await?;
    let failed = failed.ok_or("the order is not among the failed ones")?;
    println!("put aside: {}", String::from_utf8_lossy(&failed.data));
    for queue in [ORDERS, WAITING, FAILED] {
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?;
    }
    connection.close(200, "done".into()).await?;
    Ok(())
}

async fn publish(channel: &Channel, queue: &str, body: &[u8]) -> Result<(), Box<dyn Error>> {
    let about = BasicProperties::default().with_delivery_mode(PERSISTENT);
    let options = BasicPublishOptions::default();
    let confirmation = channel.basic_publish("".into(), queue.into(), options, body, about).await?.await?;
    if confirmation.is_ack() { Ok(()) } else { Err("the broker could not take the order".into()) }
}

/// The broker counts in the header x-death how often a message left each queue.
fn attempts_before(order: &Delivery) -> i64 {
    let headers = order.properties.headers().as_ref();
    let Some(AMQPValue::FieldArray(deaths)) = headers.and_then(|all| all.inner().get("x-death")) else {
        return 0;
    };
    let of_orders = |death: &AMQPValue| {
        let AMQPValue::FieldTable(entry) = death else { return 0 };
        match (entry.inner().get("queue"), entry.inner().get("count")) {
            (Some(AMQPValue::LongString(queue)), Some(AMQPValue::LongLongInt(count)))
                if queue.as_bytes() == ORDERS.as_bytes() =>
            {
                *count
            }
            _ => 0,
        }
    };
    deaths.as_slice().iter().map(of_orders).sum()
}
