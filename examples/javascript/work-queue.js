// Hands tasks to a worker so that no task is lost when the broker, the publisher or the worker ends.
'use strict';

const amqp = require('amqplib');

const url = process.env.AMQP_URL || 'amqp://guest:guest@localhost:5672/%2f';
const queue = 'example-tasks';

setTimeout(() => fail(new Error('no end after 30 seconds')), 30_000).unref();

async function main() {
  const connection = await amqp.connect(url);
  const channel = await connection.createConfirmChannel();
  // Durable: queue and persistent messages are there after a restart of the broker.
  await channel.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': 'quorum' } });

  // Publisher confirms: the wait is over once the task is stored.
  for (const task of ['task 1', 'task 2', 'task 3']) {
    channel.sendToQueue(queue, Buffer.from(task), { persistent: true });
    await channel.waitForConfirms();
    console.log(`confirmed: ${task}`);
  }

  // Prefetch: a worker has one task at a time, so several workers share the work evenly.
  await channel.prefetch(1);
  let done = 0;
  await new Promise((resolve, reject) => {
    channel.consume(queue, (task) => {
      // Nothing comes when the consumer is cancelled, as by the deletion of its queue.
      if (!task) return;
      console.log(`done: ${task.content}`);
      // After the work, not before: an unacknowledged task goes to another worker when this one ends.
      channel.ack(task);
      done += 1;
      if (done === 3) resolve();
    }).catch(reject);
  });

  const state = await channel.checkQueue(queue);
  console.log(`left in the queue: ${state.messageCount}`);
  await channel.deleteQueue(queue);
  await connection.close();
}

function fail(error) {
  console.error(error);
  process.exit(1);
}

main().catch(fail);
