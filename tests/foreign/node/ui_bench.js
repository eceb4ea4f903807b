// A broker of its own and a browser for the cases of the web interface: who logs in, what is asked for, what goes wrong.
'use strict';

const { execFile, spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { promisify } = require('node:util');
const puppeteer = require('puppeteer-core');
const { options, sleep } = require('./bench');

// As lab/toolchain.py has them.
const BROWSERS = ['chromium', 'chromium-browser', 'google-chrome'];
const START_MS = 20_000;
const SEEN_MS = 10_000;

let broker;
let browser;

/** The broker: where its interface is, and how it is asked without a browser. */
async function start() {
  if (broker) return broker;
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'leveret-ui-'));
  const sets = { 'listeners.tcp.default': '127.0.0.1:0', 'management.tcp.ip': '127.0.0.1', 'management.tcp.port': 0, 'prometheus.tcp': 'none', 'web_amqp.tcp': 'none', ...(process.env.LEVERET_UI_DIR ? { 'leveret.ui_dir': process.env.LEVERET_UI_DIR } : {}), 'stream.listeners.tcp.1': '127.0.0.1:0', channel_max: 2047 };
  const words = ['server', '--data-dir', folder, ...Object.entries(sets).flatMap(([key, value]) => ['--set', `${key}=${value}`])];
  // A setting that stands twice: the command line counts.
  // Pictures tell nothing of the machine that they are drawn on.
  const child = spawn(options.broker, words, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, RABBITMQ_NODENAME: 'rabbit@hare', LEVERET_CHANNEL_MAX: '2000' } });
  let said = '';
  child.stdout.on('data', (text) => { said += text; });
  child.stderr.on('data', (text) => { said += text; });
  process.on('exit', () => { child.kill('SIGKILL'); fs.rmSync(folder, { recursive: true, force: true }); });
  for (const end = Date.now() + START_MS; ; await sleep(20)) {
    const port = /HTTP API http:\/\/localhost:(\d+)/.exec(said)?.[1], amqp = /AMQP amqp:\/\/localhost:(\d+)/.exec(said)?.[1];
    if (port && amqp) {
      broker = { port: Number(port), amqp: Number(amqp), folder, base: `http://127.0.0.1:${port}/`, pid: child.pid };
      return broker;
    }
    if (Date.now() > end || child.exitCode !== null) throw new Error(`the broker did not start: ${said.slice(-500)}`);
  }
}

/** The broker's process. */
const pid = async () => (await start()).pid;

/** A command of `ctl` on the broker. */
async function tool(...words) {
  const { folder } = await start();
  await promisify(execFile)(options.broker, ['ctl', '--data-dir', folder, '-q', ...words]);
}

/** A request without a browser: its status, headers and body. */
async function raw(method, where, { body, headers = {}, user = 'guest:guest' } = {}) {
  const { port } = await start();
  return new Promise((resolve, reject) => {
    const login = user ? { authorization: `Basic ${Buffer.from(user).toString('base64')}` } : {};
    const json = body === undefined ? undefined : JSON.stringify(body);
    const request = http.request({ host: '127.0.0.1', port, method, path: where, headers: { ...login, ...(json ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) } : {}), ...headers } }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(parts).toString() }));
      if (/event-stream/.test(answer.headers['content-type'] ?? '')) { answer.destroy(); resolve({ status: answer.statusCode, headers: answer.headers, body: '' }); }
    });
    request.on('error', reject);
    request.end(json);
  });
}

/** The same of the API; what is refused is an error. */
async function api(method, where, body) {
  const got = await raw(method, `/api/${where}`, { body });
  if (got.status >= 300) throw new Error(`${method} ${where}: ${got.status} ${got.body}`);
  return got.body ? JSON.parse(got.body) : null;
}

async function launched() {
  const folders = (process.env.PATH ?? '').split(':');
  const found = BROWSERS.flatMap((name) => folders.map((folder) => path.join(folder, name))).find((one) => fs.existsSync(one));
  const program = process.env.LEVERET_BROWSER || found;
  browser ??= await puppeteer.launch({ executablePath: program, headless: true, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--host-resolver-rules=MAP hare 127.0.0.1'] });
  return browser;
}

/** A page of a browser that nobody has used; `seen` gathers what it asks for, what it complains about, and dialogs. */
async function opened(ends, { theme = 'light', width = 1440, height = 900, unguarded = false, host = '127.0.0.1', at = '' } = {}) {
  const base = at || (await start()).base.replace('127.0.0.1', host);
  const context = await (await launched()).createBrowserContext();
  // A case may close it before it ends.
  ends.push(() => context.close().catch(() => {}));
  const page = await context.newPage();
  await page.setViewport({ width, height });
  if (unguarded) await page.setBypassCSP(true);
  const seen = { requests: [], errors: [], refused: [], dialogs: 0 };
  page.on('request', (request) => seen.requests.push(request.url()));
  page.on('response', (answer) => { if ([401, 403].includes(answer.status())) seen.refused.push(`${answer.status()} ${answer.url()}`); });
  page.on('console', (said) => { if (['error', 'warn'].includes(said.type())) seen.errors.push(`${said.text()} ${said.location()?.url ?? ''}`); });
  page.on('pageerror', (error) => seen.errors.push(String(error?.stack ?? error)));
  page.on('dialog', (dialog) => { seen.dialogs += 1; void dialog.dismiss(); });
  await page.evaluateOnNewDocument((chosen) => { if (!localStorage.getItem('theme')) localStorage.setItem('theme', chosen); }, theme);
  await page.goto(base);
  await page.waitForSelector('.login input[name=username]', { timeout: SEEN_MS });
  return { page, seen, context };
}

async function logIn(page, user = 'guest', password = 'guest') {
  await page.type('.login input[name=username]', user);
  await page.type('.login input[name=password]', password);
  await page.click('.login button');
}

/** A page of somebody who is logged in. */
async function entered(ends, { user = 'guest', password = 'guest', ...more } = {}) {
  const it = await opened(ends, more);
  await logIn(it.page, user, password);
  await it.page.waitForSelector('main h1', { timeout: SEEN_MS });
  return it;
}

/** Goes to an address, and waits until its page is there. */
async function go(page, hash, title) {
  await page.evaluate((to) => { location.hash = to; }, hash);
  await until(page, title ?? '', () => true);
}

/** Waits until this is so in the page; else an error that says what was waited for, and what there is. */
async function seenBy(page, what, is, ...words) {
  try {
    return await page.waitForFunction(is, { timeout: SEEN_MS }, ...words);
  } catch {
    const there = await page.evaluate(() => `${location.hash}: ${document.querySelector('dialog[open], main')?.innerText.replaceAll('\n', ' | ').slice(0, 200)}`);
    throw new Error(`${what} was not seen; ${there}`);
  }
}

/** Waits until the heading has this in it. */
async function until(page, title) {
  await seenBy(page, `the heading ${title}`, (text) => (document.querySelector('main h1')?.textContent ?? '').includes(text), title);
}

/** Waits until there is this text somewhere in the page. */
async function says(page, text, within = 'body') {
  await seenBy(page, `"${text}" in ${within}`, (one, where) => (document.querySelector(where)?.textContent ?? '').includes(one), text, within);
}

/** Presses the button or link of this text; what is drawn anew meanwhile is looked for again. */
async function press(page, text, within = 'body') {
  for (let tries = 3; ; tries -= 1) {
    const handle = await seenBy(page, `the button ${text}`, (one, where) => [...document.querySelectorAll(`${where} button, ${where} a, ${where} summary`)].find((it) => it.textContent.trim() === one && it.offsetParent !== null), text, within);
    try { return await handle.asElement().click(); } catch (error) {
      if (tries === 1 || !/detached|not clickable/.test(error.message)) throw error;
    }
  }
}

module.exports = { api, entered, go, logIn, opened, pid, press, raw, says, start, tool, until };
