// Sends messages to queues by patterns of their routing keys.
'use strict';

const amqp = require('amqplib');

const url = process.env.AMQP_URL || 'amqp://guest:guest@localhost:5672/%2f';
const exchange = 'example-topics';

setTimeout(() => fail(new Error('no end after 30 seconds')), 30_000).unref();

async function main() {
  const connection = await amqp.connect(url);
  const channel = await connection.createChannel();
  await channel.assertExchange(exchange, 'topic', { durable: true });

  // A routing key is words with dots between them. `*` stands for one word, `#` for any number of words.
  const patterns = ['orders.#', '*.eu.*'];
  const queues = [];
  for (const pattern of patterns) {
    const { queue } = await channel.assertQueue('', { durable: false, exclusive: true });
    await channel.bindQueue(queue, exchange, pattern);
    queues.push(queue);
  }

  for (const key of ['orders.eu.paid', 'orders.us.cancelled', 'invoices.eu.sent']) {
    channel.publish(exchange, key, Buffer.alloc(0));
    console.log(`published: ${key}`);
  }

  for (const [at, pattern] of patterns.entries()) {
    for (const message of await take(channel, queues[at], 2)) {
      console.log(`received by ${pattern}: ${message.fields.routingKey}`);
    }
  }
  await channel.deleteExchange(exchange);
  await connection.close();
}

/** The next messages of a queue. */
function take(channel, queue, count) {
  const taken = [];
  return new Promise((resolve, reject) => {
    const note = (message) => { if (taken.push(message) === count) resolve(taken); };
    channel.consume(queue, note, { noAck: true }).catch(reject);
  });
}

function fail(error) {
  console.error(error);
  process.exit(1);
}

main().catch(fail);
