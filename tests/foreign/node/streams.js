// The cases of rabbitmq-stream-js-client: streams as Node applications use them.
'use strict';

const streams = require('rabbitmq-stream-js-client');

const { Inbox, Suite, cut, equal, fresh, options, sleep, soon, uri } = require('./bench');

const { Offset } = streams;
const suite = new Suite('js-stream');
const quietLogger = { debug() {}, info() {}, warn() {}, error: console.error };

/** A client on this port and no other, whatever the broker advertises; closed at the end. */
async function connect(ends, port = Number(options['stream-port']), more = {}) {
  const client = await soon(streams.connect({
    hostname: uri.hostname, port, username: uri.username, password: uri.password, vhost: '/', heartbeat: 30,
    addressResolver: { enabled: true, endpoint: { host: uri.hostname, port } }, ...more,
  }, quietLogger), 'connecting');
  ends.push(() => client.close());
  return client;
}

async function stream(ends, client) {
  const name = fresh('stream');
  await client.createStream({ stream: name, arguments: {} });
  ends.push(() => client.deleteStream({ stream: name }).catch(() => {}));
  return name;
}

/** A publisher and what is confirmed to it. */
async function writer(client, params, filter) {
  const publisher = await client.declarePublisher(params, filter);
  const confirms = new Inbox();
  publisher.on('publish_confirm', (error, ids) => ids.forEach((id) => confirms.put([error, id])));
  return { publisher, confirms };
}

async function sure({ confirms }, count) {
  for (const [error] of await confirms.take(count, 'confirms')) equal(error, null, 'error of a confirm');
}

/** Publishes these bodies and waits until all are confirmed. */
async function publish(client, name, bodies) {
  const own = await writer(client, { stream: name });
  for (const body of bodies) await own.publisher.send(Buffer.from(body));
  await own.publisher.flush();
  await sure(own, bodies.length);
  await own.publisher.close();
}

async function reader(client, name, offset, more = {}) {
  const inbox = new Inbox();
  const consumer = await client.declareConsumer({ stream: name, offset, ...more },
    (message) => inbox.put({ body: message.content.toString(), offset: Number(message.offset), message }));
  return { consumer, inbox };
}

async function expect({ inbox }, bodies, what) {
  equal((await inbox.take(bodies.length)).map(({ body }) => body), bodies, what);
}

function numbered(from, to) {
  return Array.from({ length: to - from + 1 }, (_, at) => String(from + at));
}

suite.add('publish.each', '5,000 messages by one publisher', 'all confirmed; read in order, with dense offsets', async (ends) => {
  const client = await connect(ends);
  const name = await stream(ends, client);
  await publish(client, name, numbered(1, 5_000));
  const { inbox } = await reader(client, name, Offset.first());
  const taken = await inbox.take(5_000);
  equal(taken.map(({ body }) => body), numbered(1, 5_000), 'bodies');
  equal(taken.map(({ offset }) => String(offset + 1)), numbered(1, 5_000), 'offsets');
});

suite.add('publish.named', 'a named publisher sends ids 1 to 5, and again 3 to 8', 'the last id is known; each is stored once', async (ends) => {
  const client = await connect(ends);
  const name = await stream(ends, client);
  for (const [from, to, last] of [[1, 5, 0n], [3, 8, 5n]]) {
    const own = await writer(client, { stream: name, publisherRef: 'named' });
    equal(String(await own.publisher.getLastPublishingId()), String(last), 'last publishing id');
    for (let id = from; id <= to; id += 1) await own.publisher.basicSend(BigInt(id), Buffer.from(String(id)));
    await own.publisher.flush();
    await sure(own, to - from + 1);
    await own.publisher.close();
  }
  const own = await reader(client, name, Offset.first());
  await expect(own, numbered(1, 8), 'stored');
  await own.inbox.quiet();
});

for (const [word, type] of [['none', 0], ['gzip', 1]]) {
  suite.add(`publish.batch-${word}`, `a batch of 100 messages, compression ${word}`, 'confirmed once; all are read, in order', async (ends) => {
    const client = await connect(ends);
    const name = await stream(ends, client);
    const own = await writer(client, { stream: name });
    await own.publisher.sendSubEntries(numbered(1, 100).map((body) => ({ content: Buffer.from(body) })), type);
    await sure(own, 1);
    await expect(await reader(client, name, Offset.first()), numbered(1, 100), 'bodies');
  });
}

suite.add('read.offsets', 'readers from first, last, next, an offset and a time', 'each gets what is from there on', async (ends) => {
  const client = await connect(ends);
  const name = await stream(ends, client);
  await publish(client, name, numbered(1, 10));
  await sleep(50);
  const between = new Date();
  await sleep(50);
  await publish(client, name, ['11']);
  const next = await reader(client, name, Offset.next());
  await next.inbox.quiet();
  const rows = [[next, 12]];
  for (const [offset, first] of [[Offset.first(), 1], [Offset.last(), 11], [Offset.offset(7n), 8], [Offset.timestamp(between), 11]]) {
    rows.push([await reader(client, name, offset), first]);
  }
  await publish(client, name, ['12']);
  for (const [own, first] of rows) {
    await expect(own, numbered(first, 12), `from ${first}`);
    await own.inbox.quiet();
  }
});

suite.add('read.stored', 'an offset stored, asked for, and gone on from', 'the stored one', async (ends) => {
  const client = await connect(ends);
  const name = await stream(ends, client);
  await publish(client, name, numbered(1, 10));
  const first = await reader(client, name, Offset.first(), { consumerRef: 'mine' });
  await first.inbox.take(10);
  await first.consumer.storeOffset(4n);
  await sleep(200);
  equal(String(await first.consumer.queryOffset()), '4', 'stored offset');
  await first.consumer.close();
  await expect(await reader(client, name, Offset.offset(5n), { consumerRef: 'mine' }), numbered(6, 10), 'behind it');
});

suite.add('read.filter', 'messages with filter values in chunks of their own, a reader of one value', "the other's are not sent", async (ends) => {
  const client = await connect(ends);
  const name = await stream(ends, client);
  const own = await writer(client, { stream: name }, (message) => message.applicationProperties.key);
  for (const key of ['north', 'south', 'north']) {
    for (let number = 0; number < 5; number += 1) {
      await own.publisher.send(Buffer.from(`${key}${number}`), { applicationProperties: { key } });
    }
    await own.publisher.flush();
    await sure(own, 5);
  }
  // It lets everything pass: what does not come was not sent.
  const filter = { values: ['north'], postFilterFunc: () => true, matchUnfiltered: false };
  const filtered = await reader(client, name, Offset.first(), { filter });
  const five = numbered(0, 4).map((number) => `north${number}`);
  await expect(filtered, [...five, ...five], 'filtered');
  await filtered.inbox.quiet();
});

suite.add('single.takes-over', 'two single active consumers, of which the active one leaves', 'the other goes on from where it says', async (ends) => {
  const client = await connect(ends);
  const name = await stream(ends, client);
  await publish(client, name, numbered(1, 5));
  const group = { singleActive: true, consumerRef: 'group', consumerUpdateListener: async () => Offset.first() };
  const first = await reader(client, name, Offset.first(), group);
  await expect(first, numbered(1, 5), 'active');
  const second = await reader(client, name, Offset.first(), { ...group, consumerUpdateListener: async () => Offset.offset(3n) });
  await second.inbox.quiet();
  await client.closeConsumer(first.consumer.extendedId);
  await expect(second, numbered(4, 5), 'took over');
});

suite.add('super.hash', '70 messages to a super stream by the hash of their key', 'all arrive; those with one key in order', async (ends) => {
  const client = await connect(ends);
  const name = fresh('super');
  await client.createSuperStream({ streamName: name, arguments: {} }, undefined, 3);
  ends.push(() => client.deleteSuperStream({ streamName: name }));
  equal(await client.queryPartitions({ superStream: name }), [0, 1, 2].map((at) => `${name}-${at}`), 'partitions');
  const publisher = await client.declareSuperStreamPublisher({ superStream: name }, (_content, { messageProperties }) => messageProperties.messageId);
  for (let number = 0; number < 70; number += 1) {
    await publisher.send(Buffer.from(String(number)), { messageProperties: { messageId: `key-${number % 7}` } });
  }
  const inbox = new Inbox();
  await client.declareSuperStreamConsumer({ superStream: name }, (message) => inbox.put(Number(message.content.toString())));
  const taken = await inbox.take(70);
  for (let key = 0; key < 7; key += 1) {
    equal(taken.filter((number) => number % 7 === key), Array.from({ length: 10 }, (_, at) => at * 7 + key), `key ${key}`);
  }
  await inbox.quiet();
});

suite.add('stream.deleted', 'a stream is deleted below a publisher', 'a metadata update', async (ends) => {
  const client = await connect(ends);
  const name = await stream(ends, client);
  const own = await writer(client, { stream: name });
  const told = new Inbox();
  own.publisher.on('metadata_update', () => told.put('update'));
  await client.deleteStream({ stream: name });
  await told.take(1, 'updates');
});

suite.add('connection.cut', 'a cut while the client is idle, which then starts anew', 'it is told; it goes on', async (ends) => {
  const told = new Inbox();
  const client = await connect(ends, Number(options.relay), { listeners: { connection_closed: () => told.put('closed') } });
  const other = await connect(ends);
  const name = await stream(ends, other);
  await publish(client, name, ['1']);
  await cut();
  await told.take(1, 'ends');
  await soon(client.restart(), 'restart');
  await publish(client, name, ['2']);
  await expect(await reader(other, name, Offset.first()), ['1', '2'], 'stored');
}, { needsRelay: true });

suite.main();
