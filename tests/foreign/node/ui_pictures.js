// Pictures of the web interface: drawn for README and guide, and compared with those, so that nothing moves unseen.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const amqp = require('amqplib');
const { Skipped, sleep } = require('./bench');
const { api, entered, opened, start } = require('./ui_bench');

const FOLDER = path.join(__dirname, '..', '..', '..', 'docs', 'pictures', 'ui');
const OURS = 'ours alone: ';
/** Set: pictures are drawn anew. */
const IS_DRAWING = !!process.env.LEVERET_PICTURES;
/** How far a channel of a pixel may differ, and which part of all pixels may differ more. */
const CHANNEL = 48, PART = 0.01;
/** Seconds of traffic before the overview is drawn. */
const TRAFFIC_S = 45;
/** Seconds that it goes on while pictures are drawn. */
const DRAWING_S = 40;

/** Name, address, size, theme, and a text that is there once the page is. Numbers that go with time are on none but the first. */
const PICTURES = [
  ['overview', '#/', 1280, 860, 'light', 'What needs you', true],
  ['messages', "#/queues/%2F/orders.asia?tab=messages&message=3&where=region%20%3D%20'asia'%20AND%20total%20%3E%20400", 1280, 760, 'light', 'Payload'],
  ['messages-dark', "#/queues/%2F/orders.asia?tab=messages&message=3&where=region%20%3D%20'asia'%20AND%20total%20%3E%20400", 1280, 760, 'dark', 'Payload'],
  ['topology', '#/topology?vhost=%2F', 1280, 620, 'light', 'orders.eu', true],
  ['dead-letters', '#/dead-letters', 1280, 420, 'light', 'orders.dead'],
  ['policies', '#/policies', 1280, 420, 'light', 'orders-limit'],
  ['queues-narrow', '#/queues', 390, 700, 'light', 'orders.asia'],
];

/** Things that are the same each time. */
async function scene(ends) {
  const connection = await amqp.connect(`amqp://127.0.0.1:${(await start()).amqp}`);
  ends.push(() => connection.close());
  const channel = await connection.createConfirmChannel();
  const queues = { 'orders.eu': 'quorum', 'orders.us': 'quorum', 'orders.asia': 'quorum', 'orders.dead': 'classic', audit: 'stream', mail: 'classic', unrouted: 'classic' };
  for (const [name, type] of Object.entries(queues)) {
    const letters = name.startsWith('orders.') && name !== 'orders.dead' ? { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'orders.dead' } : {};
    await channel.assertQueue(name, { durable: true, arguments: { 'x-queue-type': type, ...letters } });
    ends.push(() => api('DELETE', `queues/%2F/${name}`));
  }
  for (const [name, type, more] of [['orders', 'topic', { alternateExchange: 'nowhere' }], ['nowhere', 'fanout', {}], ['archive', 'fanout', {}], ['notes', 'direct', {}]]) {
    await channel.assertExchange(name, type, more);
    ends.push(() => api('DELETE', `exchanges/%2F/${name}`));
  }
  await channel.bindExchange('archive', 'orders', 'order.#');
  for (const [queue, exchange, key] of [['audit', 'archive', ''], ['orders.eu', 'orders', 'order.eu.#'], ['orders.us', 'orders', 'order.us.#'], ['orders.asia', 'orders', 'order.asia.*'], ['unrouted', 'nowhere', ''], ['mail', 'notes', 'mail']]) await channel.bindQueue(queue, exchange, key);
  await api('PUT', 'policies/%2F/orders-limit', { pattern: '^orders\\.', 'apply-to': 'queues', priority: 5, definition: { 'max-length': 100_000 } });
  ends.push(() => api('DELETE', 'policies/%2F/orders-limit'));
  const send = (i, region) => channel.publish('orders', `order.${region}.${i % 7 ? 'new' : 'paid'}`, Buffer.from(JSON.stringify({ id: 1000 + i, region, total: (i * 37) % 900, customer: { name: 'Ada', city: 'Turin' }, items: [1, 2, 3] })), {
    persistent: true, contentType: 'application/json', messageId: `m-${1000 + i}`, headers: { region, total: (i * 37) % 900 } });
  for (let i = 0; i < 60; i += 1) send(i, ['eu', 'us', 'asia'][i % 3]);
  for (let i = 0; i < 4; i += 1) channel.publish('orders', 'refund', Buffer.from('nobody takes it'));
  await channel.waitForConfirms();
  for (let i = 0; i < 5; i += 1) { const message = await channel.get('orders.eu'); channel.nack(message, false, false); }
  return { channel, connection, send };
}

/** Traffic for the pictures of what goes on. */
async function traffic(own) {
  const { channel, connection, send } = own;
  const reader = await connection.createChannel();
  await reader.prefetch(20);
  for (const queue of ['orders.eu', 'orders.us']) await reader.consume(queue, (message) => { if (message) setTimeout(() => reader.ack(message), queue === 'orders.us' ? 30 : 2); });
  let i = 60;
  for (const end = Date.now() + (TRAFFIC_S + DRAWING_S) * 1000; Date.now() < end && !own.isOver; await sleep(20)) {
    const many = 6 + Math.round(4 * Math.sin(i / 900));
    for (let n = 0; n < many; n += 1) { send(i, ['eu', 'us', 'us', 'asia', 'eu'][i % 5]); i += 1; }
    if (i % 40 < 10) channel.publish('notes', 'mail', Buffer.from('hello'));
  }
}

/** How wide some words are: with other letters no two pictures are alike. */
const measured = (page) => page.evaluate(() => {
  const box = document.createElement('span');
  box.textContent = 'Queues and streams 0123456789';
  document.body.append(box);
  const width = box.getBoundingClientRect().width;
  box.remove();
  return Math.round(width * 100) / 100;
});

/** The part of two pictures' pixels that differ; 1: their sizes do. */
const different = (page, ours, theirs) => page.evaluate(async (one, other, most) => {
  const read = async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height), context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  };
  const [a, b] = [await read(one), await read(other)];
  if (a.width !== b.width || a.height !== b.height) return 1;
  let count = 0;
  for (let at = 0; at < a.data.length; at += 4) if ([0, 1, 2].some((channel) => Math.abs(a.data[at + channel] - b.data[at + channel]) > most)) count += 1;
  return count / (a.width * a.height);
}, ours, theirs, CHANNEL);

module.exports = function pictures(suite) {
  suite.add('pictures', `pages as they are drawn in README and guide`, `${OURS}at most ${100 * PART} % of their pixels differ`, async (ends) => {
    const record = path.join(FOLDER, 'letters.json');
    const own = await scene(ends);
    const { page: blank, context } = await opened(ends);
    const width = await measured(blank);
    if (IS_DRAWING) {
      fs.mkdirSync(FOLDER, { recursive: true });
      fs.writeFileSync(record, `${JSON.stringify({ width })}\n`);
    } else if (JSON.parse(fs.readFileSync(record, 'utf8')).width !== width) {
      throw new Skipped('this machine has other letters than those of the pictures');
    }
    const empty = await context.newPage();
    const wrong = [];
    for (const [name, address, wide, high, theme, text, moves] of [...PICTURES].sort((a, b) => Number(!!a[6]) - Number(!!b[6]))) {
      if (moves && !IS_DRAWING) continue;
      if (moves && !own.hasTraffic) { own.hasTraffic = true; void traffic(own).catch(() => {}); await sleep(TRAFFIC_S * 1000); }
      const { page, context: room } = await entered(ends, { theme, width: wide, height: high });
      await page.evaluate((to) => { location.hash = to; }, address);
      await page.waitForFunction((one) => document.querySelector('main').textContent.includes(one), { timeout: 10_000 }, text);
      await sleep(moves ? 7000 : 1500);
      const drawn = Buffer.from(await page.screenshot({ type: 'png' })).toString('base64');
      await room.close();
      const file = path.join(FOLDER, `${name}.png`);
      if (IS_DRAWING) fs.writeFileSync(file, Buffer.from(drawn, 'base64'));
      else {
        const part = await different(empty, drawn, fs.readFileSync(file).toString('base64'));
        if (part > PART) wrong.push(`${name}: ${(100 * part).toFixed(1)} %`);
      }
    }
    own.isOver = true;
    if (wrong.length) throw new Error(`${wrong.join(', ')} of the pixels differ: look, and draw them anew with cargo xtask shots`);
  }, { ms: 240_000 });
};
