// Sends a message to a queue and receives it.
'use strict';

const amqp = require('amqplib');

const url = process.env.AMQP_URL || 'amqp://guest:guest@localhost:5672/%2f';
const queue = 'example-hello';

setTimeout(() => fail(new Error('no end after 30 seconds')), 30_000).unref();

async function main() {
  const connection = await amqp.connect(url);
  const channel = await connection.createChannel();
  await channel.assertQueue(queue, { durable: true });

  // The default exchange takes a message to the queue that is named by the routing key.
  channel.sendToQueue(queue, Buffer.from('Hello, World!'));
  console.log('sent: Hello, World!');

  const message = await new Promise((resolve, reject) => {
    channel.consume(queue, resolve).catch(reject);
  });
  console.log(`received: ${message.content}`);
  // The broker keeps a message until it is acknowledged.
  channel.ack(message);

  await channel.deleteQueue(queue);
  await connection.close();
}

function fail(error) {
  console.error(error);
  process.exit(1);
}

main().catch(fail);
