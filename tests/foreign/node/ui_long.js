// The web interface measured: times with 100,000 queues and a million messages, and the cost of pages that are open. Nothing else
// may run meanwhile; each time is the median of five.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const amqp = require('amqplib');
const { Suite, equal, sleep } = require('./bench');
const { api, entered, go, logIn, opened, pid, raw, says, start } = require('./ui_bench');

const suite = new Suite('ui-long');
const OURS = 'ours alone: ';
const LONG_MS = 900_000;
const TRIES = 5;
const QUEUES = 100_000;
const MESSAGES = 1_000_000;

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** A time, said and held to a bound. */
function held(what, values, most) {
  const middle = median(values);
  process.stderr.write(`${what}: ${middle.toFixed(0)} ms, of ${values.map((one) => one.toFixed(0)).join(' ')}; at most ${most}\n`);
  if (middle > most) throw new Error(`${what} took ${middle.toFixed(0)} ms, at most ${most} (${values.map((one) => one.toFixed(0)).join(' ')})`);
}

/** How long it takes until this is so in the page; `act` begins it there. The page itself may evaluate no text. */
const timed = (page, act, is, ...words) => page.evaluate(`(async () => {
  const words = ${JSON.stringify(words)}, act = ${act}, is = ${is};
  const from = performance.now();
  act(...words);
  while (!is(...words)) {
    if (performance.now() - from > 30_000) throw new Error(location.hash + ' is not seen');
    await new Promise((next) => { requestAnimationFrame(next); });
  }
  return performance.now() - from;
})()`);

/**
 * What the page answers, and the tasks of its thread meanwhile that were longest: how long each took, and how long it had a
 * processor. Tasks that wait for one, as other work is there, are long as well.
 */
async function traced(page, act) {
  await page.tracing.start({ categories: ['toplevel'] });
  const answer = await page.evaluate(act);
  const { traceEvents } = JSON.parse(Buffer.from(await page.tracing.stop()).toString());
  const threads = traceEvents.filter((one) => one.name === 'thread_name' && one.args.name === 'CrRendererMain').map((one) => `${one.pid}/${one.tid}`);
  const tasks = traceEvents.filter((one) => /RunTask$/.test(one.name) && one.dur && threads.includes(`${one.pid}/${one.tid}`));
  const longest = (of) => tasks.reduce((most, one) => (one[of] > most[of] ? one : most), { dur: 0, tdur: 0 });
  return { answer, longest: longest('dur'), busiest: longest('tdur') };
}

/** Nanoseconds of processor that each thread of the broker had so far: exactly, as ticks favour what a timer wakes. */
async function spent() {
  const tasks = `/proc/${await pid()}/task`, had = new Map();
  for (const task of fs.readdirSync(tasks)) {
    try { had.set(task, Number(fs.readFileSync(`${tasks}/${task}/schedstat`, 'utf8').split(' ')[0])); } catch { /* it ended */ }
  }
  return had;
}

/** The broker's share of a processor over so many seconds, in percents. */
async function share(seconds) {
  const before = await spent();
  await sleep(seconds * 1000);
  const used = [...await spent()].reduce((sum, [task, had]) => sum + had - (before.get(task) ?? 0), 0);
  return used / (seconds * 1e7);
}

let hasQueues = false;

/** A hundred thousand queues, some with messages. */
async function manyQueues() {
  if (hasQueues) return;
  hasQueues = true;
  for (let from = 0; from < QUEUES; from += 20_000) {
    const queues = Array.from({ length: 20_000 }, (_, i) => ({ vhost: '/', name: `many.${String(from + i).padStart(6, '0')}`, durable: true, auto_delete: false, arguments: {} }));
    await api('POST', 'definitions', { queues });
  }
  const connection = await amqp.connect(`amqp://127.0.0.1:${(await start()).amqp}`);
  const channel = await connection.createConfirmChannel();
  for (let i = 0; i < 500; i += 1) for (let n = 0; n <= i % 20; n += 1) channel.sendToQueue(`many.${String(i * 191).padStart(6, '0')}`, Buffer.from('x'));
  await channel.waitForConfirms();
  await connection.close();
}

/** Pages were open, and rates are sampled for ten minutes behind them. */
let hadPages = false;

const long = (name, behaviour, answer, act) => suite.add(name, behaviour, `${OURS}${answer}`, (ends) => act(ends).finally(() => { hadPages = true; }), { ms: LONG_MS });

long('login', 'from the button to numbers on the screen', 'at most 500 ms and 20 requests', async (ends) => {
  const times = [];
  for (let i = 0; i < TRIES; i += 1) {
    const { page, seen, context } = await opened(ends);
    const before = seen.requests.length, from = Date.now();
    await logIn(page);
    await page.waitForFunction(() => /^\d/.test(document.querySelectorAll('.stat dd')[0]?.textContent ?? ''), { timeout: 10_000, polling: 'raf' });
    const typed = 60; // milliseconds that typing takes at least
    times.push(Date.now() - from - typed);
    if (seen.requests.length - before > 20) throw new Error(`${seen.requests.length - before} requests: ${seen.requests.slice(before)}`);
    await context.close();
  }
  held('login', times, 500);
});

long('queues', `a list of ${QUEUES} queues`, 'first rows within 300 ms, a jump anywhere within 250, sorting by depth within 300, no task over 50 ms while scrolling, 120 rows in the page at most', async (ends) => {
  await manyQueues();
  const { page } = await entered(ends);
  const hasRows = () => document.querySelectorAll('.view [role=row]').length > 5 && !/^\s*$/.test(document.querySelector('.view [role=row] a')?.textContent ?? '');
  const first = [];
  for (let i = 0; i < TRIES; i += 1) {
    await go(page, '#/alarms', 'Alarms');
    first.push(await timed(page, () => { location.hash = '#/queues'; }, hasRows));
  }
  held('first rows', first, 300);
  const rowAt = (part) => {
    const view = document.querySelector('.view'), all = [...document.querySelectorAll('.view [role=row] a')];
    const box = view.getBoundingClientRect();
    return all.some((one) => { const own = one.getBoundingClientRect(); return one.textContent.startsWith('many.') && own.top > box.top + 40 && own.bottom < box.bottom; }) && Math.abs(view.scrollTop - view.scrollHeight * part) < view.clientHeight * 2;
  };
  for (const part of [0.5, 0.9, 0.1, 0.99, 0.33]) {
    const times = [];
    for (let i = 0; i < TRIES; i += 1) {
      await page.evaluate(() => { document.querySelector('.view').scrollTop = 0; });
      await sleep(400);
      times.push(await timed(page, (to) => { const view = document.querySelector('.view'); view.scrollTop = view.scrollHeight * to; }, rowAt, part));
    }
    held(`a jump to ${100 * part} %`, times, 250);
  }
  const load = os.loadavg()[0];
  const { answer: scrolled, longest, busiest } = await traced(page, async () => {
    const tasks = [];
    const watch = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration)));
    watch.observe({ entryTypes: ['longtask'] });
    const view = document.querySelector('.view');
    let most = 0;
    for (const end = performance.now() + 10_000; performance.now() < end;) {
      view.scrollTop += 120;
      most = Math.max(most, document.querySelectorAll('.view [role=row]').length);
      await new Promise((next) => { requestAnimationFrame(next); });
    }
    watch.disconnect();
    return { tasks, most };
  });
  const ms = (microseconds) => (microseconds / 1000).toFixed(0);
  const said = `the longest took ${ms(longest.dur)} ms and had a processor for ${ms(longest.tdur)}; none had one for more than ${ms(busiest.tdur)}; load ${load.toFixed(1)}`;
  process.stderr.write(`scrolling: ${scrolled.tasks.length} long tasks, ${scrolled.most} rows; ${said}\n`);
  equal(scrolled.tasks.filter((one) => one > 50).map(Math.round), [], `tasks over 50 ms (${said})`);
  if (scrolled.most > 120) throw new Error(`${scrolled.most} rows in the page`);
  const sorts = [];
  for (let i = 0; i < TRIES; i += 1) {
    await page.evaluate(() => { location.hash = '#/queues'; });
    await sleep(6000); // an order is kept for five seconds
    sorts.push(await timed(page, () => { location.hash = '#/queues?sort=messages&reverse=1'; }, () => [...document.querySelectorAll('.view [role=row]:has(a) [role=cell]')].some((one) => one.textContent === '20')));
  }
  held('sorting by depth', sorts, 300);
});

/** The requests that a page makes while it is open, as a browser made them, made again every five seconds without one. */
function replay(asked, ends) {
  const cookie = asked.cookie, timers = [], streams = [];
  const ask = (where) => raw('GET', where, { user: null, headers: { cookie, 'x-leveret': '1', 'accept-encoding': 'gzip' } }).catch(() => {});
  for (const [where, gap] of asked.polled) timers.push(setInterval(() => void ask(where), gap));
  streams.push(http.get({ host: '127.0.0.1', port: asked.port, path: '/api/x/events', headers: { cookie, 'x-leveret': '1' } }, (answer) => answer.resume()).on('error', () => {}));
  ends.push(async () => { timers.forEach(clearInterval); streams.forEach((one) => one.destroy()); });
}

long('cost', 'processor that pages cost the broker: none, one, twenty of one browser, twenty browsers', '0.1 % (1 % where pages were open in the ten minutes before), 1 %, 5 % and 5 % of a core at most, with 100,000 queues; rates are sampled for ten minutes more', async (ends) => {
  await manyQueues();
  await sleep(5000);
  const before = await share(30);
  const { page, context } = await entered(ends);
  const asked = [];
  page.on('request', (request) => asked.push([Date.now(), request.url()]));
  await go(page, '#/queues', 'Queues');
  await sleep(20_000);
  const one = await share(30);
  const cookies = await context.cookies();
  const times = new Map();
  for (const [at, url] of asked) { const where = new URL(url).pathname + new URL(url).search; times.set(where, [...(times.get(where) ?? []), at]); }
  const polled = [...times].filter(([where, all]) => where.startsWith('/api/') && !where.includes('x/events') && all.length > 2).map(([where, all]) => [where, (all.at(-1) - all[0]) / (all.length - 1)]);
  for (let i = 1; i < 20; i += 1) {
    const other = await context.newPage();
    await other.goto(`${(await start()).base}#/queues`);
    await other.waitForSelector('.view [role=row]', { timeout: 20_000 });
  }
  await sleep(10_000);
  const tabs = await share(30);
  await context.close();
  await sleep(3000);
  const { context: again } = await entered(ends);
  await (await again.pages())[0].evaluate(() => { location.hash = '#/queues'; });
  for (let i = 1; i < 20; i += 1) replay({ cookie: cookies.map((it) => `${it.name}=${it.value}`).join('; '), port: (await start()).port, polled }, ends);
  await sleep(10_000);
  const browsers = await share(30);
  await again.close();
  for (const end of ends.splice(0)) await end();
  // Rates are sampled for ten minutes behind the last one that asked for them.
  const after = await share(30);
  process.stderr.write(`nobody ${before.toFixed(2)} %, one page ${one.toFixed(2)} %, twenty tabs ${tabs.toFixed(2)} %, twenty browsers ${browsers.toFixed(2)} %, and for ten minutes behind them ${after.toFixed(2)} %; polled: ${polled.map(([where, gap]) => `${where} each ${gap.toFixed(0)} ms`).join(', ')}\n`);
  for (const [what, value, most] of [['nobody', before, hadPages ? 1 : 0.1], ['one page', one, 1], ['twenty tabs', tabs, 5], ['twenty browsers', browsers, 5], ['behind them', after, 1]]) {
    if (value > most) throw new Error(`${what}: ${value.toFixed(2)} % of a core, at most ${most}`);
  }
});

for (const type of ['classic', 'quorum', 'stream']) {
  long(`messages.${type}`, `${MESSAGES} messages of a ${type}: looked at at its ends and in the middle, and searched`, 'each place within 150 ms; a search says how far it is, and ends within 300 ms; nothing about the messages changes', async (ends) => {
    const connection = await amqp.connect(`amqp://127.0.0.1:${(await start()).amqp}`);
    ends.push(() => connection.close());
    const channel = await connection.createConfirmChannel(), name = `million.${type}`;
    await channel.assertQueue(name, { durable: true, arguments: { 'x-queue-type': type } });
    ends.push(() => api('DELETE', `queues/%2F/${name}`));
    for (let i = 0; i < MESSAGES; i += 1) {
      channel.sendToQueue(name, Buffer.from(`{"n":${i}}`), { headers: { n: i, region: i % 1000 === 0 ? 'eu' : 'us' } });
      if (i % 20_000 === 19_999) await channel.waitForConfirms();
    }
    const { page, seen } = await entered(ends);
    await go(page, `#/queues/%2F/${name}?tab=messages`, name);
    await says(page, '{"n":0}', '.messages');
    const places = [['', 0], ['tail', MESSAGES - 1], ['500000', 500_000], ['999000', 999_000], ...(type === 'stream' ? [['1h', 0]] : [])];
    for (const [at, expected] of places) {
      const times = [];
      for (let i = 0; i < TRIES; i += 1) {
        await page.evaluate((to) => { location.hash = to; }, `#/queues/%2F/${name}?tab=messages&from=250000`);
        await says(page, '{"n":250000}', '.messages');
        times.push(await timed(page, (queue, from) => { location.hash = `#/queues/%2F/${queue}?tab=messages${from ? `&from=${from}` : ''}`; },
          (_queue, _from, n) => document.querySelector('.messages')?.textContent.includes(`{"n":${n}}`), name, at, expected));
      }
      held(`${type}, ${at || 'head'}`, times, 150);
    }
    const began = Date.now();
    await page.evaluate((to) => { location.hash = to; }, `#/queues/%2F/${name}?tab=messages&where=${encodeURIComponent('n = 999999')}`);
    await page.waitForFunction(() => /scanned [1-9]/.test(document.querySelector('main').textContent), { timeout: 5000 });
    await page.waitForFunction(() => /found 1/.test(document.querySelector('main').textContent) && /that is all/.test(document.querySelector('main').textContent), { timeout: 120_000 });
    process.stderr.write(`${type}: searched in ${Date.now() - began} ms\n`);
    const stops = [];
    for (let i = 0; i < TRIES; i += 1) {
      await page.evaluate((to) => { location.hash = to; }, `#/queues/%2F/${name}?tab=messages&where=${encodeURIComponent(`n = -${i + 1}`)}`);
      await page.waitForFunction(() => /scanned [1-9]/.test(document.querySelector('main').textContent) && [...document.querySelectorAll('main button')].some((one) => one.textContent.trim() === 'Stop'), { timeout: 5000, polling: 'raf' });
      stops.push(await timed(page, () => [...document.querySelectorAll('main button')].find((one) => one.textContent.trim() === 'Stop').click(), () => /stopped/.test(document.querySelector('main').textContent)));
    }
    held(`${type}, a search stopped`, stops, 300);
    equal(seen.errors, [], 'complaints');
    const now = await api('GET', `queues/%2F/${name}?columns=messages,messages_ready,messages_unacknowledged`);
    equal([now.messages, now.messages_ready ?? now.messages], [MESSAGES, MESSAGES], 'messages that are there');
    if (type === 'stream') return;
    let next = 0;
    await channel.prefetch(5000);
    await new Promise((resolve, reject) => {
      void channel.consume(name, (message) => {
        if (!message) return; // the queue goes at the end
        const count = message.properties.headers['x-delivery-count'];
        if (message.properties.headers.n !== next || message.fields.redelivered || count) reject(new Error(`message ${next} is ${message.properties.headers.n}, redelivered ${message.fields.redelivered}, ${count}`));
        next += 1;
        if (next % 1000 === 0) channel.ack(message, true);
        if (next === MESSAGES) resolve();
      });
    });
  });
}

long('body', 'a message of 16 MiB', 'its beginning is shown, and how much there is', async (ends) => {
  const connection = await amqp.connect(`amqp://127.0.0.1:${(await start()).amqp}`);
  ends.push(() => connection.close());
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue('ui.large', { durable: true });
  ends.push(() => api('DELETE', 'queues/%2F/ui.large'));
  channel.sendToQueue('ui.large', Buffer.alloc(16 << 20, 'a'));
  await channel.waitForConfirms();
  const { page, seen } = await entered(ends);
  await go(page, '#/queues/%2F/ui.large?tab=messages&message=0', 'ui.large');
  await says(page, 'the first 1.05 MB of 16.8 MB', '.payload');
  equal(seen.errors, [], 'complaints');
});

suite.main();
