// amqplib: 0-9-1 as applications on Node use it.
'use strict';

const amqp = require('amqplib');
const { Inbox, Suite, cut, equal, fresh, options, sleep, soon, uri } = require('./bench');

const suite = new Suite('amqplib');

async function connect(ends, url = uri.href) {
  const connection = await soon(amqp.connect(url, { timeout: 15_000 }), 'connection');
  connection.on('error', () => {});
  ends.push(() => connection.close());
  return connection;
}

function test(name, behaviour, answer, act, settings) {
  suite.add(name, behaviour, answer, async (ends) => act(await connect(ends), ends), settings);
}

/** A queue that is deleted at the end over a connection of its own. */
async function queue(channel, ends, settings = {}) {
  const { queue: name } = await channel.assertQueue(fresh('queue'), { durable: true, ...settings });
  ends.push(async () => {
    const other = await amqp.connect(uri.href);
    await (await other.createChannel()).deleteQueue(name);
    await other.close();
  });
  return name;
}

async function fill(connection, name, ...bodies) {
  const channel = await connection.createConfirmChannel();
  for (const body of bodies) channel.sendToQueue(name, Buffer.from(String(body)), { persistent: true });
  await soon(channel.waitForConfirms(), 'confirms');
  await channel.close();
}

async function consume(channel, name, settings) {
  const inbox = new Inbox();
  const { consumerTag } = await channel.consume(name, (message) => inbox.put(message), settings);
  return { inbox, consumerTag };
}

/** Bodies; `*` marks a redelivered one, `cancelled` the end of the consumer. */
function words(messages) {
  return messages.map((it) => (it ? it.content.toString() + (it.fields.redelivered ? '*' : '') : 'cancelled')).join(' ');
}

function refused(error, code, text) {
  equal([error.code, error.message.includes(text)], [code, true], `error: ${error.message}`);
}

async function channelError(channel, act) {
  const told = new Promise((resolve) => { channel.on('error', resolve); });
  act().catch(() => {});
  return soon(told, 'the channel error');
}

test('publish.confirm', '500 persistent messages with confirms, a callback each', 'each acked, in order', async (connection, ends) => {
  const channel = await connection.createConfirmChannel();
  const name = await queue(channel, ends);
  const acked = new Inbox();
  for (let at = 0; at < 500; at += 1) {
    channel.sendToQueue(name, Buffer.from('x'), { persistent: true }, (error) => acked.put(error ? `nack ${at}` : at));
  }
  equal(await acked.take(500, 'confirms'), [...Array(500).keys()], 'confirms');
  equal((await channel.checkQueue(name)).messageCount, 500, 'messages');
});

test('publish.return', 'a mandatory message that no queue takes', 'event `return` with 312 `NO_ROUTE`, then its confirm', async (connection) => {
  const channel = await connection.createConfirmChannel();
  const inbox = new Inbox();
  channel.on('return', (message) => inbox.put(`${message.fields.replyCode} ${message.fields.replyText}`));
  channel.publish('', fresh('absent'), Buffer.from('x'), { mandatory: true }, (error) => inbox.put(error ? 'nack' : 'ack'));
  equal(await inbox.take(2), ['312 NO_ROUTE', 'ack'], 'events');
});

test('publish.drain', '48 bodies of 1 MiB, waiting for `drain` whenever the client says that it is full', 'all there', async (connection, ends) => {
  const channel = await connection.createConfirmChannel();
  const name = await queue(channel, ends);
  const body = Buffer.alloc(1 << 20, 'x');
  for (let at = 0; at < 48; at += 1) {
    if (!channel.sendToQueue(name, body, { persistent: true })) {
      await soon(new Promise((resolve) => { channel.once('drain', resolve); }), 'drain');
    }
  }
  await soon(channel.waitForConfirms(), 'confirms');
  equal((await channel.checkQueue(name)).messageCount, 48, 'messages');
});

test('consume.settle', 'ack, nack and reject, with and without requeue, nackAll', 'what was requeued comes again, redelivered=true', async (connection, ends) => {
  const channel = await connection.createChannel();
  const name = await queue(channel, ends);
  await fill(connection, name, 1, 2, 3, 4, 5, 6, 7);
  const { inbox } = await consume(channel, name);
  const first = await inbox.take(7);
  channel.ack(first[0]);
  channel.nack(first[1], false, false);
  channel.reject(first[2], false);
  channel.nack(first[3], false, true);
  equal(words(await inbox.take(1)), '4*', 'after nack');
  channel.reject(first[4], true);
  equal(words(await inbox.take(1)), '5*', 'after reject');
  channel.nackAll(true);
  equal(words(await inbox.take(4)), '4* 5* 6* 7*', 'after nackAll');
  channel.ackAll();
  await inbox.quiet();
  equal((await channel.checkQueue(name)).messageCount, 0, 'messages left');
});

test('consume.prefetch', 'a prefetch of 2', 'two at once; each ack brings one more', async (connection, ends) => {
  const channel = await connection.createChannel();
  const name = await queue(channel, ends);
  await fill(connection, name, 1, 2, 3, 4);
  await channel.prefetch(2);
  const { inbox } = await consume(channel, name);
  const first = await inbox.take(2);
  await inbox.quiet();
  channel.ack(first[0]);
  equal(words(await inbox.take(1)), '3', 'after one ack');
  await inbox.quiet();
});

test('consume.cancel', 'a cancelled consumer, then one whose queue is deleted', 'no more messages; `null` for the second', async (connection, ends) => {
  const channel = await connection.createChannel();
  const name = await queue(channel, ends);
  const { inbox, consumerTag } = await consume(channel, name, { noAck: true });
  await channel.cancel(consumerTag);
  await fill(connection, name, 1);
  await inbox.quiet();
  const second = await consume(channel, name, { noAck: true });
  equal(words(await second.inbox.take(1)), '1', 'second');
  await (await connection.createChannel()).deleteQueue(name);
  equal(words(await second.inbox.take(1)), 'cancelled', 'after the delete');
});

test('get.published', 'publish without confirms, then get on the same channel', 'the message', async (connection, ends) => {
  const channel = await connection.createChannel();
  const name = await queue(channel, ends);
  for (let at = 0; at < 50; at += 1) {
    channel.sendToQueue(name, Buffer.from(String(at)), { persistent: at % 2 === 0 });
    const message = await channel.get(name, { noAck: true });
    equal(message && message.content.toString(), String(at), 'message');
  }
  equal(await channel.get(name), false, 'get from an empty queue');
});

test('properties.all', 'all properties and header types', 'equal', async (connection, ends) => {
  const channel = await connection.createChannel();
  const name = await queue(channel, ends);
  const headers = { text: 'grün', int: 7, long: 2 ** 40, float: 2.5, true: true, void: null, list: [1, 'two'], table: { inner: 'x' } };
  const sent = {
    contentType: 'text/plain', contentEncoding: 'utf-8', headers, deliveryMode: 2, priority: 7, correlationId: 'c', replyTo: 'r',
    expiration: '60000', messageId: 'm', timestamp: 1_700_000_000, type: 't', userId: decodeURIComponent(uri.username), appId: 'a',
  };
  channel.sendToQueue(name, Buffer.from('x'), sent);
  const { inbox } = await consume(channel, name, { noAck: true });
  const [{ properties }] = await inbox.take(1);
  for (const [key, value] of Object.entries(sent)) {
    if (key !== 'headers') equal(properties[key], value, key);
  }
  for (const [key, value] of Object.entries(headers)) equal(properties.headers[key], value, key);
});

test('exchange.route', 'direct, topic, fanout and headers exchanges, bound, unbound, deleted', 'routed by each', async (connection, ends) => {
  const channel = await connection.createConfirmChannel();
  const name = await queue(channel, ends);
  const { inbox } = await consume(channel, name, { noAck: true });
  const rows = [['direct', 'key', 'key', {}], ['topic', 'a.*', 'a.b', {}], ['fanout', '', 'any', {}], ['headers', '', '', { 'x-match': 'any', kind: 'x' }]];
  for (const [kind, pattern, key, match] of rows) {
    const { exchange } = await channel.assertExchange(fresh(kind), kind, { durable: false });
    await channel.bindQueue(name, exchange, pattern, match);
    channel.publish(exchange, key, Buffer.from(kind), { headers: { kind: 'x' } });
    equal(words(await inbox.take(1)), kind, 'message');
    await channel.unbindQueue(name, exchange, pattern, match);
    channel.publish(exchange, key, Buffer.from(kind), { headers: { kind: 'x' } });
    await soon(channel.waitForConfirms(), 'confirms');
    await channel.deleteExchange(exchange);
  }
  await inbox.quiet();
});

test('error.channel', 'checking an absent queue, declaring one anew with other arguments, an unknown delivery tag', '404, 406 and 406 on the channel; the connection lives', async (connection, ends) => {
  const absent = fresh('absent');
  const first = await connection.createChannel();
  refused(await channelError(first, () => first.checkQueue(absent)), 404, `NOT_FOUND - no queue '${absent}' in vhost '/'`);
  const second = await connection.createChannel();
  const name = await queue(second, ends);
  refused(await channelError(second, () => second.assertQueue(name, { durable: false })), 406,
    `PRECONDITION_FAILED - inequivalent arg 'durable' for queue '${name}' in vhost '/': received 'false' but current is 'true'`);
  const third = await connection.createChannel();
  const unknown = { fields: { deliveryTag: 7 } };
  refused(await channelError(third, async () => third.ack(unknown)), 406, 'PRECONDITION_FAILED - unknown delivery tag 7');
  await (await connection.createChannel()).checkQueue(name);
});

test('error.login', 'a wrong password', '403 `ACCESS_REFUSED`', async () => {
  const wrong = new URL(uri.href);
  wrong.password = 'wrong';
  const error = await soon(amqp.connect(wrong.href).then(() => ({ message: 'connected' }), (reason) => reason), 'the refusal');
  equal(/403 .*ACCESS.REFUSED/.test(error.message), true, error.message);
});

async function serve(connection, ends, name, answer) {
  const channel = await connection.createChannel();
  await channel.prefetch(1);
  const { inbox } = await consume(channel, name);
  let goes = true;
  ends.push(async () => { goes = false; });
  (async () => {
    while (goes) {
      const [message] = await inbox.take(1, 'calls', 60_000);
      const { replyTo, correlationId } = message.properties;
      channel.sendToQueue(replyTo, Buffer.from(answer(message.content.toString())), { correlationId });
      channel.ack(message);
    }
  })().catch(() => {});
}

async function rpc(connection, ends, replyTo, settings) {
  const channel = await connection.createChannel();
  const calls = await queue(channel, ends);
  await serve(connection, ends, calls, (text) => text.toUpperCase());
  const replies = replyTo ?? (await channel.assertQueue('', { exclusive: true })).queue;
  const { inbox } = await consume(channel, replies, { noAck: true });
  for (let at = 0; at < 50; at += 1) {
    channel.sendToQueue(calls, Buffer.from(`call ${at}`), { replyTo: replies, correlationId: String(at), ...settings });
  }
  const answers = await inbox.take(50, 'answers');
  equal(answers.map((it) => `${it.properties.correlationId} ${it.content}`), [...Array(50).keys()].map((at) => `${at} CALL ${at}`), 'answers');
}

test('rpc.exclusive', '50 calls answered to an exclusive queue with a name from the server', 'each its answer, in order',
  (connection, ends) => rpc(connection, ends));

test('rpc.direct-reply', '50 calls answered to `amq.rabbitmq.reply-to`', 'each its answer, in order',
  (connection, ends) => rpc(connection, ends, 'amq.rabbitmq.reply-to'));

suite.add('connection.cut', 'a connection is cut with unsettled messages, and made anew', 'event `close`; the messages come again, redelivered=true', async (ends) => {
  const through = new URL(uri.href);
  through.host = `127.0.0.1:${options.relay}`;
  let connection = await connect(ends, through.href);
  let channel = await connection.createChannel();
  const name = await queue(channel, ends);
  await fill(connection, name, 1, 2, 3);
  for (let turn = 0; turn < 3; turn += 1) {
    const { inbox } = await consume(channel, name);
    equal(words(await inbox.take(3)), turn ? '1* 2* 3*' : '1 2 3', `turn ${turn}`);
    const closed = new Promise((resolve) => { connection.on('close', resolve); });
    await cut();
    await soon(closed, 'close');
    connection = await connect(ends, through.href);
    channel = await connection.createChannel();
    for (let tries = 0; (await channel.checkQueue(name)).messageCount < 3 && tries < 100; tries += 1) await sleep(20);
  }
}, { needsRelay: true });

test('heartbeat.idle', 'an idle connection with a heartbeat of 1 s', 'open after 4 s', async (_connection, ends) => {
  const idle = new URL(uri.href);
  idle.searchParams.set('heartbeat', '1');
  const connection = await connect(ends, idle.href);
  await sleep(4_000);
  await connection.createChannel();
});

suite.main();
