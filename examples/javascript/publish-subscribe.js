// Publishes news to every subscriber through a fanout exchange.
'use strict';

const amqp = require('amqplib');

const url = process.env.AMQP_URL || 'amqp://guest:guest@localhost:5672/%2f';
const exchange = 'example-news';

setTimeout(() => fail(new Error('no end after 30 seconds')), 30_000).unref();

async function main() {
  const connection = await amqp.connect(url);
  const channel = await connection.createChannel();
  await channel.assertExchange(exchange, 'fanout', { durable: true });

  const first = await subscribe(channel);
  const second = await subscribe(channel);

  for (const news of ['rain on Saturday', 'sun on Sunday']) {
    channel.publish(exchange, '', Buffer.from(news));
    console.log(`published: ${news}`);
  }

  for (const news of await take(channel, first, 2)) console.log(`first subscriber: ${news.content}`);
  for (const news of await take(channel, second, 2)) console.log(`second subscriber: ${news.content}`);
  await channel.deleteExchange(exchange);
  await connection.close();
}

/** A queue for each subscriber. An exclusive queue goes with its connection; the broker makes up its name. */
async function subscribe(channel) {
  const { queue } = await channel.assertQueue('', { durable: false, exclusive: true });
  await channel.bindQueue(queue, exchange, '');
  return queue;
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
