// @ts-check
/** One condition over the messages of many queues and streams, results as they come. */
import { ask, path, query, seesMessages } from '../api.js';
import { conditionBox } from '../condition.js';
import { computed, effect, h, signal, untracked, whenGone } from '../core.js';
import { named, visible } from '../format.js';
import { progress } from '../messages.js';
import { messageList } from '../message_list.js';
import { queueLink } from '../parts.js';
import { said, say as remember } from '../route.js';
import { searching } from '../search.js';
import { text } from '../text.js';
import { vhost as chosen, within } from '../vhost.js';

const say = text.find;
/** Queues that are searched, and messages that are found in each before the next one is. */
const QUEUES = 100, EACH = 20;

/** @typedef {{ row: any, search: ReturnType<typeof searching> }} Searched */

/** @param {Searched} it */
function results({ row, search }) {
  const isStream = () => row.type === 'stream';
  const where = `x/queues/${path(row.vhost, row.name)}`;
  return () => (search.found.value.length === 0 && search.state.value !== 'refused' ? null : h('section', { class: 'found' },
    h('h2', null, queueLink(row.vhost, row.name), h('span', { class: 'pale' }, ` ${text.inVhost('', row.vhost).trim()}`)), progress(search),
    messageList({ vhost: row.vhost, name: row.name, where, isStream, rows: () => search.found.value, empty: () => text.messages.nothingFound })));
}

export default function find() {
  const condition = computed(() => said('where')), names = computed(() => said('names'));
  const all = signal(/** @type {Searched[]} */ ([])), state = signal(''), at = signal(''), skipped = signal(0);
  let run = 0;
  const go = async () => {
    const own = run += 1, where = condition.peek();
    all.value = [];
    if (!where) return;
    state.value = 'running';
    const got = await ask(`${within('queues')}${query({ page: 1, page_size: QUEUES, name: names.peek(), use_regex: 'true', pagination: 'true', columns: 'name,vhost,type,messages', sort: 'messages', sort_reverse: true })}`).catch((error) => { at.value = error.message; return { items: [], filtered_count: 0 }; });
    skipped.value = Math.max(0, (got.filtered_count ?? 0) - got.items.length);
    for (const row of got.items.filter((/** @type {any} */ one) => one.messages > 0 || one.type === 'stream')) {
      if (own !== run || state.peek() !== 'running') return;
      at.value = named(row.name);
      const isStream = row.type === 'stream';
      const search = searching({ where: `x/queues/${path(row.vhost, row.name)}`, condition: where, isStream, begin: isStream ? { from: 'first' } : { position: 0 }, enough: EACH });
      all.value = [...all.peek(), { row, search }];
      await new Promise((end) => { const stop = effect(() => { if (search.state.value !== 'running') { queueMicrotask(() => stop()); end(undefined); } }); });
      // Where the condition itself is wrong it is so for all.
      if (search.state.peek() === 'refused' && search.refused.peek().startsWith('where')) break;
    }
    if (own === run) { state.value = 'over'; at.value = ''; }
  };
  const stop = () => { state.value = 'stopped'; all.peek().at(-1)?.search.stop(); };
  whenGone(() => { run += 1; stop(); });
  effect(() => { condition.value; names.value; untracked(() => { all.peek().forEach((one) => one.search.stop()); void go(); }); });
  const { box, element: conditions } = conditionBox({ id: 'find-where', value: condition.peek(), vhost: chosen.peek() ? chosen.peek().slice(1) : undefined, messages: () => untracked(() => all.value.flatMap((one) => one.search.found.value)) });
  const pattern = /** @type {HTMLInputElement} */ (h('input', { id: 'find-names', class: 'mono', placeholder: '.*', value: names.peek(), spellcheck: 'false', autocomplete: 'off' }));
  const scanned = () => all.value.reduce((sum, one) => sum + one.search.scanned.value, 0), found = () => all.value.reduce((sum, one) => sum + one.search.found.value.length, 0);
  if (seesMessages() === 'none') return [h('h1', null, say.title), h('p', { class: 'empty' }, text.messages.notShown)];
  return [h('h1', null, say.title), h('p', { class: 'pale' }, say.what),
    h('form', { class: 'tools', onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      const same = condition.peek() === box.value.trim() && names.peek() === pattern.value.trim();
      remember({ where: box.value.trim(), names: pattern.value.trim() });
      if (same) void go();
    } },
    h('label', { for: 'find-where' }, text.messages.where), conditions, h('label', { for: 'find-names' }, say.names), pattern, h('button', { class: 'main' }, text.messages.find)),
    () => (state.value ? h('div', { class: 'tools', role: 'status' }, h('span', null, () => text.messages.scanned(scanned(), found())), h('span', { class: 'pale' }, () => say.of(all.value.length)),
      state.value === 'running' ? [h('progress', { 'aria-label': text.messages.searching }), h('span', null, () => visible(at.value)), h('button', { type: 'button', onclick: stop }, text.messages.stop)] : h('span', { class: 'pale' }, text.messages.states[/** @type {'over'} */ (state.value)]), skipped.value ? h('span', { class: 'pale' }, say.skipped(skipped.value)) : null) : h('p', { class: 'empty' }, say.begin)),
    () => all.value.map(results)];
}
