// Twelve tasks of an operator, done in the web interface by the keyboard alone, and the keys that each takes.
'use strict';

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const amqp = require('amqplib');
const { equal, sleep } = require('./bench');
const { api, entered, says, start, until } = require('./ui_bench');

const OURS = 'ours alone: ';
/** Keys that lead from one thing to the next, at most, before it is taken for out of reach. */
const TABS_MAX = 150;

/** Somebody with a keyboard; `keys` counts the keys that are no letters of a text. */
function hands(page) {
  const it = {
    keys: 0,
    async press(...all) { for (const key of all) { it.keys += 1; await page.keyboard.press(key); } },
    async type(text) { it.keys += 1; await page.keyboard.type(text); },
    /** Goes on by Tab until the focus is on what has this id, label or text. */
    async to(name, within = 'body') {
      for (let tries = 0; tries < TABS_MAX; tries += 1) {
        const is = await page.evaluate((wanted, where) => {
          const one = document.activeElement;
          if (!one || !one.closest(where)) return false;
          return one.id === wanted || one.getAttribute('aria-label') === wanted || one.textContent.trim() === wanted;
        }, name, within);
        if (is) return;
        await it.press('Tab');
      }
      throw new Error(`${name} is out of reach of ${TABS_MAX} keys; the focus is on ${await page.evaluate(() => document.activeElement?.outerHTML.slice(0, 120))}`);
    },
    /** Takes what is in a field for another text. */
    async fill(id, text) { await it.to(id); await page.keyboard.down('Control'); await it.press('a'); await page.keyboard.up('Control'); await it.type(text); },
    /** To the top of a page, as a reader of it begins. */
    async top() { await page.evaluate(() => document.getElementById('main').focus()); },
  };
  return it;
}

async function scene(ends) {
  const connection = await amqp.connect(`amqp://127.0.0.1:${(await start()).amqp}`, { clientProperties: { connection_name: 'task-client' } });
  ends.push(() => connection.close().catch(() => {}));
  const channel = await connection.createConfirmChannel();
  channel.on('error', () => {});
  connection.on('error', () => {});
  for (const name of ['task.grows', 'task.full', 'task.empty', 'task.dead']) {
    await channel.assertQueue(name, { durable: true, arguments: name === 'task.empty' ? { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'task.dead' } : {} });
    ends.push(() => api('DELETE', `queues/%2F/${name}`).catch(() => {}));
  }
  const send = async (queue, count) => {
    for (let i = 0; i < count; i += 1) channel.sendToQueue(queue, Buffer.from(JSON.stringify({ number: i })), { headers: { n: i } });
    await channel.waitForConfirms();
  };
  await send('task.grows', 50);
  await send('task.full', 20);
  await send('task.empty', 15);
  for (let i = 0; i < 15; i += 1) channel.nack(await channel.get('task.empty'), false, false);
  await channel.assertExchange('task.topic', 'topic');
  ends.push(() => api('DELETE', 'exchanges/%2F/task.topic'));
  await channel.bindQueue('task.full', 'task.topic', 'order.#');
  await channel.prefetch(3);
  await channel.consume('task.grows', () => {}, { consumerTag: 'task-holder' });
  return { channel, connection };
}

/** Each: its name, and how it is done. */
const TASKS = [
  ['the queue that grows', async ({ page, hand }) => {
    await hand.press('g', 'q');
    await until(page, 'Queues and streams');
    await hand.press('/');
    await hand.type('task.');
    await says(page, 'task.grows', '.view');
    await hand.to('Ready', '.view');
    await hand.press('Enter', 'Enter');
    await page.waitForFunction(() => document.querySelector('.view [role=row] a')?.textContent === 'task.grows', { timeout: 5000 });
    await hand.to('task.grows');
    await hand.press('Enter');
    await until(page, 'task.grows');
  }],
  ['who holds its messages', async ({ page, hand }) => {
    await hand.top();
    await hand.to('Unacked', '.tabs');
    await hand.press('Enter');
    await says(page, 'task-holder', 'main table');
  }],
  ['one of its messages', async ({ page, hand }) => {
    await hand.top();
    await hand.to('Messages', '.tabs');
    await hand.press('Enter');
    await says(page, '{"number":3}', '.messages');
    await hand.to('3', '.messages');
    await hand.press('Enter');
    await page.waitForSelector('.opened .payload', { timeout: 5000 });
  }],
  ['ten dead letters sent home', async ({ page, hand }) => {
    await hand.press('g', 'x');
    await until(page, 'Dead letters');
    await says(page, 'task.dead', 'main');
    await hand.top();
    await hand.to('Send home', 'main');
    await hand.press('Enter');
    await hand.fill('home-count', '10');
    await hand.press('Enter');
    await says(page, '10 messages sent home');
    equal((await api('GET', 'queues/%2F/task.empty?columns=messages')).messages, 10, 'at home');
  }],
  ['why a key is not routed', async ({ page, hand }) => {
    await hand.press('g', 'r');
    await until(page, 'Trace a route');
    await page.waitForFunction(() => document.querySelectorAll('#trace-exchange option').length > 3);
    await hand.to('trace-exchange');
    await hand.type('task.topic');
    await hand.fill('trace-key', 'invoice.new');
    await hand.press('Enter');
    await says(page, "the key 'invoice.new' does not match the pattern 'order.#'", 'main');
  }],
  ['a user with rights on one prefix', async ({ page, hand, ends }) => {
    ends.push(() => api('DELETE', 'users/task-user').catch(() => {}));
    await hand.press('g', 'u');
    await until(page, 'Users');
    await hand.top();
    await hand.to('Add a user', 'main');
    await hand.press('Enter');
    await page.waitForSelector('dialog input');
    await hand.to('form-name');
    await hand.type('task-user');
    await hand.to('form-password');
    await hand.type('secret');
    await hand.press('Enter');
    await page.waitForFunction(() => !document.querySelector('dialog[open]'), { timeout: 5000 });
    await says(page, 'task-user', 'main');
    await hand.top();
    await hand.to('task-user', 'main');
    await hand.press('Enter');
    await until(page, 'task-user');
    for (const right of ['configure', 'write', 'read']) await hand.fill(`permission-${right}`, '^shop-');
    await hand.press('Enter');
    await says(page, '^shop-', 'main table');
    equal((await api('GET', 'permissions/%2F/task-user')).configure, '^shop-', 'the right');
  }],
  ['a policy before it is saved', async ({ page, hand }) => {
    await hand.press('g', 'p');
    await until(page, 'Policies');
    await hand.top();
    await hand.to('Add a policy', 'main');
    await hand.press('Enter');
    await page.waitForSelector('dialog input');
    await hand.to('form-name');
    await hand.type('task-policy');
    await hand.to('form-pattern');
    await hand.type('^task[.]');
    await hand.to('Argument', 'dialog');
    await hand.type('max-length');
    await hand.to('Value', 'dialog');
    await hand.type('1000');
    await hand.to('Kind of value', 'dialog');
    await hand.type('Number');
    await hand.to('What would it do?', 'dialog');
    await hand.press('Enter');
    await says(page, 'that match', 'dialog');
    await hand.press('Escape');
    await page.waitForFunction(() => !document.querySelector('dialog[open]'));
  }],
  ['the peak of last night', async ({ page, hand }) => {
    await hand.press('g', 'o');
    await until(page, 'Overview');
    await hand.top();
    await hand.to('24 h', 'main');
    await hand.press('Enter');
    await page.waitForFunction(() => location.hash.includes('age=24h'));
    await page.waitForFunction(() => document.querySelector('canvas[tabindex], figure canvas'), { timeout: 5000 });
  }],
  ['definitions taken out, and put in with a look', async ({ page, hand, folder }) => {
    await hand.press('g', 'd');
    await until(page, 'Definitions');
    await hand.top();
    await hand.to('Download', 'main');
    await hand.press('Enter');
    let file;
    for (let tries = 0; tries < 100 && !file; tries += 1) { await sleep(100); file = fs.readdirSync(folder).find((name) => name.endsWith('.json')); }
    const kept = JSON.parse(fs.readFileSync(path.join(folder, file), 'utf8'));
    kept.queues = [...(kept.queues ?? []), { vhost: '/', name: 'task.new', durable: true, auto_delete: false, arguments: {} }];
    fs.writeFileSync(path.join(folder, 'changed.json'), JSON.stringify(kept));
    // A browser's own dialog of files takes no keys from here.
    await (await page.$('input[type=file]')).uploadFile(path.join(folder, 'changed.json'));
    await says(page, '1 thing new', 'main');
    equal((await api('GET', 'queues')).some((one) => one.name === 'task.new'), false, 'nothing is put in');
  }],
  ['a queue that is stuck, drained by moving', async ({ page, hand }) => {
    await page.keyboard.down('Control'); await hand.press('k'); await page.keyboard.up('Control');
    await page.waitForSelector('dialog.palette');
    await hand.type('task.full');
    await says(page, 'queue in /', 'dialog');
    await hand.press('Enter');
    await until(page, 'task.full');
    await hand.top();
    await hand.to('Move', '.tabs');
    await hand.press('Enter');
    await hand.to('move-key');
    await hand.type('task.dead');
    await hand.press('Enter');
    await says(page, '20 messages moved');
  }],
  ['a connection closed', async ({ page, hand }) => {
    await hand.press('g', 'c');
    await until(page, 'Connections');
    await hand.press('/');
    await hand.type('127.0.0.1');
    await says(page, 'task-client', 'main');
    await page.evaluate(() => document.querySelector('.view').focus());
    await hand.press('j', 'Enter');
    await until(page, 'task-client');
    await hand.top();
    await hand.to('Close', 'main');
    await hand.press('Enter');
    await page.waitForSelector('#close-reason');
    await hand.to('close-reason');
    await hand.press('Enter');
    await says(page, 'The connection is closed.');
  }],
  ['the log of one client', async ({ page, hand }) => {
    await hand.press('g', 'i');
    await until(page, 'Log');
    await page.waitForSelector('#filter');
    await hand.press('/');
    await hand.type('AMQP connection 127.0.0.1');
    await says(page, 'accepting AMQP connection 127.0.0.1', '.log');
  }],
];

module.exports = function tasks(suite) {
  suite.add('tasks', `${TASKS.length} tasks of an operator by the keyboard alone`, `${OURS}each can be done; the keys that it takes are told`, async (ends) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'leveret-ui-tasks-'));
    ends.push(() => fs.rmSync(folder, { recursive: true, force: true }));
    await scene(ends);
    const { page, seen, context } = await entered(ends);
    const session = await page.createCDPSession();
    await session.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: folder, browserContextId: context.id });
    for (const [name, act] of TASKS) {
      const hand = hands(page);
      try { await act({ page, hand, ends, folder }); } catch (error) { throw new Error(`${name}: ${error.message}`); }
      process.stderr.write(`${name}: ${hand.keys} keys\n`);
      await page.evaluate(() => document.activeElement?.blur?.());
    }
    equal(seen.errors.filter((one) => !/status of 404/.test(one)), [], 'complaints');
  }, { ms: 120_000 });
};
