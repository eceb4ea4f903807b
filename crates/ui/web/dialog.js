// @ts-check
/** Questions before something is done, forms, and short notes of what was done. */
import { add, effect, h, signal, untracked } from './core.js';
import { text } from './text.js';

/** Above so many messages the name has to be typed. */
const TYPED_MIN = 1000;

/** @param {HTMLDialogElement} dialog */
function open(dialog) {
  document.body.append(dialog);
  const before = document.activeElement;
  dialog.addEventListener('close', () => { dialog.remove(); /** @type {HTMLElement | null} */ (before)?.focus?.(); });
  dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
  dialog.showModal();
}

/**
 * A form in a dialog. `act` may refuse: then the dialog stays, with what was typed, and says why.
 * @param {{ title: string, body: () => any, verb: string, act: (data: FormData, form: HTMLFormElement) => Promise<any>, isDanger?: boolean, ready?: () => boolean }} it
 * @returns {Promise<boolean>} whether it was done
 */
export function ask(it) {
  return new Promise((resolve) => {
    const why = signal(''), isBusy = signal(false);
    let isDone = false;
    let dialog = /** @type {HTMLDialogElement} */ (/** @type {unknown} */ (null));
    const end = effect(() => untracked(() => {
      const form = /** @type {HTMLFormElement} */ (h('form', { method: 'dialog', onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        if (isBusy.peek()) return;
        isBusy.value = true;
        try {
          await it.act(new FormData(form), form);
          isDone = true;
          dialog.close();
        } catch (error) { why.value = /** @type {Error} */ (error).message; } finally { isBusy.value = false; }
      } },
      h('h2', { id: 'dialog-title' }, it.title), it.body(),
      h('div', { role: 'alert' }, () => (why.value ? h('p', { class: 'band bad' }, why.value) : null)),
      h('div', { class: 'tools' },
        h('button', { type: 'button', onclick: () => dialog.close() }, text.cancel),
        h('button', { class: it.isDanger ? 'danger' : 'main', disabled: () => isBusy.value || it.ready?.() === false }, it.verb))));
      dialog = /** @type {HTMLDialogElement} */ (h('dialog', { 'aria-labelledby': 'dialog-title' }, form));
    }));
    open(dialog);
    dialog.addEventListener('close', () => { end(); resolve(isDone); });
  });
}

/**
 * A question before something is destroyed: it names what, and how much. Above a thousand messages, or where somebody
 * consumes, the name is to be typed.
 * @param {{ title: string, why?: any, verb: string, name: string, messages?: number, isUsed?: boolean, act: () => Promise<any> }} it
 */
export function confirm(it) {
  const typed = signal('');
  const isTyped = (it.messages ?? 0) > TYPED_MIN || !!it.isUsed;
  return ask({
    title: it.title, verb: it.verb, isDanger: true,
    ready: () => !isTyped || typed.value === it.name,
    body: () => [it.why && h('p', null, it.why), isTyped && h('label', { class: 'form' }, h('span', { class: 'wide' }, text.typeName(it.name)),
      h('input', { class: 'wide', autocomplete: 'off', spellcheck: 'false', oninput: (/** @type {Event} */ event) => { typed.value = /** @type {HTMLInputElement} */ (event.target).value; } }))],
    act: it.act,
  });
}

/** Notes that are shown at once. */
const NOTES_MAX = 3;

const toasts = h('div', { class: 'toasts', role: 'status' });

/** Says shortly what was done. @param {any} what @param {'good' | 'bad' | 'warn'} [kind] */
export function note(what, kind = 'good') {
  if (!toasts.isConnected) document.body.append(toasts);
  const one = h('div', { class: `band ${kind}` });
  add(one, what);
  toasts.append(one);
  // Many would cover what is below them.
  while (toasts.children.length > NOTES_MAX) toasts.firstElementChild?.remove();
  setTimeout(() => one.remove(), 6000);
}

/** Does something, and says why not where it is refused. @param {() => Promise<any>} work @param {any} [done] */
export async function attempt(work, done) {
  try {
    const got = await work();
    if (done) note(done);
    return got;
  } catch (error) {
    note(/** @type {Error} */ (error).message, 'bad');
    return undefined;
  }
}
