// @ts-check
/** Settings that were read when the node started: where each stands, and which one counts where a key stands several times. */
import { ask, polled } from '../api.js';
import { computed, h } from '../core.js';
import { visible } from '../format.js';
import { badge, card, orMissing, plain } from '../parts.js';
import { said, say as remember } from '../route.js';
import { text } from '../text.js';

const say = text.settings;
/** They are read once. */
const EACH_MS = 60_000;

/** @typedef {{ key: string, value: string, from: string }} Setting */

/** Settings by key, those of one key in the order of reading; each with the one that counts, and whether its key stands once. @param {Setting[]} all */
function byKey(all) {
  const first = new Map([...all].reverse().map((one) => [one.key, one])), last = new Map(all.map((one) => [one.key, one]));
  const sorted = [...all].sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  return sorted.map((one) => ({ ...one, winner: last.get(one.key) === one ? null : last.get(one.key), isAlone: first.get(one.key) === last.get(one.key) }));
}

export default function settings() {
  const got = polled(() => ask('x/settings'), EACH_MS);
  const words = computed(() => said('name').toLowerCase());
  const all = computed(() => byKey(got.value.value ?? []));
  const shown = computed(() => all.value.filter((one) => `${one.key} ${one.value} ${one.from}`.toLowerCase().includes(words.value)));
  return [
    h('h1', null, say.title), h('p', { class: 'pale' }, say.what), () => orMissing(got, say.title),
    h('div', { class: 'tools' },
      h('input', {
        type: 'search', class: 'filter', id: 'filter', placeholder: say.filterHint, 'aria-label': text.table.filter, value: said('name'), spellcheck: 'false',
        oninput: (/** @type {Event} */ event) => remember({ name: /** @type {HTMLInputElement} */ (event.target).value }),
      }),
      h('span', { class: 'pale', role: 'status' }, () => (got.value.value ? text.table.shown(shown.value.length, all.value.length) : ''))),
    card(say.read, () => (got.value.value == null ? (got.refused.value ? null : h('p', { class: 'empty' }, text.loading)) : plain([[say.key], [text.columns.value], [say.from], [say.counts]], shown.value.map((one) => [
      h('code', null, visible(one.key)), h('code', { class: one.winner ? 'pale' : '' }, visible(one.value)), h('span', { class: 'name' }, visible(one.from)),
      one.isAlone ? '' : one.winner ? badge(say.loses(visible(one.winner.from)), 'warn') : badge(say.wins, 'good')]), words.value ? text.table.noMatch(said('name')) : say.none))),
  ];
}
