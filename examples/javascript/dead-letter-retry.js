// Tries an order three times, with a pause between the attempts, and then puts it aside.
'use strict';

const amqp = require('amqplib');

const url = process.env.AMQP_URL || 'amqp://guest:guest@localhost:5672/%2f';
const orders = 'example-orders';
const waiting = 'example-orders-waiting';
const failed = 'example-orders-failed';
const attemptsMax = 3;

setTimeout(() => fail(new Error('no end after 30 seconds')), 30_000).unref();

async function main() {
  const connection = await amqp.connect(url);
  const channel = await connection.createConfirmChannel();
  // A rejected order goes to the queue of those that wait ...
  await channel.assertQueue(orders, {
    durable: true, deadLetterExchange: '', deadLetterRoutingKey: waiting, arguments: { 'x-queue-type': 'quorum' },
  });
  // ... where nobody consumes. It expires after 300 ms and goes back.
  await channel.assertQueue(waiting, {
    durable: true, messageTtl: 300, deadLetterExchange: '', deadLetterRoutingKey: orders,
  });
  await channel.assertQueue(failed, { durable: true });

  channel.sendToQueue(orders, Buffer.from('order 7'), { persistent: true });
  await channel.waitForConfirms();
  console.log('sent: order 7');

  await new Promise((resolve, reject) => {
    channel.consume(orders, (order) => {
      // Nothing comes when the consumer is cancelled, as by the deletion of its queue.
      if (!order) return;
      attempt(channel, order).then((isOver) => isOver && resolve(), reject);
    }).catch(reject);
  });

  const order = await channel.get(failed, { noAck: true });
  if (!order) throw new Error('the order is not among the failed ones');
  console.log(`put aside: ${order.content}`);
  for (const queue of [orders, waiting, failed]) await channel.deleteQueue(queue);
  await connection.close();
}

/** Whether it was the last attempt. */
async function attempt(channel, order) {
  const number = attemptsBefore(order) + 1;
  if (number < attemptsMax) {
    console.log(`attempt ${number} failed: ${order.content}`);
    channel.reject(order, false);
    return false;
  }
  console.log(`attempt ${number} failed, given up: ${order.content}`);
  // The copy is confirmed before the original is acknowledged, so the order is always in one of the queues.
  channel.sendToQueue(failed, order.content, { persistent: true });
  await channel.waitForConfirms();
  channel.ack(order);
  return true;
}

/** The broker counts in the header x-death how often a message left each queue. */
function attemptsBefore(order) {
  const deaths = order.properties.headers['x-death'] || [];
  return deaths.filter((death) => death.queue === orders).reduce((sum, death) => sum + death.count, 0);
}

function fail(error) {
  console.error(error);
  process.exit(1);
}

main().catch(fail);
