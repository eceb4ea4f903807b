// @ts-check
/** The keyboard: letters that go somewhere, and the map of them. */
import { user } from './api.js';
import { ask } from './dialog.js';
import { h } from './core.js';
import { NAV } from './pages.js';
import { openPalette } from './palette.js';
import { go } from './route.js';
import { text } from './text.js';

/** How long the second letter of two is waited for, in milliseconds. */
const SECOND_MS = 1500;

/** @param {Element | null} element */
const isTyping = (element) => element instanceof HTMLInputElement && element.type !== 'checkbox'
  || element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement;

export function showKeys() {
  const pages = NAV.flatMap(([, all]) => all).filter(([, , , letter]) => letter);
  const row = (/** @type {string[]} */ keys, /** @type {string} */ what) => h('tr', null, h('td', null, keys.map((key) => [h('kbd', null, key), ' '])), h('td', null, what));
  void ask({
    title: text.keys, verb: text.close, act: async () => {},
    body: () => h('table', { class: 'plain' }, h('tbody', null,
      row(['Ctrl', 'K'], text.goTo), row(['/'], text.keyboard.filter), row(['j', 'k'], text.keyboard.rows), row(['Enter'], text.keyboard.open),
      row(['x'], text.keyboard.select), row(['Esc'], text.keyboard.back), row(['?'], text.keyboard.map),
      pages.map(([, name, , letter]) => row(['g', letter], name)))),
  });
}

let sawG = 0;

/** Hears keys, for as long as the page is there. */
export function hearKeys() {
  addEventListener('keydown', (event) => {
    if (!user.peek()) return;
    if (event.key === 'k' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      openPalette('');
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    if (event.key === 'Escape') {
      if (isTyping(document.activeElement)) /** @type {HTMLElement} */ (document.activeElement).blur();
      return;
    }
    if (isTyping(document.activeElement)) return;
    if (event.key === '/') {
      document.getElementById('filter')?.focus();
      event.preventDefault();
    } else if (event.key === '?') showKeys();
    else if (event.key === 'g') sawG = Date.now();
    else if (Date.now() - sawG < SECOND_MS) {
      const page = NAV.flatMap(([, all]) => all).find(([, , , letter]) => letter === event.key);
      sawG = 0;
      if (page) go(`#/${page[0]}`);
    }
  });
}
