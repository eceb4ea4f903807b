// @ts-check
/** Text to the clipboard. */
import { h } from './core.js';
import { text } from './text.js';

/** @param {string} words */
export async function copy(words) {
  if (navigator.clipboard) return navigator.clipboard.writeText(words);
  // Browsers have no clipboard over plain HTTP to another machine: text that is selected can be copied there too.
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  const area = /** @type {HTMLTextAreaElement} */ (h('textarea', { class: 'unseen', value: words, 'aria-hidden': 'true' }));
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand('copy');
  area.remove();
  before?.focus?.();
  if (!isCopied) throw new Error(text.notCopied);
  return undefined;
}
