// @ts-check
/** Users: their tags, and new ones. */
import { path, put } from '../api.js';
import { h } from '../core.js';
import { ask as askFor, note } from '../dialog.js';
import { visible } from '../format.js';
import { limited } from '../limits.js';
import { badge } from '../parts.js';
import { to } from '../route.js';
import { listed, table } from '../table.js';
import { text } from '../text.js';

const say = text.users, name = text.columns;

/** Tags that mean something to the management interface. */
export const TAGS = ['management', 'policymaker', 'monitoring', 'administrator', 'impersonator'];

/** @type {import('../table.js').Column[]} */
const COLUMNS = [
  { key: 'name', name: name.name, width: 'minmax(200px, 2fr)', show: (row) => visible(row.name) },
  { key: 'tags', name: say.tags, width: 'minmax(200px, 2fr)', sorts: false, show: (row) => h('span', { class: 'badges' }, (row.tags ?? []).map((/** @type {string} */ tag) => badge(visible(tag), tag === 'administrator' ? 'warn' : ''))) },
  { key: 'password_hash', name: say.password, width: '140px', sorts: false, show: (row) => (row.password_hash ? badge(say.has, 'good', row.hashing_algorithm) : badge(say.hasNone, 'warn')) },
  { key: 'limits', name: text.limits.title, width: 'minmax(200px, 2fr)', sorts: false, show: (row) => Object.entries(row.limits ?? {}).map(([limit, value]) => `${limit} ${limited(limit, Number(value))}`).join(', ') },
];

/** The fields of a user. @param {any} [now] */
export const userFields = (now) => [
  h('label', { for: 'form-password' }, say.password), h('input', { id: 'form-password', name: 'password', type: 'password', autocomplete: 'new-password', placeholder: now ? say.samePassword : '' }),
  h('span', { class: 'label' }, say.noPassword), h('label', null, h('input', { type: 'checkbox', name: 'none' }), ` ${say.noPasswordWhy}`),
  h('span', { class: 'label' }, say.tags), h('span', { class: 'badges' }, TAGS.map((tag) => h('label', null, h('input', { type: 'checkbox', name: 'tag', value: tag, checked: (now?.tags ?? []).includes(tag) }), ` ${tag} `))),
  h('label', { for: 'form-more' }, say.more), h('input', { id: 'form-more', name: 'more', value: (now?.tags ?? []).filter((/** @type {string} */ tag) => !TAGS.includes(tag)).join(','), placeholder: text.vhosts.tagsHint }),
];

/** @param {string} who @param {FormData} data @param {any} [now] */
export async function putUser(who, data, now) {
  const tags = [...data.getAll('tag'), ...String(data.get('more')).split(',')].map((tag) => String(tag).trim()).filter(Boolean).join(',');
  const password = String(data.get('password'));
  const hash = data.has('none') ? { password_hash: '' } : password !== '' ? { password } : now ? { password_hash: now.password_hash, hashing_algorithm: now.hashing_algorithm } : null;
  if (!hash) throw new Error(say.needsPassword);
  await put(`users/${path(who)}`, { tags, ...hash });
}

export default function users() {
  const list = table({
    id: 'users', label: say.title, columns: COLUMNS, sort: 'name', key: (row) => row.name, href: (row) => to(['users', row.name]),
    load: listed(() => 'users'),
  });
  const add = () => void askFor({
    title: say.add, verb: text.forms.declare,
    body: () => h('div', { class: 'form' }, h('label', { for: 'form-name' }, name.name), h('input', { id: 'form-name', name: 'name', required: true, spellcheck: 'false', autocomplete: 'off' }), userFields()),
    act: async (data) => {
      const who = String(data.get('name'));
      await putUser(who, data);
      note([text.forms.declared, ' ', h('a', { href: to(['users', who]) }, visible(who)), '. ', say.noRights]);
      list.again();
    },
  });
  return [h('div', { class: 'head-line' }, h('h1', null, say.title), h('div', { class: 'tools' }, h('button', { type: 'button', class: 'main', onclick: add }, say.add))), list.tools, list.note, list.element];
}
