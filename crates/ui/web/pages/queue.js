// @ts-check
/** A queue or stream: what it does now, what is in it, who reads it, and what leads to it. */
import { ask, path, polled, post, query, remove, seesMessages } from '../api.js';
import { chart, depth, flow } from '../chart.js';
import { attempt, confirm, note } from '../dialog.js';
import { computed, h } from '../core.js';
import { bytes, date, named, percent, rate, rateOf, short, visible, whole } from '../format.js';
import { bindingForm, bindingRows } from '../bindings.js';
import { leave } from '../forms.js';
import { messages } from '../messages.js';
import { unacked } from '../unacked.js';
import { ageChoice, asksAge, badge, bar, card, connectionLink, facts, flags, orMissing, pairs, plain, stat, tabs } from '../parts.js';
import { said, to } from '../route.js';
import { publishTo } from '../selection.js';
import { text } from '../text.js';

const say = text.queue;
/** A queue is remembered for an hour. */
const SPANS = ['10m', '1h'];

/** @param {{ value: any }} it @param {string} vhost @param {string} name @param {() => void} again */
function now(it, vhost, name, again) {
  const queue = () => it.value ?? {};
  const isStream = () => queue().type === 'stream';
  return [
    h('div', { class: 'tools' }, h('span', { class: 'end' }), ageChoice(SPANS, again)),
    h('dl', { class: 'stats' },
      stat(text.columns.ready, () => whole(queue().messages_ready ?? queue().messages), () => (queue().message_bytes == null ? '' : bytes(queue().message_bytes))),
      stat(text.columns.unacked, () => whole(queue().messages_unacknowledged ?? 0), () => (queue().head_message_timestamp ? say.oldest(date(1000 * queue().head_message_timestamp)) : '')),
      stat(text.columns.in, () => rate(rateOf(queue(), 'publish')), () => ''),
      stat(text.columns.out, () => rate(rateOf(queue(), 'deliver_get')), () => say.acked(rate(rateOf(queue(), 'ack')))),
      stat(text.columns.consumers, () => whole(queue().consumers), () => (queue().consumer_utilisation == null || isStream() || !queue().consumers ? '' : say.used(percent(queue().consumer_utilisation))))),
    h('div', { class: 'two even' },
      chart({ title: say.depth, format: short, lines: () => [depth(queue(), 'messages_ready', text.columns.ready, '--in'), depth(queue(), 'messages_unacknowledged', text.columns.unacked, '--ack', true)] }),
      chart({ title: say.rates, format: short, lines: () => [flow(queue(), 'publish', text.columns.in, '--in'), flow(queue(), 'deliver_get', text.columns.out, '--out'), flow(queue(), 'ack', text.columns.acked, '--ack', true), flow(queue(), 'redeliver', say.again, '--warn', true)] })),
    h('div', { class: 'two even' },
      card(say.facts, () => facts([
        [text.columns.type, queue().type], [say.durability, queue().durable == null ? '' : queue().durable ? say.durable : say.transient],
        [say.autoDelete, queue().auto_delete && say.yes], [say.exclusive, queue().owner_pid_details?.name && connectionLink(queue().owner_pid_details.name)],
        [text.columns.policy, queue().policy && h('a', { href: to(['policies', vhost, queue().policy]) }, visible(queue().policy))],
        [say.operatorPolicy, queue().operator_policy], [say.single, queue().single_active_consumer_tag],
        [say.idle, queue().idle_since], [say.first, queue().first_timestamp ? date(queue().first_timestamp) : ''], [say.segments, queue().segments && whole(queue().segments)],
        [say.deliveryLimit, queue().delivery_limit], [say.memory, queue().memory && bytes(queue().memory)],
        [say.selectors, queue().selectors ? whole(queue().selectors) : ''], [say.unmatched, queue().messages_unmatched ? whole(queue().messages_unmatched) : ''],
        [say.barriers, queue().barriers ? whole(queue().barriers) : ''], [say.passedOver, queue().barriers_passed_over ? whole(queue().barriers_passed_over) : ''],
        [say.delayed, queue().messages_delayed ? h('a', { href: to(['delayed', vhost, name]) }, whole(queue().messages_delayed)) : ''],
      ])),
      card(say.arguments, () => pairs(queue().arguments) ?? h('p', { class: 'empty' }, text.table.empty),
        () => (Object.keys(queue().effective_policy_definition ?? {}).length ? [h('h2', null, say.byPolicy), pairs(queue().effective_policy_definition)] : null))),
  ];
}

/** @param {{ value: any }} it */
function consumers(it) {
  return card(text.columns.consumers, () => plain(
    [[text.columns.tag], [text.columns.connection], [text.columns.acks], [text.columns.prefetch, true], [text.columns.active], [text.columns.arguments]],
    (it.value?.consumer_details ?? []).map((/** @type {any} */ one) => [
      h('span', { class: 'mono' }, visible(one.consumer_tag)),
      one.channel_details?.name ? h('a', { href: to(['channels', one.channel_details.name]) }, visible(one.channel_details.name)) : '',
      one.ack_required ? say.manual : say.automatic, one.prefetch_count ? [bar(text.columns.prefetch, () => 1), whole(one.prefetch_count)] : say.unlimited,
      one.active === false ? badge(say.waits) : badge(say.active, 'good'), pairs(one.arguments) ?? '']), say.noConsumers));
}

/** Publishers of a stream over its own protocol: the others are channels and links. @param {string} vhost @param {string} name */
function publishers(vhost, name) {
  const got = polled(() => ask(`stream/publishers/${path(vhost, name)}`));
  return card(say.tabs.publishers, () => plain([[text.columns.connection], [say.reference], [text.columns.number, true], [say.published, true], [say.confirmed, true], [say.refused, true]],
    (got.value.value ?? []).map((/** @type {any} */ one) => [
      one.connection_details?.name ? connectionLink(one.connection_details.name) : '', h('span', { class: 'mono' }, visible(one.reference ?? '')), whole(one.publisher_id),
      whole(one.published), whole(one.confirmed), whole(one.errored)]), say.noPublishers));
}

/** @param {string} vhost @param {string} name */
function routesIn(vhost, name) {
  const got = polled(() => ask(`queues/${path(vhost, name)}/bindings`));
  return card(say.bindings, () => bindingRows(got.value.value ?? [], 'source', () => void got.again()),
    h('h2', null, say.bind), bindingForm({ vhost, name, isQueue: true, into: true }, () => void got.again()));
}

/** @param {string} vhost @param {string} name */
function policies(vhost, name) {
  const got = polled(() => ask(`x/queues/${path(vhost, name)}/policies`), 15_000);
  return card(say.policies, h('p', { class: 'pale' }, say.policiesWhy), () => plain([[text.columns.name], [say.pattern], [say.priority, true], [say.definition]],
    (got.value.value ?? []).map((/** @type {any} */ one, /** @type {number} */ at) => [
      [h('a', { href: to(['policies', vhost, one.name]) }, visible(one.name)), ' ', at === 0 && badge(say.counts, 'good')],
      h('code', null, visible(one.pattern)), whole(one.priority), pairs(one.definition)]), say.noPolicies));
}

/** @param {{ value: any }} it @param {string} vhost @param {string} name */
function actions(it, vhost, name) {
  const where = `queues/${path(vhost, name)}`, shown = named(name);
  const count = () => it.value?.messages ?? 0, isUsed = () => (it.value?.consumers ?? 0) > 0;
  return h('div', { class: 'tools' },
    h('button', { type: 'button', onclick: () => void publishTo(vhost, name) }, text.messages.publish),
    () => (it.value && it.value.type !== 'stream' ? h('button', { type: 'button', onclick: () => void confirm({
      title: say.purgeTitle(count(), shown), verb: say.purge, name, messages: count(), isUsed: isUsed(),
      act: async () => { await remove(`${where}/contents`); note(say.purged(shown)); },
    }) }, say.purge) : null),
    h('button', { type: 'button', class: 'danger', onclick: () => void confirm({
      title: say.deleteTitle(count(), shown), verb: say.delete, name, messages: count(), isUsed: isUsed(),
      act: async () => { await remove(where); note(say.deleted(shown)); leave('queues'); },
    }) }, say.delete));
}

/** @param {string} vhost @param {string} name  messages of it go elsewhere */
function moveAll(vhost, name) {
  return h('form', { class: 'form', onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const got = await attempt(() => post(`x/queues/${path(vhost, name)}/move`, {
      exchange: String(data.get('exchange')), routing_key: String(data.get('key')), ...(data.get('count') ? { count: Number(data.get('count')) } : {}),
    }));
    if (got) note(say.moved(got.moved));
  } },
  h('label', { for: 'move-exchange' }, text.columns.exchange), h('input', { id: 'move-exchange', name: 'exchange', placeholder: say.defaultExchange }),
  h('label', { for: 'move-key' }, say.moveKey), h('input', { id: 'move-key', name: 'key', required: true }),
  h('label', { for: 'move-count' }, say.moveCount), h('input', { id: 'move-count', name: 'count', type: 'number', min: 1, placeholder: say.all }),
  h('span', null), h('div', null, h('button', { class: 'main' }, say.move)));
}

/** @param {string[]} path_ */
export default function queue(path_) {
  const [, vhost, name] = path_;
  const got = polled(() => ask(`queues/${path(vhost, name)}${query(asksAge(SPANS))}`));
  const it = got.value;
  const open = () => said('tab', 'now');
  const isStream = computed(() => it.value?.type === 'stream');
  /** A stream has publishers of its own, and what is in it stays there. */
  const all = () => /** @type {[string, string][]} */ (Object.entries(say.tabs)).filter(([key]) => (isStream.value ? key !== 'move' && key !== 'unacked' : key !== 'publishers'));
  const bodies = /** @type {Record<string, () => any>} */ ({
    now: () => now(it, vhost, name, () => void got.again()), messages: () => (seesMessages() === 'none' ? h('p', { class: 'empty' }, text.messages.notShown) : messages(vhost, name, it)), consumers: () => consumers(it), publishers: () => publishers(vhost, name), unacked: () => unacked(vhost, name), routes: () => routesIn(vhost, name),
    policy: () => policies(vhost, name), move: () => card(say.moveTitle, h('p', { class: 'pale' }, say.moveWhy), moveAll(vhost, name)),
    raw: () => card(say.tabs.raw, () => h('pre', null, JSON.stringify(it.value ?? {}, null, 2))),
  });
  return [
    h('div', { class: 'head-line' }, h('h1', null, named(name)), () => (it.value ? [badge(it.value.type), it.value.state && badge(it.value.state, it.value.state === 'running' ? 'good' : ''), flags(it.value)] : null),
      h('span', { class: 'crumb' }, text.inVhost('', vhost).trim()), actions(it, vhost, name)),
    () => orMissing(got, text.kinds.queue),
    () => tabs(all(), open, (key) => to(['queues', vhost, name], { tab: key === 'now' ? '' : key })),
    () => (bodies[open()] ?? bodies.now)(),
  ];
}
