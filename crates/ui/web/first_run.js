// @ts-check
/** The first steps on a node that has no queue yet: a user, a message, and where both are seen. */
import { may, user } from './api.js';
import { copy } from './copy.js';
import { attempt } from './dialog.js';
import { computed, h } from './core.js';
import { card, queueLink, tabs } from './parts.js';
import { said, to } from './route.js';
import { SNIPPETS } from './snippets.js';
import { text } from './text.js';

const say = text.first;

/** The port of AMQP, where the node does not tell which it has. */
const PORT = 5672;

/** Where clients connect: the host that the browser has this page from. @param {{ protocol: string, port: number }[]} listeners */
function address(listeners) {
  const plain = listeners.find((one) => one.protocol === 'amqp'), secure = plain ? undefined : listeners.find((one) => one.protocol === 'amqp/ssl');
  const name = user.peek()?.name ?? '', password = name === 'guest' ? 'guest' : say.password;
  const who = `${encodeURIComponent(name).replaceAll("'", '%27')}:${password}`;
  return `${secure ? 'amqps' : 'amqp'}://${who}@${location.hostname}:${plain?.port ?? secure?.port ?? PORT}/%2F`;
}

/** A text that can be copied. @param {string} name @param {() => string} words */
const copied = (name, words) => h('div', { class: 'snippet' }, h('pre', { tabindex: 0, role: 'group', 'aria-label': name }, h('code', null, words)),
  h('button', { type: 'button', 'aria-label': say.copy(name), onclick: () => void attempt(() => copy(words()), text.copied) }, text.copy));

/**
 * Three steps, for users that may declare; they end with the first queue.
 * @param {() => { queues: number, listeners: { protocol: string, port: number }[] }} about
 */
export function firstRun(about) {
  if (!may('administrator')) return null;
  const where = computed(() => address(about().listeners)), isThere = computed(() => about().queues > 0);
  const open = () => SNIPPETS.find((one) => one.key === said('language')) ?? SNIPPETS[0];
  return card(say.title, h('ol', { class: 'steps' },
    h('li', null, h('b', null, say.user), h('p', null, say.userWhy, ' ', h('a', { href: to(['users']) }, say.addUser))),
    h('li', null, h('b', null, say.message),
      tabs(SNIPPETS.map((one) => [one.key, one.name]), () => open().key, (key) => to([''], { language: key === SNIPPETS[0].key ? '' : key })),
      () => copied(say.install, () => open().install), () => copied(say.code(open().name), () => open().code(where.value)),
      user.peek()?.name === 'guest' ? null : h('p', { class: 'pale' }, say.passwordWhy(say.password))),
    h('li', null, h('b', null, say.see), h('p', { role: 'status' }, () => (isThere.value ? [say.there, ' ', queueLink('/', 'hello')] : say.seeWhy)))));
}
