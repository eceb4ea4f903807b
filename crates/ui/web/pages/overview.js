// @ts-check
/** The node at a glance: five numbers, what flows, what is kept, and the queues with most in them. */
import { ask, may, polled, query } from '../api.js';
import { chart, samples } from '../chart.js';
import { computed, effect, h, signal } from '../core.js';
import { bytes, rate, short, span, whole } from '../format.js';
import { now, past } from '../live.js';
import { advice } from '../advice.js';
import { ageChoice, asksAge, badge, card, meter, plain, queueLink, stat } from '../parts.js';
import { to } from '../route.js';
import { text } from '../text.js';
import { vhost, within } from '../vhost.js';

const say = text.overview;
/** Queues of the list of the longest. */
const LONGEST = 8;

/** @typedef {import('../chart.js').Line} Line */

/** What is told each second goes on where the samples end. @param {any} stats @param {string} name @returns {import('../chart.js').Point[]} */
function joined(stats, name) {
  const before = samples(stats?.[`${name}_details`], true);
  const first = past.value[0]?.timestamp ?? Infinity;
  return [...before.filter(([at]) => at < first),
    ...past.value.map((told) => /** @type {[number, number]} */ ([told.timestamp, told.message_stats[`${name}_details`]?.rate ?? 0]))];
}

/** @param {any} node */
function nodeCard(node) {
  return h('section', { class: 'card' }, h('h2', null, say.node),
    () => h('p', null, h('a', { href: to(['nodes', node.value.name ?? '']) }, node.value.name ?? ''), ' ',
      node.value.mem_alarm ? badge(say.memoryAlarm, 'bad') : node.value.disk_free_alarm ? badge(say.diskAlarm, 'bad') : badge(say.running, 'good'), ' ',
      h('span', { class: 'pale' }, node.value.uptime == null ? '' : say.up(span(node.value.uptime)))),
    meter(say.memory, () => (node.value.mem_used ?? 0) / (node.value.mem_limit || 1), () => say.of(bytes(node.value.mem_used), bytes(node.value.mem_limit))),
    meter(say.files, () => (node.value.fd_used ?? 0) / (node.value.fd_total || 1), () => say.of(whole(node.value.fd_used), whole(node.value.fd_total))),
    meter(say.disk, () => (node.value.disk_free_limit ?? 0) / (node.value.disk_free || 1), () => say.diskFree(bytes(node.value.disk_free), bytes(node.value.disk_free_limit))));
}

export default function overview() {
  const about = polled(() => ask(`overview${query(asksAge())}`));
  const isMonitor = may('monitoring');
  const longest = polled(() => ask(`${within('queues')}${query({ page: 1, page_size: LONGEST, sort: 'messages', sort_reverse: true, columns: 'name,vhost,type,messages_ready,messages_unacknowledged,consumers,messages' })}`));
  const node = computed(() => now.value?.node ?? {});
  const totals = () => about.value.value?.queue_totals, objects = () => about.value.value?.object_totals;
  const last = (/** @type {string} */ name) => (now.value?.milliseconds ? now.value.message_stats[`${name}_details`]?.rate : about.value.value?.message_stats?.[`${name}_details`]?.rate) ?? 0;
  const flow = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ color, dash = false) => /** @type {Line} */ ({
    name: label, color, dash, points: joined(about.value.value?.message_stats, name) });
  const depth = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ color, dash = false) => /** @type {Line} */ ({
    name: label, color, dash, points: samples(totals()?.[`${name}_details`], false) });
  /** The first steps on a node without a queue; they stay until the page is left. */
  const first = signal(/** @type {typeof import('../first_run.js').firstRun | null} */ (null));
  effect(() => {
    if (objects()?.queues === 0 && may('administrator') && !first.peek()) void import('../first_run.js').then((it) => { first.value = it.firstRun; });
  });
  return [
    h('div', { class: 'head-line' }, h('h1', null, say.title), h('div', { class: 'tools' }, ageChoice(undefined, () => void about.again()))),
    h('dl', { class: 'stats' },
      stat(say.ready, () => short(totals()?.messages_ready ?? 0), () => say.unacked(totals()?.messages_unacknowledged ?? 0)),
      stat(say.in, () => rate(Math.round(last('publish'))), () => say.confirmed(rate(Math.round(last('confirm'))))),
      stat(say.out, () => rate(Math.round(last('deliver_get'))), () => say.acknowledged(rate(Math.round(last('ack'))))),
      stat(say.queues, () => short(objects()?.queues), () => say.consumers(objects()?.consumers ?? 0)),
      stat(say.connections, () => short(objects()?.connections), () => say.channels(objects()?.channels ?? 0))),
    () => first.value?.(() => ({ queues: objects()?.queues ?? 0, listeners: about.value.value?.listeners ?? [] })),
    h('div', { class: 'two' },
      chart({ title: say.rates, format: short, lines: () => [
        flow('publish', say.lines.publish, '--in'), flow('deliver_get', say.lines.deliver, '--out'),
        flow('ack', say.lines.ack, '--ack', true), flow('return_unroutable', say.lines.unroutable, '--bad', true)] }),
      isMonitor ? nodeCard(node) : chart({ title: say.depth, format: short, lines: () => [depth('messages_ready', say.lines.ready, '--in'), depth('messages_unacknowledged', say.lines.unacked, '--ack', true)] })),
    advice(),
    h('div', { class: 'two even' },
      isMonitor && chart({ title: say.depth, format: short, lines: () => [
        depth('messages_ready', say.lines.ready, '--in'), depth('messages_unacknowledged', say.lines.unacked, '--ack', true)] }),
      card(say.longest, () => plain([[text.columns.name], ...(vhost.value ? [] : /** @type {[string][]} */ ([[text.columns.vhost]])), [text.columns.ready, true], [text.columns.unacked, true], [text.columns.consumers, true]],
        (longest.value.value?.items ?? []).map((/** @type {any} */ row) => [
          queueLink(row.vhost, row.name), ...(vhost.value ? [] : [row.vhost]), whole(row.messages_ready ?? row.messages), whole(row.messages_unacknowledged ?? 0),
          row.type !== 'stream' && row.consumers === 0 && row.messages > 0 ? badge(say.nobody, 'warn') : whole(row.consumers)]), say.noQueues))),
  ];
}
