// @ts-check
/** The nodes: one so far. */
import { ask, polled } from '../api.js';
import { h } from '../core.js';
import { bytes, span, whole } from '../format.js';
import { badge, bar, card, plain } from '../parts.js';
import { to } from '../route.js';
import { text } from '../text.js';

const say = text.nodes;

export default function nodes() {
  const got = polled(() => ask('nodes'));
  return [h('h1', null, say.title), card(say.title, () => plain([[text.columns.name], [text.columns.state], [say.version], [say.uptime, true], [text.overview.memory], [text.overview.files], [say.diskFree, true]], (got.value.value ?? []).map((/** @type {any} */ one) => [
    h('a', { href: to(['nodes', one.name]) }, one.name), one.mem_alarm ? badge(text.overview.memoryAlarm, 'bad') : one.disk_free_alarm ? badge(text.overview.diskAlarm, 'bad') : badge(text.overview.running, 'good'), one.applications?.find((/** @type {any} */ it) => it.name === 'leveret')?.version ?? one.rabbitmq_version,
    span(one.uptime), [bar(text.overview.memory, () => one.mem_used / one.mem_limit, true), text.overview.of(bytes(one.mem_used), bytes(one.mem_limit))], [bar(text.overview.files, () => one.fd_used / one.fd_total, true), text.overview.of(whole(one.fd_used), whole(one.fd_total))], bytes(one.disk_free)]))),
  h('p', { class: 'pale' }, say.alone)];
}
