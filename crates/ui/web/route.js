// @ts-check
/** The hash is the whole state of a page: what is shown, how it is filtered and sorted, which tab is open. */
import { computed, signal } from './core.js';

/** @typedef {{ path: string[], query: Record<string, string> }} Route */

/** @param {string} text @returns {string} */
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

/** @param {string} hash @returns {Route} */
export function parse(hash) {
  const [path, query = ''] = hash.replace(/^#/, '').split(/\?(.*)/s);
  return {
    path: path.split('/').slice(1).map(decoded),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

const hash = signal(location.hash);
addEventListener('hashchange', () => { hash.value = location.hash; });

/** What is shown now. */
export const route = computed(() => parse(hash.value));

/** The path alone: a page stays while only its query changes. */
export const place = computed(() => hash.value.replace(/\?.*$/s, '').replace(/^#?\/?/, '/'));

/**
 * The address of a page.
 * @param {string[]} path
 * @param {Record<string, string | null | undefined>} [query]
 */
export function to(path, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value != null && value !== '');
  const asked = new URLSearchParams(/** @type {[string, string][]} */ (pairs)).toString();
  // A dot alone is a step for who reads the address as a path.
  const names = path.map((name) => encodeURIComponent(name).replace(/^\.+$/, (dots) => '%2E'.repeat(dots.length)));
  return `#/${names.join('/')}${asked ? `?${asked}` : ''}`;
}

/** Goes to a page. @param {string} address */
export function go(address) { location.hash = address; }

/**
 * Changes a part of the page's state, as a filter: the way back skips it.
 * @param {Record<string, string | null | undefined>} change  empty: not said
 */
export function say(change) {
  const { path, query } = parse(location.hash);
  history.replaceState(null, '', to(path, { ...query, ...change }));
  hash.value = location.hash;
}

/** A part of the page's state. @param {string} name @param {string} [otherwise] */
export const said = (name, otherwise = '') => route.value.query[name] ?? otherwise;
