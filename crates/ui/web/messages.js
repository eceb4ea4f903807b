// @ts-check
/** Messages of a queue or stream, looked at without being taken: by pages, from either end or a place. */
import { ask, path, post, query } from './api.js';
import { shownBody } from './bodies.js';
import { attempt, confirm, note } from './dialog.js';
import { computed, effect, h, signal, untracked } from './core.js';
import { bytes, date, named, visible, whole } from './format.js';
import { badge, card, facts, pairs } from './parts.js';
import { said, say as remember } from './route.js';
import { text } from './text.js';

const say = text.messages;
/** Messages of a page, and bytes of each that a list shows. */
const PAGE = 50, SHOWN = 4096;
/** Bytes of a message that is looked at alone. */
const WHOLE = 1 << 20;

/** @param {any} message @param {boolean} isStream */
const placeOf = (message, isStream) => (isStream ? message.offset : message.position);

/** @param {any} message */
function properties(message) {
  const { headers, ...rest } = message.properties ?? {};
  const told = Object.entries(rest).map(([name, value]) => /** @type {[string, any]} */ ([name, name === 'timestamp' ? date(1000 * Number(value)) : typeof value === 'string' ? visible(value) : String(value)]));
  const { 'x-death': deaths, ...own } = headers ?? {};
  return [told.length > 0 && [h('h2', null, say.properties), facts(told)],
    Object.keys(own).length > 0 && [h('h2', null, say.headers), pairs(own)],
    Array.isArray(deaths) && [h('h2', null, say.deaths), h('ol', null, deaths.map((one) => h('li', null, say.died(one.count, one.reason, named(one.queue), one.time ? date(1000 * Number(one.time)) : ''))))]];
}

/** @param {any} message @param {boolean} isStream @param {() => Promise<any>} whole_ @param {() => void} close */
function detail(message, isStream, whole_, close) {
  const full = signal(message);
  void attempt(async () => { full.value = (await whole_()) ?? message; });
  return h('section', { class: 'card', 'aria-label': say.one(String(placeOf(message, isStream))) },
    h('div', { class: 'head-line' }, h('h2', null, say.one(whole(placeOf(message, isStream)))), h('div', { class: 'tools' }, h('button', { type: 'button', onclick: close }, text.close))),
    facts([[text.columns.exchange, message.exchange === '' ? say.byDefault : visible(message.exchange ?? '')], [text.columns.key, h('code', null, visible(message.routing_key ?? ''))],
      [text.columns.bytes, bytes(message.payload_bytes)], [say.redelivered, message.redelivered && text.queue.yes], [say.timestamp, message.timestamp && date(message.timestamp)]]),
    properties(message), h('h2', null, say.payload), () => shownBody(full.value));
}

/** @param {string} vhost @param {string} name @param {import('./core.js').Signal<any>} queue */
export function messages(vhost, name, queue) {
  const where = `x/queues/${path(vhost, name)}`;
  const isStream = computed(() => queue.value?.type === 'stream');
  const isKnown = computed(() => queue.value != null);
  const list = signal(/** @type {any[] | null} */ (null)), refused = signal(''), chosen = signal(/** @type {Set<number>} */ (new Set()));
  const from = computed(() => said('from', isKnown.value && isStream.value ? 'first' : 'head'));
  const load = async () => {
    const at = from.peek();
    const begin = isStream.peek() ? (at === 'tail' ? { last: PAGE } : { from: at === 'head' ? 'first' : at, count: PAGE })
      : at === 'tail' ? { last: PAGE } : at === 'head' ? { count: PAGE } : { position: at, count: PAGE };
    try {
      const got = await ask(`${where}/messages${query({ ...begin, truncate: SHOWN })}`);
      list.value = got.messages;
      refused.value = '';
      chosen.value = new Set();
    } catch (error) { refused.value = /** @type {Error} */ (error).message; list.value = []; }
  };
  effect(() => { from.value; if (isKnown.value) untracked(() => void load()); });

  const goTo = h('input', { id: 'message-place', 'aria-label': say.place, placeholder: say.place, inputmode: 'numeric', spellcheck: 'false' });
  const next = () => { const last = list.peek()?.at(-1); if (last) remember({ from: String(placeOf(last, isStream.peek()) + 1), message: null }); };
  const tools = h('form', { class: 'tools', onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); const at = /** @type {HTMLInputElement} */ (goTo).value.trim(); if (at) remember({ from: at, message: null }); } },
    h('button', { type: 'button', onclick: () => (from.peek() === 'head' || from.peek() === 'first' ? void load() : remember({ from: null, message: null })) }, say.head),
    h('button', { type: 'button', onclick: () => (from.peek() === 'tail' ? void load() : remember({ from: 'tail', message: null })) }, say.tail),
    goTo, h('button', null, say.go), h('button', { type: 'button', disabled: () => (list.value?.length ?? 0) < PAGE, onclick: next }, say.next),
    h('span', { class: 'end' }),
    () => (chosen.value.size > 0 && !isStream.value ? [h('span', null, text.table.selected(chosen.value.size)),
      h('button', { type: 'button', onclick: () => void act('redrive') }, say.redrive),
      h('button', { type: 'button', class: 'danger', onclick: () => void act('delete') }, say.delete)] : null));

  const act = (/** @type {'redrive' | 'delete'} */ what) => {
    const positions = [...chosen.peek()];
    const words = what === 'delete' ? say.deleteMany : say.redriveMany;
    return confirm({ title: words.title(positions.length, named(name)), verb: words.verb, name, act: async () => {
      const got = await post(`${where}/${what}`, { positions });
      note(words.done(what === 'delete' ? got.deleted : got.moved));
      void load();
    } });
  };
  const open = computed(() => said('message'));
  const shown = (/** @type {any} */ message) => {
    const place = placeOf(message, isStream.peek());
    const begin = isStream.peek() ? { from: place } : { position: place };
    return detail(message, isStream.peek(), async () => {
      const got = await ask(`${where}/messages${query({ ...begin, count: 1, truncate: WHOLE })}`);
      return got.messages[0];
    }, () => remember({ message: null }));
  };
  const rows = () => (list.value ?? []).map((message) => {
    const place = placeOf(message, isStream.value);
    return [h('tr', null,
      !isStream.value && h('td', null, h('input', { type: 'checkbox', 'aria-label': say.select(whole(place)), checked: chosen.value.has(place), onchange: () => {
        const all = new Set(chosen.peek());
        if (!all.delete(place)) all.add(place);
        chosen.value = all;
      } })),
      h('td', { class: 'number' }, h('button', { type: 'button', class: 'link', 'aria-expanded': () => String(open.value === String(place)), onclick: () => remember({ message: open.peek() === String(place) ? null : String(place) }) }, whole(place))),
      h('td', null, h('code', null, visible(message.routing_key ?? ''))), h('td', { class: 'number' }, bytes(message.payload_bytes)),
      h('td', null, h('code', null, message.payload_encoding === 'base64' ? say.binary : visible(String(message.payload).slice(0, 120)))),
      h('td', null, message.redelivered && badge(say.again, 'warn'))),
    () => (open.value === String(place) ? h('tr', { class: 'opened' }, h('td', { colspan: isStream.value ? 5 : 6 }, shown(message))) : null)];
  });
  return [tools, h('p', { class: 'pale small' }, say.untouched),
    h('div', { role: 'status', class: 'notes' }, () => (refused.value ? h('p', { class: 'band bad' }, text.refused(refused.value)) : null)),
    card(text.queue.tabs.messages, () => (list.value == null ? h('p', { class: 'empty' }, text.loading) : list.value.length === 0 ? h('p', { class: 'empty' }, say.none)
      : h('div', { class: 'scroll-x' }, h('table', { class: 'plain messages' }, h('thead', null, h('tr', null, !isStream.value && h('th', { scope: 'col', class: 'choose' }, h('span', { class: 'unseen' }, say.selects)),
        h('th', { scope: 'col', class: 'number' }, isStream.value ? say.offset : say.position), h('th', { scope: 'col' }, text.columns.key), h('th', { scope: 'col', class: 'number' }, text.columns.bytes),
        h('th', { scope: 'col' }, say.payload), h('th', { scope: 'col' }, h('span', { class: 'unseen' }, say.redelivered)))), h('tbody', null, rows)))))];
}
