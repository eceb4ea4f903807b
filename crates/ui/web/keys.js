// @ts-check
/** The keyboard: letters that go somewhere, and the map of them. */
import { may, user } from './api.js';
import { h } from './core.js';
import { NAV } from './pages.js';
import { go } from './route.js';
import { text } from './text.js';

/** How long the second letter of two is waited for, in milliseconds. */
const SECOND_MS = 1500;

/** @param {Element | null} element */
const isTyping = (element) => element instanceof HTMLInputElement && element.type !== 'checkbox'
  || element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement;

/** Keys, and what each does. @returns {[string[], string][]} */
const rows = () => [
  [['Ctrl', 'K'], text.goTo], [['/'], text.keyboard.filter], [['j', 'k'], text.keyboard.rows], [['Enter'], text.keyboard.open],
  [['x'], text.keyboard.select], [['c'], text.keyboard.copy], [['Esc'], text.keyboard.back], [['?'], text.keyboard.map],
  ...NAV.flatMap(([, all]) => all).filter(([, , tag, letter]) => letter && (!tag || may(tag))).map(([, name, , letter]) => /** @type {[string[], string]} */ ([['g', letter], name])),
];

/** The map of keys. */
export const keyTable = () => h('table', { class: 'plain' }, h('tbody', null,
  rows().map(([keys, what]) => h('tr', null, h('td', null, keys.map((key) => [h('kbd', null, key), ' '])), h('td', null, what)))));

/** @param {string} words  typed already */
export async function openPalette(words) {
  (await import('./palette.js')).openPalette(words);
}

export async function showKeys() {
  const { ask } = await import('./dialog.js');
  if (document.querySelector('dialog[open]')) return;
  void ask({ title: text.keys, verb: text.close, act: async () => {}, body: keyTable });
}

let sawG = 0;

/** Hears keys, for as long as the page is there. */
export function hearKeys() {
  addEventListener('keydown', (event) => {
    if (!user.peek()) return;
    if (event.key === 'k' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void openPalette('');
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
    } else if (event.key === '?') void showKeys();
    else if (event.key === 'g') sawG = Date.now();
    else if (Date.now() - sawG < SECOND_MS) {
      const page = NAV.flatMap(([, all]) => all).find(([, , tag, letter]) => letter === event.key && (!tag || may(tag)));
      sawG = 0;
      if (page) go(`#/${page[0]}`);
    }
  });
}
