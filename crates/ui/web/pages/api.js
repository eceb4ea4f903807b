// @ts-check
/** The HTTP API by its own description: what each path is for, who may ask it, and what it takes. */
import { ask, polled } from '../api.js';
import { computed, h } from '../core.js';
import { badge, card, facts, orMissing, plain } from '../parts.js';
import { said, say as remember } from '../route.js';
import { text } from '../text.js';

const say = text.api;
/** It changes with the version of the node. */
const EACH_MS = 600_000;

/** @type {Record<string, 'good' | 'bad' | 'warn' | ''>} */
const KINDS = { put: 'good', post: 'good', delete: 'bad' };

/** @typedef {{ group: string, where: string, method: string, about: string, need: string, asks: [string, string][], takes: [string, string][] }} Operation */

/** The values that a schema allows, in words. @param {any} schema @returns {string} */
function kind(schema) {
  if (schema?.enum) return schema.enum.join(' | ');
  if (schema?.anyOf) return schema.anyOf.map(kind).join(say.or);
  if (schema?.type === 'array') return say.list(kind(schema.items));
  return schema?.type ?? say.any;
}

/** @param {string} name @param {any} schema @param {boolean} isNeeded @returns {[string, string]} */
const field = (name, schema, isNeeded) => [name, isNeeded ? say.needed(kind(schema)) : kind(schema)];

/** @param {string} words */
const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1);

/** @param {any} document @returns {Operation[]} */
function operations(document) {
  return Object.entries(document?.paths ?? {}).flatMap(([where, path]) => Object.entries(/** @type {Record<string, any>} */ (path)).filter(([method]) => method !== 'parameters').map(([method, it]) => {
    const body = /** @type {any} */ (Object.values(it.requestBody?.content ?? {})[0])?.schema;
    return {
      group: where.split('/')[1], where, method, about: sentence(it.summary ?? ''), need: it.description ?? '',
      asks: (it.parameters ?? []).map((/** @type {any} */ one) => field(one.name, one.schema, one.required)),
      takes: Object.entries(body?.properties ?? {}).map(([name, schema]) => field(name, schema, (body.required ?? []).includes(name))),
    };
  }));
}

/** @param {[string, string][]} fields @param {string} title */
const folded = (fields, title) => (fields.length === 0 ? null
  : h('details', { class: 'fields' }, h('summary', null, title), facts(fields.map(([name, what]) => [name, h('span', { class: 'mono' }, what)]))));

/** @param {Operation} one */
const row = (one) => [
  badge(one.method.toUpperCase(), KINDS[one.method] ?? ''), h('code', null, `/api${one.where}`),
  [one.about, h('div', { class: 'pale small' }, one.need), folded(one.asks, say.asks(one.asks.length)), folded(one.takes, say.takes(one.takes.length))]];

export default function api() {
  const got = polled(() => ask('x/openapi.json'), EACH_MS);
  const all = computed(() => operations(got.value.value));
  const words = computed(() => said('name').toLowerCase().split(/\s+/).filter(Boolean));
  const shown = computed(() => all.value.filter((one) => words.value.every((word) => `${one.method} /api${one.where} ${one.about} ${one.need}`.toLowerCase().includes(word))));
  return [
    h('div', { class: 'head-line' }, h('h1', null, say.title), h('div', { class: 'tools' }, h('a', { href: 'api/x/openapi.json', download: 'openapi.json' }, say.document))),
    h('p', { class: 'pale' }, say.what), () => orMissing(got, say.title),
    h('div', { class: 'tools' },
      h('input', {
        type: 'search', class: 'filter', id: 'filter', placeholder: say.filterHint, 'aria-label': text.table.filter, value: said('name'), spellcheck: 'false',
        oninput: (/** @type {Event} */ event) => remember({ name: /** @type {HTMLInputElement} */ (event.target).value }),
      }),
      h('span', { class: 'pale', role: 'status' }, () => (got.value.value ? text.table.shown(shown.value.length, all.value.length) : ''))),
    () => (got.value.value == null ? (got.refused.value ? null : h('p', { class: 'empty' }, text.loading)) : shown.value.length === 0 ? h('p', { class: 'empty' }, text.table.noMatch(said('name')))
      : [...new Set(shown.value.map((one) => one.group))].map((group) => h('div', { class: 'endpoints' },
        card(group === 'x' ? say.beyond : group, plain([[say.method], [say.path], [say.purpose]], shown.value.filter((one) => one.group === group).map(row)))))),
  ];
}
