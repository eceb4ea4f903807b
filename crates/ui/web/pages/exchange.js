// @ts-check
/** An exchange: what flows through it, what it leads to and why, and a message to try it with. */
import { ask, path, polled, post, query, remove } from '../api.js';
import { bindingForm, bindingRows } from '../bindings.js';
import { chart, flow } from '../chart.js';
import { h, signal } from '../core.js';
import { attempt, confirm, note } from '../dialog.js';
import { leave, pairsEditor } from '../forms.js';
import { named, rate, short, whole } from '../format.js';
import { badge, card, facts, flags, orMissing, pairs, stat, tabs } from '../parts.js';
import { said, to } from '../route.js';
import { asked, routeShown, traced } from '../routing.js';
import { text } from '../text.js';

const say = text.exchange;
const AGE = 600, STEP = 5;

/** @param {{ value: any }} it @param {string} vhost @param {string} name @param {() => void} again */
function now(it, vhost, name, again) {
  const own = () => it.value ?? {};
  const rateOf = (/** @type {string} */ of) => own().message_stats?.[`${of}_details`]?.rate ?? 0;
  const out = polled(() => ask(`exchanges/${path(vhost, asked(name))}/bindings/source`));
  const into = polled(() => ask(`exchanges/${path(vhost, asked(name))}/bindings/destination`));
  const done = () => { void out.again(); void into.again(); again(); };
  return [
    h('dl', { class: 'stats' }, stat(text.columns.in, () => rate(rateOf('publish_in')), () => say.published(whole(own().message_stats?.publish_in ?? 0))),
      stat(text.columns.out, () => rate(rateOf('publish_out')), () => say.routed(whole(own().message_stats?.publish_out ?? 0))),
      stat(say.bindings, () => whole(out.value.value?.length), () => '')),
    h('div', { class: 'two even' },
      chart({ title: say.rates, format: short, lines: () => [flow(own(), 'publish_in', text.columns.in, '--in'), flow(own(), 'publish_out', text.columns.out, '--out')] }),
      card(say.facts, () => facts([[text.columns.type, own().type], [text.queue.durability, own().durable == null ? '' : own().durable ? text.queue.durable : text.queue.transient], [text.columns.policy, own().policy]]),
        () => pairs(own().arguments))),
    card(say.leads, () => bindingRows(out.value.value ?? [], 'destination', done), name !== '' && [h('h2', null, say.bind), bindingForm({ vhost, name, isQueue: false, into: false }, done)]),
    () => ((into.value.value ?? []).length ? card(say.fed, bindingRows(into.value.value ?? [], 'source', done)) : null),
  ];
}

/** @param {string} vhost @param {string} name */
function publish(vhost, name) {
  const headers = pairsEditor([], say.headers), properties = pairsEditor(['content_type', 'content_encoding', 'delivery_mode', 'priority', 'correlation_id', 'reply_to', 'expiration', 'message_id', 'timestamp', 'type', 'user_id', 'app_id'], say.properties);
  const route = signal(/** @type {import('../routing.js').Step[] | null} */ (null));
  const body = (/** @type {FormData} */ data) => {
    const own = headers.read();
    return { routing_key: String(data.get('key')), properties: { ...properties.read(), ...(Object.keys(own).length ? { headers: own } : {}) } };
  };
  const form = /** @type {HTMLFormElement} */ (h('form', { class: 'form', onsubmit: async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const data = new FormData(form), isTrial = /** @type {HTMLButtonElement | null} */ (event.submitter)?.value === 'trace';
    await attempt(async () => {
      if (isTrial) { route.value = await traced({ vhost, exchange: name, body: body(data) }); return; }
      const got = await post(`exchanges/${path(vhost, asked(name))}/publish`, { ...body(data), payload: String(data.get('payload')), payload_encoding: data.has('base64') ? 'base64' : 'string' });
      note(got.routed ? say.wentOut : say.wentNowhere, got.routed ? 'good' : 'warn');
    });
  } },
  h('label', { for: 'publish-key' }, text.columns.key), h('input', { id: 'publish-key', name: 'key', spellcheck: 'false' }),
  h('span', { class: 'label' }, say.headers), headers.element, h('span', { class: 'label' }, say.properties), properties.element,
  h('label', { for: 'publish-payload' }, text.messages.payload), h('textarea', { id: 'publish-payload', name: 'payload', spellcheck: 'false' }),
  h('span', null), h('label', null, h('input', { type: 'checkbox', name: 'base64' }), ` ${say.base64}`),
  h('span', null), h('div', { class: 'tools' }, h('button', { class: 'main', value: 'publish' }, say.publish), h('button', { value: 'trace' }, say.trace))));
  return [card(say.publish, form), () => (route.value ? routeShown(vhost, route.value) : null)];
}

/** @param {string[]} path_ */
export default function exchange(path_) {
  const [, vhost, name] = path_[2] === 'amq.default' ? [path_[0], path_[1], ''] : path_;
  const got = polled(() => ask(`exchanges/${path(vhost, asked(name))}${query({ msg_rates_age: AGE, msg_rates_incr: STEP, samples: 'known' })}`));
  const open = () => said('tab', 'now');
  const bodies = /** @type {Record<string, () => any>} */ ({
    now: () => now(got.value, vhost, name, () => void got.again()), publish: () => publish(vhost, name),
    raw: () => card(say.tabs.raw, () => h('pre', null, JSON.stringify(got.value.value ?? {}, null, 2))),
  });
  const isOwn = name === '' || name.startsWith('amq.');
  return [
    h('div', { class: 'head-line' }, h('h1', null, named(name)), () => (got.value.value ? [badge(got.value.value.type), flags(got.value.value)] : null), h('span', { class: 'crumb' }, text.inVhost('', vhost).trim()),
      !isOwn && h('div', { class: 'tools' }, h('button', { type: 'button', class: 'danger', onclick: () => void confirm({
        title: say.deleteTitle(named(name)), verb: text.queue.delete, name,
        act: async () => { await remove(`exchanges/${path(vhost, name)}`); note(text.queue.deleted(named(name))); leave('exchanges'); },
      }) }, text.queue.delete))),
    () => orMissing(got, text.kinds.exchange),
    tabs(/** @type {[string, string][]} */ (Object.entries(say.tabs)), open, (key) => to(['exchanges', vhost, asked(name)], { tab: key === 'now' ? '' : key })),
    () => (bodies[open()] ?? bodies.now)(),
  ];
}
