// @ts-check
/** Messages of a queue or stream, looked at without being taken: by pages from any place, by a condition, or as they come. */
import { ask, path, query } from './api.js';
import { conditionBox } from './condition.js';
import { computed, effect, h, signal, untracked } from './core.js';
import { rate } from './format.js';
import { messageList } from './message_list.js';
import { said, say as remember } from './route.js';
import { following, placeOf, searching } from './search.js';
import { selection } from './selection.js';
import { text } from './text.js';

const say = text.messages;
/** Messages of a page, and bytes of each that a list shows. */
const PAGE = 50, SHOWN = 4096;

/** How far a search is. @param {ReturnType<typeof searching>} it */
export const progress = (it) => h('div', { class: 'tools', role: 'status' },
  () => (it.state.value === 'running' ? h('progress', { 'aria-label': say.searching }) : null),
  h('span', null, () => say.scanned(it.scanned.value, it.found.value.length)), h('span', { class: 'pale' }, () => (it.state.value === 'running' ? rate(it.rate.value) : say.states[it.state.value])),
  () => (it.state.value === 'running' ? h('button', { type: 'button', onclick: it.stop }, say.stop)
    : it.state.value === 'over' || it.state.value === 'refused' || it.isFull() ? null : h('button', { type: 'button', onclick: it.more }, say.more)),
  () => (it.refused.value ? h('p', { class: 'band bad' }, text.refused(it.refused.value)) : null));

/** @param {string} vhost @param {string} name @param {import('./core.js').Signal<any>} queue */
export function messages(vhost, name, queue) {
  const where = `x/queues/${path(vhost, name)}`;
  const kind = computed(() => (queue.value ? (queue.value.type === 'stream' ? 'stream' : 'queue') : ''));
  const isStream = () => kind.peek() === 'stream';
  const chosen = signal(/** @type {Map<number, any>} */ (new Map()));
  const list = signal(/** @type {any[] | null} */ (null)), refused = signal('');
  const from = computed(() => said('from')), condition = computed(() => said('where')), isFollowing = computed(() => said('follow') === '1');
  const begin = () => {
    const at = from.peek();
    if (isStream()) return at === 'tail' ? { last: PAGE } : { from: at || 'first', count: PAGE };
    return at === 'tail' ? { last: PAGE } : at === '' || at === 'head' ? { count: PAGE } : { position: at, count: PAGE };
  };
  const load = async () => {
    try {
      const got = await ask(`${where}/messages${query({ ...begin(), truncate: SHOWN })}`);
      list.value = got.messages;
      refused.value = '';
      chosen.value = new Map();
    } catch (error) { refused.value = /** @type {Error} */ (error).message; list.value = []; }
  };
  const search = signal(/** @type {ReturnType<typeof searching> | null} */ (null)), follow = signal(/** @type {ReturnType<typeof following> | null} */ (null));
  effect(() => {
    from.value;
    search.value = null;
    follow.value = null;
    const [asked, follows] = [condition.value, isFollowing.value];
    if (!kind.value) return;
    untracked(() => {
      chosen.value = new Map();
      refused.value = '';
      const it = { where, condition: asked, isStream: isStream() };
      if (follows) follow.value = following(it);
      else if (asked) {
        const at = from.peek(), first = at === '' || at === 'head' || at === 'first';
        const begin = at === 'tail' ? { last: 100_000 } : { [isStream() ? 'from' : 'position']: first ? (isStream() ? 'first' : 0) : at };
        search.value = searching({ ...it, begin });
      } else void load();
    });
  });

  const goTo = /** @type {HTMLInputElement} */ (h('input', { id: 'message-place', 'aria-label': say.place, placeholder: () => (kind.value === 'stream' ? say.placeOfStream : say.place), spellcheck: 'false' }));
  const { box, element: conditions } = conditionBox({ id: 'message-where', value: condition.peek(), messages: () => untracked(shown) ?? [], where, vhost });
  const next = () => { const last = list.peek()?.at(-1); if (last) remember({ from: String(placeOf(last, isStream()) + 1), message: null }); };
  const again = (/** @type {string} */ at) => (from.peek() === at && !condition.peek() && !isFollowing.peek() ? void load() : remember({ from: at, message: null, follow: null }));
  const submit = (/** @type {() => void} */ work) => (/** @type {Event} */ event) => { event.preventDefault(); work(); };
  const done = () => { chosen.value = new Map(); if (!condition.peek() && !isFollowing.peek()) void load(); };
  const shown = () => (follow.value ? follow.value.rows.value : search.value ? search.value.found.value : list.value);
  return [
    h('div', { class: 'tools' },
      h('form', { class: 'tools', onsubmit: submit(() => { if (goTo.value.trim()) remember({ from: goTo.value.trim(), message: null, follow: null }); }) },
        h('button', { type: 'button', onclick: () => again('') }, say.head), h('button', { type: 'button', onclick: () => again('tail') }, say.tail), goTo, h('button', null, say.go),
        h('button', { type: 'button', disabled: () => (list.value?.length ?? 0) < PAGE || !!condition.value || isFollowing.value, onclick: next }, say.next)),
      h('form', { class: 'tools', onsubmit: submit(() => remember({ where: box.value.trim(), message: null })) },
        conditions, h('button', null, say.find), () => (condition.value ? h('button', { type: 'button', class: 'link', onclick: () => { box.value = ''; remember({ where: null, message: null }); } }, say.all) : null)),
      h('button', { type: 'button', 'aria-pressed': () => String(isFollowing.value), onclick: () => remember({ follow: isFollowing.peek() ? null : '1', message: null }) }, say.follow),
      h('span', { class: 'end' }), selection({ vhost, name, isStream, chosen, done })),
    h('p', { class: 'pale small' }, say.untouched),
    () => (search.value ? progress(search.value) : null),
    () => (follow.value ? followed(follow.value) : null),
    h('div', { role: 'status', class: 'notes' }, () => (refused.value ? h('p', { class: 'band bad' }, text.refused(refused.value)) : null)),
    messageList({ vhost, name, where, isStream, rows: shown, chosen, empty: () => (search.value ? say.nothingFound : follow.value ? say.nothingCame : say.none) }),
  ];
}

/** @param {ReturnType<typeof following>} it */
const followed = (it) => h('div', { class: 'tools', role: 'status' },
  h('span', null, () => say.came(it.came.value)), h('span', { class: 'pale', title: say.unseenWhy }, () => (it.unseen.value ? say.unseen(it.unseen.value) : '')),
  () => h('button', { type: 'button', onclick: () => (it.isOn.peek() ? it.stop() : it.go()) }, it.isOn.value ? say.stop : say.goOn),
  () => (it.refused.value ? h('p', { class: 'band bad' }, text.refused(it.refused.value)) : null));
