// Asks a server for the squares of numbers; answers come back by direct reply-to, without a queue for them.
'use strict';

const amqp = require('amqplib');
const { randomUUID } = require('node:crypto');

const url = process.env.AMQP_URL || 'amqp://guest:guest@localhost:5672/%2f';
const queue = 'example-squares';
const replies = 'amq.rabbitmq.reply-to';

setTimeout(() => fail(new Error('no end after 30 seconds')), 30_000).unref();

async function main() {
  const connection = await amqp.connect(url);

  // The server, which would be another program.
  const server = await connection.createChannel();
  await server.assertQueue(queue, { durable: true });
  await server.consume(queue, (question) => {
    // Nothing comes when the consumer is cancelled, as by the deletion of its queue.
    if (!question) return;
    const { replyTo, correlationId } = question.properties;
    server.sendToQueue(replyTo, Buffer.from(String(Number(question.content) ** 2)), { correlationId });
    server.ack(question);
  });

  // The client. It consumes from the pseudo-queue first, without acknowledgements, and asks on the same channel.
  const client = await connection.createChannel();
  const waiting = new Map();
  await client.consume(replies, (answer) => waiting.get(answer.properties.correlationId)(answer.content), { noAck: true });

  function ask(number) {
    // The id tells which answer belongs to which question.
    const correlationId = randomUUID();
    return new Promise((resolve) => {
      waiting.set(correlationId, resolve);
      client.sendToQueue(queue, Buffer.from(String(number)), { replyTo: replies, correlationId });
    });
  }

  for (const number of [3, 12]) {
    console.log(`asked: the square of ${number}`);
    console.log(`answered: ${await ask(number)}`);
  }
  await client.deleteQueue(queue);
  await connection.close();
}

function fail(error) {
  console.error(error);
  process.exit(1);
}

main().catch(fail);
