// @ts-check
/**
 * What the node tells each second, once for all tabs of a browser: one of them listens and tells the others. A browser has
 * six connections to a place, and a tab that held one would leave little to the others.
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

channel.onmessage = (event) => take(event.data);

/** @type {(() => void) | null} */
let end = null;

async function lead() {
  await navigator.locks.request(channel.name, () => new Promise((leave) => {
    const close = listen('x/events', {
      rates: (told) => { take(told); channel.postMessage(told); },
    }, (isOpen) => { if (!isOpen) isLive.value = false; });
    end = () => { close(); leave(undefined); };
  }));
}

effect(() => {
  if (user.value && !end) {
    end = () => {};
    void lead();
  } else if (user.value === null && end) {
    end();
    end = null;
  }
});
