// @ts-check
/** Queues that dead letters go to, found by themselves: who sends them, why they died, and home with them. */
import { ask, path, polled, post, query } from '../api.js';
import { h, signal } from '../core.js';
import { ask as form, note } from '../dialog.js';
import { date, named, visible, whole } from '../format.js';
import { badge, card, plain, queueLink } from '../parts.js';
import { to } from '../route.js';
import { text } from '../text.js';
import { vhost } from '../vhost.js';

const say = text.deadLetters;
/** Letters that are looked at to say where they come from, and bytes of each. */
const LOOKED = 500, BYTES = 0;
/** Letters that one request moves while somebody watches. */
const AT_A_TIME = 100;

/** @typedef {{ queue: string, reason: string, count: number, first: number }} Group */

/** The letters of a queue by where they died first, and why. @param {any[]} messages @returns {Group[]} */
function grouped(messages) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const { properties } of messages) {
    const headers = properties?.headers ?? {}, queue = headers['x-first-death-queue'] ?? '', reason = headers['x-first-death-reason'] ?? '';
    const at = 1000 * Number(headers['x-death']?.at(-1)?.time ?? 0), key = JSON.stringify([queue, reason]);
    const group = groups.get(key) ?? { queue, reason, count: 0, first: at };
    group.count += 1;
    if (at && (!group.first || at < group.first)) group.first = at;
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.count - a.count);
}

/** Sends letters home, some at a time, so that it is seen how far it is and can be stopped. @param {any} row @param {() => void} done */
function home(row, done) {
  const moved = signal(0), isStopped = signal(false);
  return form({
    title: say.homeTitle(named(row.name)), verb: say.home,
    body: () => [h('p', null, say.homeWhy), h('div', { class: 'form' },
      h('label', { for: 'home-count' }, text.queue.moveCount), h('input', { id: 'home-count', name: 'count', type: 'number', min: 1, placeholder: text.queue.all }),
      h('label', { for: 'home-rate' }, say.rate), h('input', { id: 'home-rate', name: 'rate', type: 'number', min: 1, placeholder: say.anyRate })),
    h('p', { role: 'status' }, () => (moved.value ? [text.messages.redriveMany.done(moved.value), ' ', h('button', { type: 'button', onclick: () => { isStopped.value = true; } }, text.messages.stop)] : ''))],
    act: async (data) => {
      const most = Number(data.get('count')) || Infinity, rate = Number(data.get('rate')) || undefined;
      let unplaced = 0;
      isStopped.value = false;
      while (!isStopped.peek() && moved.peek() < most) {
        const count = Math.min(rate ?? AT_A_TIME, most - moved.peek());
        const got = await post(`x/queues/${path(row.vhost, row.name)}/redrive`, { count, ...(rate ? { rate } : {}) });
        moved.value += got.moved;
        unplaced = got.unplaced ?? 0;
        if (got.moved < count) break;
      }
      note(unplaced ? say.stayed(moved.peek(), unplaced) : text.messages.redriveMany.done(moved.peek()), unplaced ? 'warn' : 'good');
      done();
    },
  });
}

/** @param {any} row */
function letters(row) {
  const got = polled(() => ask(`x/queues/${path(row.vhost, row.name)}/messages${query({ last: LOOKED, truncate: BYTES })}`), 15_000);
  return () => {
    if (got.refused.value) return h('p', { class: 'band bad' }, text.refused(got.refused.value.message));
    if (!got.value.value) return h('p', { class: 'empty' }, text.loading);
    return [h('p', { class: 'pale small' }, say.looked(got.value.value.messages.length, row.messages_ready)),
      plain([[say.from], [say.reason], [say.count, true], [say.oldest], [text.bindings.actions]], grouped(got.value.value.messages).map((group) => [
        group.queue ? queueLink(row.vhost, group.queue) : say.unknown, visible(group.reason || say.unknown), whole(group.count), group.first ? date(group.first) : '',
        h('a', { href: to(['queues', row.vhost, row.name], { tab: 'messages', where: '' }) }, say.look)]), say.nothing)];
  };
}

export default function deadLetters() {
  const got = polled(() => ask(`x/dead-letters${query({ vhost: vhost.value.slice(1) })}`), 10_000);
  const open = signal('');
  return [h('h1', null, say.title), h('p', { class: 'pale' }, say.what), card(say.title, () => {
    const rows = got.value.value;
    if (!rows) return h('p', { class: 'empty' }, got.refused.value ? text.refused(got.refused.value.message) : text.loading);
    if (rows.length === 0) return h('p', { class: 'empty' }, say.none);
    return h('div', { class: 'scroll-x' }, h('table', { class: 'plain' },
      h('thead', null, h('tr', null, [text.columns.name, text.columns.vhost].map((name) => h('th', { scope: 'col' }, name)), h('th', { scope: 'col', class: 'number' }, text.columns.ready), h('th', { scope: 'col', class: 'number' }, text.columns.consumers), h('th', { scope: 'col' }, say.sources), h('th', { scope: 'col' }, text.bindings.actions))),
      h('tbody', null, rows.map((/** @type {any} */ row) => {
        const key = JSON.stringify([row.vhost, row.name]);
        return [h('tr', null, h('td', null, queueLink(row.vhost, row.name)), h('td', null, visible(row.vhost)), h('td', { class: 'number' }, row.messages_ready ? badge(whole(row.messages_ready), 'warn') : '0'), h('td', { class: 'number' }, whole(row.consumers)),
          h('td', null, row.sources.slice(0, 3).map((/** @type {string} */ one) => [queueLink(row.vhost, one), ' ']), row.source_count > 3 && h('span', { class: 'pale' }, say.others(row.source_count - 3))),
          h('td', null, h('span', { class: 'badges' }, h('button', { type: 'button', class: 'link', 'aria-expanded': () => String(open.value === key), onclick: () => { open.value = open.peek() === key ? '' : key; } }, say.why),
            row.messages_ready > 0 && h('button', { type: 'button', class: 'link', onclick: () => void home(row, () => void got.again()) }, say.home)))),
        () => (open.value === key ? h('tr', { class: 'opened' }, h('td', { colspan: 6 }, letters(row))) : null)];
      }))));
  })];
}
