// @ts-check
/** The virtual host that lists are narrowed to. */
import { ask, path, query, user } from './api.js';
import { effect, signal } from './core.js';

/** `=` and its name, which may be empty; empty: all. */
export const vhost = signal(sessionStorage.getItem('vhost') ?? '');

/** The names of those that the user sees. */
export const vhosts = signal(/** @type {string[]} */ ([]));

effect(() => { sessionStorage.setItem('vhost', vhost.value); });
effect(() => { if (user.value) void seeVhosts(); });

export async function seeVhosts() {
  const got = await ask(`vhosts${query({ columns: 'name' })}`);
  vhosts.value = got.map((/** @type {any} */ one) => one.name);
  if (vhost.peek() && !vhosts.peek().includes(vhost.peek().slice(1))) vhost.value = '';
}

/** A list of the API, in the virtual host that was chosen. @param {string} list */
export const within = (list) => (vhost.value ? `${list}/${path(vhost.value.slice(1))}` : list);
