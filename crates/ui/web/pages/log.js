// @ts-check
/** The log of the node as it is written: the lines of a level that have some words in them. */
import { listen, query, user } from '../api.js';
import { copy } from '../copy.js';
import { computed, effect, h, signal, whenGone } from '../core.js';
import { attempt } from '../dialog.js';
import { visible } from '../format.js';
import { badge } from '../parts.js';
import { said, say as remember } from '../route.js';
import { text } from '../text.js';

const say = text.log;
/** Lines that are kept. */
const LINES_MAX = 1000;
/** Lines that are asked for at first. */
const LAST = 100;
/** How long one types before the node is asked, in milliseconds. */
const PAUSE_MS = 300;
/** Pixels from the end that still count as the end. */
const NEAR = 8;
/** How long a movement of the hand lasts, in milliseconds. */
const TOUCHED_MS = 1000;

/** @typedef {{ level: string, line: string }} Line */

/** @type {Record<string, 'bad' | 'warn' | ''>} */
const KINDS = { warning: 'warn', error: 'bad', critical: 'bad' };

/** Day, time and text of a line in the usual pattern; of any other pattern the whole line is the text. @param {string} line */
function parts(line) {
  const found = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d\.\d{3})\S* \[\w+\] +(?:<[^>]*> )?(.*)$/s.exec(line);
  return found ? { day: found[1], time: found[2], words: found[3] } : { day: '', time: '', words: line };
}

/** @param {Line} it */
function row({ level, line }) {
  const { day, time, words } = parts(line);
  return h('div', { class: 'log-line', tabindex: -1 },
    h('span', { class: 'log-time' }, h('span', { class: 'log-day' }, day, ' '), time), h('span', null, badge(level, KINDS[level] ?? '')),
    h('code', null, visible(words).replaceAll('\\u{a}', '\n')),
    h('button', { type: 'button', class: 'link small', tabindex: -1, onclick: () => void attempt(() => copy(line), text.copied) }, text.copy));
}

/** Moves between lines by keys, and copies the line that has the focus. @param {HTMLElement} box @param {KeyboardEvent} event */
function onKey(box, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const lines = /** @type {HTMLElement[]} */ ([...box.children]);
  const on = lines.findIndex((one) => one.contains(document.activeElement));
  const step = event.key === 'ArrowDown' || event.key === 'j' ? 1 : event.key === 'ArrowUp' || event.key === 'k' ? -1 : 0;
  if (step) {
    lines[Math.max(0, Math.min(lines.length - 1, on < 0 ? lines.length - 1 : on + step))]?.focus();
    event.preventDefault();
  } else if (event.key === 'c' && on >= 0) {
    lines[on].querySelector('button')?.click();
    event.preventDefault();
  }
}

export default function log() {
  const level = computed(() => said('level', 'debug')), words = computed(() => said('text'));
  const isOpen = signal(false), isHeard = signal(false), isStopped = signal(false), isAtEnd = signal(true);
  const kept = signal(0), waiting = signal(0), missed = signal(0), refused = signal('');
  /** When somebody scrolled last. */
  let touchedAt = 0;
  const box = h('div', {
    class: 'log', role: 'log', 'aria-live': 'off', 'aria-label': say.title, tabindex: 0,
    onkeydown: (/** @type {KeyboardEvent} */ event) => { touchedAt = Date.now(); onKey(box, event); },
    onwheel: () => { touchedAt = Date.now(); }, onpointerdown: () => { touchedAt = Date.now(); }, ontouchmove: () => { touchedAt = Date.now(); },
    onscroll: () => {
      const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
      // Lines have their height only once they are drawn: the end moves by itself, and nobody has left it.
      if (isNear || Date.now() - touchedAt < TOUCHED_MS) isAtEnd.value = isNear;
    },
  });
  const toEnd = () => { box.scrollTop = box.scrollHeight; };
  /** @type {Line[]} lines that came since the list was stopped */
  let held = [];

  /** @param {Line[]} lines */
  const show = (lines) => {
    const follows = isAtEnd.peek();
    box.append(...lines.slice(-LINES_MAX).map(row));
    const tall = box.scrollHeight;
    while (box.children.length > LINES_MAX) box.firstElementChild?.remove();
    kept.value = box.children.length;
    // Lines that are being read stay where they are, also when those above them leave.
    if (follows) { toEnd(); requestAnimationFrame(toEnd); } else box.scrollTop -= tall - box.scrollHeight;
  };
  /** @param {Line[]} lines @param {number} lost  lines that the node has no longer */
  const take = (lines, lost) => {
    missed.value += lost;
    if (!isStopped.peek()) { show(lines); return; }
    held.push(...lines);
    missed.value += Math.max(0, held.length - LINES_MAX);
    held = held.slice(-LINES_MAX);
    waiting.value = held.length;
  };
  const flip = () => {
    isStopped.value = !isStopped.peek();
    if (isStopped.peek()) return;
    show(held);
    held = [];
    waiting.value = 0;
  };

  /** The filter that the lines are of, the last of them, and whether they may come once more. */
  let filter = '', last = '', isAgain = false;
  /** @param {{ lines: Line[], missed: number }} told */
  const hear = (told) => {
    if (!isHeard.peek()) {
      box.replaceChildren();
      held = [];
      missed.value = 0; waiting.value = 0; isAtEnd.value = true;
      show(told.lines);
    } else {
      // A connection that was lost begins with lines that are here already.
      take(isAgain ? told.lines.slice(told.lines.findLastIndex((one) => one.line === last) + 1) : told.lines, told.missed);
    }
    last = told.lines.at(-1)?.line ?? last;
    isAgain = false;
    isHeard.value = true;
  };
  effect(() => {
    const asked = { level: level.value, text: words.value }, wanted = JSON.stringify(asked), isSame = filter === wanted;
    // Whoever logs in again goes on where the session ended.
    if (!user.value) return;
    /** @type {() => void} */
    let end = () => {};
    const timer = setTimeout(() => {
      filter = wanted;
      if (isSame) isAgain = isHeard.peek(); else isHeard.value = false;
      end = listen(() => `x/log${query({ ...asked, last: isAgain ? LINES_MAX : LAST })}`, { lines: hear },
        (open) => { isOpen.value = open; if (open) refused.value = ''; else isAgain = isHeard.peek(); },
        (why) => { refused.value = why.message; return why.status < 500; });
    }, filter === '' || isSame ? 0 : PAUSE_MS);
    whenGone(() => { clearTimeout(timer); end(); });
  });

  const tools = h('div', { class: 'tools' },
    h('input', {
      type: 'search', class: 'filter', id: 'filter', placeholder: say.filterHint, 'aria-label': say.filter, value: words.peek(), spellcheck: 'false',
      oninput: (/** @type {Event} */ event) => remember({ text: /** @type {HTMLInputElement} */ (event.target).value }),
    }),
    h('select', { 'aria-label': say.level, onchange: (/** @type {Event} */ event) => { const to = /** @type {HTMLSelectElement} */ (event.target).value; remember({ level: to === 'debug' ? null : to }); } },
      Object.entries(say.levels).map(([key, name]) => h('option', { value: key, selected: level.peek() === key }, name))),
    h('button', { type: 'button', onclick: flip }, () => (isStopped.value ? say.goOn(waiting.value) : say.stop)),
    h('button', { type: 'button', disabled: () => isAtEnd.value, onclick: toEnd }, say.toEnd),
    h('span', { class: 'end pale' }, () => say.lines(kept.value)),
    h('span', { role: 'status' }, () => (isStopped.value ? badge(say.stopped, 'warn') : isOpen.value ? badge(say.live, 'good') : badge(say.closed, 'bad'))));
  return [
    h('h1', null, say.title), tools,
    h('div', { role: 'status', class: 'notes' },
      () => (refused.value ? h('p', { class: 'band bad' }, text.refused(refused.value)) : null),
      () => (missed.value > 0 ? h('p', { class: 'band warn' }, say.missed(missed.value)) : null),
      () => (isHeard.value && kept.value === 0 && waiting.value === 0 ? h('p', { class: 'empty' }, words.value ? text.table.noMatch(words.value) : say.empty) : null)),
    box,
  ];
}
