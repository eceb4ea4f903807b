// @ts-check
/** What can be done with chosen messages: send them home or elsewhere, delete them, take them out, publish copies. */
import { ask, path, post, query, seesMessages } from './api.js';
import { bytesOf } from './bodies.js';
import { computed, effect, h, signal, untracked } from './core.js';
import { ask as form, attempt, confirm, note } from './dialog.js';
import { named } from './format.js';
import { pairsEditor } from './forms.js';
import { placeOf } from './search.js';
import { text } from './text.js';

const say = text.messages;
/** Requests that are under way at once. */
const AT_ONCE = 4;
/** How long typing rests before it is asked where a message would go, in milliseconds. */
const REST_MS = 250;

/** @param {string} exchange  the default one has no name, and a path needs one */
const asked = (exchange) => (exchange === '' ? 'amq.default' : exchange);

/**
 * The messages as they are, whole, in their order.
 * @param {string} where @param {any[]} messages @param {boolean} isStream
 */
async function wholeOf(where, messages, isStream) {
  /** @type {any[]} */
  const all = new Array(messages.length);
  const waiting = messages.map((message, at) => /** @type {[any, number]} */ ([message, at]));
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let one = waiting.shift(); one; one = waiting.shift()) {
      const place = placeOf(one[0], isStream);
      const got = await ask(`${where}/messages${query({ [isStream ? 'from' : 'position']: place, count: 1 })}`);
      const found = got.messages[0];
      if (found && placeOf(found, isStream) === place) all[one[1]] = found;
    }
  }));
  return all.filter(Boolean);
}

/** @param {string} name @param {string} content */
function download(name, content) {
  const address = URL.createObjectURL(new Blob([content], { type: 'application/x-ndjson' }));
  /** @type {HTMLAnchorElement} */ (h('a', { href: address, download: name })).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** Where messages would go that are published so, said while it is typed. @param {string} vhost @param {() => { exchange: string, key: string, properties: any }} read */
function goes(vhost, read) {
  const told = signal(/** @type {any} */ (null)), why = signal('');
  let last = 0;
  effect(() => {
    const { exchange, key, properties } = read();
    const own = last += 1;
    untracked(() => setTimeout(async () => {
      if (own !== last) return;
      try {
        told.value = await post(`x/exchanges/${path(vhost, asked(exchange))}/route`, { routing_key: key, properties: properties ?? {} });
        why.value = '';
      } catch (error) { told.value = null; why.value = /** @type {Error} */ (error).message; }
    }, REST_MS));
  });
  return h('p', { class: 'pale', role: 'status' }, () => (why.value ? why.value : !told.value ? '' : told.value.routed ? say.wouldGo(told.value.queues.map(named).join(', ')) : say.wouldGoNowhere));
}

/**
 * @param {{ vhost: string, name: string, isStream: () => boolean, chosen: import('./core.js').Signal<Map<number, any>>, done: () => void }} it
 */
export function selection(it) {
  const where = `x/queues/${path(it.vhost, it.name)}`;
  const messages = () => [...it.chosen.peek().values()];
  const positions = () => [...it.chosen.peek().keys()];

  const act = (/** @type {'redrive' | 'delete'} */ what) => {
    const words = what === 'delete' ? say.deleteMany : say.redriveMany;
    return confirm({ title: words.title(positions().length, named(it.name)), verb: words.verb, name: it.name, act: async () => {
      const got = await post(`${where}/${what}`, { positions: positions() });
      note(words.done(what === 'delete' ? got.deleted : got.moved));
      it.done();
    } });
  };
  const move = () => {
    const exchange = signal(''), key = signal(''), first = messages()[0];
    const typed = (/** @type {import('./core.js').Signal<string>} */ to) => (/** @type {Event} */ event) => { to.value = /** @type {HTMLInputElement} */ (event.target).value; };
    return form({
      title: say.moveMany.title(positions().length, named(it.name)), verb: say.moveMany.verb,
      body: () => [h('div', { class: 'form' },
        h('label', { for: 'to-exchange' }, text.columns.exchange), h('input', { id: 'to-exchange', name: 'exchange', spellcheck: 'false', placeholder: text.queue.defaultExchange, oninput: typed(exchange) }),
        h('label', { for: 'to-key' }, text.queue.moveKey), h('input', { id: 'to-key', name: 'key', required: true, spellcheck: 'false', oninput: typed(key) })),
      goes(it.vhost, () => ({ exchange: exchange.value, key: key.value, properties: first?.properties }))],
      act: async (data) => {
        const got = await post(`${where}/move`, { exchange: String(data.get('exchange')), routing_key: String(data.get('key')), positions: positions() });
        note(say.moveMany.done(got.moved), got.moved === positions().length ? 'good' : 'warn');
        it.done();
      },
    });
  };
  const take = () => attempt(async () => {
    const all = await wholeOf(where, messages(), it.isStream());
    download(`${it.name.replace(/[^\w.-]+/g, '-') || 'messages'}.jsonl`, `${all.map((one) => JSON.stringify(one)).join('\n')}\n`);
    note(say.exported(all.length), all.length === messages().length ? 'good' : 'warn');
  });
  const copy = () => attempt(async () => {
    const [whole] = await wholeOf(where, messages().slice(0, 1), it.isStream());
    if (!whole) throw new Error(say.gone);
    await again(it.vhost, whole);
  });
  return () => {
    const n = it.chosen.value.size;
    if (n === 0) return null;
    return [h('span', null, text.table.selected(n)),
      !it.isStream() && [h('button', { type: 'button', onclick: () => void act('redrive') }, say.redrive), h('button', { type: 'button', onclick: () => void move() }, say.move)],
      n === 1 && seesMessages() === 'full' && h('button', { type: 'button', onclick: () => void copy() }, say.edit),
      seesMessages() === 'full' && h('button', { type: 'button', onclick: () => void take() }, say.export),
      !it.isStream() && h('button', { type: 'button', class: 'danger', onclick: () => void act('delete') }, say.delete)];
  };
}

/** Has a message published that goes to one queue. @param {string} vhost @param {string} name */
export const publishTo = (vhost, name) => again(vhost, { exchange: '', routing_key: name, payload: '', payload_encoding: 'string', properties: { delivery_mode: 2 } }, say.publishTo(named(name)));

/** Properties that say what became of a message, which a new one has not. @param {Record<string, any>} headers */
const fresh = (headers) => Object.fromEntries(Object.entries(headers).filter(([name]) => !/^x-(death|first-death-|last-death-|delivery-count|acquired-count|stream-offset)/.test(name)));

/** Has a copy of a message published, as it is or changed; or a new one. @param {string} vhost @param {any} message @param {string} [title] */
export function again(vhost, message, title = say.again_.title) {
  const { headers = {}, ...rest } = message.properties ?? {};
  const own = pairsEditor([], text.exchange.headers, fresh(headers)), properties = pairsEditor([], text.exchange.properties, rest);
  const isText = message.payload_encoding !== 'base64';
  const exchange = signal(message.exchange ?? ''), key = signal(message.routing_key ?? '');
  const read = () => ({ ...properties.read(), ...(Object.keys(own.read()).length ? { headers: own.read() } : {}) });
  const typed = (/** @type {import('./core.js').Signal<string>} */ to) => (/** @type {Event} */ event) => { to.value = /** @type {HTMLInputElement} */ (event.target).value; };
  const size = computed(() => bytesOf(message).length);
  return form({
    title, verb: say.again_.verb,
    body: () => [h('div', { class: 'form' },
      h('label', { for: 'again-exchange' }, text.columns.exchange), h('input', { id: 'again-exchange', name: 'exchange', spellcheck: 'false', value: exchange.peek(), placeholder: text.queue.defaultExchange, oninput: typed(exchange) }),
      h('label', { for: 'again-key' }, text.columns.key), h('input', { id: 'again-key', name: 'key', spellcheck: 'false', value: key.peek(), oninput: typed(key) }),
      h('span', { class: 'label' }, text.exchange.headers), own.element, h('span', { class: 'label' }, text.exchange.properties), properties.element,
      h('label', { for: 'again-payload' }, say.payload), isText ? h('textarea', { id: 'again-payload', name: 'payload', spellcheck: 'false', value: message.payload })
        : h('span', { id: 'again-payload' }, say.again_.bytes(size.peek()))),
    goes(vhost, () => ({ exchange: exchange.value, key: key.value, properties: {} }))],
    act: async (data) => {
      const got = await post(`exchanges/${path(vhost, asked(String(data.get('exchange'))))}/publish`, {
        routing_key: String(data.get('key')), properties: read(), payload: isText ? String(data.get('payload')) : message.payload, payload_encoding: isText ? 'string' : 'base64',
      });
      note(got.routed ? text.exchange.wentOut : text.exchange.wentNowhere, got.routed ? 'good' : 'warn');
    },
  });
}
