// @ts-check
/** Messages of a queue that wait for their time: when each is due, and those that nobody wants any more thrown away. */
import { ask, path, polled, post, query } from '../api.js';
import { h } from '../core.js';
import { confirm, note } from '../dialog.js';
import { date, named, span, whole } from '../format.js';
import { orMissing, queueLink } from '../parts.js';
import { table } from '../table.js';
import { text } from '../text.js';

const say = text.delayed;
/** Messages that are shown, those that are due first. */
const MOST = 500;

/** @typedef {{ id: number, due_at: number }} Delayed */

/** @type {import('../table.js').Column[]} */
const COLUMNS = [
  { key: 'due_at', name: say.due, width: 'minmax(190px, 1fr)', sorts: false, show: (/** @type {Delayed} */ row) => date(row.due_at) },
  { key: 'in', name: say.in, width: 'minmax(110px, 1fr)', sorts: false, number: true, ages: true, show: (/** @type {Delayed} */ row) => (row.due_at > Date.now() ? span(row.due_at - Date.now()) : say.isDue) },
  { key: 'id', name: text.messages.position, width: 'minmax(110px, 1fr)', sorts: false, number: true, show: (/** @type {Delayed} */ row) => whole(row.id) },
];

/** @param {string[]} path_ */
export default function delayedQueue(path_) {
  const [, vhost, name] = path_;
  const where = `x/queues/${path(vhost, name)}/delayed`;
  const queue = polled(() => ask(`queues/${path(vhost, name)}${query({ columns: 'messages_delayed' })}`));
  const all = () => queue.value.value?.messages_delayed ?? 0;
  /** @type {Delayed[]} */
  let shown = [];
  const list = table({
    id: 'delayed', label: say.title, columns: COLUMNS, selects: true, key: (row) => String(row.id), empty: say.noneHere,
    load: async ({ page, size }) => {
      shown = await ask(`${where}${query({ count: MOST })}`);
      // What was due meanwhile cannot be cancelled any more.
      const there = new Set(shown.map((one) => String(one.id))), chosen = [...list.selected.peek()], left = chosen.filter(([key]) => there.has(key));
      if (left.length < chosen.length) list.selected.value = new Map(left);
      return { items: shown.slice((page - 1) * size, page * size), total: shown.length, all: shown.length };
    },
  });
  const selectAll = () => { list.selected.value = new Map(shown.map((one) => [String(one.id), one])); };
  const cancel = () => {
    const ids = [...list.selected.peek().values()].map((one) => one.id);
    void confirm({
      title: say.cancelTitle(ids.length, named(name)), why: say.cancelWhy, verb: say.cancel(ids.length), name, messages: ids.length,
      act: async () => {
        const got = await post(`${where}/cancel`, { ids });
        list.selected.value = new Map();
        note(say.cancelled(got.cancelled, ids.length - got.cancelled));
        list.again();
        void queue.again();
      },
    });
  };
  return [
    h('div', { class: 'head-line' }, h('h1', null, say.of(named(name))), h('span', { class: 'crumb' }, text.inVhost('', vhost).trim()), queueLink(vhost, name),
      h('div', { class: 'tools' },
        () => (list.selected.value.size > 0 ? [h('span', null, text.table.selected(list.selected.value.size)), h('button', { type: 'button', class: 'danger', onclick: cancel }, say.cancel(list.selected.value.size))] : null),
        h('button', { type: 'button', disabled: () => list.total.value === 0, onclick: selectAll }, () => say.selectAll(list.total.value)))),
    () => orMissing(queue, text.kinds.queue),
    h('p', { class: 'pale' }, () => (list.total.value < all() ? say.first(list.total.value, all()) : say.unseen)),
    () => (queue.refused.value ? null : list.note), list.element,
  ];
}
