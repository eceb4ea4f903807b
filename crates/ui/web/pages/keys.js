// @ts-check
/** The map of the keyboard as a page. */
import { h } from '../core.js';
import { keyTable } from '../keys.js';
import { card } from '../parts.js';
import { text } from '../text.js';

export default function keys() {
  return [h('h1', null, text.keys), h('p', { class: 'pale' }, text.keyboard.what), card(text.keys, keyTable())];
}
