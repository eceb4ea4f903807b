// @ts-check
/** Alarms: what is blocked, by which limit, and how it is lifted. */
import { ask, may, polled } from '../api.js';
import { h } from '../core.js';
import { bytes } from '../format.js';
import { card, plain } from '../parts.js';
import { to } from '../route.js';
import { text } from '../text.js';

const say = text.alarms;

export default function alarms() {
  const nodes = polled(() => (may('monitoring') ? ask('nodes') : Promise.resolve([])));
  const blocked = polled(() => ask('connections?columns=name,state,held_back'), 10_000);
  const rows = () => (nodes.value.value ?? []).flatMap((/** @type {any} */ one) => [
    one.mem_alarm && [say.memory, h('a', { href: to(['nodes', one.name]) }, one.name), text.overview.of(bytes(one.mem_used), bytes(one.mem_limit)), say.liftMemory],
    one.disk_free_alarm && [say.disk, h('a', { href: to(['nodes', one.name]) }, one.name), text.overview.diskFree(bytes(one.disk_free), bytes(one.disk_free_limit)), say.liftDisk]].filter(Boolean));
  const held = () => (blocked.value.value ?? []).filter((/** @type {any} */ one) => one.state === 'blocked' || (one.held_back && one.held_back !== 'none'));
  return [h('h1', null, say.title), card(say.now, () => plain([[say.which], [say.node], [say.how], [say.lift]], rows(), say.none)),
    card(say.held, () => plain([[text.columns.name], [say.why]], held().slice(0, 200).map((/** @type {any} */ one) => [h('a', { href: to(['connections', one.name]), class: 'name' }, one.name), (one.held_back && one.held_back !== 'none' ? one.held_back : one.state).replaceAll('_', ' ')]), say.nobodyHeld))];
}
