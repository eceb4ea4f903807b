// @ts-check
/** Bindings: shown, made and taken away, from either end. */
import { path, post, remove } from './api.js';
import { attempt, confirm, note } from './dialog.js';
import { h } from './core.js';
import { named } from './format.js';
import { pairsEditor } from './forms.js';
import { exchangeLink, pairs, plain, queueLink } from './parts.js';
import { text } from './text.js';

const say = text.bindings;

/** @param {any} one */
const where = (one) => (one.destination_type === 'queue'
  ? `bindings/${path(one.vhost)}/e/${path(one.source)}/q/${path(one.destination)}` : `bindings/${path(one.vhost)}/e/${path(one.source)}/e/${path(one.destination)}`);

/** @param {any[]} rows @param {'source' | 'destination'} shown  which end @param {() => void} done */
export function bindingRows(rows, shown, done) {
  const end = (/** @type {any} */ one) => (shown === 'source' ? (one.source === '' ? say.byDefault : exchangeLink(one.vhost, one.source))
    : one.destination_type === 'queue' ? queueLink(one.vhost, one.destination) : exchangeLink(one.vhost, one.destination));
  return plain([[shown === 'source' ? say.from : say.to], [text.columns.key], [text.columns.arguments], [say.actions]], rows.map((one) => [
    [end(one), shown === 'destination' && one.destination_type === 'exchange' ? ` (${text.kinds.exchange})` : ''],
    h('code', null, named(one.routing_key) === '(default)' ? '' : named(one.routing_key)), pairs(one.arguments) ?? '',
    one.source === '' ? '' : h('button', { type: 'button', class: 'link', onclick: () => void confirm({
      title: say.unbindTitle(named(one.source), named(one.destination), one.routing_key), verb: say.unbind, name: one.destination,
      act: async () => { await remove(`${where(one)}/${path(one.properties_key)}`); note(say.unbound); done(); },
    }) }, say.unbind)]), say.none);
}

/** @param {{ vhost: string, name: string, isQueue: boolean, into: boolean }} it  the end that is given @param {() => void} done */
export function bindingForm(it, done) {
  const more = pairsEditor(['x-filter', 'x-match', 'x-message-ttl'], text.forms.arguments);
  const id = it.into ? 'bind-in' : 'bind-out';
  return h('form', { class: 'form', onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target), data = new FormData(form);
    const other = String(data.get('other')), isQueue = it.into ? it.isQueue : data.get('kind') === 'queue';
    const [source, destination] = it.into ? [other, it.name] : [it.name, other];
    const got = await attempt(async () => {
      await post(`bindings/${path(it.vhost)}/e/${path(source)}/${isQueue ? 'q' : 'e'}/${path(destination)}`, { routing_key: String(data.get('key')), arguments: more.read() });
      return true;
    }, say.bound);
    if (got) { form.reset(); done(); }
  } },
  !it.into && [h('label', { for: `${id}-kind` }, say.to), h('select', { id: `${id}-kind`, name: 'kind' }, h('option', { value: 'queue' }, text.kinds.queue), h('option', { value: 'exchange' }, text.kinds.exchange))],
  h('label', { for: `${id}-other` }, it.into ? say.from : text.columns.name), h('input', { id: `${id}-other`, name: 'other', required: true, spellcheck: 'false' }),
  h('label', { for: `${id}-key` }, text.columns.key), h('input', { id: `${id}-key`, name: 'key', spellcheck: 'false' }),
  h('span', { class: 'label' }, text.forms.arguments), more.element,
  h('span', null), h('div', null, h('button', { class: 'main' }, say.bind)));
}
