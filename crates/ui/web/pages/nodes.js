// @ts-check
/** The nodes of the cluster, or the one there is, and the logs that they have in common. */
import { ask, polled } from '../api.js';
import { h } from '../core.js';
import { bytes, NONE, span, whole } from '../format.js';
import { badge, bar, card, plain } from '../parts.js';
import { to } from '../route.js';
import { text } from '../text.js';

const say = text.nodes;

/** @param {string} name */
const nodeLink = (name) => h('a', { href: to(['nodes', name]) }, name);

/** @param {any} one */
function state(one) {
  if (one.running === false) return badge(say.away, 'bad');
  return one.mem_alarm ? badge(text.overview.memoryAlarm, 'bad') : one.disk_free_alarm ? badge(text.overview.diskAlarm, 'bad') : badge(text.overview.running, 'good');
}

/** A part of what there is, as a bar; nothing where a node did not tell. @param {string} title @param {number | undefined} used @param {number} most @param {(n: number) => string} shown */
const share = (title, used, most, shown) => (used == null ? NONE : [bar(title, () => used / most, true), text.overview.of(shown(used), shown(most))]);

/** Lanes to a node: how many are open of those there should be. @param {any} lanes */
const open = (lanes) => (!lanes ? NONE : lanes.open < lanes.dialed ? badge(text.overview.of(whole(lanes.open), whole(lanes.dialed)), 'bad') : whole(lanes.open));

/** Bytes that went to a node and came from it. @param {any} lanes */
const moved = (lanes) => (lanes ? [bytes(lanes.sent_bytes), bytes(lanes.received_bytes)] : [NONE, NONE]);

/** How far a replica is behind the one that is furthest. @param {any} log @param {string} node */
function behind(log, node) {
  const own = log.members.find((/** @type {any} */ it) => it.node === node);
  if (!own) return NONE;
  return own.node === log.leader ? badge(say.leads, 'good') : own.behind ? say.behind(own.behind) : say.level;
}

export default function nodes() {
  const got = polled(() => ask('nodes'));
  const agreed = polled(() => ask('x/cluster'));
  /** @returns {any[]} */
  const all = () => got.value.value ?? [];
  /** @returns {any[]} */
  const members = () => agreed.value.value?.nodes ?? [];
  const names = () => members().map((it) => it.name);
  const lanes = (/** @type {string} */ name) => members().find((it) => it.name === name)?.lanes;
  const columns = () => /** @type {[string, boolean?][]} */ ([[text.columns.name], [text.columns.state], [say.version], [say.uptime, true], [text.overview.memory], [text.overview.files], [say.diskFree, true], ...(members().length ? [[say.lanes, true], [say.sent, true], [say.received, true]] : [])]);
  return [h('h1', null, say.title), card(say.title, () => plain(columns(), all().map((one) => [
    nodeLink(one.name), state(one), one.applications?.find((/** @type {any} */ it) => it.name === 'leveret')?.version ?? one.rabbitmq_version ?? NONE,
    one.uptime == null ? NONE : span(one.uptime), share(text.overview.memory, one.mem_used, one.mem_limit, bytes), share(text.overview.files, one.fd_used, one.fd_total, whole), one.disk_free == null ? NONE : bytes(one.disk_free),
    ...(members().length ? [open(lanes(one.name)), ...moved(lanes(one.name))] : [])]))),
  () => (members().length ? card(say.logs, () => [h('p', { class: 'pale' }, say.aboutLogs), plain([[say.log], [say.leader], [say.term, true], ...names().map((name) => /** @type {[string]} */ ([name]))],
    (agreed.value.value?.logs ?? []).map((/** @type {any} */ log) => [
      log.has_catalog ? say.catalog : whole(log.log), log.leader ? nodeLink(log.leader) : badge(say.nobody, 'bad'), whole(log.term),
      ...names().map((name) => behind(log, name))]))]) : h('p', { class: 'pale' }, say.alone))];
}
