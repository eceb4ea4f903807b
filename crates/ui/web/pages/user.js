// @ts-check
/** A user: tags, rights, limits, and who is connected by it. */
import { ask, path, polled, query, remove, user as self } from '../api.js';
import { h } from '../core.js';
import { ask as askFor, confirm, note } from '../dialog.js';
import { leave } from '../forms.js';
import { age, visible } from '../format.js';
import { limitRows } from '../limits.js';
import { badge, card, connectionLink, orMissing, plain } from '../parts.js';
import { permissionForm, permissionRows, permissionTest, topicForm, topicRows } from '../permissions.js';
import { text } from '../text.js';
import { putUser, userFields } from './users.js';

const say = text.users;
/** Connections that are shown. */
const SHOWN = 50;

/** @param {string[]} path_ */
export default function user(path_) {
  const name = String(path_[1]), where = `users/${path(name)}`;
  const got = polled(() => ask(where), 15_000);
  const permissions = polled(() => ask(`${where}/permissions`), 15_000), topics = polled(() => ask(`${where}/topic-permissions`), 15_000);
  const connections = polled(() => ask(`connections/username/${path(name)}${query({ page: 1, page_size: SHOWN })}`).catch(() => ({ items: [] })));
  const rows = () => { const all = connections.value.value; return (Array.isArray(all) ? all : all?.items ?? []).slice(0, SHOWN); };
  const edit = () => void askFor({ title: say.edit(visible(name)), verb: text.forms.save, body: () => h('div', { class: 'form' }, userFields(got.value.peek())), act: async (data) => { await putUser(name, data, got.value.peek()); note(say.saved); void got.again(); } });
  return [
    h('div', { class: 'head-line' }, h('h1', null, visible(name)), () => (got.value.value?.tags ?? []).map((/** @type {string} */ tag) => badge(visible(tag), tag === 'administrator' ? 'warn' : '')),
      h('div', { class: 'tools' }, h('button', { type: 'button', onclick: edit }, text.forms.edit),
        h('button', { type: 'button', class: 'danger', disabled: () => self.value?.name === name, title: () => (self.value?.name === name ? say.self : null), onclick: () => void confirm({
          title: say.deleteTitle(visible(name)), why: say.deleteWhy, verb: text.queue.delete, name, isUsed: rows().length > 0,
          act: async () => { await remove(where); note(text.queue.deleted(visible(name))); leave('users'); },
        }) }, text.queue.delete))),
    () => orMissing(got, say.kind),
    () => (got.value.value && !got.value.value.password_hash ? h('p', { class: 'band warn' }, say.cannotLogIn) : null),
    card(text.permissions.title, () => permissionRows(permissions.value.value ?? [], 'vhost', () => void permissions.again()), h('h2', null, text.permissions.set), permissionForm({ user: name }, () => void permissions.again())),
    card(text.permissions.topics, () => topicRows(topics.value.value ?? [], 'vhost', () => void topics.again()), h('h2', null, text.permissions.set), topicForm({ user: name }, () => void topics.again())),
    card(text.permissions.test, permissionTest(name)),
    limitRows('user', name),
    card(text.nav.connections, () => plain([[text.columns.name], [text.columns.vhost], [text.columns.protocol], [text.columns.since, true]], rows().map((/** @type {any} */ one) => [connectionLink(one.name), visible(one.vhost ?? ''), one.protocol, age(one.connected_at)]), text.connections.empty)),
  ];
}
