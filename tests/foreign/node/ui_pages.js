// Cases of the web interface that watch the node: its log, latencies and settings, what waits, what is traced, and the first steps.
'use strict';

const { execFile, spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { createInterface } = require('node:readline');
const { promisify } = require('node:util');
const amqp = require('amqplib');
const streams = require('rabbitmq-stream-js-client');
const { equal, options, sleep } = require('./bench');
const { api, entered, go, press, says, start } = require('./ui_bench');

const OURS = 'ours alone: ';
const HOUR_MS = 3_600_000;

/** A channel with confirms, closed at the end. */
async function connected(ends) {
  const connection = await amqp.connect(`amqp://127.0.0.1:${(await start()).amqp}`);
  ends.push(() => connection.close());
  return connection.createConfirmChannel();
}

/** How many elements there are. */
const count = (page, where) => page.evaluate((one) => document.querySelectorAll(one).length, where);

/** Waits until this is so, asked again and again. */
async function becomes(what, is, ms = 25_000) {
  for (const end = Date.now() + ms; ; await sleep(100)) {
    if (await is()) return;
    if (Date.now() > end) throw new Error(`${what}: not after ${ms} ms`);
  }
}

/** Three nodes of one cluster, and where the interface of the first is, once each log is led. */
async function cluster(ends) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'leveret-ui-cluster-'));
  const child = spawn(options.broker, ['cluster', '3', '--data-dir', folder], { stdio: ['ignore', 'pipe', 'ignore'] });
  const over = new Promise((resolve) => child.once('exit', resolve));
  ends.push(async () => { child.kill('SIGTERM'); await over; fs.rmSync(folder, { recursive: true, force: true }); });
  let base = '';
  createInterface({ input: child.stdout }).on('line', (line) => { base ||= /^rabbit1@localhost: .*(http:[^,]+)/.exec(line)?.[1] ?? ''; });
  await becomes('an address', () => base);
  const ask = async (where) => { const got = await fetch(`${base}/api/${where}`, { headers: { authorization: `Basic ${btoa('guest:guest')}` } }); return got.json(); };
  await becomes('a leader of each log', async () => {
    const told = await ask('x/cluster').catch(() => null);
    return told?.logs?.length === 8 && told.logs.every((log) => log.leader && log.members.length === 3);
  });
  return { base, ask };
}

module.exports = function pages(suite) {
  suite.add('cluster', 'the nodes of a cluster of three, one of which is killed', `${OURS}each node with its lanes, each log with its leader and how far the others are; a node that is not reached is said to be so, and what it led has another leader`, async (ends) => {
    const { base, ask } = await cluster(ends);
    const { page, seen } = await entered(ends, { at: base });
    await go(page, '#/nodes', 'Nodes');
    await becomes('three nodes that run', () => page.evaluate(() => document.querySelectorAll('main table')[0]?.innerText.match(/running/g)?.length === 3));
    await becomes('eight logs, each with a leader', () => page.evaluate(() => {
      const rows = [...(document.querySelectorAll('main table')[1]?.tBodies[0]?.rows ?? [])];
      return rows.length === 8 && rows.every((row) => row.innerText.match(/leads/g)?.length === 1 && row.innerText.match(/level/g)?.length === 2);
    }));
    const other = (await ask('nodes')).find((one) => one.name !== 'rabbit1@localhost' && one.running);
    process.kill(Number(other.os_pid), 'SIGKILL');
    await says(page, 'not reached', 'main');
    await becomes('a leader of each log that is reached', () => page.evaluate((gone) => {
      const rows = [...(document.querySelectorAll('main table')[1]?.tBodies[0]?.rows ?? [])];
      return rows.length === 8 && rows.every((row) => !row.cells[1].innerText.includes(gone) && /rabbit/.test(row.cells[1].innerText));
    }, other.name));
    equal(seen.errors, [], 'complaints');
  });

  suite.add('log', 'the log while users and policies are made: filtered, stopped and gone on with, 1,200 lines', `${OURS}lines come by themselves, the filter is in the address, stopped lines wait, the newest 1,000 are kept`, async (ends) => {
    const { page, seen } = await entered(ends);
    const user = async (name) => { await api('PUT', `users/${name}`, { password: 'x', tags: '' }); ends.push(() => api('DELETE', `users/${name}`)); };
    await go(page, '#/log', 'Log');
    await says(page, 'live', 'main');
    await user('ui-logged-1');
    await says(page, 'ui-logged-1', '.log');
    await page.type('#filter', 'ui-logged');
    await page.waitForFunction(() => location.hash.includes('text=ui-logged'));
    await page.waitForFunction(() => document.querySelectorAll('.log-line').length > 0 && [...document.querySelectorAll('.log-line')].every((one) => one.textContent.includes('ui-logged')));
    await press(page, 'Stop', 'main');
    const before = await count(page, '.log-line');
    await user('ui-logged-2');
    await page.waitForFunction(() => [...document.querySelectorAll('main button')].some((one) => /^Go on: \d+ line/.test(one.textContent)));
    equal(await count(page, '.log-line'), before, 'lines of a list that is stopped');
    await page.evaluate(() => [...document.querySelectorAll('main button')].find((one) => /^Go on/.test(one.textContent)).click());
    await says(page, 'ui-logged-2', '.log');
    await page.reload();
    await page.waitForSelector('#filter');
    equal(await page.evaluate(() => document.querySelector('#filter').value), 'ui-logged', 'the filter of the address');
    await page.select('main select', 'critical');
    await says(page, 'Nothing matches', 'main');
    await page.evaluate(() => { location.hash = '#/log'; });
    await page.evaluate(() => { const box = document.querySelector('#filter'); box.value = ''; box.dispatchEvent(new Event('input')); });
    await page.select('main select', 'debug');
    await says(page, 'ui-logged-2', '.log');
    for (let i = 0; i < 1200; i += 1) await api('PUT', 'policies/%2F/ui-logged', { pattern: '^none$', definition: { 'max-length': i + 1 } });
    ends.push(() => api('DELETE', 'policies/%2F/ui-logged'));
    await says(page, '1,000 lines', 'main');
    equal(await count(page, '.log-line'), 1000, 'lines that are kept');
    await page.waitForFunction(() => { const box = document.querySelector('.log'); return box.scrollHeight - box.scrollTop - box.clientHeight < 8; }, { timeout: 5000 }).catch(() => { throw new Error('the end is not followed'); });
    await page.focus('.log');
    await page.keyboard.press('k');
    equal(await page.evaluate(() => document.activeElement === document.querySelector('.log').lastElementChild), true, 'the last line has the focus');
    equal(seen.errors, [], 'complaints');
  });

  suite.add('latency', 'the latency of messages, by kind, age and theme', `${OURS}drawn in the colours of the theme, with p50 and p99, the same as a table`, async (ends) => {
    const channel = await connected(ends);
    await channel.assertQueue('ui.quick', { durable: true });
    ends.push(() => api('DELETE', 'queues/%2F/ui.quick'));
    // Durations are told from one sample to the next: what came before the first is in none.
    await becomes('a sample', async () => {
      for (let i = 0; i < 50; i += 1) channel.sendToQueue('ui.quick', Buffer.from('x'), { persistent: true });
      await channel.waitForConfirms();
      return (await api('GET', 'x/latency')).kinds.publish_to_commit.count > 0;
    });
    const { page, seen } = await entered(ends);
    await go(page, '#/latency', 'Latency');
    await page.waitForFunction(() => /^[≤>] \d/.test(document.querySelector('.stats dd')?.textContent ?? ''));
    await says(page, 'p99', '.legend');
    const colors = () => page.evaluate(() => {
      // Read from a copy, since the browser complains of canvases that are read again and again.
      const canvas = document.querySelector('canvas'), pen = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
      pen.drawImage(canvas, 0, 0);
      const { data } = pen.getImageData(0, 0, canvas.width, canvas.height), all = new Set();
      for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) all.add(data.subarray(at, at + 3).join());
      return [...all];
    });
    await page.waitForFunction(() => document.querySelector('canvas').width > 0);
    await sleep(300);
    const light = await colors();
    equal(light.includes('19,79,158'), true, 'the darkest shade of the light theme is drawn');
    await page.select('header label:nth-of-type(2) select', 'dark');
    await sleep(300);
    equal((await colors()).includes('134,184,247'), true, 'that of the dark theme, once it is chosen');
    await press(page, 'As a table', 'main');
    await says(page, 'p50', '.as-table');
    equal(await count(page, '.as-table tbody tr') > 0, true, 'rows');
    await press(page, 'Flush', 'main');
    await says(page, 'How long the disk takes', 'main');
    equal(await page.evaluate(() => location.hash), '#/latency?kind=flush', 'the address');
    await press(page, '1 h', 'main');
    await page.waitForFunction(() => location.hash.includes('age=1h'));
    await becomes('an hour', () => seen.requests.some((url) => url.includes('age=3600')), 5000);
    equal(seen.errors, [], 'complaints');
  });

  suite.add('settings', 'settings of the command line, one of them in the environment too', `${OURS}each with its place, and which one counts`, async (ends) => {
    const { page, seen } = await entered(ends);
    await go(page, '#/settings', 'Settings');
    await says(page, 'listeners.tcp.default', 'main');
    await page.type('#filter', 'channel_max');
    await page.waitForFunction(() => document.querySelectorAll('main tbody tr').length === 2);
    const rows = await page.evaluate(() => [...document.querySelectorAll('main tbody tr')].map((one) => [...one.cells].map((cell) => cell.textContent)));
    equal(rows.map(([key, value]) => [key, value]), [['channel_max', '2000'], ['channel_max', '2047']], 'in the order of reading');
    equal([/LEVERET_CHANNEL_MAX/.test(rows[0][2]), rows[0][3], rows[1][2], rows[1][3]], [true, 'loses to command line', 'command line', 'counts'], 'places');
    equal(await page.evaluate(() => location.hash), '#/settings?name=channel_max', 'the address');
    equal(seen.errors, [], 'complaints');
  });

  suite.add('api', 'the HTTP API, filtered by words', `${OURS}every operation of the OpenAPI document, with what it takes`, async (ends) => {
    const document_ = await api('GET', 'x/openapi.json');
    const all = Object.values(document_.paths).reduce((sum, one) => sum + Object.keys(one).filter((key) => key !== 'parameters').length, 0);
    const { page, seen } = await entered(ends);
    await go(page, '#/api', 'HTTP API');
    await says(page, all.toLocaleString('en-US'), 'main');
    equal(await count(page, '.endpoints tbody tr'), all, 'rows');
    await page.type('#filter', 'post /x/queues delayed');
    await page.waitForFunction(() => document.querySelectorAll('.endpoints tbody tr').length === 1);
    await press(page, '1 field of the body', 'main');
    await says(page, 'list of integer, required', 'main');
    equal(seen.errors, [], 'complaints');
  });

  suite.add('delayed', '505 messages that wait for an hour', `${OURS}the 500 that are due first are shown, some and then all of them are cancelled, by a dialog that says how many`, async (ends) => {
    const channel = await connected(ends);
    await channel.assertExchange('ui.later', 'x-delayed-message', { durable: true, arguments: { 'x-delayed-type': 'direct' } });
    ends.push(() => api('DELETE', 'exchanges/%2F/ui.later'));
    await channel.assertQueue('ui.delayed', { durable: true });
    ends.push(() => api('DELETE', 'queues/%2F/ui.delayed'));
    await channel.bindQueue('ui.delayed', 'ui.later', 'k');
    for (let i = 0; i < 505; i += 1) channel.publish('ui.later', 'k', Buffer.from('x'), { persistent: true, headers: { 'x-delay': HOUR_MS + 1000 * i } });
    await channel.waitForConfirms();
    const left = async () => (await api('GET', 'queues/%2F/ui.delayed')).messages_delayed;
    await becomes('505 delayed messages', async () => (await left()) === 505);
    const { page, seen } = await entered(ends);
    await go(page, '#/delayed', 'Delayed messages');
    await says(page, 'ui.delayed', 'main table');
    await press(page, 'Look', 'main table');
    await says(page, 'Delayed messages of ui.delayed', 'main h1');
    await says(page, 'The 500 that are due first, of 505', 'main');
    await page.waitForSelector('.row input');
    await page.evaluate(() => document.querySelectorAll('.row input')[0].click());
    await page.evaluate(() => document.querySelectorAll('.row input')[1].click());
    await press(page, 'Cancel 2 messages', 'main');
    await says(page, 'Cancel 2 delayed messages of ui.delayed', 'dialog');
    await page.click('dialog button.danger');
    await says(page, '2 messages cancelled');
    equal(await left(), 503, 'messages that wait');
    await says(page, 'of 503', 'main');
    await press(page, 'Select all 500', 'main');
    await press(page, 'Cancel 500 messages', 'main');
    await page.click('dialog button.danger');
    await says(page, '500 messages cancelled');
    equal(await left(), 3, 'messages that wait');
    equal(seen.errors, [], 'complaints');
  });

  suite.add('super', 'a super stream of two partitions, of which one has ten messages and a stored offset of 4', `${OURS}messages, the stored offset and how far it is behind; another is added by a form`, async (ends) => {
    const gone = (name, partitions) => [() => api('DELETE', `exchanges/%2F/${name}`), ...Array.from({ length: partitions }, (_, at) => () => api('DELETE', `queues/%2F/${name}-${at}`))];
    await api('PUT', 'stream/super-streams/%2F/ui.super', { partitions: 2 });
    ends.push(...gone('ui.super', 2));
    const channel = await connected(ends);
    for (let i = 0; i < 10; i += 1) channel.sendToQueue('ui.super-0', Buffer.from(`${i}`));
    await channel.waitForConfirms();
    const { port } = (await api('GET', 'overview')).listeners.find((one) => one.protocol === 'stream');
    const silent = { debug() {}, info() {}, warn() {}, error() {} };
    const client = await streams.connect({ hostname: '127.0.0.1', port, username: 'guest', password: 'guest', vhost: '/', heartbeat: 30, addressResolver: { enabled: true, endpoint: { host: '127.0.0.1', port } } }, silent);
    ends.push(() => client.close());
    const consumer = await client.declareConsumer({ stream: 'ui.super-0', offset: streams.Offset.first(), consumerRef: 'billing' }, () => {});
    await consumer.storeOffset(4n);
    await becomes('a stored offset', async () => (await api('GET', 'stream/%2F/ui.super-0/tracking')).offsets.billing === 4);
    const { page, seen } = await entered(ends);
    await go(page, '#/stream/super-streams', 'Super streams');
    await says(page, '2 partitions, 10 messages', 'main');
    await says(page, '5 behind', 'main');
    await says(page, 'none stored', 'main');
    await press(page, 'Add a super stream', 'main');
    await page.type('#form-name', 'ui.super.b');
    await press(page, 'Add', 'dialog');
    ends.push(...gone('ui.super.b', 3));
    await says(page, 'ui.super.b', 'main');
    await says(page, '3 partitions', 'main');
    equal(seen.errors, [], 'complaints');
  });

  suite.add('traces', 'a virtual host that is traced and looked into while a message goes through it', `${OURS}asked before, each publish and delivery shown, and the queue of the look goes with it`, async (ends) => {
    const channel = await connected(ends);
    await channel.assertQueue('ui.traced', { durable: true });
    ends.push(() => api('DELETE', 'queues/%2F/ui.traced'), () => api('PUT', 'vhosts/%2F', { tracing: false }));
    const { page, seen } = await entered(ends);
    await go(page, '#/traces', 'Traces');
    await press(page, 'Trace', '.table');
    await says(page, 'Trace the virtual host /', 'dialog');
    await page.click('dialog button.danger');
    await says(page, 'traced', '.table .badge');
    equal((await api('GET', 'vhosts/%2F')).tracing, true, 'tracing');
    await press(page, 'Look', '.table');
    await says(page, 'live', 'section');
    await sleep(1500);
    channel.sendToQueue('ui.traced', Buffer.from('seen by all'), { persistent: true });
    await channel.waitForConfirms();
    await says(page, 'published', '.traced tbody');
    await says(page, 'seen by all', '.traced tbody');
    await channel.get('ui.traced', { noAck: true });
    await says(page, 'delivered', '.traced tbody');
    const own = async () => (await api('GET', 'queues')).filter((one) => one.name.startsWith('leveret-trace-')).map((one) => one.arguments['x-expires']);
    equal(await own(), [60_000], 'the queue of the look');
    await press(page, 'Stop looking', 'main');
    await becomes('its end', async () => (await own()).length === 0, 5000);
    await press(page, 'Look', '.table');
    await becomes('another', async () => (await own()).length === 1, 5000);
    await go(page, '#/alarms', 'Alarms');
    await becomes('its end', async () => (await own()).length === 0, 5000);
    await go(page, '#/traces', 'Traces');
    await press(page, 'Stop tracing', '.table');
    await says(page, '/ is not traced any more');
    equal((await api('GET', 'vhosts/%2F')).tracing, false, 'tracing');
    equal(seen.errors, [], 'complaints');
  });

  suite.add('start', 'a node without a queue, and the program that the overview shows', `${OURS}six languages with the address of this node; that in JavaScript runs as it stands, and the page tells of its queue`, async (ends) => {
    for (const { vhost, name } of await api('GET', 'queues')) await api('DELETE', `queues/${encodeURIComponent(vhost)}/${encodeURIComponent(name)}`);
    const { amqp: port } = await start(), folder = fs.mkdtempSync(path.join(os.tmpdir(), 'leveret-start-'));
    ends.push(async () => fs.rmSync(folder, { recursive: true, force: true }), () => api('DELETE', 'queues/%2F/hello'));
    const { page, seen } = await entered(ends);
    await says(page, 'First steps', 'main');
    for (const language of ['Python', 'Java', 'Go', 'C#', 'Rust', 'JavaScript']) {
      await press(page, language, '.steps');
      await says(page, `amqp://guest:guest@127.0.0.1:${port}/%2F`, '.snippet:last-of-type');
    }
    equal(await page.evaluate(() => location.hash), '#/?language=javascript', 'the address');
    // The address stands in the program before, too.
    await says(page, "require('amqplib')", '.snippet:last-of-type');
    const program = await page.evaluate(() => [...document.querySelectorAll('.snippet code')].at(-1).textContent);
    const file = path.join(folder, 'hello.js');
    fs.writeFileSync(file, program);
    const { stdout } = await promisify(execFile)(process.execPath, [file]);
    equal(stdout, 'Hello!\n', 'what it prints');
    await says(page, 'Your first queue is there: hello', '.steps');
    equal(seen.errors, [], 'complaints');
  });
};
