// The frame of the suites in JavaScript: named cases, one JSON result a line, as lab/cases.py has it.
//
// A case is an async function of a bench; what it opened is closed when it ends. Invariant: every case that was
// selected yields one result, also when it hangs.
'use strict';

const net = require('node:net');
const { parseArgs } = require('node:util');

const WAIT_MS = 15_000;
const QUIET_MS = 250;
const CASE_MS = 40_000;

const { values: options } = parseArgs({
  options: {
    uri: { type: 'string', default: 'amqp://guest:guest@127.0.0.1:5672' },
    only: { type: 'string', default: '*' },
    seed: { type: 'string' }, // nothing here is random
    full: { type: 'boolean' }, // there is one form
    later: { type: 'boolean', default: false },
    admin: { type: 'string' }, // for other suites
    'stream-port': { type: 'string', default: '5552' },
    relay: { type: 'string' },
    cut: { type: 'string' },
    broker: { type: 'string' }, // a program to start, for cases that need a broker of their own
    web: { type: 'string' }, // port of a WebSocket listener; empty: the broker has none
  },
});
const uri = new URL(options.uri);

let number = 0;
function fresh(word) {
  number += 1;
  return `foreign.node.${word}.${process.pid.toString(16)}.${number}`;
}

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** The promise's value, or an error that says what was waited for. */
async function soon(promise, what, ms = WAIT_MS) {
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing after ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function equal(seen, expected, what) {
  const [left, right] = [JSON.stringify(seen), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${what}: saw ${left}, expected ${right}`.slice(0, 500));
}

/** What comes in; `take` waits for some of it. */
class Inbox {
  constructor() {
    this.items = [];
    this.wake = () => {};
  }

  put(item) {
    this.items.push(item);
    this.wake();
  }

  async take(count, what = 'messages', ms = WAIT_MS) {
    const deadline = Date.now() + ms;
    while (this.items.length < count) {
      const left = deadline - Date.now();
      if (left <= 0) throw new Error(`${this.items.length} ${what} of ${count} after ${ms} ms`);
      await Promise.race([new Promise((resolve) => { this.wake = resolve; }), sleep(Math.min(left, 100))]);
    }
    return this.items.splice(0, count);
  }

  async quiet(what = 'messages too many') {
    await sleep(QUIET_MS);
    equal(this.items.length, 0, what);
  }
}

/** Resets all connections through the relay. */
function cut() {
  return new Promise((resolve, reject) => {
    const knock = net.connect(Number(options.cut), '127.0.0.1');
    knock.on('close', resolve);
    knock.on('error', reject);
    knock.resume();
  });
}

/** A case that finds out that it cannot be run here. */
class Skipped extends Error {}

class Suite {
  constructor(name) {
    this.name = name;
    this.cases = [];
  }

  /** `act` gets a list to which it adds what is to be called at the end. */
  add(name, behaviour, answer, act, { later = false, needsRelay = false, ms = CASE_MS } = {}) {
    this.cases.push({ name: `${this.name}.${name}`, behaviour, answer, act, later, needsRelay, ms });
  }

  async main() {
    const only = new RegExp(`^${options.only.replace(/[.+^${}()|\\]/g, '\\$&').replace(/\*/g, '.*').replace(/\?/g, '.')}$`);
    let failed = false;
    for (const one of this.cases) {
      if (!only.test(one.name) || (one.later && !options.later)) continue;
      const result = await run(one);
      failed ||= result.status === 'failed';
      process.stdout.write(`${JSON.stringify(result)}\n`);
    }
    process.exit(failed ? 1 : 0);
  }
}

async function run(one) {
  const begin = Date.now();
  const ends = [];
  let [status, why] = ['ok', ''];
  try {
    if (one.needsRelay && !options.relay) [status, why] = ['skipped', 'needs a relay (--relay and --cut)'];
    else if (options.web === '') [status, why] = ['skipped', 'RabbitMQ has AMQP over WebSocket in its paid edition alone'];
    else await soon(one.act(ends), 'the case', one.ms);
  } catch (error) {
    const place = /at .*?([a-z0-9]+\.js:\d+)/.exec(error?.stack ?? '');
    [status, why] = error instanceof Skipped ? ['skipped', error.message] : ['failed', `${error?.message || error?.condition || error} (${place ? place[1] : '?'})`];
  }
  for (const end of ends.reverse()) {
    try {
      await soon(end(), 'closing', 5_000);
    } catch {
      // a case may have broken it on purpose
    }
  }
  const seconds = (Date.now() - begin) / 1000;
  return { name: one.name, status, why, behaviour: one.behaviour, answer: one.answer, seconds };
}

// A library's error that nobody awaits belongs to the case that runs: shown, and not the end of the suite.
process.on('unhandledRejection', (error) => console.error('unhandled rejection', error));
process.on('uncaughtException', (error) => console.error('uncaught exception', error));

module.exports = { Inbox, Skipped, Suite, cut, equal, fresh, options, sleep, soon, uri };
