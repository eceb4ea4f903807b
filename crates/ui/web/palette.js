// @ts-check
/** Go to anything: pages and objects by part of their name. */
import { ask, may, query } from './api.js';
import { effect, h, signal, untracked } from './core.js';
import { named } from './format.js';
import { NAV } from './pages.js';
import { go, to } from './route.js';
import { text } from './text.js';

/** Objects of a kind that are shown. */
const EACH_MAX = 8;
/** How long one types before the node is asked, in milliseconds. */
const PAUSE_MS = 120;

/** @typedef {{ name: string, kind: string, href: string }} Found */

const kinds = /** @type {[string, string, (row: any) => Found][]} */ ([
  ['queues', 'name,vhost,type', (row) => ({ name: named(row.name), kind: text.inVhost(text.kinds.queue, row.vhost), href: to(['queues', row.vhost, row.name]) })],
  ['exchanges', 'name,vhost', (row) => ({ name: named(row.name), kind: text.inVhost(text.kinds.exchange, row.vhost), href: to(['exchanges', row.vhost, row.name]) })],
  ['connections', 'name,user', (row) => ({ name: row.name, kind: text.kinds.connection, href: to(['connections', row.name]) })],
]);

/** @param {string} words @returns {Found[]} */
function pages(words) {
  return NAV.flatMap(([, all]) => all).filter(([, name, tag]) => (!tag || may(tag)) && name.toLowerCase().includes(words.toLowerCase()))
    .map(([where, name]) => ({ name, kind: text.kinds.page, href: `#/${where}` }));
}

/** @param {string} words @returns {Promise<Found[]>} */
async function objects(words) {
  if (!words) return [];
  const asked = { name: words, use_regex: 'false', page: 1, page_size: EACH_MAX, pagination: 'true' };
  const all = await Promise.allSettled(kinds.map(async ([list, columns, show]) => (
    (await ask(`${list}${query({ ...asked, columns })}`)).items.map(show))));
  return all.flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
}

/** @param {string} words  typed already */
export function openPalette(words) {
  if (document.querySelector('dialog[open]')) return;
  const typed = signal(words), found = signal(pages(words)), on = signal(0);
  let dialog = /** @type {HTMLDialogElement} */ (/** @type {unknown} */ (null));
  const open = (/** @type {Found | undefined} */ one) => { if (one) { dialog.close(); go(one.href); } };
  const end = effect(() => untracked(() => {
    const box = h('input', {
      type: 'search', value: words, role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'palette-list', 'aria-label': text.goTo,
      'aria-activedescendant': () => `palette-${on.value}`, placeholder: text.goTo, autofocus: true, class: 'wide',
      oninput: (/** @type {Event} */ event) => { typed.value = /** @type {HTMLInputElement} */ (event.target).value; },
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
        if (step) {
          on.value = Math.max(0, Math.min(found.peek().length - 1, on.peek() + step));
          document.getElementById(`palette-${on.peek()}`)?.scrollIntoView({ block: 'nearest' });
          event.preventDefault();
        } else if (event.key === 'Enter') { open(found.peek()[on.peek()]); event.preventDefault(); }
      },
    });
    dialog = /** @type {HTMLDialogElement} */ (h('dialog', { class: 'palette', 'aria-label': text.goTo }, h('form', { method: 'dialog' }, box,
      h('ul', { role: 'listbox', id: 'palette-list', 'aria-label': text.goTo }, () => found.value.map((one, at) => h('li', {
        role: 'option', id: `palette-${at}`, 'aria-selected': () => (on.value === at ? 'true' : 'false'), onclick: () => open(one),
      }, h('span', null, one.name), h('span', { class: 'pale' }, one.kind)))),
      h('div', { role: 'status' }, () => (found.value.length ? null : h('p', { class: 'pale' }, text.table.noMatch(typed.value)))))));
    let asked = 0;
    effect(() => {
      const now = typed.value, mine = ++asked;
      const own = pages(now);
      untracked(() => { found.value = own; on.value = 0; });
      setTimeout(async () => {
        if (mine !== asked) return;
        const more = await objects(now.trim());
        if (mine === asked) found.value = [...own, ...more];
      }, PAUSE_MS);
    });
  }));
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  const shown = dialog;
  document.body.append(shown);
  shown.addEventListener('close', () => { end(); shown.remove(); before?.focus?.(); });
  shown.addEventListener('click', (event) => { if (event.target === shown) shown.close(); });
  shown.showModal();
}
