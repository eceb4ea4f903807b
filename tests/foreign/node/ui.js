// The web interface, in a browser: what it asks for, who may do what, names that are traps, and keys.
'use strict';

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const amqp = require('amqplib');
const { Suite, equal, sleep } = require('./bench');
const { api, entered, go, logIn, opened, press, raw, says, start, tool, until } = require('./ui_bench');

const suite = new Suite('ui');
const WEB = path.join(__dirname, '..', '..', '..', 'crates', 'ui', 'web');
const OURS = 'ours alone: ';

/** Every address of RabbitMQ's interface, with the heading that ours has for it. */
const ROUTES = [
  ['#/', 'Overview'], ['#/cluster-name', 'Overview'], ['#/nodes/NODE', 'NODE'], ['#/connections', 'Connections'], ['#/connections/nobody', 'nobody'], ['#/channels', 'Channels'], ['#/channels/none', 'none'],
  ['#/exchanges', 'Exchanges'], ['#/exchanges/%2F/amq.topic', 'amq.topic'], ['#/exchanges/%2F/amq.default', '(default)'], ['#/queues', 'Queues and streams'], ['#/queues/%2F/nothing', 'nothing'],
  ['#/vhosts', 'Virtual hosts'], ['#/vhosts/%2F', '/'], ['#/users', 'Users'], ['#/users/guest', 'guest'], ['#/policies', 'Policies'], ['#/policies/%2F/none', 'none'], ['#/limits', 'Limits'],
  ['#/feature-flags', 'Features'], ['#/deprecated-features', 'Features'], ['#/stream/connections', 'Connections of the stream protocol'], ['#/stream/connections/%2F/nobody', 'nobody'], ['#/stream/super-streams', 'Super streams'],
  ['#/dynamic-shovels', 'Shovels'], ['#/dynamic-shovels/%2F/one', 'Shovels'], ['#/shovels', 'Shovels'], ['#/federation', 'Federation'], ['#/federation-upstreams', 'Federation'], ['#/federation-upstreams/%2F/one', 'Federation'],
  ['#/traces', 'Traces'], ['#/traces/NODE', 'Traces'], ['#/traces/node/NODE/%2F/one', 'Traces'], ['#/top', 'Processes'], ['#/top/NODE/20', 'Processes'], ['#/top/ets', 'Processes'], ['#/top/ets/NODE/20', 'Processes'], ['#/process/1', 'Processes'],
  ['#/consumers', 'Consumers'], ['#/definitions', 'Definitions'], ['#/nodes', 'Nodes'], ['#/alarms', 'Alarms'],
  ['#/log', 'Log'], ['#/latency', 'Latency'], ['#/settings', 'Settings'], ['#/api', 'HTTP API'], ['#/keys', 'Keys'], ['#/delayed', 'Delayed messages'], ['#/delayed/%2F/nothing', 'Delayed messages of nothing'], ['#/streams/super', 'Super streams'],
];

/** Names that break pages which take them for something else. */
const NAMES = [
  '<img src=x onerror=alert(1)>', '"><script>alert(1)</script>', "it's", 'a"b', 'a&amp;b', 'a/b', 'a%2Fb', 'a?b', 'a#b', '.', '..', ' ', ' a ', 'a  b', 'javascript:alert(1)', '{{7*7}}', '${7*7}', '__proto__', 'constructor',
  'ü', '日本語', '\u202eevil', 'a\tb', 'a\u200bb', '\u{1f980}', 'x'.repeat(255), '%', '%zz', '+', 'a+b', ';', ',', '=', '\\', '|', '*', '$', '[', '(', 'undefined',
];

suite.add('types', 'the modules, checked by TypeScript with --strict', `${OURS}nothing is wrong`, async () => {
  const files = fs.readdirSync(WEB, { recursive: true }).filter((name) => name.endsWith('.js')).map((name) => path.join(WEB, name));
  const program = path.join(path.dirname(require.resolve('typescript/package.json')), 'bin', 'tsc');
  const words = [program, '--noEmit', '--checkJs', '--allowJs', '--strict', '--noUnusedLocals', '--target', 'es2023', '--module', 'esnext', '--moduleResolution', 'bundler', '--lib', 'es2023,dom,dom.iterable', '--types', '', ...files];
  try { execFileSync(process.execPath, words, { encoding: 'utf8' }); } catch (error) { throw new Error(error.stdout.slice(0, 600)); }
});

suite.add('first', 'the first look: what is asked for until the login is seen', `${OURS}at most 12 requests and 60 kB, all of this origin, and nothing is complained about`, async (ends) => {
  const { base } = await start();
  const { page, seen } = await opened(ends);
  const sizes = await page.evaluate(() => performance.getEntriesByType('resource').map((one) => [one.startTime, one.encodedBodySize]));
  const painted = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity);
  const before = sizes.filter(([at]) => at < painted);
  if (before.length + 1 > 12) throw new Error(`${before.length + 1} requests`);
  const bytes = before.reduce((sum, [, size]) => sum + size, 0);
  if (bytes > 60_000) throw new Error(`${bytes} bytes`);
  await sleep(500);
  equal(seen.requests.filter((url) => !url.startsWith(base)), [], 'requests elsewhere');
  equal(seen.errors, [], 'complaints');
});

suite.add('policy', 'headers of the page and of its files', `${OURS}a content policy without unsafe-*, trusted types, nosniff; the page is asked for anew, files are kept`, async () => {
  const page = await raw('GET', '/', { user: null });
  equal([page.status, /unsafe/.test(page.headers['content-security-policy']), page.headers['x-content-type-options'], page.headers['cache-control']], [200, false, 'nosniff', 'no-cache'], 'the page');
  for (const word of ["default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'", "trusted-types 'none'", "frame-ancestors 'none'"]) {
    if (!page.headers['content-security-policy'].includes(word)) throw new Error(`the policy lacks ${word}`);
  }
  const file = /src="(ui\/[0-9a-f]+\/app\.js)"/.exec(page.body)[1];
  const got = await raw('GET', `/${file}`, { user: null, headers: { 'accept-encoding': 'gzip' } });
  equal([got.status, got.headers['content-encoding'], /immutable/.test(got.headers['cache-control'])], [200, 'gzip', true], 'a file');
  const again = await raw('GET', '/', { user: null, headers: { 'if-none-match': page.headers.etag } });
  equal(again.status, 304, 'the page again');
  equal((await raw('GET', '/ui/0000/app.js', { user: null })).status, 404, 'a file of another version');
});

suite.add('login', 'a wrong password, then the right one', `${OURS}the wrong one is told; then numbers are on the screen after at most 20 requests; no password is kept by the browser, and no script sees the cookie`, async (ends) => {
  const { page, seen, context } = await opened(ends);
  await logIn(page, 'guest', 'wrong');
  await says(page, 'Wrong user or password');
  await page.evaluate(() => { document.querySelector('.login input[name=username]').value = ''; });
  await sleep(1000);
  const before = seen.requests.length;
  seen.errors.length = 0;
  await logIn(page);
  await page.waitForFunction(() => /^\d/.test(document.querySelectorAll('.stat dd')[0]?.textContent ?? ''), { timeout: 10_000 });
  if (seen.requests.length - before > 20) throw new Error(`${seen.requests.length - before} requests`);
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
  if (/guest:guest|Z3Vlc3Q6|leveret-session/.test(kept)) throw new Error(`kept: ${kept}`);
  const cookies = await context.cookies();
  equal(cookies.map((one) => [one.httpOnly, one.sameSite, one.path, one.value.length]), [[true, 'Strict', '/', 43]], 'the cookie');
  equal(seen.errors, [], 'complaints');
});

suite.add('session.pages', 'a cookie with requests that a page of another origin could make', `${OURS}it counts for none of them`, async () => {
  const { port } = await start();
  const got = await raw('POST', '/api/x/session', { user: null, body: { username: 'guest', password: 'guest' } });
  const cookie = got.headers['set-cookie'][0].split(';')[0];
  const ask = (headers, method = 'GET', where = '/api/whoami', body = undefined) => raw(method, where, { user: null, headers: { cookie, ...headers }, body });
  const own = `http://127.0.0.1:${port}`, rows = [
    [{}, 401], [{ 'x-leveret': '1' }, 200], [{ 'sec-fetch-site': 'same-origin' }, 200], [{ 'sec-fetch-site': 'cross-site' }, 401], [{ 'sec-fetch-site': 'cross-site', 'x-leveret': '1' }, 401], [{ 'sec-fetch-site': 'same-site' }, 401],
    [{ origin: own }, 200], [{ origin: 'http://evil.example' }, 401], [{ origin: 'http://evil.example', 'x-leveret': '1' }, 401], [{ origin: 'null', 'x-leveret': '1' }, 401]];
  for (const [headers, status] of rows) equal((await ask(headers)).status, status, JSON.stringify(headers));
  const queue = '/api/queues/%2F/by-cookie';
  const writes = [[{}, 401], [{ 'sec-fetch-site': 'same-origin' }, 401], [{ origin: own }, 401], [{ origin: own, 'x-leveret': '1' }, 201], [{ origin: 'http://evil.example', 'x-leveret': '1' }, 403]];
  for (const [headers, status] of writes) equal((await ask(headers, 'PUT', queue, { durable: true })).status, status, `PUT ${JSON.stringify(headers)}`);
  equal((await raw('POST', '/api/x/session', { user: null, headers: { origin: 'http://evil.example' }, body: { username: 'guest', password: 'guest' } })).status, 403, 'a login from elsewhere');
  equal((await ask({ 'x-leveret': '1' }, 'DELETE', '/api/x/session')).status, 204, 'the end');
  equal((await ask({ 'x-leveret': '1' })).status, 401, 'behind the end');
  await api('DELETE', 'queues/%2F/by-cookie');
});

suite.add('session.end', 'a session that ends while somebody types: the password is changed', `${OURS}a login over the page, and what was typed is still there`, async (ends) => {
  await api('PUT', 'users/typist', { password: 'one', tags: 'management' });
  ends.push(() => api('DELETE', 'users/typist'));
  await api('PUT', 'permissions/%2F/typist', { configure: '.*', write: '.*', read: '.*' });
  const { page } = await entered(ends, { user: 'typist', password: 'one' });
  await go(page, '#/exchanges/%2F/amq.topic?tab=publish', 'amq.topic');
  await page.waitForSelector('#publish-payload');
  await page.type('#publish-payload', 'a long text');
  await api('PUT', 'users/typist', { password: 'two', tags: 'management' });
  await page.waitForSelector('.login.over', { timeout: 15_000 });
  await logIn(page, 'typist', 'two');
  await page.waitForFunction(() => !document.querySelector('.login'), { timeout: 10_000 });
  equal(await page.evaluate(() => document.querySelector('#publish-payload')?.value), 'a long text', 'what was typed');
  await press(page, 'Log out');
  await page.waitForSelector('.login', { timeout: 10_000 });
});

suite.add('plain', 'the interface over plain HTTP by a name, as of another machine: browsers have no locks there, and do not say where a request comes from', `${OURS}logged in as ever, and told each second`, async (ends) => {
  const { page, seen } = await entered(ends, { host: 'hare' });
  equal(await page.evaluate(() => [isSecureContext, 'locks' in navigator]), [false, false], 'a secure context');
  await page.waitForFunction(() => document.querySelectorAll('.legend b').length > 0);
  await sleep(2500);
  equal(seen.requests.filter((url) => url.includes('/x/events')).length, 1, 'streams');
  await press(page, 'Queues and streams', 'nav');
  await until(page, 'Queues and streams');
  await press(page, 'Add a queue');
  await page.type('#form-name', 'by.name');
  await press(page, 'Add', 'dialog');
  await says(page, 'by.name', '.table');
  await api('DELETE', 'queues/%2F/by.name');
  await press(page, 'Log out');
  await page.waitForSelector('.login');
  await logIn(page);
  await page.waitForFunction(() => !document.querySelector('.login'));
  await sleep(1500);
  equal(seen.requests.filter((url) => url.includes('/x/events')).length, 2, 'streams of both sessions');
  // Only a trustworthy address has an opener policy, and the browser says so.
  equal(seen.errors.filter((one) => !/Cross-Origin-Opener-Policy/.test(one)), [], 'complaints');
});

suite.add('routes', 'every address of RabbitMQ 4.3, and one that means nothing', `${OURS}each opens its page; the last *Go to anything*, with its word`, async (ends) => {
  const [{ name }] = await api('GET', 'nodes');
  const { page, seen } = await entered(ends);
  for (const [address, title] of ROUTES) {
    await page.evaluate((to) => { location.hash = to; }, address.replaceAll('NODE', encodeURIComponent(name)));
    await until(page, title.replaceAll('NODE', name)).catch(() => { throw new Error(`${address} did not open ${title}`); });
  }
  await page.evaluate(() => { location.hash = '#/no/such/thing'; });
  await page.waitForSelector('dialog.palette input');
  equal(await page.evaluate(() => document.querySelector('dialog.palette input').value), 'thing', 'the words');
  // What is not there is answered with 404, which a browser tells of.
  equal(seen.errors.filter((one) => !/404/.test(one)), [], 'complaints');
});

suite.add('names', `queues with ${NAMES.length} names that are traps: opened and deleted by clicks`, `${OURS}nothing of them runs, and each is gone`, async (ends) => {
  const { page, seen } = await entered(ends);
  const connection = await amqp.connect(`amqp://127.0.0.1:${(await start()).amqp}`);
  ends.push(() => connection.close());
  const channel = await connection.createChannel();
  for (const name of NAMES) await channel.assertQueue(name, { durable: true });
  await go(page, '#/queues', 'Queues');
  const count = (await api('GET', 'queues')).length;
  await says(page, String(count), 'main');
  for (const name of NAMES) {
    await page.evaluate((to) => { location.hash = to; }, `#/queues/%2F/${encodeURIComponent(name).replace(/^\.+$/, (dots) => '%2E'.repeat(dots.length))}`);
    await page.waitForFunction(() => [...document.querySelectorAll('.badge')].some((one) => one.textContent === 'classic'), { timeout: 5000 }).catch(() => { throw new Error(`${JSON.stringify(name)} did not open`); });
    await press(page, 'Delete', 'main');
    await page.waitForSelector('dialog button.danger', { timeout: 5000 }).catch(() => { throw new Error(`${JSON.stringify(name)}: no question was asked`); });
    await page.click('dialog button.danger');
    await page.waitForFunction(() => location.hash === '#/queues', { timeout: 5000 }).catch(() => { throw new Error(`${JSON.stringify(name)} was not deleted`); });
  }
  equal(count >= NAMES.length, true, 'queues');
  equal(seen.dialogs, 0, 'dialogs');
  equal((await api('GET', 'queues')).filter((one) => NAMES.includes(one.name)).map((one) => one.name), [], 'queues that are left');
  equal(seen.errors, [], 'complaints');
});

/** Names of those that other kinds of objects may have too: HTTP has no way to say the others of them. */
const TRAPS = NAMES.filter((name) => !['.', '..', ' '].includes(name) && Buffer.byteLength(name) < 200);

suite.add('names.kinds', `${TRAPS.length} such names of exchanges, virtual hosts, users, policies, keys, headers, payloads, connections and consumers`, `${OURS}nothing of them runs, each opens, and what can be deleted is gone after clicks`, async (ends) => {
  const connection = await amqp.connect(`amqp://127.0.0.1:${(await start()).amqp}`, { clientProperties: { connection_name: TRAPS[0], product: TRAPS[1], version: TRAPS[7] } });
  ends.push(() => connection.close());
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue('ui.trap', { durable: true, arguments: { 'x-own': TRAPS[0] } });
  ends.push(() => api('DELETE', 'queues/%2F/ui.trap'));
  for (const name of TRAPS) {
    await channel.assertExchange(name, 'direct');
    await channel.bindQueue('ui.trap', name, name, { [name]: name });
    channel.publish(name, name, Buffer.from(name), { headers: { [name]: name, inner: { [name]: [name] } }, type: name, messageId: name, contentType: name });
    await channel.consume('ui.trap', () => {}, { consumerTag: `${name} `, noAck: false, arguments: { 'x-browse': true } }).catch(() => {});
    const where = encodeURIComponent(name);
    await api('PUT', `vhosts/${where}`, { description: name, tags: name });
    await api('PUT', `users/${where}`, { password: 'x', tags: name.replaceAll(',', '') });
    await api('PUT', `policies/%2F/${where}`, { pattern: '^none$', definition: { 'dead-letter-routing-key': name } });
  }
  await channel.waitForConfirms();
  ends.push(...TRAPS.flatMap((name) => ['vhosts/', 'users/', 'policies/%2F/', 'exchanges/%2F/'].map((kind) => () => api('DELETE', `${kind}${encodeURIComponent(name)}`).catch(() => {}))));
  const { page, seen } = await entered(ends);
  const own = (await api('GET', 'connections')).find((one) => one.client_properties.product === TRAPS[1]).name;
  const rooms = ['#/exchanges', '#/vhosts', '#/users', '#/policies', '#/connections', `#/connections/${encodeURIComponent(own)}`, '#/channels', '#/consumers', '#/queues/%2F/ui.trap?tab=messages', '#/queues/%2F/ui.trap?tab=consumers', '#/queues/%2F/ui.trap?tab=routes', '#/topology?vhost=%2F', '#/definitions'];
  for (const room of rooms) {
    await page.evaluate((to) => { location.hash = to; }, room);
    await sleep(400);
  }
  await page.evaluate(() => { location.hash = '#/queues/%2F/ui.trap?tab=messages'; });
  await page.waitForSelector('.messages tbody button.link', { timeout: 5000 });
  for (let at = 0; at < 6; at += 1) {
    await page.evaluate((n) => document.querySelectorAll('.messages tbody tr:not(.opened) button.link')[n].click(), at);
    await page.waitForSelector('.opened .payload', { timeout: 5000 });
  }
  for (const [list, at] of [['exchanges/%2F', 3], ['vhosts', 0], ['users', 8], ['policies/%2F', 5]]) {
    const name = TRAPS[at], address = `#/${list}/${encodeURIComponent(name)}`;
    await page.evaluate((to) => { location.hash = to; }, address);
    await page.waitForFunction((text) => document.querySelector('main h1')?.textContent.includes(text), { timeout: 5000 }, name.slice(0, 5).trim());
    if (list === 'policies/%2F') continue;
    await press(page, 'Delete', 'main');
    await page.waitForSelector('dialog button.danger', { timeout: 5000 });
    if (await page.$('dialog input')) await page.type('dialog input', name);
    await page.click('dialog button.danger');
    await page.waitForFunction((to) => location.hash === to, { timeout: 5000 }, `#/${list.split('/')[0]}`).catch(() => { throw new Error(`${JSON.stringify(name)} of ${list} was not deleted`); });
  }
  equal(seen.dialogs, 0, 'dialogs');
  // What is deleted may be asked for once more before its page is left.
  equal(seen.errors.filter((one) => !/status of 404/.test(one)), [], 'complaints');
});

suite.add('alarm', 'an alarm that comes and goes, before a user that sees the node and one that does not', `${OURS}a band above the page within seconds, and no longer`, async (ends) => {
  await api('PUT', 'users/plain', { password: 'plain', tags: 'management' });
  ends.push(() => api('DELETE', 'users/plain'), () => tool('set_disk_free_limit', '50MB'));
  const band = (page, says) => page.waitForFunction((wished) => new RegExp(wished).test(document.querySelector('.bands')?.textContent ?? ''), { timeout: 15_000 }, says);
  const { page: monitor, seen } = await entered(ends);
  const { page: plain } = await entered(ends, { user: 'plain', password: 'plain' });
  await tool('set_disk_free_limit', '1000TB');
  await band(monitor, '^Publishers wait: .* of disk is free');
  await band(plain, '^There are alarms');
  await tool('set_disk_free_limit', '50MB');
  await band(monitor, '^$');
  await band(plain, '^$');
  equal(seen.requests.filter((one) => /health/.test(one)), [], 'requests of who is told');
});

suite.add('keys', 'pages, filter, rows and dialogs by keys alone', `${OURS}each does what the map of keys says`, async (ends) => {
  for (const name of ['keys.a', 'keys.b', 'keys.c', 'other']) await api('PUT', `queues/%2F/${name}`, { durable: true });
  ends.push(...['keys.a', 'keys.b', 'keys.c', 'other'].map((name) => () => api('DELETE', `queues/%2F/${name}`).catch(() => {})));
  const { page } = await entered(ends);
  const type = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
  await type('g', 'q');
  await until(page, 'Queues and streams');
  await page.waitForSelector('#filter');
  await type('/');
  await page.keyboard.type('keys.');
  await says(page, '3 of ', 'main');
  await type('Escape', 'Tab', 'Tab');
  await page.focus('.view');
  await type('j', 'j');
  equal(await page.evaluate(() => document.activeElement.textContent), 'keys.b', 'the row');
  await type('x');
  await says(page, '1 selected');
  await page.focus('.view');
  await type('j', 'Enter');
  await sleep(300);
  await page.keyboard.down('Control'); await page.keyboard.press('k'); await page.keyboard.up('Control');
  await page.waitForSelector('dialog.palette');
  await page.keyboard.type('keys.c');
  await says(page, 'queue in /', 'dialog');
  await type('Enter');
  await until(page, 'keys.c');
  await type('?');
  await says(page, 'Go to anything', 'dialog');
  await type('Escape');
  await page.waitForFunction(() => !document.querySelector('dialog[open]'));
});

suite.add('titles', 'a list of 60 queues, scrolled, and walked through by keys', `${OURS}the titles stay in view, and the row that has the keys is not below them`, async (ends) => {
  const names = Array.from({ length: 60 }, (_, i) => `titles.${String(i).padStart(2, '0')}`);
  await api('POST', 'definitions', { queues: names.map((name) => ({ vhost: '/', name, durable: true, auto_delete: false, arguments: {} })) });
  ends.push(...names.map((name) => () => api('DELETE', `queues/%2F/${name}`)));
  const { page } = await entered(ends);
  await go(page, '#/queues?name=titles.', 'Queues and streams');
  await says(page, 'titles.00', '.view');
  await page.evaluate(() => { const view = document.querySelector('.view'); view.scrollTop = view.scrollHeight; });
  await says(page, 'titles.59', '.view');
  const tops = await page.evaluate(() => ['.view', '.titles'].map((one) => Math.round(document.querySelector(one).getBoundingClientRect().top)));
  equal(tops[1], tops[0], 'where the titles are');
  await page.focus('.view');
  for (let i = 0; i < 45; i += 1) await page.keyboard.press('j');
  for (let i = 0; i < 40; i += 1) {
    await page.keyboard.press('k');
    const [row, titles] = await page.evaluate(() => [document.activeElement.closest('.row')?.getBoundingClientRect().top ?? -1, document.querySelector('.titles').getBoundingClientRect().bottom]);
    if (row < titles - 1) throw new Error(`the row is at ${row}, the titles end at ${titles}`);
  }
  await page.evaluate(() => { location.hash = '#/queues'; });
  await page.waitForFunction(() => document.querySelector('#filter').value === '');
});

for (const tags of ['management', 'policymaker', 'monitoring', 'administrator']) {
  suite.add(`roles.${tags}`, `every page, opened by a user with the tag ${tags}`, `${OURS}what may not be done is not offered, and no request is refused`, async (ends) => {
    await api('PUT', 'users/role', { password: 'role', tags });
    ends.push(() => api('DELETE', 'users/role'));
    await api('PUT', 'permissions/%2F/role', { configure: '.*', write: '.*', read: '.*' });
    const { page, seen } = await entered(ends, { user: 'role', password: 'role' });
    seen.refused.length = 0;
    const links = await page.evaluate(() => [...document.querySelectorAll('nav a')].map((one) => one.getAttribute('href')));
    equal(links.includes('#/users'), tags === 'administrator', 'users are offered');
    for (const address of [...links, '#/exchanges/%2F/amq.topic']) {
      await page.evaluate((to) => { location.hash = to; }, address);
      await sleep(300);
    }
    equal(seen.refused, [], 'refused');
  });
}

suite.add('messages', 'messages of a queue and of a stream, looked at', `${OURS}from either end and from a place, decoded or explained; nothing about them changes`, async (ends) => {
  const connection = await amqp.connect(`amqp://127.0.0.1:${(await start()).amqp}`);
  ends.push(() => connection.close());
  const channel = await connection.createConfirmChannel();
  for (const [name, type] of [['ui.look', 'quorum'], ['ui.stream', 'stream']]) {
    await channel.assertQueue(name, { durable: true, arguments: { 'x-queue-type': type } });
    ends.push(() => api('DELETE', `queues/%2F/${name}`));
    for (let i = 0; i < 120; i += 1) channel.sendToQueue(name, Buffer.from(i === 3 ? [0xff, 0xfe] : i === 4 ? [0x81, 0xa1, 0x61, 0x07] : JSON.stringify({ number: i })));
  }
  await channel.waitForConfirms();
  const { page, seen } = await entered(ends);
  for (const name of ['ui.look', 'ui.stream']) {
    await go(page, `#/queues/%2F/${name}?tab=messages`, name);
    await says(page, '{"number":0}', '.messages');
    await press(page, 'Next', 'main');
    await says(page, '{"number":50}', '.messages');
    await press(page, 'Tail', 'main');
    await says(page, '{"number":119}', '.messages');
    await go(page, `#/queues/%2F/${name}?tab=messages&message=3`, name);
    await says(page, 'It is no UTF-8', '.payload');
    await go(page, `#/queues/%2F/${name}?tab=messages&message=4`, name);
    await says(page, 'MessagePack', '.payload');
  }
  equal(seen.errors, [], 'complaints');
  const before = await channel.get('ui.look');
  equal([before.fields.redelivered, before.content.toString(), before.properties.headers['x-delivery-count']], [false, '{"number":0}', undefined], 'the first message');
  equal(before.fields.messageCount, 119, 'those behind it');
});

suite.add('destroy', 'a queue with 1,200 messages purged, and a policy deleted', `${OURS}the dialog names object and count, and wants the name typed above 1,000`, async (ends) => {
  const connection = await amqp.connect(`amqp://127.0.0.1:${(await start()).amqp}`);
  ends.push(() => connection.close());
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue('ui.full', { durable: true });
  ends.push(() => api('DELETE', 'queues/%2F/ui.full'));
  for (let i = 0; i < 1200; i += 1) channel.sendToQueue('ui.full', Buffer.from('x'));
  await channel.waitForConfirms();
  const { page } = await entered(ends);
  await go(page, '#/queues/%2F/ui.full', 'ui.full');
  await says(page, '1,200', '.stats');
  await press(page, 'Purge', 'main');
  await says(page, 'Purge 1,200 messages of ui.full', 'dialog');
  equal(await page.evaluate(() => document.querySelector('dialog button.danger').disabled), true, 'the button waits');
  await page.type('dialog input', 'ui.full');
  await page.click('dialog button.danger');
  await says(page, 'ui.full is empty');
  equal((await channel.checkQueue('ui.full')).messageCount, 0, 'messages');
});

suite.add('tabs', 'two tabs of one browser', `${OURS}one stream of events for both, and numbers in each`, async (ends) => {
  const { page, seen, context } = await entered(ends);
  const other = await context.newPage();
  const asked = [];
  other.on('request', (request) => asked.push(request.url()));
  await other.goto((await start()).base);
  await other.waitForSelector('main h1', { timeout: 10_000 });
  await sleep(2500);
  const streams = [...seen.requests, ...asked].filter((url) => url.includes('/x/events'));
  equal(streams.length, 1, 'streams');
  const numbers = await other.evaluate(() => document.querySelectorAll('.legend b').length);
  if (!(numbers > 0)) throw new Error('no figures in the second tab');
  await page.close();
});

suite.add('narrow', 'a page of 390 pixels', `${OURS}nothing is wider than the screen, but what scrolls by itself`, async (ends) => {
  await api('PUT', `queues/%2F/${'narrow'.repeat(40)}`, { durable: true });
  ends.push(() => api('DELETE', `queues/%2F/${'narrow'.repeat(40)}`));
  const { page } = await entered(ends, { width: 390, height: 844 });
  for (const address of ['#/', '#/queues', `#/queues/%2F/${'narrow'.repeat(40)}`, `#/queues/%2F/${'narrow'.repeat(40)}?tab=routes`, '#/exchanges/%2F/amq.topic?tab=publish', '#/users/guest', '#/policies', '#/definitions', '#/log', '#/latency', '#/settings', '#/api', '#/keys', '#/delayed', '#/delayed/%2F/nothing', '#/streams/super', '#/traces']) {
    await page.evaluate((to) => { location.hash = to; }, address);
    await sleep(300);
    const wide = await page.evaluate(() => [document.documentElement.scrollWidth, document.querySelector('main').scrollWidth - document.querySelector('main').clientWidth]);
    if (wide[0] > 390 || wide[1] > 0) throw new Error(`${address}: ${wide}`);
  }
});

suite.add('zoom', 'pages at 400 %: 320 by 256 pixels', `${OURS}nothing has to be scrolled both ways, but tables and pictures by themselves (WCAG 2.2 §1.4.10)`, async (ends) => {
  const { page } = await entered(ends, { width: 320, height: 256 });
  const links = await page.evaluate(() => [...document.querySelectorAll('nav a')].map((one) => one.getAttribute('href')));
  for (const address of [...links, '#/users/guest', '#/exchanges/%2F/amq.topic?tab=publish']) {
    await page.evaluate((to) => { location.hash = to; }, address);
    await sleep(250);
    const wide = await page.evaluate(() => [document.documentElement.scrollWidth, document.querySelector('main').scrollWidth - document.querySelector('main').clientWidth]);
    if (wide[0] > 320 || wide[1] > 0) throw new Error(`${address}: ${wide}`);
  }
});

require('./ui_axe')(suite);
require('./ui_looks')(suite);
require('./ui_pictures')(suite);
require('./ui_pages')(suite);
require('./ui_tasks')(suite);

suite.main();
