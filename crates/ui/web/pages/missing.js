// @ts-check
/** An address that means no page: the words of it are looked for. */
import { h } from '../core.js';
import { openPalette } from '../palette.js';
import { text } from '../text.js';

/** @param {string[]} path */
export default function missing(path) {
  const words = path.filter(Boolean).at(-1) ?? '';
  setTimeout(() => openPalette(words));
  return [h('h1', null, text.missing.title), h('p', null, text.missing.what(`#/${path.join('/')}`)),
    h('p', null, h('button', { type: 'button', onclick: () => openPalette(words) }, text.goTo))];
}
