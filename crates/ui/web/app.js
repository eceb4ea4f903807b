// @ts-check
/** The beginning: who is there, then the frame, or the login, and the rest once that is seen. */
import { seeWhoIsThere, user } from './api.js';
import { add, effect, h, signal } from './core.js';
import { guard, login } from './login.js';
import './theme.js';

/** How long after the first look the rest is asked for, in milliseconds. */
const AFTER_MS = 250;

/** The frame is made once somebody is there, and stays when their session is over. */
const frame = signal(/** @type {HTMLElement | null} */ (null));
/** @type {string | null} */
let whose = null;

effect(() => {
  const now = user.value;
  if (!now || now.name === whose) return;
  // Another user sees other things: nothing of the one before is left.
  whose = now.name;
  const box = h('div', { class: 'whole' });
  frame.value = box;
  void import('./shell.js').then(({ shell }) => {
    if (frame.peek() !== box) return;
    box.append(shell());
    guard(box);
  });
});
add(document.body, [() => frame.value, login()]);
void seeWhoIsThere().then(() => {
  // Once the login is seen: whoever types a password meanwhile waits for less then.
  requestAnimationFrame(() => setTimeout(() => void import('./shell.js').then(() => import('./pages/overview.js')), AFTER_MS));
});
