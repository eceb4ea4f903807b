// RabbitMQ's own Selenium specs, as they are, against the web interface of a broker of ours.
//
// No spec looks into a page by itself: all that is known of pages is in page objects, and ours take the place of theirs.
// Specs, their helpers and their files are read from the folder that LEVERET_SELENIUM_SPECS names (`selenium` of
// RabbitMQ's source) and copied into a temporary one with our page objects. Each folder of specs gets a broker of its own,
// with the users of theirs; each file a process. An assertion that a spec does not wait for counts for nothing, as there.
'use strict';

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { ABSENT, EXCUSES } = require('./excuses');
const { options, sleep } = require('../node/bench');

const FOLDERS = ['basic-auth', 'exchanges', 'vhosts', 'definitions', 'limits', 'queuesAndStreams'];
/** Helpers that stand beside the folders. */
const HELPERS = ['utils.js', 'mgt-api.js', 'amqp.js'];
/** Settings of folders: those of RabbitMQ's profile for it. */
const SETTINGS = { 'basic-auth': { 'management.login_session_timeout': 1 } };
/** Files that run only where they are told so. */
const PROFILES = { 'definitions.enforce-definition-file-extension': 'enforce-definition-file-extension' };
// As lab/toolchain.py has them.
const BROWSERS = ['chromium', 'chromium-browser', 'google-chrome'];
const DRIVER = 'chromedriver';
const START_MS = 20_000;
const CASE_MS = 40_000;
const FILE_MS = 300_000;

/** Processes that were started here, to be ended here. */
const started = new Set();
const box = fs.mkdtempSync(path.join(os.tmpdir(), 'leveret-selenium-'));
process.on('exit', () => {
  for (const child of started) child.kill('SIGKILL');
  fs.rmSync(box, { recursive: true, force: true });
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

/** A program of this machine. */
function found(...names) {
  const folders = (process.env.PATH ?? '').split(':');
  return names.flatMap((name) => folders.map((folder) => path.join(folder, name))).find((one) => fs.existsSync(one));
}

/** The folder of specs, with our page objects in place of theirs. */
function assembled() {
  const given = process.env.LEVERET_SELENIUM_SPECS;
  const theirs = [path.join(given, 'test'), given].find((one) => fs.existsSync(path.join(one, 'utils.js')));
  if (!theirs) throw new Error(`no specs in ${given}: LEVERET_SELENIUM_SPECS is to name the folder selenium of RabbitMQ's source`);
  const test = path.join(box, 'test');
  for (const name of [...FOLDERS, ...HELPERS]) fs.cpSync(path.join(theirs, name), path.join(test, name), { recursive: true });
  fs.cpSync(path.join(__dirname, 'pageobjects'), path.join(test, 'pageobjects'), { recursive: true });
  // Helpers name those of other logins too. Nothing makes one here.
  for (const name of fs.readdirSync(path.join(theirs, 'pageobjects'))) {
    const file = path.join(test, 'pageobjects', name);
    if (!fs.existsSync(file)) fs.writeFileSync(file, `module.exports = class { constructor() { throw new Error('${name} has no page object'); } };\n`);
  }
  for (const name of ['screens', 'downloads']) fs.mkdirSync(path.join(box, name));
  return test;
}

/** Starts a program, and gives what it says of itself once that matches. */
async function launched(program, words, ...patterns) {
  // What a browser keeps is kept in the temporary folder.
  const child = spawn(program, words, { env: { ...process.env, HOME: box, TMPDIR: box }, stdio: ['ignore', 'pipe', 'pipe'] });
  started.add(child);
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => { said = (said + text).slice(-100_000); });
  for (const end = Date.now() + START_MS; ; await sleep(20)) {
    const parts = patterns.map((pattern) => pattern.exec(said)?.[1]);
    if (parts.every(Boolean)) return { parts, end: () => { child.kill('SIGKILL'); started.delete(child); } };
    if (Date.now() > end || child.exitCode !== null) throw new Error(`${path.basename(program)} did not start: ${said.slice(-500)}`);
  }
}

/** A broker with the users of RabbitMQ's specs. */
async function broker(test, folder) {
  const data = path.join(box, `data-${folder}`);
  const sets = {
    'listeners.tcp.default': '127.0.0.1:0', 'management.tcp.ip': '127.0.0.1', 'management.tcp.port': 0, 'prometheus.tcp': 'none', 'web_amqp.tcp': 'none',
    'stream.listeners.tcp.1': '127.0.0.1:0', 'loopback_users': 'none', 'load_definitions': path.join(test, 'basic-auth', 'imports', 'users.json'), ...SETTINGS[folder],
    ...(process.env.LEVERET_UI_DIR ? { 'leveret.ui_dir': process.env.LEVERET_UI_DIR } : {}),
  };
  const words = ['server', '--data-dir', data, ...Object.entries(sets).flatMap(([key, value]) => ['--set', `${key}=${value}`])];
  const { parts: [http, amqp], end } = await launched(options.broker, words, /HTTP API http:\/\/localhost:(\d+)/, /AMQP amqp:\/\/localhost:(\d+)/);
  return { http, amqp, end };
}

/** Browsers of a file go with it, also where a hook broke before it closed its own. */
async function closeBrowsers(driver) {
  const at = `http://127.0.0.1:${driver}`, { value } = await (await fetch(`${at}/sessions`)).json();
  for (const { id } of value) await fetch(`${at}/session/${id}`, { method: 'DELETE' });
}

/** What became of the cases of a file. */
async function ran(file, name, at, driver) {
  const output = path.join(box, `${name}.json`);
  const words = [
    require.resolve('mocha/bin/mocha.js'), '--exit', '--timeout', String(CASE_MS), '--require', path.join(__dirname, 'preload.js'),
    '--reporter', path.join(__dirname, 'reporter.js'), '--reporter-option', `output=${output}`, file];
  const env = {
    ...process.env, RUN_LOCAL: 'false', SELENIUM_URL: `http://127.0.0.1:${driver}`, RABBITMQ_URL: `http://127.0.0.1:${at.http}`,
    RABBITMQ_HOSTNAME: '127.0.0.1', RABBITMQ_AMQP_PORT: at.amqp, SCREENSHOTS_DIR: path.join(box, 'screens'), PROFILES: PROFILES[name] ?? '',
    LEVERET_BROWSER: process.env.LEVERET_BROWSER || found(...BROWSERS), LEVERET_DOWNLOADS: path.join(box, 'downloads'),
  };
  const child = spawn(process.execPath, words, { cwd: box, env, stdio: ['ignore', 2, 2] });
  started.add(child);
  const timer = setTimeout(() => child.kill('SIGKILL'), FILE_MS);
  const code = await new Promise((resolve) => { child.on('exit', resolve); });
  clearTimeout(timer);
  started.delete(child);
  await closeBrowsers(driver);
  if (fs.existsSync(output)) return JSON.parse(fs.readFileSync(output, 'utf8'));
  return [{ name: '', status: 'failed', why: `ended with ${code} and no results`, seconds: 0 }];
}

const glob = (pattern) => new RegExp(`^${pattern.replace(/[.+^${}()|\\]/g, '\\$&').replace(/\*/g, '.*').replace(/\?/g, '.')}$`);
const only = glob(options.only);
/** Whether cases of a file may be meant: names are known once it ran. */
const mayHold = (name) => {
  const [literal] = options.only.split(/[*?]/), prefix = `selenium.${name}.`;
  return prefix.startsWith(literal) || literal.startsWith(prefix);
};

const excuses = Object.entries(EXCUSES).map(([pattern, why]) => ({ pattern, matches: glob(pattern), why, used: 0 }));

/** The result of a case, with its excuse if it has one. */
function judged(one) {
  const excuse = excuses.find(({ matches }) => matches.test(one.name));
  if (!excuse) return one;
  excuse.used += 1;
  if (one.status === 'ok') return { ...one, status: 'failed', why: `excused, and passes: ${excuse.why}` };
  console.error(`excused: ${one.name}: ${one.why}`);
  return { ...one, status: 'skipped', why: excuse.why };
}

let failed = false;
function tell(one) {
  if (!only.test(`selenium.${one.name}`)) return;
  failed ||= one.status === 'failed';
  process.stdout.write(`${JSON.stringify({ ...one, name: `selenium.${one.name}` })}\n`);
}

async function main() {
  if (!options.broker) return tell({ name: 'suite', status: 'skipped', why: 'needs --broker', seconds: 0 });
  const test = assembled();
  const { parts: [driver] } = await launched(found(DRIVER), ['--port=0'], /started successfully on port (\d+)/);
  for (const folder of FOLDERS) {
    const files = fs.readdirSync(path.join(test, folder), { recursive: true }).filter((name) => name.endsWith('.js')).sort()
      .map((name) => ({ file: path.join(test, folder, name), name: `${folder}.${name.slice(0, -3).replaceAll(path.sep, '.')}` }))
      .filter(({ name }) => mayHold(name));
    if (files.length === 0) continue;
    const at = await broker(test, folder);
    for (const { file, name } of files) {
      if (ABSENT[name]) tell({ name, status: 'skipped', why: ABSENT[name], seconds: 0 });
      else for (const one of await ran(file, name, at, driver)) tell(judged({ ...one, name: [name, one.name].filter(Boolean).join('.') }));
    }
    at.end();
  }
  // Where all ran, each excuse is for something.
  if (!['*', 'selenium*', 'selenium.*'].includes(options.only)) return undefined;
  const idle = excuses.filter(({ used }) => used === 0).map(({ pattern }) => pattern);
  return tell({ name: 'excuses', status: idle.length ? 'failed' : 'ok', why: idle.length ? `no case ${idle.join(', ')}` : '', seconds: 0 });
}

main().then(() => process.exit(failed ? 1 : 0), (error) => {
  tell({ name: 'suite', status: 'failed', why: error.message, seconds: 0 });
  process.exit(1);
});
