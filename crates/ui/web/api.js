// @ts-check
/** What the node is asked: the only module that fetches. */
import { every, signal, untracked, whenGone } from './core.js';
import { text } from './text.js';

/** @typedef {{ name: string, tags: string[], messages?: 'full' | 'headers' | 'none', cluster_name?: string }} User */

/** Below which the API is, whatever path stands before the page. */
const BASE = new URL('api/', document.baseURI);

/** Who is logged in; nothing: nobody knows yet; null: nobody. */
export const user = signal(/** @type {User | null | undefined} */ (undefined));

/** Why the last request was not answered, if it was not; and since when. */
export const away = signal(/** @type {{ why: string, since: number } | null} */ (null));

/** An answer that says no. */
export class Refused extends Error {
  /** @param {number} status @param {string} reason */
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

/**
 * A path below `/api` of names that may have any letters.
 * @param {...string} names
 */
export const path = (...names) => names.map((name) => encodeURIComponent(name)
  // An address knows steps, and no name for them.
  .replace(/^\.+$/, (dots) => '%2E'.repeat(dots.length))).join('/');

/**
 * A query: what is empty is left out.
 * @param {Record<string, string | number | boolean | null | undefined>} pairs
 */
export function query(pairs) {
  const asked = Object.entries(pairs).filter(([, value]) => value != null && value !== '' && value !== false);
  const said = new URLSearchParams(asked.map(([name, value]) => [name, String(value)])).toString();
  return said ? `?${said}` : '';
}

/**
 * An address knows `.` and `..` as steps, however they are written: names like these go as hyphens, and the query says so.
 * @param {string} where
 */
function addressed(where) {
  const [names, asked = ''] = where.split(/\?(.*)/s);
  /** @type {string[]} */
  const dots = [];
  const path = names.split('/').map((name, at) => {
    if (!/^(%2E){1,2}$/.test(name)) return name;
    dots.push(`dots=${at}`);
    return '-'.repeat(name.length / 3);
  }).join('/');
  const query = [asked, ...dots].filter(Boolean).join('&');
  return new URL(query ? `${path}?${query}` : path, BASE);
}

/** @param {string} body */
function read(body) {
  try { return JSON.parse(body); } catch { return { reason: body }; }
}

/**
 * Asks the node.
 * @param {string} where  below `/api`
 * @param {{ method?: string, body?: any, signal?: AbortSignal, reason?: string }} [how]
 * @returns {Promise<any>} what it answers; null: nothing
 */
export async function ask(where, how = {}) {
  /** @type {Response} */
  let answer;
  try {
    answer = await fetch(addressed(where), {
      method: how.method ?? 'GET',
      headers: {
        'x-leveret': '1',
        ...(how.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(how.reason ? { 'x-reason': how.reason } : {}),
      },
      body: how.body === undefined ? undefined : JSON.stringify(how.body),
      credentials: 'same-origin',
      signal: how.signal,
    });
  } catch (error) {
    if (how.signal?.aborted) throw error;
    away.value = away.peek() ?? { why: text.away, since: Date.now() };
    throw new Refused(0, text.away);
  }
  away.value = null;
  const body = await answer.text();
  if (answer.ok) return body ? JSON.parse(body) : null;
  const no = read(body);
  // What a user may not do is refused with the same status, in other words.
  if (answer.status === 401 && no.error !== 'not_authorised' && where !== 'x/session') user.value = null;
  throw new Refused(answer.status, String(no.reason ?? no.error ?? answer.statusText));
}

/** @param {string} where @param {any} [body] */
export const post = (where, body) => ask(where, { method: 'POST', body: body ?? {} });
/** @param {string} where @param {any} [body] */
export const put = (where, body) => ask(where, { method: 'PUT', body: body ?? {} });
/** @param {string} where @param {string} [reason] */
export const remove = (where, reason) => ask(where, { method: 'DELETE', reason });

/** Sees whether somebody is logged in already. */
export async function seeWhoIsThere() {
  try {
    const got = await ask('x/session');
    user.value = got.name == null ? null : got;
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 0) user.value = null;
  }
}

/** @param {string} name @param {string} password */
export async function logIn(name, password) {
  user.value = await post('x/session', { username: name, password });
}

export async function logOut() {
  try { await remove('x/session'); } finally { user.value = null; }
}

/** The parts of messages that the node shows to browsers. */
export const seesMessages = () => user.value?.messages ?? 'full';

/** Whether who is logged in may do what takes this tag. @param {string} tag */
export function may(tag) {
  const tags = user.value?.tags ?? [];
  const of = { monitoring: ['monitoring', 'administrator'], policymaker: ['policymaker', 'administrator'] };
  return (/** @type {Record<string, string[]>} */ (of)[tag] ?? [tag]).some((one) => tags.includes(one));
}

/**
 * What the node answers to a question that is asked again and again, as long as what surrounds is there.
 * @template T
 * @param {() => Promise<T>} load
 * @param {number} [milliseconds]
 */
export function polled(load, milliseconds = 5000) {
  const value = signal(/** @type {T | undefined} */ (undefined));
  const refused = signal(/** @type {Refused | null} */ (null));
  let isOver = false, isAsking = false;
  const again = async () => {
    if (isAsking || user.peek() === null) return;
    isAsking = true;
    try {
      const got = await untracked(load);
      if (isOver) return;
      value.value = got;
      refused.value = null;
    } catch (error) {
      // The numbers stay, with their age: the band above says that the node is away.
      // A session that is over has its login above the page; what a user may not do has the same status.
      if (!isOver && error instanceof Refused && error.status !== 0 && (error.status !== 401 || user.peek())) refused.value = error;
    } finally { isAsking = false; }
  };
  every(milliseconds, () => void again());
  whenGone(() => { isOver = true; });
  void again();
  return { value, refused, again };
}

/** How long it takes until a node that did not answer is listened to again, in milliseconds. */
const AGAIN_MS = 2000;

/** @param {string} lines  of one event @param {Record<string, (data: any) => void>} hear */
function told(lines, hear) {
  let name = 'message', data = '';
  for (const line of lines.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7);
    else if (line.startsWith('data: ')) data += line.slice(6);
  }
  if (data && hear[name]) hear[name](JSON.parse(data));
}

/**
 * Listens to what the node tells by itself, and again where that breaks off. An `EventSource` has no headers, and without
 * those nothing says over plain HTTP that a page of this origin asks.
 * @param {string | (() => string)} where  below `/api`; asked anew when it is listened to again
 * @param {Record<string, (data: any) => void>} hear  by the names of events
 * @param {(isOpen: boolean) => void} state
 * @param {(why: Refused) => boolean} [refuse]  told where the node says no; true: it is not asked again
 * @returns {() => void} ends it
 */
export function listen(where, hear, state, refuse) {
  const end = new AbortController();
  const run = async () => {
    const answer = await fetch(addressed(typeof where === 'string' ? where : where()), { headers: { 'x-leveret': '1' }, credentials: 'same-origin', signal: end.signal });
    if (!answer.ok || !answer.body) {
      const no = read(await answer.text());
      if (answer.status === 401 && no.error !== 'not_authorised') user.value = null;
      throw new Refused(answer.status, String(no.reason ?? no.error ?? answer.statusText));
    }
    state(true);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ''; ;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (rest + value).split('\n\n');
      rest = events.pop() ?? '';
      events.forEach((one) => told(one, hear));
    }
  };
  const again = async () => {
    while (!end.signal.aborted) {
      try { await run(); } catch (error) {
        if (!end.signal.aborted && error instanceof Refused && refuse?.(error)) return state(false);
      }
      if (end.signal.aborted) return;
      state(false);
      await new Promise((go) => { setTimeout(go, AGAIN_MS); });
      if (user.peek() === null) return;
    }
  };
  void again();
  return () => end.abort();
}
