// @ts-check
/** Messages of a queue that consumers hold: who holds which, and since when. */
import { ask, path, polled, query } from './api.js';
import { h, signal } from './core.js';
import { span, visible, whole } from './format.js';
import { badge, card, connectionLink, plain } from './parts.js';
import { to } from './route.js';
import { text } from './text.js';

const say = text.unacked;
/** Messages of a page. */
const PAGE = 100;

/** @param {string} vhost @param {string} name */
export function unacked(vhost, name) {
  const from = signal(0);
  const got = polled(() => ask(`x/queues/${path(vhost, name)}/unacked${query({ position: from.peek(), count: PAGE })}`));
  const turn = (/** @type {number} */ to) => { from.value = to; void got.again(); };
  const holders = () => {
    /** @type {Map<string, number>} */
    const sums = new Map();
    for (const one of got.value.value?.messages ?? []) sums.set(one.connection ?? '', (sums.get(one.connection ?? '') ?? 0) + 1);
    return [...sums].sort(([, a], [, b]) => b - a);
  };
  return [
    h('p', { class: 'pale small' }, say.what),
    () => (got.refused.value ? h('p', { class: 'band bad' }, text.refused(got.refused.value.message)) : null),
    () => (holders().length > 1 ? card(say.holders, plain([[text.columns.connection], [text.columns.unacked, true]], holders().map(([connection, count]) => [connection ? connectionLink(connection) : say.hidden, whole(count)]))) : null),
    card(say.title, () => plain([[text.messages.position, true], [say.held, true], [text.columns.connection], [text.columns.tag], [text.columns.user], ['']],
      (got.value.value?.messages ?? []).map((/** @type {any} */ one) => [
        whole(one.position), one.held_ms == null ? h('span', { title: say.unknownWhy }, text.none) : span(one.held_ms), one.connection ? connectionLink(one.connection) : say.hidden,
        one.channel ? h('a', { href: to(['channels', one.channel]), class: 'mono' }, visible(one.consumer_tag ?? '')) : one.connection ? say.got : '', visible(one.user ?? ''), one.redelivered && badge(text.messages.again, 'warn')]), got.value.value ? say.none : text.loading),
    () => h('div', { class: 'tools' }, from.value > 0 && h('button', { type: 'button', onclick: () => turn(0) }, text.messages.head),
      got.value.value?.next_position != null && h('button', { type: 'button', onclick: () => turn(got.value.value.next_position) }, text.messages.next))),
  ];
}
