// Appends events to a stream and reads them from the third one on. Reading takes nothing away from a stream.
'use strict';

const amqp = require('amqplib');

const url = process.env.AMQP_URL || 'amqp://guest:guest@localhost:5672/%2f';
const stream = 'example-events';

setTimeout(() => fail(new Error('no end after 30 seconds')), 30_000).unref();

async function main() {
  const connection = await amqp.connect(url);
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(stream, { durable: true, arguments: { 'x-queue-type': 'stream', 'x-max-age': '1D' } });

  for (let number = 0; number < 5; number += 1) {
    channel.sendToQueue(stream, Buffer.from(`event ${number}`));
    await channel.waitForConfirms();
    console.log(`appended: event ${number}`);
  }

  // Offsets count from 0. An offset may also be 'first', 'last', 'next', a timestamp, or an age such as '1h'.
  // Readers of streams need a prefetch, and acknowledgements to be given more.
  await channel.prefetch(10);
  let read = 0;
  await new Promise((resolve, reject) => {
    channel.consume(stream, (event) => {
      // Nothing comes when the consumer is cancelled, as by the deletion of its queue.
      if (!event) return;
      console.log(`read at offset ${event.properties.headers['x-stream-offset']}: ${event.content}`);
      channel.ack(event);
      read += 1;
      if (read === 3) resolve();
    }, { arguments: { 'x-stream-offset': 2 } }).catch(reject);
  });
  await channel.deleteQueue(stream);
  await connection.close();
}

function fail(error) {
  console.error(error);
  process.exit(1);
}

main().catch(fail);
