// @ts-check
/** What users may do where: shown, given and taken away, from either end. */
import { ask, path, polled, put, query, remove } from './api.js';
import { h, signal } from './core.js';
import { attempt, confirm } from './dialog.js';
import { named, visible } from './format.js';
import { plain } from './parts.js';
import { to } from './route.js';
import { text } from './text.js';
import { vhosts } from './vhost.js';

const say = text.permissions;

/** @param {any} one @param {'user' | 'vhost'} end */
const link = (one, end) => h('a', { href: to([end === 'user' ? 'users' : 'vhosts', one[end]]), class: 'name' }, visible(one[end]));
/** @param {string} pattern */
const code = (pattern) => (pattern === '' ? h('span', { class: 'pale' }, say.nothing) : h('code', null, visible(pattern)));

/** @param {any[]} rows @param {'user' | 'vhost'} end  which is shown @param {() => void} done */
export function permissionRows(rows, end, done) {
  return plain([[end === 'user' ? text.columns.user : text.columns.vhost], [say.configure], [say.write], [say.read], [text.bindings.actions]], rows.map((one) => [
    link(one, end), code(one.configure), code(one.write), code(one.read), h('button', { type: 'button', class: 'link', onclick: () => void confirm({
      title: say.takeTitle(visible(one.user), visible(one.vhost)), verb: say.take, name: one.user, act: async () => { await remove(`permissions/${path(one.vhost, one.user)}`); done(); },
    }) }, say.take)]), say.none);
}

/** @param {any[]} rows @param {'user' | 'vhost'} end @param {() => void} done */
export function topicRows(rows, end, done) {
  return plain([[end === 'user' ? text.columns.user : text.columns.vhost], [text.columns.exchange], [say.write], [say.read], [text.bindings.actions]], rows.map((one) => [
    link(one, end), named(one.exchange), code(one.write), code(one.read), h('button', { type: 'button', class: 'link', onclick: () => void confirm({
      title: say.takeTitle(visible(one.user), visible(one.vhost)), verb: say.take, name: one.user, act: async () => { await remove(`topic-permissions/${path(one.vhost, one.user, one.exchange)}`); done(); },
    }) }, say.take)]), say.noTopics);
}

/** The end that is not given: a choice of it. @param {{ user?: string, vhost?: string }} it @param {string} id */
function otherEnd(it, id) {
  if (it.user != null) {
    return [h('label', { for: `${id}-vhost` }, text.columns.vhost), h('select', { id: `${id}-vhost`, name: 'vhost' }, () => vhosts.value.map((one) => h('option', { value: one }, one)))];
  }
  const users = polled(() => ask('users'), 60_000);
  return [h('label', { for: `${id}-user` }, text.columns.user), h('select', { id: `${id}-user`, name: 'user' }, () => (users.value.value ?? []).map((/** @type {any} */ one) => h('option', { value: one.name }, visible(one.name))))];
}

/** @param {string} id @param {string} name @param {string} label @param {string} value */
const pattern = (id, name, label, value) => [h('label', { for: `${id}-${name}` }, label), h('input', { id: `${id}-${name}`, name, value, spellcheck: 'false', class: 'mono' })];

/** @param {{ user?: string, vhost?: string }} it  the end that is given @param {() => void} done */
export function permissionForm(it, done) {
  return h('form', { class: 'form', onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.target)), of = (/** @type {string} */ key) => String(data.get(key));
    void attempt(async () => { await put(`permissions/${path(it.vhost ?? of('vhost'), it.user ?? of('user'))}`, { configure: of('configure'), write: of('write'), read: of('read') }); done(); }, say.given);
  } }, otherEnd(it, 'permission'), pattern('permission', 'configure', say.configure, '.*'), pattern('permission', 'write', say.write, '.*'), pattern('permission', 'read', say.read, '.*'),
  h('span', null), h('p', { class: 'under' }, say.hint), h('span', null), h('div', null, h('button', { class: 'main' }, say.set)));
}

/** @param {{ user?: string, vhost?: string }} it @param {() => void} done */
export function topicForm(it, done) {
  return h('form', { class: 'form', onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.target)), of = (/** @type {string} */ key) => String(data.get(key));
    void attempt(async () => { await put(`topic-permissions/${path(it.vhost ?? of('vhost'), it.user ?? of('user'))}`, { exchange: of('exchange'), write: of('write'), read: of('read') }); done(); }, say.given);
  } }, otherEnd(it, 'topic'), h('label', { for: 'topic-exchange' }, text.columns.exchange), h('input', { id: 'topic-exchange', name: 'exchange', value: 'amq.topic', spellcheck: 'false' }),
  pattern('topic', 'write', say.writeKey, '.*'), pattern('topic', 'read', say.readKey, '.*'), h('span', null), h('div', null, h('button', { class: 'main' }, say.set)));
}

/** Whether a user may do something, and by which pattern. @param {string} name  the user */
export function permissionTest(name) {
  const told = signal(/** @type {any} */ (null));
  return [h('form', { class: 'form', onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.target)), of = (/** @type {string} */ key) => String(data.get(key));
    const object = of('kind') === 'queue' ? { queue: of('name') } : { exchange: of('name') || 'amq.default', routing_key: of('key') };
    void attempt(async () => { told.value = await ask(`x/permissions/${path(of('vhost'), name)}/test${query({ access: of('access'), ...object })}`); });
  } },
  otherEnd({ user: name }, 'test'), h('label', { for: 'test-access' }, say.access), h('select', { id: 'test-access', name: 'access' }, ['configure', 'write', 'read'].map((one) => h('option', { value: one }, one))),
  h('label', { for: 'test-kind' }, say.of), h('select', { id: 'test-kind', name: 'kind' }, ['queue', 'exchange'].map((one) => h('option', { value: one }, say.kinds[/** @type {'queue'} */ (one)]))),
  h('label', { for: 'test-name' }, text.columns.name), h('input', { id: 'test-name', name: 'name', spellcheck: 'false' }), h('label', { for: 'test-key' }, text.columns.key), h('input', { id: 'test-key', name: 'key', placeholder: say.keyHint, spellcheck: 'false' }),
  h('span', null), h('div', null, h('button', { class: 'main' }, say.ask))),
  h('div', { role: 'status' }, () => (told.value ? h('p', { class: `band ${told.value.allowed ? 'good' : 'bad'}` }, told.value.allowed ? say.yes(told.value.topic_pattern ?? told.value.pattern) : say.no(told.value.reason)) : null))];
}
