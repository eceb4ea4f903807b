// @ts-check
/** Limits of a user or of a virtual host. */
import { ask, path, polled, put, remove } from './api.js';
import { h } from './core.js';
import { attempt } from './dialog.js';
import { bytes, whole } from './format.js';
import { card, plain } from './parts.js';
import { text } from './text.js';

const say = text.limits;

/** Limits by what they are of. */
export const LIMITS = { user: ['max-connections', 'max-channels', 'max-memory-bytes'], vhost: ['max-connections', 'max-queues', 'max-memory-bytes'] };

/** @param {string} limit @param {number} value */
export const limited = (limit, value) => (limit.endsWith('bytes') ? bytes(value) : whole(value));

/** @param {'user' | 'vhost'} of @param {string} name */
export function limitRows(of, name) {
  const where = `${of}-limits/${path(name)}`;
  const got = polled(() => ask(where), 15_000);
  const now = () => Object.entries(got.value.value?.[0]?.value ?? {});
  return card(say.title, () => plain([[text.columns.name], [text.columns.value, true], [text.bindings.actions]], now().map(([limit, value]) => [
    limit, limited(limit, Number(value)), h('button', { type: 'button', class: 'link', onclick: () => void attempt(async () => { await remove(`${where}/${path(limit)}`); void got.again(); }, say.lifted) }, say.lift)]), say.none),
  h('h2', null, say.set), h('form', { class: 'tools', onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
    void attempt(async () => { await put(`${where}/${path(String(data.get('limit')))}`, { value: Number(data.get('value')) }); void got.again(); }, say.isSet);
  } }, h('select', { name: 'limit', 'aria-label': text.columns.name }, LIMITS[of].map((limit) => h('option', { value: limit }, limit))),
  h('input', { name: 'value', type: 'number', required: true, 'aria-label': text.columns.value, placeholder: text.columns.value }), h('button', null, say.set)));
}
