// @ts-check
/** Messages as rows, each of which opens to all there is to see of it. */
import { ask, query } from './api.js';
import { shownBody } from './bodies.js';
import { attempt } from './dialog.js';
import { computed, h, signal } from './core.js';
import { bytes, date, named, visible, whole } from './format.js';
import { badge, card, facts, pairs, queueLink } from './parts.js';
import { said, say as remember } from './route.js';
import { placeOf } from './search.js';
import { text } from './text.js';

const say = text.messages;
/** Bytes of a message that is looked at alone. */
const WHOLE = 1 << 20;
/** Letters of a payload in a row. */
const LETTERS = 120;

/** What became of a message, the last first. @param {string} vhost @param {any[]} deaths */
const timeline = (vhost, deaths) => h('ol', { class: 'deaths' }, deaths.map((one) => h('li', null,
  h('span', null, say.died(one.count, one.reason)), ' ', one.queue ? queueLink(vhost, one.queue) : named(one.queue), one.time ? h('span', { class: 'pale' }, ` ${date(1000 * Number(one.time))}`) : '')));

/** @param {string} vhost @param {any} message */
function properties(vhost, message) {
  const { headers, ...rest } = message.properties ?? {};
  const told = Object.entries(rest).map(([name, value]) => /** @type {[string, any]} */ ([name, name === 'timestamp' ? date(1000 * Number(value)) : typeof value === 'string' ? visible(value) : String(value)]));
  const { 'x-death': deaths, ...own } = headers ?? {};
  return [told.length > 0 && [h('h2', null, say.properties), facts(told)],
    Object.keys(own).length > 0 && [h('h2', null, say.headers), pairs(own)],
    Array.isArray(deaths) && [h('h2', null, say.deaths), timeline(vhost, deaths)]];
}

/** @param {string} vhost @param {any} message @param {boolean} isStream @param {() => Promise<any>} whole_ @param {() => void} close */
function detail(vhost, message, isStream, whole_, close) {
  const full = signal(message);
  void attempt(async () => { full.value = (await whole_()) ?? message; });
  return h('section', { class: 'card', 'aria-label': say.one(String(placeOf(message, isStream))) },
    h('div', { class: 'head-line' }, h('h2', null, say.one(whole(placeOf(message, isStream)))), h('div', { class: 'tools' }, h('button', { type: 'button', onclick: close }, text.close))),
    facts([[text.columns.exchange, message.exchange === '' ? say.byDefault : visible(message.exchange ?? '')], [text.columns.key, h('code', null, visible(message.routing_key ?? ''))],
      [text.columns.bytes, bytes(message.payload_bytes)], [say.redelivered, message.redelivered && text.queue.yes], [say.timestamp, message.timestamp && date(message.timestamp)]]),
    properties(vhost, message), h('h2', null, say.payload), () => (full.value.payload_hidden ? h('p', { class: 'pale' }, say.hiddenWhy) : shownBody(full.value)));
}

/**
 * @param {{ vhost: string, name: string, where: string, isStream: () => boolean, rows: () => any[] | null, chosen?: import('./core.js').Signal<Map<number, any>>, empty: () => string }} it
 */
export function messageList(it) {
  const open = computed(() => said('message'));
  const choose = (/** @type {any[]} */ messages, /** @type {boolean} */ on) => {
    if (!it.chosen) return;
    const all = new Map(it.chosen.peek());
    for (const one of messages) {
      const place = placeOf(one, it.isStream());
      if (on) all.set(place, one); else all.delete(place);
    }
    it.chosen.value = all;
  };
  const shown = (/** @type {any} */ message) => {
    const place = placeOf(message, it.isStream());
    return detail(it.vhost, message, it.isStream(), async () => {
      const got = await ask(`${it.where}/messages${query({ [it.isStream() ? 'from' : 'position']: place, count: 1, truncate: WHOLE })}`);
      // Another may have been there first.
      return got.messages.find((/** @type {any} */ one) => placeOf(one, it.isStream()) === place);
    }, () => remember({ message: null }));
  };
  const row = (/** @type {any} */ message) => {
    const place = placeOf(message, it.isStream());
    return [h('tr', null,
      it.chosen && h('td', null, h('input', { type: 'checkbox', 'aria-label': say.select(whole(place)), checked: () => it.chosen?.value.has(place), onchange: (/** @type {Event} */ event) => choose([message], /** @type {HTMLInputElement} */ (event.target).checked) })),
      h('td', { class: 'number' }, h('button', { type: 'button', class: 'link', 'aria-expanded': () => String(open.value === String(place)), onclick: () => remember({ message: open.peek() === String(place) ? null : String(place) }) }, whole(place))),
      h('td', null, h('code', null, visible(message.routing_key ?? ''))), h('td', { class: 'number' }, bytes(message.payload_bytes)),
      h('td', null, h('code', null, message.payload_hidden ? say.hidden : message.payload_encoding === 'base64' ? say.binary : visible(String(message.payload).slice(0, LETTERS)))),
      h('td', null, message.redelivered && badge(say.again, 'warn'))),
    () => (open.value === String(place) ? h('tr', { class: 'opened' }, h('td', { colspan: it.chosen ? 6 : 5 }, shown(message))) : null)];
  };
  const isAll = () => (it.rows() ?? []).every((one) => it.chosen?.value.has(placeOf(one, it.isStream())));
  return card(text.queue.tabs.messages, () => {
    const rows = it.rows();
    if (rows == null) return h('p', { class: 'empty' }, text.loading);
    if (rows.length === 0) return h('p', { class: 'empty' }, it.empty());
    return h('div', { class: 'scroll-x' }, h('table', { class: 'plain messages' }, h('thead', null, h('tr', null,
      it.chosen && h('th', { scope: 'col', class: 'choose' }, h('input', { type: 'checkbox', 'aria-label': text.table.selectAll, checked: isAll, onchange: (/** @type {Event} */ event) => choose(rows, /** @type {HTMLInputElement} */ (event.target).checked) })),
      h('th', { scope: 'col', class: 'number' }, it.isStream() ? say.offset : say.position), h('th', { scope: 'col' }, text.columns.key), h('th', { scope: 'col', class: 'number' }, text.columns.bytes),
      h('th', { scope: 'col' }, say.payload), h('th', { scope: 'col' }, h('span', { class: 'unseen' }, say.redelivered)))), h('tbody', null, rows.map(row))));
  });
}
