// @ts-check
/** A connection: who it is, what it does, and its channels or sessions. */
import { ask, path, polled, query, remove } from '../api.js';
import { chart, samples } from '../chart.js';
import { computed, effect, h, untracked } from '../core.js';
import { ask as askFor, note } from '../dialog.js';
import { leave } from '../forms.js';
import { age, bytes, date, visible, whole } from '../format.js';
import { card, facts, orMissing, pairs, plain, stat } from '../parts.js';
import { to } from '../route.js';
import { text } from '../text.js';
import { state } from './connections.js';

const say = text.connection;
const AGE = 600, STEP = 5;

/** Sessions of AMQP 1.0, with their links. @param {any[]} all */
function sessions(all) {
  const link = (/** @type {string} */ direction, /** @type {any} */ one) => [
    direction, visible(one.link_name), visible(one.source_address ?? one.target_address ?? ''), one.filter?.length ? pairs(Object.fromEntries(one.filter.map((/** @type {any} */ it) => [it.name, it.value]))) : '',
    whole(one.delivery_count), one.credit === 0 ? h('b', null, '0') : whole(one.credit)];
  return card(say.sessions, all.map((session) => h('div', null, h('h2', null, say.session(session.channel_number)),
    facts([[say.incoming, whole(session.remote_incoming_window)], [say.outgoing, whole(session.remote_outgoing_window)], [say.unsettled, whole(session.outgoing_unsettled_deliveries)]]),
    plain([[say.direction], [text.columns.name], [say.address], [say.filter], [say.deliveries, true], [say.credit, true]],
      [...(session.incoming_links ?? []).map((/** @type {any} */ one) => link(text.columns.in, one)), ...(session.outgoing_links ?? []).map((/** @type {any} */ one) => link(text.columns.out, one))], say.noLinks))));
}

/** @param {string} name */
function close(name) {
  void askFor({
    title: say.closeTitle(visible(name)), verb: say.close, isDanger: true,
    body: () => h('div', { class: 'form' }, h('label', { for: 'close-reason' }, say.reason), h('input', { id: 'close-reason', name: 'reason', value: say.closedHere }), h('p', { class: 'under' }, say.reasonWhy)),
    act: async (data) => { await remove(`connections/${path(name)}`, String(data.get('reason') ?? '')); note(say.closed); leave('connections'); },
  });
}

/** @param {string[]} path_ */
export default function connection(path_) {
  const name = String(path_.at(-1));
  const got = polled(() => ask(`connections/${path(name)}${query({ data_rates_age: AGE, data_rates_incr: STEP, samples: 'known' })}`));
  const channels = polled(() => ask(`connections/${path(name)}/channels`));
  const it = () => got.value.value ?? {};
  // Only AMQP 1.0 has sessions: of other connections they are not asked for.
  const has = computed(() => /1-0/.test(it().protocol ?? ''));
  const sessions_ = polled(async () => (has.peek() ? ask(`connections/${path(name)}/sessions`).catch(() => []) : []));
  effect(() => { if (has.value) untracked(() => void sessions_.again()); });
  const flow = (/** @type {string} */ of, /** @type {string} */ label, /** @type {string} */ color) => ({ name: label, color, points: samples(it()[`${of}_details`], true) });
  return [
    h('div', { class: 'head-line' }, h('h1', null, () => visible(it().client_properties?.connection_name ?? it().user_provided_name ?? name)), () => (got.value.value ? state(it()) : null),
      h('div', { class: 'tools' }, h('button', { type: 'button', class: 'danger', onclick: () => close(name) }, say.close))),
    () => orMissing(got, text.kinds.connection),
    h('dl', { class: 'stats' },
      stat(text.columns.received, () => `${bytes(it().recv_oct_details?.rate ?? 0)}/s`, () => say.inAll(bytes(it().recv_oct))),
      stat(text.columns.sent, () => `${bytes(it().send_oct_details?.rate ?? 0)}/s`, () => say.inAll(bytes(it().send_oct))),
      stat(text.columns.channels, () => whole(it().channels), () => ''),
      stat(text.columns.since, () => age(it().connected_at), () => date(it().connected_at))),
    h('div', { class: 'two even' },
      chart({ title: say.bytes, format: bytes, lines: () => [flow('recv_oct', text.columns.received, '--in'), flow('send_oct', text.columns.sent, '--out')] }),
      card(say.facts, () => facts([
        [text.columns.name, h('span', { class: 'name' }, visible(name))], [text.columns.user, it().user && h('a', { href: to(['users', it().user]) }, visible(it().user))], [text.columns.vhost, visible(it().vhost ?? '')],
        [text.columns.protocol, it().protocol], [say.mechanism, it().auth_mechanism], [text.columns.tls, it().ssl && `${it().ssl_protocol}, ${it().ssl_cipher}`], [say.certificate, it().peer_cert_subject],
        [say.heartbeat, it().timeout && say.seconds(it().timeout)], [say.frame, it().frame_max && bytes(it().frame_max)], [text.columns.memory, it().memory_held && bytes(it().memory_held)]]))),
    () => ((sessions_.value.value ?? []).length ? sessions(sessions_.value.value ?? []) : null),
    () => ((channels.value.value ?? []).length ? card(text.columns.channels, plain([[text.columns.number], [text.columns.consumers, true], [text.columns.prefetch, true], [text.columns.unacked, true], [text.columns.unconfirmed, true]],
      (channels.value.value ?? []).map((/** @type {any} */ one) => [h('a', { href: to(['channels', one.name]) }, whole(one.number)), whole(one.consumer_count), whole(one.prefetch_count), whole(one.messages_unacknowledged), whole(one.messages_unconfirmed)]))) : null),
    card(say.client, () => pairs(it().client_properties) ?? h('p', { class: 'empty' }, say.silent)),
  ];
}
