// @ts-check
/**
 * What the node tells each second, once for all tabs of a browser: one of them listens and tells the others. A browser has
 * six connections to a place, and a tab that held one would leave little to the others. Where there are no locks each listens.
 */
import { listen, user } from './api.js';
import { effect, signal } from './core.js';

/** Seconds that are kept. */
const KEPT = 600;

/** @typedef {{ timestamp: number, milliseconds: number | null, message_stats: Record<string, any>, node?: any }} Told */

/** What was told last. */
export const now = signal(/** @type {Told | null} */ (null));

/** What was told in the last minutes, the newest last. */
export const past = signal(/** @type {Told[]} */ ([]));

/** Whether somebody is listening for this tab. */
export const isLive = signal(false);

const channel = new BroadcastChannel(`leveret-live${new URL('.', document.baseURI).pathname}`);

/** @param {Told} told */
function take(told) {
  isLive.value = true;
  now.value = told;
  // The first of a stream knows no rates.
  if (told.milliseconds) past.value = [...past.peek().slice(-KEPT + 1), told];
}

channel.onmessage = (event) => { if (user.peek()) take(event.data); };

/** @type {AbortController | null} what ends it, while somebody is logged in */
let listening = null;

/** Listens until it is over, and tells the other tabs. @param {AbortSignal} over */
const lead = (over) => new Promise((leave) => {
  const close = listen('x/events', {
    rates: (told) => { take(told); channel.postMessage(told); },
  }, (isOpen) => { if (!isOpen) isLive.value = false; });
  over.addEventListener('abort', () => { close(); leave(undefined); });
});

effect(() => {
  if (user.value && !listening) {
    listening = new AbortController();
    const over = listening.signal;
    // Over plain HTTP to another machine browsers have no locks: each tab listens for itself then.
    if (!navigator.locks) void lead(over);
    else navigator.locks.request(channel.name, { signal: over }, () => lead(over)).catch(() => { /* it waited until it was over */ });
  } else if (user.value === null && listening) {
    listening.abort();
    listening = null;
    // Another user sees other things.
    now.value = null; past.value = []; isLive.value = false;
  }
});
