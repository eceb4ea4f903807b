// @ts-check
/** What needs somebody: each line one thing that is wrong or soon will be, its object, and one thing to do about it. */
import { ask, polled } from './api.js';
import { h } from './core.js';
import { bytes, date, named, rate, span, whole } from './format.js';
import { badge } from './parts.js';
import { to } from './route.js';
import { text } from './text.js';

const say = text.advice;
/** Lines that are shown before one asks for all. */
const LOOK_MS = 15_000;

/** What each kind says, and where one goes to do something. @type {Record<string, (line: any) => [string, string, string]>} */
const KINDS = {
  memory_alarm: (one) => [say.memoryAlarm(bytes(one.value), bytes(one.limit)), say.see, '#/alarms'],
  memory_near: (one) => [say.memoryNear(bytes(one.value), bytes(one.limit)), say.seeMemory, '#/nodes'],
  disk_alarm: (one) => [say.diskAlarm(bytes(one.value), bytes(one.limit)), say.see, '#/alarms'],
  disk_near: (one) => [say.diskNear(bytes(one.value), bytes(one.limit)), say.seeNode, '#/nodes'],
  files_near: (one) => [say.filesNear(whole(one.value), whole(one.limit)), say.seeConnections, '#/connections'],
  certificate_ends: (one) => [say.certificate(date(one.value)), say.seeNode, '#/nodes'],
  unroutable: (one) => [say.unroutable(rate(one.value)), say.trace, '#/trace'],
  default_password: () => [say.defaultPassword, say.seeUser, '#/users/guest'],
  no_consumer: (one) => [say.noConsumer(whole(one.value)), say.seeMessages, page(one, 'messages')],
  dead_letters: (one) => [say.deadLetters(whole(one.value)), say.seeLetters, '#/dead-letters'],
  growing: (one) => [say.growing(whole(one.value), whole(one.limit)), say.seeQueue, page(one, '')],
  held_long: (one) => [say.heldLong(span(one.value)), say.seeHolder, page(one, 'unacked')],
  near_limit: (one) => [say.nearLimit(whole(one.value), whole(one.limit)), say.move, page(one, 'move')],
};

/** @param {any} line @param {string} tab */
const page = (line, tab) => to(['queues', line.object.vhost, line.object.name], { tab });

/** @param {any} line */
function row(line) {
  const [what, action, where] = (KINDS[line.kind] ?? (() => [line.kind, '', '']))(line);
  const kind = line.severity === 'bad' ? 'bad' : line.severity === 'warn' ? 'warn' : '';
  return h('li', null, badge(say.severities[/** @type {'bad'} */ (line.severity)] ?? line.severity, kind), ' ',
    line.object && [h('a', { href: page(line, ''), class: 'name' }, named(line.object.name)), ' '], h('span', null, what), ' ', action && h('a', { href: where }, action));
}

export function advice() {
  const got = polled(() => ask('x/advice'), LOOK_MS);
  return h('section', { class: 'card' }, h('h2', null, say.title), () => {
    const lines = got.value.value;
    if (!lines) return h('p', { class: 'empty' }, got.refused.value ? text.refused(got.refused.value.message) : text.loading);
    return lines.length === 0 ? h('p', { class: 'empty' }, say.nothing) : h('ul', { class: 'advice', tabindex: 0, 'aria-label': say.title }, lines.map(row));
  });
}
