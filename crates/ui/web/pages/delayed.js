// @ts-check
/** Queues in which messages wait for their time, those with most of them first. */
import { ask, polled, query } from '../api.js';
import { computed, effect, h, untracked } from '../core.js';
import { named, visible, whole } from '../format.js';
import { badge, card, orMissing, plain, queueLink } from '../parts.js';
import { said, say as remember, to } from '../route.js';
import { text } from '../text.js';
import { vhost, within } from '../vhost.js';

const say = text.delayed;
/** Queues that are shown. */
const MOST = 100;

export default function delayed() {
  const words = computed(() => said('name'));
  const got = polled(() => ask(`${within('queues')}${query({
    page: 1, page_size: MOST, pagination: 'true', name: words.peek(), use_regex: 'false', sort: 'messages_delayed', sort_reverse: true, columns: 'name,vhost,type,messages_delayed,messages_ready,consumers',
  })}`));
  let isFirst = true;
  effect(() => {
    words.value; vhost.value;
    if (!isFirst) untracked(() => void got.again());
    isFirst = false;
  });
  const rows = computed(() => (got.value.value?.items ?? []).filter((/** @type {any} */ one) => one.messages_delayed > 0));
  return [
    h('h1', null, say.title), h('p', { class: 'pale' }, say.what), () => orMissing(got, say.title),
    h('div', { class: 'tools' },
      h('input', {
        type: 'search', class: 'filter', id: 'filter', placeholder: text.table.filterHint, 'aria-label': text.table.filter, value: words.peek(), spellcheck: 'false',
        oninput: (/** @type {Event} */ event) => remember({ name: /** @type {HTMLInputElement} */ (event.target).value }),
      }),
      h('span', { class: 'pale', role: 'status' }, () => (got.value.value ? say.queues(rows.value.length) : ''))),
    card(say.where, () => (got.value.value == null ? h('p', { class: 'empty' }, got.refused.value ? '' : text.loading) : plain(
      [[text.columns.queue], [text.columns.vhost], [text.columns.type], [say.delayed, true], [text.columns.ready, true], [text.columns.consumers, true], [text.bindings.actions]],
      rows.value.map((/** @type {any} */ one) => [
        queueLink(one.vhost, one.name), visible(one.vhost), badge(one.type), whole(one.messages_delayed), whole(one.messages_ready), whole(one.consumers),
        h('a', { href: to(['delayed', one.vhost, one.name]), 'aria-label': say.lookAt(named(one.name)) }, say.look)]), words.value ? text.table.noMatch(words.value) : say.none))),
    () => (rows.value.length === MOST ? h('p', { class: 'pale' }, say.firstQueues(MOST)) : null),
  ];
}
