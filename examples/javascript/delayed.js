// Sends messages that are delivered some time later.
'use strict';

const amqp = require('amqplib');

const url = process.env.AMQP_URL || 'amqp://guest:guest@localhost:5672/%2f';
const exchange = 'example-delays';
const queue = 'example-kitchen';

setTimeout(() => fail(new Error('no end after 30 seconds')), 30_000).unref();

async function main() {
  const connection = await amqp.connect(url);
  const channel = await connection.createChannel();
  // The argument is the type that the exchange has otherwise: it decides which queues a message goes to.
  await channel.assertExchange(exchange, 'x-delayed-message', {
    durable: true, arguments: { 'x-delayed-type': 'direct' },
  });
  await channel.assertQueue(queue, { durable: true });
  await channel.bindQueue(queue, exchange, 'kitchen');

  for (const [drink, delayMs] of [['coffee', 750], ['tea', 1500], ['water', 0]]) {
    channel.publish(exchange, 'kitchen', Buffer.from(drink), { headers: { 'x-delay': delayMs } });
    console.log(`sent: ${drink}, due in ${delayMs} ms`);
  }

  let received = 0;
  await new Promise((resolve, reject) => {
    channel.consume(queue, (drink) => {
      // Nothing comes when the consumer is cancelled, as by the deletion of its queue.
      if (!drink) return;
      console.log(`received: ${drink.content}`);
      received += 1;
      if (received === 3) resolve();
    }, { noAck: true }).catch(reject);
  });
  await channel.deleteQueue(queue);
  await channel.deleteExchange(exchange);
  await connection.close();
}

function fail(error) {
  console.error(error);
  process.exit(1);
}

main().catch(fail);
