// @ts-check
/** The login: alone at first, over the page once a session is over. */
import { Refused, logIn, user } from './api.js';
import { effect, h, signal } from './core.js';
import { text } from './text.js';

/** @param {unknown} error */
function why(error) {
  if (!(error instanceof Refused)) return String(error);
  if (error.status === 429) return text.login.held;
  if (error.status === 401) return /Not management user/.test(error.message) ? text.login.noTag : text.login.wrong;
  return error.message;
}

/** @param {boolean} isOver  a page is behind it, with what was typed there */
function form(isOver) {
  const refused = signal(''), isBusy = signal(false);
  const name = /** @type {HTMLInputElement} */ (h('input', { name: 'username', autocomplete: 'username', required: true, autofocus: true, spellcheck: 'false', autocapitalize: 'none' }));
  const password = /** @type {HTMLInputElement} */ (h('input', { name: 'password', type: 'password', autocomplete: 'current-password' }));
  const element = h('form', { 'aria-labelledby': 'login-title', onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (isBusy.peek()) return;
    isBusy.value = true; refused.value = '';
    try { await logIn(name.value, password.value); } catch (error) {
      refused.value = why(error);
      password.value = '';
      password.focus();
    } finally { isBusy.value = false; }
  } },
  h('h1', { id: 'login-title' }, isOver ? text.login.title : 'Leveret'),
  isOver && h('p', null, text.login.again),
  h('label', null, text.login.user, name), h('label', null, text.login.password, password),
  h('div', { role: 'alert' }, () => (refused.value ? h('p', { class: 'band bad' }, refused.value) : null)),
  h('button', { class: 'main', disabled: () => isBusy.value }, text.login.button));
  setTimeout(() => name.focus());
  return element;
}

let hasBeenIn = false;

/** What stands before, or over, the page while nobody is logged in. */
export function login() {
  return () => {
    if (user.value) { hasBeenIn = true; return null; }
    if (user.value === undefined) return null;
    return h('div', { class: hasBeenIn ? 'login over' : 'login', role: hasBeenIn ? 'dialog' : 'main', 'aria-modal': hasBeenIn ? 'true' : null, 'aria-labelledby': 'login-title' }, form(hasBeenIn));
  };
}

/** What is behind an open login cannot be reached. @param {HTMLElement} frame */
export function guard(frame) {
  effect(() => { frame.inert = !user.value; });
}
