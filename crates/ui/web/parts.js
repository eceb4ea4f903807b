// @ts-check
/** Small things that many pages are made of. */
import { h } from './core.js';
import { named, percent, visible } from './format.js';
import { said, say, to } from './route.js';
import { text } from './text.js';

/** @param {string} name @param {() => any} value @param {() => any} under */
export const stat = (name, value, under) => h('div', { class: 'stat' }, h('dt', null, name), h('dd', null, value), h('dd', { class: 'under' }, under));

/** @param {string} name @param {() => number} share @param {() => string} said */
export const meter = (name, share, said) => h('div', { class: 'meter' }, h('span', null, name), bar(name, share, true), h('span', { class: 'under' }, said));

/** A share as a bar. @param {string} name @param {() => number} share @param {boolean} [warns] */
export const bar = (name, share, warns) => h('span', {
  class: 'bar', role: 'meter', 'aria-label': name, 'aria-valuemin': 0, 'aria-valuemax': 100,
  'aria-valuenow': () => Math.round(Math.min(1, share()) * 100), 'aria-valuetext': () => percent(share()),
}, h('i', {
  class: () => (warns && share() > 0.95 ? 'bad' : warns && share() > 0.8 ? 'warn' : ''),
  vars: () => ({ '--share': `${Math.min(100, Math.max(0, share() * 100))}%` }),
}));

/** @param {any} what @param {'good' | 'bad' | 'warn' | ''} [kind] @param {string} [title] */
export const badge = (what, kind = '', title) => h('span', { class: `badge ${kind}`, title }, what);

/** Names and what they stand for; what is not known is left out. @param {[string, any][]} pairs */
export const facts = (pairs) => h('dl', { class: 'facts' }, pairs.filter(([, value]) => value != null && value !== '' && value !== false)
  .map(([name, value]) => [h('dt', null, name), h('dd', null, value)]));

/** @param {string} title @param {...any} children */
export const card = (title, ...children) => h('section', { class: 'card' }, h('h2', null, title), ...children);

/**
 * A short table. @param {[string, boolean?][]} titles  each with whether it is a number's
 * @param {any[][]} rows @param {string} [empty]
 */
export function plain(titles, rows, empty) {
  if (rows.length === 0) return h('p', { class: 'empty' }, empty ?? text.table.empty);
  return h('div', { class: 'scroll-x' }, h('table', { class: 'plain' },
    h('thead', null, h('tr', null, titles.map(([name, number]) => h('th', { scope: 'col', class: number ? 'number' : '' }, name)))),
    h('tbody', null, rows.map((row) => h('tr', null, row.map((cell, at) => h('td', { class: titles[at]?.[1] ? 'number' : '' }, cell)))))));
}

/** @param {string} vhost @param {string} name */
export const queueLink = (vhost, name) => h('a', { href: to(['queues', vhost, name]), class: 'name' }, named(name));
/** @param {string} vhost @param {string} name */
export const exchangeLink = (vhost, name) => h('a', { href: to(['exchanges', vhost, name]), class: 'name' }, named(name));
/** @param {string} name */
export const connectionLink = (name) => h('a', { href: to(['connections', name]), class: 'name' }, visible(name));

/**
 * The tabs of a page; which one is open is in the hash.
 * @param {[string, string][]} all  keys and names @param {() => string} open @param {(key: string) => string} href
 */
export const tabs = (all, open, href) => h('div', { class: 'tabs', role: 'navigation', 'aria-label': text.tabs },
  all.map(([key, name]) => h('a', { href: () => href(key), 'aria-current': () => (open() === key ? 'page' : null) }, name)));

/** The spans of time that figures are shown over: in the hash, how many seconds, and how far apart samples are. */
export const AGES = /** @type {Record<string, [number, number]>} */ ({ '10m': [600, 5], '1h': [3600, 30], '24h': [86_400, 300] });

/** The span that is chosen, as the API is asked for it. @param {string[]} [known] */
export function asksAge(known = Object.keys(AGES)) {
  const [age, step] = AGES[known.includes(said('age')) ? said('age') : '10m'];
  return { msg_rates_age: age, msg_rates_incr: step, lengths_age: age, lengths_incr: step, samples: 'known' };
}

/** A choice of the span. @param {string[]} [known] @param {() => void} [again]  asks anew at once */
export const ageChoice = (known = Object.keys(AGES), again = () => {}) => h('div', { class: 'ages', role: 'group', 'aria-label': text.ages.title },
  known.map((key) => h('button', { type: 'button', 'aria-pressed': () => String(said('age', '10m') === key), onclick: () => { say({ age: key === '10m' ? null : key, range: null }); again(); } }, text.ages[/** @type {'1h'} */ (key)])));

/** Values of arguments, of any kind, in one line each. @param {Record<string, any> | null | undefined} values */
export function pairs(values) {
  const all = Object.entries(values ?? {});
  return all.length === 0 ? null : h('dl', { class: 'facts' }, all.map(([name, value]) => [h('dt', { class: 'mono' }, visible(name)), h('dd', { class: 'mono' }, valued(value))]));
}

/** @param {any} value */
export const valued = (value) => (typeof value === 'string' ? visible(value) : JSON.stringify(value));

/** What an object's own flags are, short. @param {any} it */
export const flags = (it) => h('span', { class: 'badges' },
  it.durable && badge('D', '', text.flags.durable), it.auto_delete && badge('AD', '', text.flags.autoDelete),
  it.internal && badge('I', '', text.flags.internal), it.exclusive && badge('Excl', '', text.flags.exclusive),
  Object.keys(it.arguments ?? {}).filter((name) => name !== 'x-queue-type').length > 0 && badge('Args', '', Object.entries(it.arguments).map(([name, value]) => `${name}: ${valued(value)}`).join('\n')),
  it.policy && badge(it.policy, 'good', text.flags.policy(it.policy)),
  it.operator_policy && badge(it.operator_policy, 'warn', text.flags.operatorPolicy(it.operator_policy)));

/** What is shown where an object is not, or not yet. @param {any} got @param {string} what */
export function orMissing(got, what) {
  if (got.refused.value?.status === 404) return h('p', { class: 'band warn' }, text.notThere(what));
  if (got.refused.value) return h('p', { class: 'band bad' }, text.refused(got.refused.value.message));
  return null;
}
