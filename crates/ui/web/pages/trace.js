// @ts-check
/** Where a message would go: an exchange, a key and headers, followed without publishing anything; and whether a user may. */
import { ask, may, path, polled, query } from '../api.js';
import { computed, effect, h, signal, untracked } from '../core.js';
import { attempt } from '../dialog.js';
import { pairsEditor } from '../forms.js';
import { named, visible } from '../format.js';
import { badge, card } from '../parts.js';
import { said, say as remember } from '../route.js';
import { asked, routeShown, traced } from '../routing.js';
import { text } from '../text.js';
import { vhost, vhosts } from '../vhost.js';

const say = text.trace;

/** Whether a user may publish it. @param {string} where @param {string} user @param {string} exchange @param {string} key */
const mayPublish = (where, user, exchange, key) => ask(`x/permissions/${path(where, user)}/test${query({ access: 'write', exchange: asked(exchange), routing_key: key })}`);

export default function trace() {
  const where = computed(() => said('vhost', vhost.value.slice(1) || '/'));
  const exchanges = signal(/** @type {any[]} */ ([]));
  effect(() => { const one = where.value; untracked(() => void ask(`exchanges/${path(one)}?columns=name,type`).then((all) => { exchanges.value = all; }, () => { exchanges.value = []; })); });
  const users = may('administrator') ? polled(() => ask('users?columns=name'), 60_000) : null;
  const headers = pairsEditor([], text.exchange.headers);
  const steps = signal(/** @type {import('../routing.js').Step[] | null} */ (null)), right = signal(/** @type {any} */ (null));
  const form = /** @type {HTMLFormElement} */ (h('form', { class: 'form', onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    const data = new FormData(form), exchange = String(data.get('exchange')), key = String(data.get('key')), user = String(data.get('user') ?? '');
    remember({ vhost: where.peek(), exchange, key, user: user || null });
    void attempt(async () => {
      right.value = user ? { user, ...(await mayPublish(where.peek(), user, exchange, key)) } : null;
      const payload = String(data.get('payload') ?? '');
      steps.value = await traced({ vhost: where.peek(), exchange, body: { routing_key: key, properties: Object.keys(headers.read()).length ? { headers: headers.read() } : {}, ...(payload ? { payload } : {}) } });
    });
  } },
  h('label', { for: 'trace-vhost' }, text.vhost), h('select', { id: 'trace-vhost', name: 'vhost', onchange: (/** @type {Event} */ event) => remember({ vhost: /** @type {HTMLSelectElement} */ (event.target).value }) }, () => vhosts.value.map((one) => h('option', { value: one, selected: one === where.value }, visible(one)))),
  h('label', { for: 'trace-exchange' }, text.columns.exchange), h('select', { id: 'trace-exchange', name: 'exchange' }, () => exchanges.value.map((one) => h('option', { value: one.name, selected: one.name === said('exchange', 'amq.topic') }, `${named(one.name)} (${one.type})`))),
  h('label', { for: 'trace-key' }, text.columns.key), h('input', { id: 'trace-key', name: 'key', spellcheck: 'false', value: said('key') }),
  h('span', { class: 'label' }, text.exchange.headers), headers.element,
  h('label', { for: 'trace-payload' }, text.messages.payload), h('textarea', { id: 'trace-payload', name: 'payload', class: 'mono', rows: 3, placeholder: say.payloadHint, spellcheck: 'false' }),
  users && [h('label', { for: 'trace-user' }, say.user), h('select', { id: 'trace-user', name: 'user' }, () => [h('option', { value: '' }, say.nobody), ...(users.value.value ?? []).map((/** @type {any} */ one) => h('option', { value: one.name, selected: one.name === said('user') }, visible(one.name)))])],
  h('span', null), h('div', null, h('button', { class: 'main' }, say.go))));
  return [h('h1', null, say.title), h('p', { class: 'pale' }, say.what), card(say.message, form),
    () => (right.value ? h('p', { class: `band ${right.value.allowed ? 'good' : 'bad'}`, role: 'status' }, right.value.allowed ? say.allowed(visible(right.value.user), right.value.pattern) : [badge(say.refused, 'bad'), ' ', right.value.reason]) : null),
    () => (steps.value ? routeShown(where.peek(), steps.value) : null)];
}
