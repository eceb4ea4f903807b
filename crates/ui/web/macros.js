// @ts-check
/** The macros of a virtual host: shown, made and taken away. */
import { ask, path, polled, put, remove } from './api.js';
import { h } from './core.js';
import { attempt, confirm } from './dialog.js';
import { visible } from './format.js';
import { card, plain } from './parts.js';
import { text } from './text.js';

const say = text.macros;

/** @param {string} vhost */
export function macroRows(vhost) {
  const where = `parameters/filter-macro/${path(vhost)}`;
  const got = polled(() => ask(where), 15_000);
  const rows = () => (got.value.value ?? []).map((/** @type {any} */ one) => [
    h('code', null, visible(`${one.name}(${(one.value.parameters ?? []).join(', ')})`)), h('code', null, visible(String(one.value.expression))),
    h('button', { type: 'button', class: 'link', onclick: () => void confirm({
      title: say.clearTitle(visible(one.name)), verb: say.clear, why: say.clearWhy, name: one.name, act: async () => { await remove(`${where}/${path(one.name)}`); void got.again(); },
    }) }, say.clear)]);
  const field = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ hint, /** @type {boolean} */ required) => [h('label', { for: `macro-${name}` }, label), h('input', { id: `macro-${name}`, name, required, placeholder: hint, spellcheck: 'false', autocomplete: 'off', class: 'mono' })];
  return card(say.title, h('p', { class: 'pale' }, say.what), () => plain([[text.columns.name], [say.expression], [text.bindings.actions]], rows(), say.none),
    h('h2', null, say.set), h('form', { class: 'form', onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      const form = /** @type {HTMLFormElement} */ (event.target), data = new FormData(form), of = (/** @type {string} */ key) => String(data.get(key)).trim();
      const value = { parameters: of('parameters').split(/[\s,]+/).filter(Boolean), expression: of('expression') };
      void attempt(async () => { await put(`${where}/${path(of('name'))}`, { value }); form.reset(); void got.again(); }, say.isSet);
    } }, field('name', text.columns.name, 'big', true), field('parameters', say.parameters, 'low', false), field('expression', say.expression, '/qty * /price > low', true),
    h('span', null), h('div', null, h('button', { class: 'main' }, say.set))));
}
