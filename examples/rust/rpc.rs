//! Asks a server for the squares of numbers; answers come back by direct reply-to, without a queue for them.

use futures_util::StreamExt;
use lapin::options::*;
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};
use std::error::Error;
use std::time::Duration;

const QUEUE: &str = "example-squares";
const REPLIES: &str = "amq.rabbitmq.reply-to";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tokio::time::timeout(Duration::from_secs(30), run()).await?
}

async fn run() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;

    // The server, which would be another program.
    let channel = connection.create_channel().await?;
    channel.queue_declare(QUEUE.into(), QueueDeclareOptions::durable(), FieldTable::default()).await?;
    let options = BasicConsumeOptions::default();
    let questions = channel.basic_consume(QUEUE.into(), "".into(), options, FieldTable::default()).await?;
    let server = serve(&channel, questions);

    let client = connection.create_channel().await?;
    tokio::select! {
        asked = ask(&client) => asked?,
        served = server => served?,
    }
    client.queue_delete(QUEUE.into(), QueueDeleteOptions::default()).await?;
    connection.close(200, "done".into()).await?;
    Ok(())
}

/// The client. It consumes from the pseudo-queue first, without acknowledgements, and asks on the same channel.
async fn ask(channel: &Channel) -> Result<(), Box<dyn Error>> {
    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let mut answers =
        channel.basic_consume(REPLIES.into(), "".into(), options, FieldTable::default()).await?;
    for (id, number) in [("first", 3), ("second", 12)] {
        println!("asked: the square of {number}");
        // The id tells which answer belongs to which question.
        let about = BasicProperties::default().with_reply_to(REPLIES.into()).with_correlation_id(id.into());
        let question = number.to_string();
        let options = BasicPublishOptions::default();
        channel.basic_publish("".into(), QUEUE.into(), options, question.as_bytes(), about).await?;
        let answer = answers.next().await.ok_or("the consumer was cancelled")??;
        if answer.properties.correlation_id().as_ref().is_none_or(|it| it.as_str() != id) {
            return Err("an answer to another question".into());
        }
        println!("answered: {}", String::from_utf8_lossy(&answer.data));
    }
    Ok(())
}

async fn serve(channel: &Channel, mut questions: Consumer) -> Result<(), Box<dyn Error>> {
    while let Some(question) = questions.next().await {
        let question = question?;
        let number: u64 = std::str::from_utf8(&question.data)?.parse()?;
        let reply_to = question.properties.reply_to().clone().ok_or("a question without reply-to")?;
        let id = question.properties.correlation_id().clone().unwrap_or_default();
        let about = BasicProperties::default().with_correlation_id(id);
        let answer = (number * number).to_string();
        let options = BasicPublishOptions::default();
        channel.basic_publish("".into(), reply_to, options, answer.as_bytes(), about).await?;
        question.ack(BasicAckOptions::default()).await?;
    }
    Err("the consumer was cancelled".into())
}
