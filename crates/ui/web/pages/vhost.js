// @ts-check
/** A virtual host: what flows, who may do what, its limits and macros, and what keeps it from being deleted. */
import { ask, path, polled, post, put, query, remove } from '../api.js';
import { chart, depth, flow } from '../chart.js';
import { h } from '../core.js';
import { ask as askFor, attempt, confirm, note } from '../dialog.js';
import { leave } from '../forms.js';
import { rate, short, visible, whole } from '../format.js';
import { limitRows } from '../limits.js';
import { macroRows } from '../macros.js';
import { badge, card, facts, orMissing, stat } from '../parts.js';
import { permissionForm, permissionRows, topicForm, topicRows } from '../permissions.js';
import { to } from '../route.js';
import { text } from '../text.js';
import { seeVhosts, vhost as chosen } from '../vhost.js';
import { putVhost, vhostFields } from './vhosts.js';

const say = text.vhosts;
const AGE = 600, STEP = 5;

/** @param {string[]} path_ */
export default function vhost(path_) {
  const name = String(path_[1]), where = `vhosts/${path(name)}`;
  const got = polled(() => ask(`${where}${query({ msg_rates_age: AGE, msg_rates_incr: STEP, lengths_age: AGE, lengths_incr: STEP, samples: 'known' })}`));
  const permissions = polled(() => ask(`${where}/permissions`)), topics = polled(() => ask(`${where}/topic-permissions`));
  const it = () => got.value.value ?? {};
  const rateOf = (/** @type {string} */ of) => it().message_stats?.[`${of}_details`]?.rate ?? 0;
  const edit = () => void askFor({ title: say.edit(visible(name)), verb: text.forms.save, body: () => h('div', { class: 'form' }, vhostFields(it())), act: async (data) => { await putVhost(name, data); void got.again(); } });
  const destroy = () => void confirm({
    title: say.deleteTitle(visible(name), it().messages ?? 0), verb: text.queue.delete, why: say.deleteWhy, name, isUsed: true,
    act: async () => { await remove(where); note(text.queue.deleted(visible(name))); if (chosen.peek() === `=${name}`) chosen.value = ''; void seeVhosts(); leave('vhosts'); },
  });
  return [
    h('div', { class: 'head-line' }, h('h1', null, visible(name)), () => [it().protected_from_deletion && badge(say.protected, 'good'), it().tracing && badge(say.traced, 'warn')],
      h('div', { class: 'tools' }, h('button', { type: 'button', onclick: edit }, text.forms.edit),
        () => h('button', { type: 'button', onclick: () => void attempt(async () => { await (it().protected_from_deletion ? remove(`${where}/deletion/protection`) : post(`${where}/deletion/protection`)); void got.again(); }) }, it().protected_from_deletion ? say.unprotect : say.protect),
        () => h('button', { type: 'button', onclick: () => void attempt(async () => { await put(where, { tracing: !it().tracing }); void got.again(); }) }, it().tracing ? say.stopTracing : say.startTracing),
        h('button', { type: 'button', class: 'danger', disabled: () => !!it().protected_from_deletion, onclick: destroy }, text.queue.delete))),
    () => orMissing(got, say.kind),
    h('dl', { class: 'stats' }, stat(text.columns.ready, () => whole(it().messages_ready ?? 0), () => ''), stat(text.columns.unacked, () => whole(it().messages_unacknowledged ?? 0), () => ''),
      stat(text.columns.in, () => rate(rateOf('publish')), () => ''), stat(text.columns.out, () => rate(rateOf('deliver_get')), () => '')),
    h('div', { class: 'two even' }, chart({ title: text.queue.depth, format: short, lines: () => [depth(it(), 'messages_ready', text.columns.ready, '--in'), depth(it(), 'messages_unacknowledged', text.columns.unacked, '--ack', true)] }),
      chart({ title: text.queue.rates, format: short, lines: () => [flow(it(), 'publish', text.columns.in, '--in'), flow(it(), 'deliver_get', text.columns.out, '--out'), flow(it(), 'ack', text.columns.acked, '--ack', true)] })),
    card(text.queue.facts, () => facts([[say.description, visible(it().description ?? '')], [say.tags, (it().tags ?? []).join(', ')], [say.defaultType, it().default_queue_type]])),
    card(text.permissions.title, () => permissionRows(permissions.value.value ?? [], 'user', () => void permissions.again()), h('h2', null, text.permissions.set), permissionForm({ vhost: name }, () => void permissions.again())),
    card(text.permissions.topics, () => topicRows(topics.value.value ?? [], 'user', () => void topics.again()), h('h2', null, text.permissions.set), topicForm({ vhost: name }, () => void topics.again())),
    limitRows('vhost', name),
    macroRows(name),
    h('p', null, h('a', { href: to(['queues']), onclick: () => { chosen.value = `=${name}`; } }, say.itsQueues)),
  ];
}
