// @ts-check
/** Policies of users and of the operator: what they say, and which queues they are about. */
import { ask, may, path, polled, post, put, remove } from '../api.js';
import { computed, h, signal } from '../core.js';
import { ask as askFor, confirm, note } from '../dialog.js';
import { pairsEditor, vhostField } from '../forms.js';
import { visible, whole } from '../format.js';
import { badge, card, pairs, plain } from '../parts.js';
import { to } from '../route.js';
import { text } from '../text.js';
import { vhost, within } from '../vhost.js';

const say = text.policies;
const KINDS = ['all', 'queues', 'exchanges', 'classic_queues', 'quorum_queues', 'streams'];
/** Keys of policies, and those that an operator's may have. */
const KEYS = ['message-ttl', 'expires', 'max-length', 'max-length-bytes', 'overflow', 'dead-letter-exchange', 'dead-letter-routing-key', 'dead-letter-strategy', 'delivery-limit', 'cancel-limit', 'fairness', 'max-unsettled', 'lease', 'consumer-timeout',
  'max-age', 'stream-max-segment-size-bytes', 'alternate-exchange', 'queue-leader-locator', 'federation-upstream', 'federation-upstream-set'];
const OPERATOR_KEYS = ['message-ttl', 'expires', 'max-length', 'max-length-bytes', 'delivery-limit', 'cancel-limit', 'fairness', 'max-unsettled', 'lease', 'max-age', 'consumer-timeout'];

/** @param {'policies' | 'operator-policies'} list @param {() => void} done @param {any} [now]  the one that is changed */
function edit(list, done, now) {
  const more = pairsEditor(list === 'policies' ? KEYS : OPERATOR_KEYS, say.definition, now?.definition);
  const shown = signal(/** @type {any} */ (null)), why = signal('');
  const read = (/** @type {FormData} */ data) => ({
    where: now?.vhost ?? String(data.get('vhost')), name: now?.name ?? String(data.get('name')),
    body: { pattern: data.get('pattern'), 'apply-to': data.get('apply'), priority: Number(data.get('priority')), definition: more.read() },
  });
  const look = async (/** @type {Event} */ event) => {
    const form = /** @type {HTMLButtonElement} */ (event.target).form;
    if (!form?.reportValidity()) return;
    try {
      const { where, name, body } = read(new FormData(form));
      shown.value = await post(`x/${list}/${path(where, name)}/preview`, body);
      why.value = '';
    } catch (error) { shown.value = null; why.value = /** @type {Error} */ (error).message; }
  };
  void askFor({
    title: now ? say.editTitle(visible(now.name)) : list === 'policies' ? say.add : say.addOperator, verb: text.forms.save,
    body: () => h('div', { class: 'form' }, !now && vhostField(),
      !now && [h('label', { for: 'form-name' }, text.columns.name), h('input', { id: 'form-name', name: 'name', required: true, spellcheck: 'false' })],
      h('label', { for: 'form-pattern' }, text.queue.pattern), h('input', { id: 'form-pattern', name: 'pattern', required: true, value: now?.pattern ?? '', spellcheck: 'false', class: 'mono' }),
      h('label', { for: 'form-apply' }, say.applies), h('select', { id: 'form-apply', name: 'apply' }, KINDS.filter((one) => list === 'policies' || one !== 'exchanges').map((one) => h('option', { value: one, selected: (now?.['apply-to'] ?? (list === 'policies' ? 'all' : 'queues')) === one }, one.replace('_', ' ')))),
      h('label', { for: 'form-priority' }, text.queue.priority), h('input', { id: 'form-priority', name: 'priority', type: 'number', value: now?.priority ?? 0 }),
      h('span', { class: 'label' }, say.definition), more.element, h('span', null), h('div', null, h('button', { type: 'button', onclick: look }, say.preview)),
      () => (why.value ? h('p', { class: 'band bad wide' }, why.value) : shown.value ? h('div', { class: 'wide' }, previewed(shown.value)) : null)),
    act: async (data) => {
      const { where, name, body } = read(data);
      await put(`${list}/${path(where, name)}`, body);
      note(say.saved(visible(name)));
      done();
    },
  });
}

/** What a policy would do. @param {any} got */
function previewed(got) {
  const losers = (/** @type {any[]} */ all, /** @type {(name: string, n: number) => string} */ words) => all.map((one) => h('li', null, words(visible(one.policy), one.count)));
  return h('div', { class: 'preview', role: 'status', tabindex: 0, 'aria-label': say.preview },
    h('p', null, say.wouldCount(got.governed, got.matched)), h('ul', null, losers(got.replaces, say.replaces), losers(got.yields_to, say.yieldsTo), got.released > 0 && h('li', null, say.releases(got.released))),
    plain([[text.columns.name], [text.columns.type], [say.now], [say.then]], got.examples.map((/** @type {any} */ one) => [
      visible(one.name), one.type, visible(one.policy_now ?? say.nobody), one.policy_then == null ? say.another : one.policy_then === one.policy_now ? h('span', { class: 'pale' }, visible(one.policy_then)) : badge(visible(one.policy_then), 'good')]), say.nothing));
}

/** @param {'policies' | 'operator-policies'} list @param {string} title @param {boolean} mayEdit */
function section(list, title, mayEdit) {
  const got = polled(() => ask(within(list)));
  const seen = signal(vhost.peek());
  const rows = computed(() => { if (seen.peek() !== vhost.value) { seen.value = vhost.value; void got.again(); } return got.value.value ?? []; });
  return card(title, mayEdit && h('div', { class: 'tools' }, h('button', { type: 'button', class: 'main', onclick: () => edit(list, () => void got.again()) }, list === 'policies' ? say.add : say.addOperator)),
    () => plain([[text.columns.name], [text.columns.vhost], [text.queue.pattern], [say.applies], [text.queue.priority, true], [say.definition], [text.bindings.actions]], rows.value.map((/** @type {any} */ one) => [
      list === 'policies' ? h('a', { href: to(['policies', one.vhost, one.name]), class: 'name' }, visible(one.name)) : visible(one.name), visible(one.vhost), h('code', null, visible(one.pattern)), String(one['apply-to']).replace('_', ' '), whole(one.priority), pairs(one.definition),
      mayEdit ? h('span', { class: 'badges' }, h('button', { type: 'button', class: 'link', onclick: () => edit(list, () => void got.again(), one) }, text.forms.edit), h('button', { type: 'button', class: 'link', onclick: () => void confirm({
        title: say.deleteTitle(visible(one.name)), why: say.deleteWhy, verb: text.queue.delete, name: one.name, act: async () => { await remove(`${list}/${path(one.vhost, one.name)}`); void got.again(); },
      }) }, text.queue.delete)) : '']), say.none));
}

export default function policies() {
  return [h('h1', null, say.title), h('p', { class: 'pale' }, say.what), section('policies', say.users, may('policymaker')), section('operator-policies', say.operators, may('administrator'))];
}
