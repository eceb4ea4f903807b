// rhea: AMQP 1.0 as applications on Node use it. Queues are made over 0-9-1 with amqplib: rhea keeps links by
// name, so it cannot open the pair of links of one name that the management node wants.
'use strict';

const amqp = require('amqplib');
const rhea = require('rhea');
const { WebSocket } = require('ws');
const { Inbox, Suite, cut, equal, fresh, options, sleep, soon, uri } = require('./bench');

// With `--web` the same cases go through a WebSocket, those but that are about the socket.
const isWeb = options.web !== undefined;
const SOCKET_ONLY = ['connection.cut', 'heartbeat.idle', 'error.login'];
const suite = new Suite(isWeb ? 'rhea-websocket' : 'rhea');

function settings(port = Number(uri.port || 5672)) {
  const web = isWeb ? { connection_details: rhea.websocket_connect(WebSocket)(`ws://${uri.hostname}:${options.web}/ws`, ['amqp'], {}) } : {};
  return {
    ...web,
    host: uri.hostname, port, username: decodeURIComponent(uri.username), password: decodeURIComponent(uri.password), reconnect: false,
  };
}

function event(emitter, name) {
  return soon(new Promise((resolve) => { emitter.once(name, resolve); }), name);
}

async function connect(ends, more = {}) {
  const container = rhea.create_container();
  const connection = container.connect({ ...settings(), ...more });
  connection.on('connection_error', () => {});
  connection.on('disconnected', () => {});
  connection.on('error', () => {});
  ends.push(async () => connection.close());
  await event(connection, 'connection_open');
  return connection;
}

function test(name, behaviour, answer, act, more) {
  if (isWeb && SOCKET_ONLY.includes(name)) return;
  suite.add(name, behaviour, answer, async (ends) => act(await connect(ends), ends), more);
}

async function over091(act) {
  const connection = await amqp.connect(uri.href);
  try {
    return await act(await connection.createChannel());
  } finally {
    await connection.close();
  }
}

async function queue(ends, type = 'classic') {
  const name = fresh('queue');
  await over091((channel) => channel.assertQueue(name, { durable: true, arguments: { 'x-queue-type': type } }));
  ends.push(() => over091((channel) => channel.deleteQueue(name)));
  return name;
}

async function sender(connection, address, more = {}) {
  const link = connection.open_sender({ target: address, name: fresh('sender'), ...more });
  link.on('sender_error', () => {});
  await event(link, 'sendable');
  return link;
}

/** Sends all, answers their outcomes in order. */
async function send(link, messages) {
  const outcomes = new Map();
  const done = new Inbox();
  for (const outcome of ['accepted', 'released', 'rejected', 'modified']) {
    link.on(outcome, (context) => {
      outcomes.set(context.delivery.id, outcome);
      done.put(outcome);
    });
  }
  const ids = [];
  for (const message of messages) {
    while (!link.sendable()) await event(link, 'sendable');
    ids.push(link.send({ durable: true, ...message }).id);
  }
  await done.take(messages.length, 'outcomes');
  return ids.map((id) => outcomes.get(id));
}

async function fill(connection, name, ...bodies) {
  const link = await sender(connection, `/queues/${name}`);
  equal(await send(link, bodies.map((body) => ({ body }))), bodies.map(() => 'accepted'), 'outcomes');
  link.close();
}

async function receiver(connection, name, more = {}) {
  const inbox = new Inbox();
  const link = connection.open_receiver({
    source: name.startsWith('/') ? name : `/queues/${name}`, name: fresh('receiver'), credit_window: 0, autoaccept: false, ...more,
  });
  link.on('receiver_error', () => {});
  link.on('message', ({ message, delivery }) => inbox.put({ message, delivery }));
  await event(link, 'receiver_open');
  return { link, inbox };
}

/** Bodies; `*` and the count for one that failed before. */
function words(items) {
  return items.map(({ message }) => message.body + (message.delivery_count ? `*${message.delivery_count}` : '')).join(' ');
}

test('send.outcomes', '300 durable messages sent as credit comes', 'each accepted', async (connection, ends) => {
  const name = await queue(ends);
  const link = await sender(connection, `/queues/${name}`);
  const messages = [...Array(300).keys()].map((at) => ({ body: `message ${at}` }));
  equal(new Set(await send(link, messages)).size, 1, 'kinds of outcome');
  const { link: source, inbox } = await receiver(connection, name, { autoaccept: true });
  source.add_credit(300);
  equal((await inbox.take(300)).map(({ message }) => message.body), messages.map(({ body }) => body), 'bodies');
});

test('send.unroutable', 'a message for a routing key that nothing is bound to', 'released', async (connection) => {
  const link = await sender(connection, `/exchanges/amq.direct/${fresh('key')}`);
  equal(await send(link, [{ body: 'x' }]), ['released'], 'outcome');
});

test('send.anonymous', 'the anonymous terminus, the address in `to`', 'accepted where there is a queue, released where there is none', async (connection, ends) => {
  const name = await queue(ends);
  const link = await sender(connection, { address: null });
  equal(await send(link, [{ to: `/queues/${name}`, body: 'x' }, { to: `/queues/${fresh('absent')}`, body: 'x' }]), ['accepted', 'released'], 'outcomes');
});

test('send.settled', 'messages sent settled', 'there', async (connection, ends) => {
  const name = await queue(ends);
  const link = await sender(connection, `/queues/${name}`, { snd_settle_mode: 1 });
  link.send({ body: 'one', durable: true });
  link.send({ body: 'two', durable: true });
  const { link: source, inbox } = await receiver(connection, name);
  source.add_credit(2);
  equal(words(await inbox.take(2)), 'one two', 'bodies');
});

for (const type of ['classic', 'quorum']) {
  test(`receive.outcomes-${type}`, `a ${type} queue: accept, reject, release, modified with and without failure`,
    'released and modified come again, the count rises with failures alone', async (connection, ends) => {
      const name = await queue(ends, type);
      await fill(connection, name, 1, 2, 3, 4, 5);
      const { link, inbox } = await receiver(connection, name);
      link.add_credit(5);
      const first = await inbox.take(5);
      first[0].delivery.accept();
      first[1].delivery.reject({ condition: 'app:bad', description: 'unwanted' });
      first[2].delivery.release();
      first[3].delivery.modified({ delivery_failed: true, undeliverable_here: false });
      first[4].delivery.modified({ delivery_failed: false, undeliverable_here: false });
      link.add_credit(3);
      const again = await inbox.take(3);
      equal(words(again).split(' ').sort(), ['3', '4*1', '5'], 'again');
      again.forEach(({ delivery }) => delivery.accept());
      await inbox.quiet();
    });
}

test('receive.credit', 'credit of 2, then of 1, then drained', 'so many come; the rest of the credit is used up', async (connection, ends) => {
  const name = await queue(ends);
  await fill(connection, name, 1, 2, 3, 4);
  const { link, inbox } = await receiver(connection, name, { autoaccept: true });
  link.add_credit(2);
  equal(words(await inbox.take(2)), '1 2', 'with 2');
  await inbox.quiet();
  link.add_credit(1);
  equal(words(await inbox.take(1)), '3', 'with 1');
  link.drain = true;
  link.add_credit(10);
  await event(link, 'receiver_drained');
  equal(words(await inbox.take(1)), '4', 'drained');
  equal(link.credit, 0, 'credit left');
});

test('receive.large', 'a body of 5 MiB, both ways', 'the same bytes', async (connection, ends) => {
  const name = await queue(ends);
  const body = Buffer.alloc(5 << 20);
  for (let at = 0; at < body.length; at += 1) body[at] = (at * 31) & 0xff;
  const link = await sender(connection, `/queues/${name}`);
  equal(await send(link, [{ body: rhea.message.data_section(body) }]), ['accepted'], 'outcome');
  const { link: source, inbox } = await receiver(connection, name, { autoaccept: true });
  source.add_credit(1);
  const [{ message }] = await inbox.take(1);
  equal(Buffer.compare(message.body.content, body), 0, 'difference');
});

test('message.properties', 'header, properties, application properties, annotations, ids of four kinds', 'equal', async (connection, ends) => {
  const name = await queue(ends);
  const { types } = rhea;
  const common = {
    durable: true, priority: 7, user_id: Buffer.from('guest'), to: '/somewhere', subject: 's', reply_to: '/r', content_type: 'text/plain',
    content_encoding: 'utf-8', group_id: 'g', group_sequence: 3, reply_to_group_id: 'rg', creation_time: new Date(1_700_000_000_000),
    application_properties: { text: 'grün', int: 7, true: true, float: 2.5 }, message_annotations: { 'x-mine': 'kept' },
  };
  const link = await sender(connection, `/queues/${name}`);
  const { link: source, inbox } = await receiver(connection, name, { autoaccept: true });
  source.add_credit(10);
  for (const id of ['text', types.wrap_ulong(42), types.wrap_uuid(Buffer.alloc(16, 7)), types.wrap_binary(Buffer.from('b'))]) {
    await send(link, [{ ...common, message_id: id, correlation_id: id, body: 'x' }]);
    const [{ message }] = await inbox.take(1);
    for (const [key, value] of Object.entries(common)) {
      if (key !== 'message_annotations') equal(message[key], value, key);
    }
    equal(message.message_annotations['x-mine'], 'kept', 'annotation');
    equal(message.message_id, id.value ?? id, 'message id');
    equal(message.correlation_id, id.value ?? id, 'correlation id');
  }
});

test('error.attach', 'a source that is not there, beside a link that is', '`amqp:not-found`; what else is open lives', async (connection, ends) => {
  const name = await queue(ends);
  const session = connection.create_session();
  session.on('session_error', () => {});
  session.open();
  const link = session.open_receiver({ source: `/queues/${fresh('absent')}`, name: fresh('receiver') });
  const ended = soon(new Promise((resolve) => {
    link.on('receiver_error', () => resolve(link.error));
    session.on('session_error', () => resolve(session.error));
  }), 'the refusal');
  equal((await ended).condition, 'amqp:not-found', 'condition');
  await fill(connection, name, 1);
});

test('error.login', 'a wrong password', 'refused by SASL', async (_connection, ends) => {
  const container = rhea.create_container();
  const wrong = container.connect({ ...settings(), password: 'wrong' });
  ends.push(async () => wrong.close());
  const told = new Promise((resolve) => {
    wrong.on('connection_error', () => resolve(wrong.get_error()));
    wrong.on('error', resolve);
    wrong.on('disconnected', (context) => resolve(context.error ?? { message: 'disconnected' }));
  });
  const error = await soon(told, 'the refusal');
  equal(/authenti|disconnected/i.test(`${error.condition} ${error.message} ${error.description}`), true, `${error}`);
});

test('rpc.queue', '30 calls, answered to a queue by `reply_to` over the anonymous terminus', 'each its answer, in order', async (connection, ends) => {
  const [calls, replies] = [await queue(ends), await queue(ends)];
  const server = await connect(ends);
  const answers = await sender(server, { address: null });
  const { link: source } = await receiver(server, calls, { autoaccept: true, credit_window: 10 });
  source.on('message', ({ message }) => {
    answers.send({ to: message.reply_to, correlation_id: message.correlation_id, body: message.body.toUpperCase() });
  });
  const { inbox } = await receiver(connection, replies, { autoaccept: true, credit_window: 10 });
  const link = await sender(connection, `/queues/${calls}`);
  for (let at = 0; at < 30; at += 1) link.send({ reply_to: `/queues/${replies}`, correlation_id: at, body: `call ${at}` });
  const seen = (await inbox.take(30)).map(({ message }) => `${message.correlation_id} ${message.body}`);
  equal(seen, [...Array(30).keys()].map((at) => `${at} CALL ${at}`), 'answers');
});

test('rpc.dynamic', '10 calls, answered to a dynamic source', 'each its answer; the address begins with `/queues/`', async (connection, ends) => {
  const calls = await queue(ends);
  const server = await connect(ends);
  const answers = await sender(server, { address: null });
  const { link: source } = await receiver(server, calls, { autoaccept: true, credit_window: 10 });
  source.on('message', ({ message }) => {
    answers.send({ to: message.reply_to, correlation_id: message.correlation_id, body: message.body });
  });
  const inbox = new Inbox();
  const replies = connection.open_receiver({
    source: { dynamic: true, capabilities: ['temporary-queue'] }, name: fresh('dynamic'), credit_window: 10,
  });
  replies.on('receiver_error', () => {});
  replies.on('message', ({ message }) => inbox.put(message));
  await event(replies, 'receiver_open');
  const { address } = replies.remote.attach.source;
  equal(address.startsWith('/queues/'), true, `address ${address}`);
  const link = await sender(connection, `/queues/${calls}`);
  for (let at = 0; at < 10; at += 1) link.send({ reply_to: address, correlation_id: at, body: 'x' });
  equal((await inbox.take(10)).map((message) => message.correlation_id), [...Array(10).keys()], 'answers');
});

if (!isWeb) suite.add('connection.cut', 'rhea connects again by itself after three cuts with unsettled messages', 'the messages come again', async (ends) => {
  const name = await queue(ends);
  await fill(await connect(ends), name, 1, 2, 3);
  const connection = rhea.create_container().connect({ ...settings(Number(options.relay)), reconnect: true, initial_reconnect_delay: 50 });
  connection.on('connection_error', () => {});
  connection.on('disconnected', () => {});
  ends.push(async () => connection.close());
  const { inbox } = await receiver(connection, name, { credit_window: 10 });
  for (let turn = 0; turn < 4; turn += 1) {
    const bodies = (await inbox.take(3)).map(({ message }) => message.body);
    equal(bodies, [1, 2, 3], `turn ${turn}`);
    if (turn < 3) await cut();
  }
}, { needsRelay: true });

if (!isWeb) suite.add('heartbeat.idle', 'an idle connection with an idle timeout of 1 s', 'open after 3 s', async (ends) => {
  const connection = await connect(ends, { idle_time_out: 1_000 });
  await sleep(3_000);
  equal(connection.is_open(), true, 'open');
});

suite.main();
