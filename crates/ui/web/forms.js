// @ts-check
/** Forms to make things: queues, exchanges, and the arguments that both have. */
import { path, put } from './api.js';
import { ask, note } from './dialog.js';
import { computed, h, keyed, signal } from './core.js';
import { named } from './format.js';
import { go, to } from './route.js';
import { text } from './text.js';
import { vhost, vhosts } from './vhost.js';

const say = text.forms;

/** @typedef {{ id: string, name: string, value: string, kind: string }} Pair */

let lastPair = 0;

/** @param {string} [name] @param {string} [value] @param {string} [kind] @returns {Pair} */
const pair = (name = '', value = '', kind = 'text') => ({ id: String(++lastPair), name, value, kind });

/** The value that a pair stands for. @param {Pair} one */
export function valueOf({ name, value, kind }) {
  if (kind === 'number') {
    const number = Number(value);
    if (value.trim() === '' || Number.isNaN(number)) throw new Error(say.noNumber(name));
    return number;
  }
  if (kind === 'yes') return value.trim() === 'true';
  if (kind === 'json') {
    try { return JSON.parse(value); } catch { throw new Error(say.noJson(name)); }
  }
  return value;
}

/**
 * Pairs of names and values, of which there may be any number.
 * @param {string[]} known  names that are suggested
 * @param {string} label
 * @param {Record<string, any>} [now]  those that there are already
 */
export function pairsEditor(known, label, now = {}) {
  const there = Object.entries(now).map(([name, value]) => (typeof value === 'number' ? pair(name, String(value), 'number')
    : typeof value === 'string' ? pair(name, value) : typeof value === 'boolean' ? pair(name, String(value), 'yes') : pair(name, JSON.stringify(value), 'json')));
  const all = signal([...there, pair()]);
  const id = `known-${++lastPair}`;
  const change = (/** @type {Pair} */ to, /** @type {Partial<Pair>} */ by) => {
    all.value = all.peek().map((one) => (one.id === to.id ? { ...one, ...by } : one));
    if (all.peek().at(-1)?.name) all.value = [...all.peek(), pair()];
  };
  const typed = (/** @type {Event} */ event) => /** @type {HTMLInputElement} */ (event.target).value;
  const element = h('div', { class: 'pairs', role: 'group', 'aria-label': label },
    h('datalist', { id }, known.map((one) => h('option', { value: one }))),
    keyed(() => all.value, (one) => one.id, (item) => h('div', { class: 'pair' },
      h('input', { value: item.peek().name, list: id, 'aria-label': say.argument, placeholder: say.argument, spellcheck: 'false', oninput: (/** @type {Event} */ event) => change(item.peek(), { name: typed(event) }) }),
      h('input', { value: item.peek().value, 'aria-label': say.value, placeholder: say.value, spellcheck: 'false', oninput: (/** @type {Event} */ event) => change(item.peek(), { value: typed(event) }) }),
      h('select', { 'aria-label': say.kind, onchange: (/** @type {Event} */ event) => change(item.peek(), { kind: typed(event) }) },
        Object.entries(say.kinds).map(([key, name]) => h('option', { value: key, selected: item.peek().kind === key }, name))),
      h('button', { type: 'button', 'aria-label': say.dropArgument, onclick: () => { all.value = all.peek().filter((one) => one.id !== item.peek().id || all.peek().length === 1); } }, '×'))));
  const read = () => Object.fromEntries(all.peek().filter((one) => one.name).map((one) => [one.name, valueOf(one)]));
  return { element, read };
}

/** A choice of the virtual host, where none is chosen already. */
export function vhostField() {
  const chosen = vhost.peek().slice(1);
  return [h('label', { for: 'form-vhost' }, text.vhost), h('select', { id: 'form-vhost', name: 'vhost' },
    vhosts.peek().map((one) => h('option', { value: one, selected: one === (vhost.peek() ? chosen : '/') }, one)))];
}

const QUEUE_ARGUMENTS = ['x-message-ttl', 'x-expires', 'x-max-length', 'x-max-length-bytes', 'x-overflow', 'x-dead-letter-exchange',
  'x-dead-letter-routing-key', 'x-dead-letter-strategy', 'x-single-active-consumer', 'x-max-priority', 'x-priority-expression', 'x-barrier-expression', 'x-delivery-limit', 'x-cancel-limit', 'x-fairness', 'x-max-unsettled', 'x-lease', 'x-queue-leader-locator',
  'x-max-age', 'x-stream-max-segment-size-bytes', 'x-stream-filter-size-bytes'];

/** @param {() => void} done */
export async function declareQueue(done) {
  const more = pairsEditor(QUEUE_ARGUMENTS, say.arguments);
  const type = signal('classic');
  const isPlain = computed(() => type.value === 'classic');
  await ask({
    title: text.queues.declare, verb: say.declare,
    body: () => h('div', { class: 'form' }, vhostField(),
      h('label', { for: 'form-name' }, text.columns.name), h('input', { id: 'form-name', name: 'name', required: true, maxlength: 255, spellcheck: 'false', autocomplete: 'off' }),
      h('label', { for: 'form-type' }, text.columns.type), h('select', { id: 'form-type', name: 'type', onchange: (/** @type {Event} */ event) => { type.value = /** @type {HTMLSelectElement} */ (event.target).value; } },
        ['classic', 'quorum', 'stream'].map((one) => h('option', { value: one }, say.types[/** @type {'classic'} */ (one)]))),
      h('span', { class: 'label', hidden: () => !isPlain.value }, say.lives), h('span', { hidden: () => !isPlain.value },
        h('label', null, h('input', { type: 'checkbox', name: 'durable', checked: true }), ` ${say.durable} `),
        h('label', null, h('input', { type: 'checkbox', name: 'auto_delete' }), ` ${say.autoDelete}`)),
      h('span', { class: 'label' }, say.arguments), more.element),
    act: async (data) => {
      const [where, name, kind] = [String(data.get('vhost')), String(data.get('name')), String(data.get('type'))];
      const plain = kind === 'classic';
      await put(`queues/${path(where, name)}`, {
        durable: plain ? data.has('durable') : true, auto_delete: plain && data.has('auto_delete'), arguments: { 'x-queue-type': kind, ...more.read() },
      });
      note([say.declared, ' ', h('a', { href: to(['queues', where, name]) }, named(name))]);
      done();
    },
  });
}

const EXCHANGE_TYPES = ['direct', 'fanout', 'topic', 'headers', 'x-content', 'x-consistent-hash', 'x-modulus-hash', 'x-random', 'x-recent-history', 'x-local-random', 'x-delayed-message'];

/** @param {() => void} done */
export async function declareExchange(done) {
  const more = pairsEditor(['alternate-exchange', 'x-delayed-type', 'hash-header', 'hash-property', 'x-recent-history-length'], say.arguments);
  await ask({
    title: text.exchanges.declare, verb: say.declare,
    body: () => h('div', { class: 'form' }, vhostField(),
      h('label', { for: 'form-name' }, text.columns.name), h('input', { id: 'form-name', name: 'name', required: true, maxlength: 255, spellcheck: 'false', autocomplete: 'off' }),
      h('label', { for: 'form-type' }, text.columns.type), h('select', { id: 'form-type', name: 'type' }, EXCHANGE_TYPES.map((one) => h('option', { value: one }, one))),
      h('span', { class: 'label' }, say.lives), h('span', null,
        h('label', null, h('input', { type: 'checkbox', name: 'durable', checked: true }), ` ${say.durable} `),
        h('label', null, h('input', { type: 'checkbox', name: 'auto_delete' }), ` ${say.autoDelete} `),
        h('label', null, h('input', { type: 'checkbox', name: 'internal' }), ` ${say.internal}`)),
      h('span', { class: 'label' }, say.arguments), more.element),
    act: async (data) => {
      const [where, name] = [String(data.get('vhost')), String(data.get('name'))];
      await put(`exchanges/${path(where, name)}`, {
        type: data.get('type'), durable: data.has('durable'), auto_delete: data.has('auto_delete'), internal: data.has('internal'), arguments: more.read(),
      });
      note([say.declared, ' ', h('a', { href: to(['exchanges', where, name]) }, named(name))]);
      done();
    },
  });
}

/** Goes where a thing was, after it is gone. @param {string} list */
export const leave = (list) => go(`#/${list}`);
