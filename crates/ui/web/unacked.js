// @ts-check
/** Messages of a queue that consumers hold: who holds which, and since when. They can be settled for their holders. */
import { ask, path, polled, post, query } from './api.js';
import { h, signal } from './core.js';
import { ask as form, confirm, note } from './dialog.js';
import { named, span, visible, whole } from './format.js';
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
  /** A request looks for a while, so there may be several. @param {any} body */
  const settle = async (body) => {
    let settled = 0;
    for (let position = 0; position != null;) {
      const told = await post(`x/queues/${path(vhost, name)}/settle`, { ...body, ...(body.where == null ? {} : { position }), held: true });
      settled += told.settled;
      position = told.next_position;
    }
    note(say.settled(settled));
    void got.again();
  };
  const button = (/** @type {number} */ position, /** @type {'accepted' | 'rejected'} */ outcome) => h('button', { type: 'button', class: 'link', onclick: () => void confirm({
    title: say.settleTitle[outcome](position, named(name)), why: say.settleWhy[outcome], verb: say.verbs[outcome], name, act: () => settle({ positions: [position], outcome }),
  }) }, say.verbs[outcome]);
  const settleWanted = () => void form({
    title: say.wantedTitle(named(name)), verb: say.settle, isDanger: true,
    body: () => [h('p', null, say.wantedWhy), h('div', { class: 'form' },
      h('label', { for: 'settle-where' }, text.messages.where), h('input', { id: 'settle-where', name: 'where', class: 'mono wide', required: true, spellcheck: 'false', autocomplete: 'off', value: "STATE() = 'held'" }),
      h('label', { for: 'settle-outcome' }, say.outcome), h('select', { id: 'settle-outcome', name: 'outcome' }, h('option', { value: 'accepted' }, say.outcomes.accepted), h('option', { value: 'rejected' }, say.outcomes.rejected)))],
    act: (data) => settle({ where: String(data.get('where')), outcome: String(data.get('outcome')) }),
  });
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
    card(say.title, () => plain([[text.messages.position, true], [say.held, true], [text.columns.connection], [text.columns.tag], [text.columns.user], [''], [text.bindings.actions]],
      (got.value.value?.messages ?? []).map((/** @type {any} */ one) => [
        whole(one.position), one.held_ms == null ? h('span', { title: say.unknownWhy }, text.none) : span(one.held_ms), one.connection ? connectionLink(one.connection) : say.hidden,
        one.channel ? h('a', { href: to(['channels', one.channel]), class: 'mono' }, visible(one.consumer_tag ?? '')) : one.connection ? say.got : '', visible(one.user ?? ''), one.redelivered && badge(text.messages.again, 'warn'), [button(one.position, 'accepted'), ' ', button(one.position, 'rejected')]]), got.value.value ? say.none : text.loading),
    () => h('div', { class: 'tools' }, (got.value.value?.messages ?? []).length > 0 && h('button', { type: 'button', onclick: settleWanted }, say.wanted), from.value > 0 && h('button', { type: 'button', onclick: () => turn(0) }, text.messages.head),
      got.value.value?.next_position != null && h('button', { type: 'button', onclick: () => turn(got.value.value.next_position) }, text.messages.next))),
  ];
}
