// Cases of the web interface that look into queues: found, followed, held, moved; and what explains: routes, policies, rights.
'use strict';

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const amqp = require('amqplib');
const { equal, sleep } = require('./bench');
const { api, entered, go, press, says, start } = require('./ui_bench');

const OURS = 'ours alone: ';

/** A channel with confirms, closed at the end. */
async function connected(ends) {
  const connection = await amqp.connect(`amqp://127.0.0.1:${(await start()).amqp}`);
  ends.push(() => connection.close());
  return connection.createConfirmChannel();
}

/** A queue that is deleted at the end, with as many messages: number `i` has the headers that `of(i)` says. */
async function filled(ends, channel, name, type, count, of = () => ({})) {
  await channel.assertQueue(name, { durable: true, arguments: { 'x-queue-type': type } });
  ends.push(() => api('DELETE', `queues/%2F/${name}`));
  for (let i = 0; i < count; i += 1) channel.sendToQueue(name, Buffer.from(JSON.stringify({ number: i })), { headers: of(i), messageId: `m-${i}` });
  await channel.waitForConfirms();
}

/** Types into a field, in place of what is there. */
async function typed(page, where, text) {
  await page.waitForSelector(where);
  await page.evaluate((one) => { const field = document.querySelector(one); field.value = ''; field.focus(); }, where);
  await page.type(where, text);
}

const rows = (page) => page.evaluate(() => document.querySelectorAll('.messages tbody tr:not(.opened)').length);

module.exports = function looks(suite) {
  suite.add('search', 'a condition on 20,000 messages of a queue and of a stream', `${OURS}those of which it is true are found, how many were scanned is told, a fault says where it is; nothing about them changes`, async (ends) => {
    const channel = await connected(ends);
    const { page, seen } = await entered(ends);
    for (const [name, type] of [['ui.find', 'classic'], ['ui.find.stream', 'stream']]) {
      await filled(ends, channel, name, type, 20_000, (i) => ({ region: i % 1000 === 7 ? 'eu' : 'us', total: i }));
      await go(page, `#/queues/%2F/${name}?tab=messages`, name);
      await typed(page, '#message-where', "region = 'eu' AND total > 5000");
      await press(page, 'Find', 'main');
      await says(page, 'scanned 20,000 · found 15', 'main');
      await says(page, 'that is all', 'main');
      equal(await rows(page), 15, 'rows');
      await says(page, '{"number":5007}', '.messages');
      await typed(page, '#message-where', 'region = ');
      seen.errors.length = 0;
      await press(page, 'Find', 'main');
      await says(page, 'where: at byte', 'main');
      seen.errors.length = 0;
      await press(page, 'Show all', 'main');
      await says(page, '{"number":0}', '.messages');
    }
    equal(seen.errors, [], 'complaints');
    const first = await channel.get('ui.find');
    equal([first.fields.redelivered, first.content.toString(), first.fields.messageCount], [false, '{"number":0}', 19_999], 'the first message');
    await go(page, '#/messages?where=total%20%3D%2019999&names=%5Eui.find', 'Find messages');
    await says(page, 'found 2', 'main');
    await says(page, 'in 2 queues', 'main');
  });

  suite.add('search.box', 'a condition while it is typed: names that begin so, one taken by keys, a fault, and none', `${OURS}fields of JSON and headers of the messages that are there are offered; a fault is told with its place before anything is looked for`, async (ends) => {
    const channel = await connected(ends);
    const { page, seen } = await entered(ends);
    await channel.assertQueue('ui.box', { durable: true });
    ends.push(() => api('DELETE', 'queues/%2F/ui.box'));
    channel.sendToQueue('ui.box', Buffer.from(JSON.stringify({ total: 7, lines: [{ sku: 'a', 'unit price': 2 }], note: null })), { headers: { region: 'eu' } });
    await channel.waitForConfirms();
    await go(page, '#/queues/%2F/ui.box?tab=messages', 'ui.box');
    await says(page, '"total":7', '.messages');
    const offered = () => page.evaluate(() => [...document.querySelectorAll('.condition [role=option]')].map((one) => one.textContent));
    const soon = async (look, expected, what) => { for (let i = 0; i < 50 && JSON.stringify(await look()) !== JSON.stringify(expected); i += 1) await sleep(50); equal(await look(), expected, what); };
    await typed(page, '#message-where', 'body.li');
    await soon(offered, ['body.lines', 'body.lines.sku', "body.lines['unit price']"], 'fields');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    const value = () => page.evaluate(() => document.querySelector('#message-where').value);
    equal(await value(), 'body.lines.sku', 'taken');
    await soon(offered, [], 'none is offered');
    const fault = () => page.evaluate(() => [document.querySelector('.condition .fault').textContent, document.querySelector('#message-where').getAttribute('aria-invalid')]);
    await page.type('#message-where', ' = ');
    await soon(fault, ['at byte 16: a value expected', 'true'], 'a fault');
    await page.type('#message-where', "'a' AND reg");
    await soon(offered, ['region'], 'headers');
    await page.keyboard.press('Escape');
    await page.type('#message-where', "ion = 'eu'");
    await soon(fault, ['', null], 'no fault');
    await press(page, 'Find', 'main');
    await says(page, 'found 1', 'main');
    equal(seen.errors, [], 'complaints');
  });

  suite.add('search.stop', 'a search of 100,000 messages that finds nothing, stopped', `${OURS}it goes on piece by piece, and ends within 300 ms`, async (ends) => {
    const channel = await connected(ends);
    await filled(ends, channel, 'ui.long', 'classic', 100_000, () => ({ a: 1 }));
    const { page, seen } = await entered(ends);
    await go(page, '#/queues/%2F/ui.long?tab=messages&where=a%20%3D%202', 'ui.long');
    const stopped = await page.evaluate(async () => {
      const button = () => [...document.querySelectorAll('main button')].find((one) => one.textContent.trim() === 'Stop');
      for (let tries = 0; tries < 1000 && !button(); tries += 1) await new Promise((go) => { setTimeout(go, 1); });
      const before = performance.now();
      button().click();
      while (!/stopped/.test(document.querySelector('main').textContent)) await new Promise((go) => { setTimeout(go, 5); });
      return performance.now() - before;
    });
    if (stopped > 300) throw new Error(`${stopped} ms`);
    await sleep(500);
    const asked = seen.requests.filter((url) => /where=a/.test(url)).length;
    await sleep(700);
    equal(seen.requests.filter((url) => /where=a/.test(url)).length, asked, 'requests behind the end');
  });

  suite.add('follow', 'messages that come to a queue while somebody follows it', `${OURS}they are shown as they come, those that a consumer took before are counted, and all stay when it is stopped`, async (ends) => {
    const channel = await connected(ends);
    await filled(ends, channel, 'ui.tail', 'classic', 3);
    const { page } = await entered(ends);
    await go(page, '#/queues/%2F/ui.tail?tab=messages', 'ui.tail');
    await says(page, '{"number":2}', '.messages');
    await press(page, 'Follow', 'main');
    await says(page, 'Nothing came so far', 'main');
    await sleep(1500);
    channel.sendToQueue('ui.tail', Buffer.from('fresh'));
    await says(page, 'fresh', '.messages');
    const { consumerTag } = await channel.consume('ui.tail', () => {}, { noAck: true });
    channel.sendToQueue('ui.tail', Buffer.from('taken'));
    await channel.waitForConfirms();
    await says(page, '1 not shown', 'main');
    await channel.cancel(consumerTag);
    await press(page, 'Stop', 'main');
    await sleep(300);
    channel.sendToQueue('ui.tail', Buffer.from('later'));
    await sleep(1500);
    equal(await page.evaluate(() => [/fresh/, /later/].map((one) => one.test(document.querySelector('.messages').textContent))), [true, false], 'rows');
    await press(page, 'Go on', 'main');
    await says(page, 'later', '.messages');
  });

  suite.add('selection', 'chosen messages moved, exported, changed and sent, and deleted', `${OURS}those and no others; where they would go is said before`, async (ends) => {
    const channel = await connected(ends);
    await filled(ends, channel, 'ui.from', 'quorum', 6, (i) => ({ n: i }));
    await filled(ends, channel, 'ui.to', 'classic', 0);
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'leveret-ui-export-'));
    ends.push(() => fs.rmSync(folder, { recursive: true, force: true }));
    const { page, context } = await entered(ends);
    const session = await page.createCDPSession();
    await session.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: folder, browserContextId: context.id });
    await go(page, '#/queues/%2F/ui.from?tab=messages', 'ui.from');
    const choose = async (numbers) => {
      await says(page, `{"number":${numbers[0]}}`, '.messages');
      await page.evaluate((all) => {
        for (const row of document.querySelectorAll('.messages tbody tr')) {
          if (all.some((one) => row.textContent.includes(`{"number":${one}}`))) row.querySelector('input').click();
        }
      }, numbers);
      await says(page, `${numbers.length} selected`, 'main');
    };
    await choose([1, 4]);
    await press(page, 'Export', 'main');
    let file;
    for (let tries = 0; tries < 50 && !file; tries += 1) { await sleep(100); file = fs.readdirSync(folder).find((name) => name.endsWith('.jsonl')); }
    const lines = fs.readFileSync(path.join(folder, file), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
    equal(lines.map((one) => [one.payload, one.properties.message_id, one.properties.headers.n]), [['{"number":1}', 'm-1', 1], ['{"number":4}', 'm-4', 4]], 'the file');
    await press(page, 'Move', 'main > .tools');
    await typed(page, '#to-key', 'nowhere');
    await says(page, 'Would go nowhere', 'dialog');
    await typed(page, '#to-key', 'ui.to');
    await says(page, 'Would go to ui.to', 'dialog');
    await press(page, 'Move', 'dialog');
    await says(page, '2 messages moved');
    equal([(await channel.get('ui.to')).content.toString(), (await channel.get('ui.to')).content.toString()], ['{"number":1}', '{"number":4}'], 'moved');
    await choose([2]);
    await press(page, 'Edit and send', 'main');
    await typed(page, '#again-key', 'ui.to');
    await typed(page, '#again-payload', 'changed');
    await press(page, 'Publish', 'dialog');
    await says(page, 'Published and safe');
    const copy = await channel.get('ui.to');
    equal([copy.content.toString(), copy.properties.messageId, copy.properties.headers.n], ['changed', 'm-2', 2], 'the copy');
    await press(page, 'Delete', 'main > .tools');
    await says(page, 'Delete 1 message of ui.from', 'dialog');
    await press(page, 'Delete', 'dialog');
    await says(page, '1 message deleted');
    equal((await channel.checkQueue('ui.from')).messageCount, 3, 'those that are left');
  });

  suite.add('many', 'two queues chosen in the list, their messages moved; a message published from the page of a queue', `${OURS}all of them are in the other queue; the message is in its own`, async (ends) => {
    const channel = await connected(ends);
    await filled(ends, channel, 'ui.many.a', 'classic', 7);
    await filled(ends, channel, 'ui.many.b', 'quorum', 5);
    await filled(ends, channel, 'ui.many.to', 'classic', 0);
    const { page, seen } = await entered(ends);
    await go(page, '#/queues?name=ui.many', 'Queues and streams');
    await page.waitForFunction(() => [...document.querySelectorAll('.view [role=row] a')].some((one) => one.textContent === 'ui.many.b'), { timeout: 10_000 });
    await page.evaluate(() => {
      for (const row of document.querySelectorAll('.view [role=row]')) if (/ui\.many\.[ab]/.test(row.textContent)) row.querySelector('input').click();
    });
    await says(page, '2 selected', 'main');
    await press(page, 'Move', 'main');
    await says(page, 'Move 12 messages of 2 queues', 'dialog');
    await typed(page, '#move-key', 'ui.many.to');
    await press(page, 'Move', 'dialog');
    await says(page, '12 messages moved');
    equal((await channel.checkQueue('ui.many.to')).messageCount, 12, 'moved');
    await go(page, '#/queues/%2F/ui.many.a', 'ui.many.a');
    await press(page, 'Publish', '.head-line');
    await typed(page, '#again-payload', 'by hand');
    await press(page, 'Publish', 'dialog');
    await says(page, 'Published and safe');
    equal((await channel.get('ui.many.a')).content.toString(), 'by hand', 'the message');
    equal(seen.errors, [], 'complaints');
  });

  suite.add('unacked', 'messages that two consumers hold', `${OURS}each with its holder, and since when where that is known`, async (ends) => {
    const channel = await connected(ends), other = await connected(ends);
    await filled(ends, channel, 'ui.held', 'quorum', 5);
    await channel.prefetch(2);
    await channel.consume('ui.held', () => {}, { consumerTag: 'first' });
    await other.prefetch(1);
    await other.consume('ui.held', () => {}, { consumerTag: 'second' });
    const { page, seen } = await entered(ends);
    await go(page, '#/queues/%2F/ui.held?tab=unacked', 'ui.held');
    await says(page, 'first', 'main');
    await says(page, 'second', 'main');
    await says(page, 'By connection', 'main');
    equal(await page.evaluate(() => document.querySelectorAll('main table:last-of-type tbody tr').length >= 3), true, 'rows');
    // One is accepted for its holder, which is given the next; then all that are held are rejected.
    await press(page, 'Accept', 'main');
    await press(page, 'Accept', 'dialog');
    await says(page, '1 message settled');
    await press(page, 'Settle by a condition', 'main');
    await page.select('#settle-outcome', 'rejected');
    await press(page, 'Settle', 'dialog');
    await says(page, '3 messages settled');
    for (let tries = 0; tries < 50 && (await api('GET', 'x/queues/%2F/ui.held/unacked')).messages.length !== 1; tries += 1) await sleep(50);
    equal((await api('GET', 'x/queues/%2F/ui.held/unacked')).messages.map((one) => one.position), [4], 'one is left');
    equal(seen.errors, [], 'complaints');
  });

  suite.add('letters', 'dead letters of two queues: found, explained and sent home', `${OURS}the queue that they are in is found, where and why they died is told, and they come back`, async (ends) => {
    const channel = await connected(ends);
    await filled(ends, channel, 'ui.dead', 'classic', 0);
    for (const name of ['ui.live.1', 'ui.live.2']) {
      await channel.assertQueue(name, { durable: true, arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'ui.dead' } });
      ends.push(() => api('DELETE', `queues/%2F/${name}`));
      for (let i = 0; i < 4; i += 1) channel.sendToQueue(name, Buffer.from('x'));
      await channel.waitForConfirms();
      for (let i = 0; i < 4; i += 1) channel.nack(await channel.get(name), false, false);
    }
    for (let tries = 0; tries < 50 && (await channel.checkQueue('ui.dead')).messageCount < 8; tries += 1) await sleep(50);
    const { page, seen } = await entered(ends);
    await go(page, '#/dead-letters', 'Dead letters');
    await says(page, 'ui.dead', 'main');
    await press(page, 'Why', 'main');
    await says(page, 'rejected', '.opened');
    await says(page, 'ui.live.2', '.opened');
    await press(page, 'Send home', 'main');
    await typed(page, '#home-count', '5');
    await press(page, 'Send home', 'dialog');
    await says(page, '5 messages sent home');
    equal((await channel.checkQueue('ui.dead')).messageCount, 3, 'letters that are left');
    equal((await channel.checkQueue('ui.live.1')).messageCount + (await channel.checkQueue('ui.live.2')).messageCount, 5, 'at home');
    equal(seen.errors, [], 'complaints');
  });

  suite.add('trace', 'a key through two exchanges, and one that leads nowhere', `${OURS}each exchange on the way with its bindings, why those that do not match do not; whether a user may`, async (ends) => {
    const channel = await connected(ends);
    await filled(ends, channel, 'ui.end', 'classic', 0);
    for (const [name, type, more] of [['ui.in', 'topic', { alternateExchange: 'ui.instead' }], ['ui.behind', 'fanout', {}], ['ui.instead', 'fanout', {}]]) {
      await channel.assertExchange(name, type, more);
      ends.push(() => api('DELETE', `exchanges/%2F/${name}`));
    }
    await channel.bindExchange('ui.behind', 'ui.in', 'order.#');
    await channel.bindQueue('ui.end', 'ui.behind', '');
    await api('PUT', 'users/tracer', { password: 'x', tags: '' });
    ends.push(() => api('DELETE', 'users/tracer'));
    await api('PUT', 'permissions/%2F/tracer', { configure: '', write: '^other', read: '' });
    const { page, seen } = await entered(ends);
    await go(page, '#/trace?vhost=%2F&exchange=ui.in&key=order.eu', 'Trace a route');
    await page.waitForFunction(() => document.querySelector('#trace-exchange')?.value === 'ui.in', { timeout: 5000 });
    await press(page, 'Trace', 'main');
    await says(page, 'It would go to', 'main');
    await says(page, 'through ui.in', 'main');
    await typed(page, '#trace-key', 'invoice');
    await page.select('#trace-user', 'tracer');
    await press(page, 'Trace', 'main');
    await says(page, 'It would go nowhere', 'main');
    await says(page, "the key 'invoice' does not match the pattern 'order.#'", 'main');
    await says(page, 'since it leads nowhere from ui.in', 'main');
    await says(page, "write access to exchange 'ui.in'", 'main');
    await go(page, '#/users/tracer', 'tracer');
    await typed(page, '#test-name', 'mine');
    await press(page, 'Ask', 'main');
    await says(page, "No: configure access to queue 'mine'", 'main');
    await page.select('#test-access', 'write');
    await typed(page, '#test-name', 'other.one');
    await press(page, 'Ask', 'main');
    await says(page, 'Yes: the name matches ^other', 'main');
    equal(seen.errors, [], 'complaints');
  });

  suite.add('preview', 'a policy before it is saved', `${OURS}how many it would count for, which policy loses and which keeps; nothing is saved`, async (ends) => {
    for (const name of ['pre.a', 'pre.b', 'pre.c']) { await api('PUT', `queues/%2F/${name}`, { durable: true }); ends.push(() => api('DELETE', `queues/%2F/${name}`)); }
    for (const [name, pattern, priority] of [['pre-weak', '^pre.a', 1], ['pre-strong', '^pre.b', 9]]) {
      await api('PUT', `policies/%2F/${name}`, { pattern, priority, definition: { 'max-length': 10 }, 'apply-to': 'queues' });
      ends.push(() => api('DELETE', `policies/%2F/${name}`));
    }
    await sleep(500);
    const { page, seen } = await entered(ends);
    await go(page, '#/policies', 'Policies');
    await press(page, 'Add a policy', 'main');
    await typed(page, '#form-name', 'pre-new');
    await typed(page, '#form-pattern', '^pre');
    await typed(page, '#form-priority', '5');
    await page.select('#form-apply', 'queues');
    await page.type('dialog .pairs input', 'max-length');
    await page.evaluate(() => { const [, value] = document.querySelectorAll('dialog .pair input'); value.value = '7'; value.dispatchEvent(new Event('input')); });
    await page.select('dialog .pair select', 'number');
    await press(page, 'What would it do?', 'dialog');
    await says(page, 'It would count for 2 objects, of 3 that match', 'dialog');
    await says(page, 'pre-weak loses 1 to it', 'dialog');
    await says(page, 'pre-strong counts more, and keeps 1', 'dialog');
    await press(page, 'Cancel', 'dialog');
    equal((await api('GET', 'policies/%2F')).map((one) => one.name).filter((name) => name.startsWith('pre')).sort(), ['pre-strong', 'pre-weak'], 'policies');
    equal(seen.errors, [], 'complaints');
  });

  suite.add('topology', 'a picture of what is bound', `${OURS}exchanges and queues as links, bindings as lines whose counts are counted`, async (ends) => {
    const channel = await connected(ends);
    await filled(ends, channel, 'ui.drawn', 'classic', 0);
    await channel.assertExchange('ui.source', 'direct');
    ends.push(() => api('DELETE', 'exchanges/%2F/ui.source'));
    await channel.bindQueue('ui.drawn', 'ui.source', 'k');
    for (let i = 0; i < 30; i += 1) channel.publish('ui.source', 'k', Buffer.from('x'));
    await channel.waitForConfirms();
    const { page, seen } = await entered(ends);
    await go(page, '#/topology?vhost=%2F', 'Topology');
    await page.waitForSelector('.topology .box.queue', { timeout: 5000 });
    equal(await page.evaluate(() => [...document.querySelectorAll('.topology .edge title')].some((one) => /ui\.source → ui\.drawn\nk\n30 counted/.test(one.textContent))), true, 'the line');
    await press(page, 'As a table', 'main');
    await says(page, 'ui.drawn', 'main table');
    await press(page, 'As a picture', 'main');
    await page.waitForSelector('.topology .box.queue', { timeout: 5000 });
    await page.evaluate(() => [...document.querySelectorAll('.topology .box.queue')].find((one) => /ui\.drawn/.test(one.textContent)).dispatchEvent(new MouseEvent('click', { bubbles: true })));
    await says(page, 'ui.drawn', 'main h1');
    equal(seen.errors, [], 'complaints');
  });

  suite.add('advice', 'a queue with messages and no consumer, one with dead letters, one that is nearly full', `${OURS}each is told on the overview, with one thing to do`, async (ends) => {
    const channel = await connected(ends);
    await filled(ends, channel, 'ui.alone', 'classic', 7);
    await channel.assertQueue('ui.tight', { durable: true, arguments: { 'x-max-length': 10, 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'ui.grave' } });
    ends.push(() => api('DELETE', 'queues/%2F/ui.tight'));
    await filled(ends, channel, 'ui.grave', 'classic', 2);
    for (let i = 0; i < 9; i += 1) channel.sendToQueue('ui.tight', Buffer.from('x'));
    await channel.waitForConfirms();
    const { page, seen } = await entered(ends);
    await says(page, 'has 7 messages and no consumer', '.advice');
    await says(page, 'has 9 of 10 messages that it may have', '.advice');
    await says(page, 'has 2 dead letters', '.advice');
    await press(page, 'Move', '.advice');
    await says(page, 'Move messages', 'main');
    equal(seen.errors, [], 'complaints');
  });
};
