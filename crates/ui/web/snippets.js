// @ts-check
/** A message published and read again, in the languages that clients of AMQP 0-9-1 are written in most. */

/** @typedef {{ key: string, name: string, install: string, code: (address: string) => string }} Snippet */

/** @type {Snippet[]} `address` is of AMQP and percent-encoded: it has no quotes */
export const SNIPPETS = [
  {
    key: 'python', name: 'Python', install: 'pip install pika',
    code: (address) => `import pika

connection = pika.BlockingConnection(pika.URLParameters("${address}"))
channel = connection.channel()
channel.confirm_delivery()
channel.queue_declare("hello", durable=True)
channel.basic_publish("", "hello", b"Hello!", pika.BasicProperties(delivery_mode=2))

method, properties, body = next(channel.consume("hello"))
print(body.decode())
channel.basic_ack(method.delivery_tag)
connection.close()
`,
  },
  {
    key: 'java', name: 'Java', install: 'com.rabbitmq:amqp-client:5.37.0 (Maven)',
    code: (address) => `import com.rabbitmq.client.*;

public class Hello {
  public static void main(String[] arguments) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri("${address}");
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      channel.confirmSelect();
      channel.queueDeclare("hello", true, false, false, null);
      channel.basicPublish("", "hello", MessageProperties.PERSISTENT_BASIC, "Hello!".getBytes());
      channel.waitForConfirmsOrDie();

      GetResponse got = channel.basicGet("hello", false);
      System.out.println(new String(got.getBody()));
      channel.basicAck(got.getEnvelope().getDeliveryTag(), false);
    }
  }
}
`,
  },
  {
    key: 'javascript', name: 'JavaScript', install: 'npm install amqplib',
    code: (address) => `const amqp = require('amqplib');

async function main() {
  const connection = await amqp.connect('${address}');
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue('hello', { durable: true });
  channel.sendToQueue('hello', Buffer.from('Hello!'), { persistent: true });
  await channel.waitForConfirms();

  const message = await channel.get('hello');
  console.log(message.content.toString());
  channel.ack(message);
  await channel.close();
  await connection.close();
}

main();
`,
  },
  {
    key: 'go', name: 'Go', install: 'go get github.com/rabbitmq/amqp091-go',
    code: (address) => `package main

import (
	"context"
	"fmt"
	"log"

	amqp "github.com/rabbitmq/amqp091-go"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	connection, err := amqp.Dial("${address}")
	must(err)
	defer connection.Close()
	channel, err := connection.Channel()
	must(err)
	must(channel.Confirm(false))
	_, err = channel.QueueDeclare("hello", true, false, false, false, nil)
	must(err)
	message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("Hello!")}
	confirm, err := channel.PublishWithDeferredConfirm("", "hello", false, false, message)
	must(err)
	_, err = confirm.WaitContext(context.Background())
	must(err)

	got, _, err := channel.Get("hello", false)
	must(err)
	fmt.Println(string(got.Body))
	must(got.Ack(false))
}
`,
  },
  {
    key: 'csharp', name: 'C#', install: 'dotnet add package RabbitMQ.Client',
    code: (address) => `using System.Text;
using RabbitMQ.Client;

var factory = new ConnectionFactory { Uri = new Uri("${address}") };
await using var connection = await factory.CreateConnectionAsync();
await using var channel = await connection.CreateChannelAsync(new CreateChannelOptions(
    publisherConfirmationsEnabled: true, publisherConfirmationTrackingEnabled: true));
await channel.QueueDeclareAsync("hello", durable: true, exclusive: false, autoDelete: false);
await channel.BasicPublishAsync("", "hello", false,
    new BasicProperties { Persistent = true }, Encoding.UTF8.GetBytes("Hello!"));

var got = await channel.BasicGetAsync("hello", autoAck: false);
Console.WriteLine(Encoding.UTF8.GetString(got!.Body.Span));
await channel.BasicAckAsync(got.DeliveryTag, multiple: false);
`,
  },
  {
    key: 'rust', name: 'Rust', install: 'cargo add lapin futures-util && cargo add tokio --features macros,rt-multi-thread',
    code: (address) => `use futures_util::StreamExt;
use lapin::options::*;
use lapin::types::FieldTable;
use lapin::{BasicProperties, Connection, ConnectionProperties};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let connection = Connection::connect("${address}", ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let table = FieldTable::default;
    channel.queue_declare("hello".into(), QueueDeclareOptions::durable(), table()).await?;
    let properties = BasicProperties::default().with_delivery_mode(2);
    let options = BasicPublishOptions::default();
    channel.basic_publish("".into(), "hello".into(), options, b"Hello!", properties).await?.await?;

    let options = BasicConsumeOptions::default();
    let mut messages = channel.basic_consume("hello".into(), "".into(), options, table()).await?;
    let message = messages.next().await.ok_or("the consumer was cancelled")??;
    println!("{}", String::from_utf8_lossy(&message.data));
    message.ack(BasicAckOptions::default()).await?;
    connection.close(200, "done".into()).await?;
    Ok(())
}
`,
  },
];
