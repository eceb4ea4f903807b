// @ts-check
/**
 * The box of a condition on messages: the node reads it while it is typed and says what is wrong with it and where; names that
 * messages have are offered, the fields of their JSON among them.
 */
import { ask, post } from './api.js';
import { bytesOf } from './bodies.js';
import { computed, effect, h, signal, untracked, whenGone } from './core.js';
import { text } from './text.js';

const say = text.messages;
/** How long one types before the node is asked, in milliseconds. */
const PAUSE_MS = 200;
/** Names that are offered at once; messages whose bodies are looked into for them, bytes of each, and names and depth of one. */
const OFFERED = 12, SAMPLES = 20, SAMPLE_BYTES = 1 << 16, NAMES = 200, DEPTH = 6;
/** The name that stands before the caret, if one does. */
const NAME = /(?:^|[\s(,=<>+*-])((?:[A-Za-z_][\w-]*|\/)(?:[\w./@[\]'-]*))$/;

/** Names that every message may have. */
const ALWAYS = ['properties.content_type', 'properties.correlation_id', 'properties.creation_time', 'properties.group_id', 'properties.message_id', 'properties.reply_to', 'properties.subject', 'properties.user_id', 'header.priority'];

/** A step to a member, as it is written behind a path. @param {string} name */
const step = (name) => (/^[A-Za-z_]\w*$/.test(name) ? `.${name}` : `['${name.replaceAll("'", "''")}']`);

/** The paths of what is in a value. @param {any} value @param {string} at @param {Set<string>} into @param {number} depth */
function paths(value, at, into, depth) {
  if (into.size >= NAMES || depth > DEPTH || value === null || typeof value !== 'object') return;
  // A step at a list goes to each of its elements.
  for (const [name, one] of Array.isArray(value) ? value.slice(0, SAMPLES).map((it) => ['', it]) : Object.entries(value)) {
    const below = name === '' && Array.isArray(value) ? at : at + step(name);
    if (into.size < NAMES && below !== at) into.add(below);
    paths(one, below, into, depth + 1);
  }
}

/** The names that some messages have. @param {any[]} messages @returns {string[]} */
export function namesOf(messages) {
  const bodies = new Set(/** @type {string[]} */ ([])), headers = new Set(/** @type {string[]} */ ([]));
  for (const message of messages.slice(0, SAMPLES)) {
    for (const name of Object.keys(message.properties?.headers ?? {})) {
      if (name.startsWith('x-')) headers.add(`annotations['${name}']`);
      else headers.add(/^[A-Za-z_]\w*$/.test(name) ? name : `['${name.replaceAll("'", "''")}']`);
    }
    if (typeof message.payload !== 'string' || message.payload.length > SAMPLE_BYTES) continue;
    try { paths(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytesOf(message))), 'body', bodies, 0); } catch { /* it is no JSON, or cut off */ }
  }
  return [...[...bodies].sort(), ...[...headers].sort(), ...ALWAYS];
}

/**
 * The box, and what stands below it.
 * @param {{ id: string, value: string, messages: () => any[], where?: string, vhost?: string }} it  `messages`: those that are shown; `where`: a queue
 * below `/api` whose first messages are looked at where none are shown; `vhost`: whose macros count, the usual one's if it is not said
 */
export function conditionBox(it) {
  const typed = signal(it.value), fault = signal(''), names = signal(/** @type {string[]} */ ([])), begun = signal(''), on = signal(-1);
  const offered = computed(() => {
    const begin = begun.value.toLowerCase();
    return begin ? names.value.filter((name) => name.toLowerCase().startsWith(begin) && name !== begun.value).slice(0, OFFERED) : [];
  });
  const isOpen = () => offered.value.length > 0;
  let isLooked = false;
  const look = async () => {
    if (it.messages().length) names.value = namesOf(it.messages());
    else if (!isLooked && it.where) {
      isLooked = true;
      names.value = namesOf((await ask(`${it.where}/messages?count=${SAMPLES}&truncate=${SAMPLE_BYTES}`).catch(() => ({ messages: [] }))).messages);
    } else if (!names.peek().length) names.value = ALWAYS;
  };
  const box = /** @type {HTMLInputElement} */ (h('input', {
    id: it.id, class: 'filter mono', 'aria-label': say.where, placeholder: say.whereHint, value: it.value, spellcheck: 'false', autocomplete: 'off',
    role: 'combobox', 'aria-autocomplete': 'list', 'aria-controls': `${it.id}-names`, 'aria-expanded': () => String(isOpen()),
    'aria-activedescendant': () => (isOpen() && on.value >= 0 ? `${it.id}-${on.value}` : null), 'aria-invalid': () => (fault.value ? 'true' : null), 'aria-describedby': `${it.id}-fault`,
    onfocus: () => void look(),
    oninput: () => {
      typed.value = box.value;
      begun.value = NAME.exec(box.value.slice(0, box.selectionStart ?? box.value.length))?.[1] ?? '';
      on.value = -1;
      void look();
    },
    onblur: () => { begun.value = ''; },
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (!offered.peek().length) return;
      const move = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
      if (move) on.value = Math.max(-1, Math.min(offered.peek().length - 1, on.peek() + move));
      else if (event.key === 'Escape') begun.value = '';
      else if ((event.key === 'Enter' || event.key === 'Tab') && on.peek() >= 0) take(offered.peek()[on.peek()]);
      else return;
      event.preventDefault();
    },
  }));
  const take = (/** @type {string} */ name) => {
    const caret = box.selectionStart ?? box.value.length, before = caret - begun.peek().length;
    box.setRangeText(name, before, caret, 'end');
    typed.value = box.value;
    begun.value = '';
    box.focus();
  };
  let asked = 0;
  effect(() => {
    const filter = typed.value.trim(), mine = ++asked;
    if (!filter) { untracked(() => { fault.value = ''; }); return; }
    setTimeout(async () => {
      if (mine !== asked) return;
      const told = await post('x/filter/check', { filter, vhost: it.vhost, as_answer: true }).catch(() => ({}));
      if (mine === asked) fault.value = told.fault ?? '';
    }, PAUSE_MS);
  });
  whenGone(() => { asked += 1; });
  const element = h('div', { class: 'condition' }, box,
    h('ul', { role: 'listbox', id: `${it.id}-names`, 'aria-label': say.names, hidden: () => !isOpen() }, () => offered.value.map((name, at) => h('li', {
      role: 'option', id: `${it.id}-${at}`, class: 'mono', 'aria-selected': () => String(on.value === at),
      // Before the box loses the caret.
      onmousedown: (/** @type {Event} */ event) => { event.preventDefault(); take(name); },
    }, name))),
    h('p', { id: `${it.id}-fault`, class: 'fault', role: 'status' }, () => fault.value));
  return { box, element };
}
