// @ts-check
/**
 * A search among messages, and messages followed as they come. A search goes on piece by piece, each a short request, until it
 * is stopped, has found enough, or has looked at all: to stop it is to ask no more.
 */
import { ask, listen, query } from './api.js';
import { signal, whenGone } from './core.js';

/** Messages that are found before it waits to be told to go on; those that are kept; bytes of each that are shown. */
const ENOUGH = 100, KEPT = 5000, SHOWN = 4096;
/** Messages of one event, and those that are kept of what is followed. */
const AN_EVENT = 100, FOLLOWED = 1000;

/** @typedef {'running' | 'stopped' | 'enough' | 'over' | 'refused'} State */

/** The places that messages of a queue, or of a stream, have. @param {boolean} isStream */
const keys = (isStream) => (isStream ? { begin: 'from', next: 'next', end: 'end_offset', place: 'offset' } : { begin: 'position', next: 'next_position', end: 'end_position', place: 'position' });

/**
 * Begins a search.
 * @param {{ where: string, condition: string, isStream: boolean, begin: Record<string, any>, enough?: number }} it  `where`: the queue below `/api`
 */
export function searching(it) {
  const { next: nextKey, begin: beginKey } = keys(it.isStream);
  const found = signal(/** @type {any[]} */ ([])), scanned = signal(0), state = signal(/** @type {State} */ ('running')), refused = signal(''), rate = signal(0);
  let begin = it.begin, most = it.enough ?? ENOUGH;
  /** @type {AbortController | null} */
  let asking = null;
  const run = async () => {
    asking = new AbortController();
    const own = asking, began = performance.now(), before = scanned.peek();
    state.value = 'running';
    try {
      while (state.peek() === 'running') {
        const got = await ask(`${it.where}/messages${query({ ...begin, where: it.condition, count: Math.min(500, most - found.peek().length), truncate: SHOWN })}`, { signal: own.signal });
        if (own.signal.aborted) return;
        scanned.value += got.scanned;
        rate.value = (scanned.peek() - before) * 1000 / Math.max(1, performance.now() - began);
        if (got.messages.length) found.value = [...found.peek(), ...got.messages];
        begin = { [beginKey]: got[nextKey] ?? '' };
        if (got[nextKey] == null) state.value = 'over';
        else if (found.peek().length >= most) state.value = 'enough';
      }
    } catch (error) {
      if (own.signal.aborted) return;
      refused.value = /** @type {Error} */ (error).message;
      state.value = 'refused';
    }
  };
  const stop = () => { if (state.peek() === 'running') state.value = 'stopped'; asking?.abort(); };
  const more = () => { most = Math.min(KEPT, found.peek().length + (it.enough ?? ENOUGH)); void run(); };
  whenGone(stop);
  void run();
  return { found, scanned, state, refused, rate, stop, more, isFull: () => found.value.length >= KEPT };
}

/**
 * Follows messages as they come. What was shown stays when it is stopped; a page that nobody sees holds no connection.
 * @param {{ where: string, condition: string, isStream: boolean }} it
 */
export function following(it) {
  const { begin: beginKey } = keys(it.isStream);
  const rows = signal(/** @type {any[]} */ ([])), came = signal(0), unseen = signal(0), isOn = signal(true), refused = signal('');
  /** @type {number | null} */
  let next = null;
  /** @type {(() => void) | null} */
  let close = null;
  const open = () => {
    if (close || !isOn.peek() || document.hidden) return;
    close = listen(() => `${it.where}/tail${query({ [beginKey]: next, where: it.condition, count: AN_EVENT, truncate: SHOWN })}`, {
      messages: (told) => {
        next = told.next;
        came.value += told.came;
        unseen.value += told.unseen;
        if (told.messages.length) rows.value = [...told.messages.reverse(), ...rows.peek()].slice(0, FOLLOWED);
      },
    }, () => { /* it is asked again where that breaks off */ }, (why) => {
      refused.value = why.message;
      isOn.value = false;
      return true;
    });
  };
  const end = () => { close?.(); close = null; };
  const seen = () => (document.hidden ? end() : open());
  document.addEventListener('visibilitychange', seen);
  whenGone(() => { end(); document.removeEventListener('visibilitychange', seen); });
  open();
  return {
    rows, came, unseen, isOn, refused,
    stop: () => { isOn.value = false; end(); },
    go: () => { isOn.value = true; refused.value = ''; open(); },
  };
}

/** The place of a message. @param {any} message @param {boolean} isStream */
export const placeOf = (message, isStream) => message[keys(isStream).place];
