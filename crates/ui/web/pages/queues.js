// @ts-check
/** All queues and streams: a list of any length, and what can be done with many at once. */
import { path, post, remove } from '../api.js';
import { ask, confirm, note } from '../dialog.js';
import { h } from '../core.js';
import { bytes, named, percent, rate, rateOf, whole } from '../format.js';
import { badge, bar, flags } from '../parts.js';
import { declareQueue } from '../forms.js';
import { to } from '../route.js';
import { listed, table } from '../table.js';
import { text } from '../text.js';
import { within } from '../vhost.js';

const say = text.queues, name = text.columns;
/** Requests that are under way at once where many queues are meant. */
const AT_ONCE = 8;

/** @type {import('../table.js').Column[]} */
const COLUMNS = [
  { key: 'name', name: name.name, width: 'minmax(180px, 3fr)', show: (row) => named(row.name) },
  { key: 'vhost', name: name.vhost, width: 'minmax(90px, 1fr)', show: (row) => row.vhost },
  { key: 'type', name: name.type, width: '72px', show: (row) => row.type },
  { key: 'features', name: name.features, width: 'minmax(110px, 1fr)', sorts: false, show: (row) => flags(row) },
  { key: 'state', name: name.state, width: '84px', show: (row) => badge(row.state ?? 'running', row.state === 'running' || !row.state ? 'good' : row.state === 'idle' ? '' : 'bad') },
  { key: 'messages_ready', name: name.ready, width: '84px', number: true, show: (row) => whole(row.messages_ready) },
  { key: 'messages_unacknowledged', name: name.unacked, width: '84px', number: true, show: (row) => whole(row.messages_unacknowledged) },
  { key: 'messages', name: name.total, width: '84px', number: true, show: (row) => whole(row.messages) },
  { key: 'message_stats.publish_details.rate', name: name.in, width: '78px', number: true, show: (row) => rate(rateOf(row, 'publish')) },
  { key: 'message_stats.deliver_get_details.rate', name: name.out, width: '78px', number: true, show: (row) => rate(rateOf(row, 'deliver_get')) },
  { key: 'message_stats.ack_details.rate', name: name.acked, width: '78px', number: true, show: (row) => rate(rateOf(row, 'ack')) },
  { key: 'consumers', name: name.consumers, width: '94px', number: true, show: (row) => (row.type !== 'stream' && row.consumers === 0 && row.messages > 0 ? badge(text.overview.nobody, 'warn', say.nobody) : whole(row.consumers)) },
  { key: 'consumer_utilisation', name: name.utilisation, width: '110px', number: true, hidden: true, sorts: false, show: (row) => (row.consumer_utilisation == null ? '' : [bar(name.utilisation, () => row.consumer_utilisation), percent(row.consumer_utilisation)]) },
  { key: 'message_bytes', name: name.bytes, width: '100px', number: true, hidden: true, show: (row) => bytes(row.message_bytes) },
  { key: 'policy', name: name.policy, width: '120px', hidden: true, show: (row) => row.policy ?? '' },
];

const ASKED = 'name,vhost,type,state,durable,auto_delete,exclusive,arguments,policy,operator_policy,messages,messages_ready,messages_unacknowledged,'
  + 'message_bytes,consumers,consumer_utilisation,message_stats.publish_details.rate,message_stats.deliver_get_details.rate,message_stats.ack_details.rate';

/** @param {any[]} rows @param {(row: any) => Promise<any>} work @returns {Promise<string[]>} why some were refused */
async function each(rows, work) {
  /** @type {string[]} */
  const refused = [];
  const waiting = [...rows];
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let row = waiting.shift(); row; row = waiting.shift()) {
      try { await work(row); } catch (error) { refused.push(`${named(row.name)}: ${/** @type {Error} */ (error).message}`); }
    }
  }));
  return refused;
}

export default function queues() {
  const list = table({
    id: 'queues', label: say.title, columns: COLUMNS, selects: true, sort: 'name',
    key: (row) => JSON.stringify([row.vhost, row.name]), href: (row) => to(['queues', row.vhost, row.name]),
    load: listed(() => within('queues'), { columns: ASKED }),
    empty: [say.empty, ' ', h('button', { type: 'button', class: 'link', onclick: () => void declareQueue(list.again) }, say.declare)],
  });
  const chosen = () => [...list.selected.value.values()];
  const many = (/** @type {'purge' | 'delete'} */ what) => {
    const rows = chosen(), messages = rows.reduce((sum, row) => sum + (row.messages ?? 0), 0);
    const words = what === 'purge' ? say.purgeMany : say.deleteMany;
    void confirm({
      title: words.title(rows.length, messages), verb: words.verb, name: String(rows.length), messages, isUsed: rows.some((row) => row.consumers > 0),
      why: h('ul', null, rows.slice(0, 10).map((row) => h('li', { class: 'name' }, `${named(row.name)} (${whole(row.messages)})`)), rows.length > 10 && h('li', null, say.others(rows.length - 10))),
      act: async () => {
        const where = (/** @type {any} */ row) => `queues/${path(row.vhost, row.name)}`;
        const refused = await each(rows, (row) => remove(what === 'purge' ? `${where(row)}/contents` : where(row)));
        list.selected.value = new Map();
        list.again();
        if (refused.length) throw new Error(refused.slice(0, 5).join('\n'));
        note(words.done(rows.length));
      },
    });
  };
  /** Messages of the chosen queues to one place: of one queue after the other, as long as there are any. */
  const move = () => {
    const rows = chosen().filter((row) => row.type !== 'stream'), messages = rows.reduce((sum, row) => sum + (row.messages ?? 0), 0);
    void ask({
      title: say.moveMany.title(rows.length, messages), verb: say.moveMany.verb,
      body: () => h('div', { class: 'form' },
        h('label', { for: 'move-exchange' }, name.exchange), h('input', { id: 'move-exchange', name: 'exchange', spellcheck: 'false', placeholder: text.queue.defaultExchange }),
        h('label', { for: 'move-key' }, text.queue.moveKey), h('input', { id: 'move-key', name: 'key', required: true, spellcheck: 'false' })),
      act: async (data) => {
        let moved = 0;
        for (const row of rows) {
          for (let isOver = false; !isOver;) {
            const got = await post(`x/queues/${path(row.vhost, row.name)}/move`, { exchange: String(data.get('exchange')), routing_key: String(data.get('key')) });
            moved += got.moved;
            isOver = got.is_over !== false || got.moved === 0;
          }
        }
        list.selected.value = new Map();
        list.again();
        note(say.moveMany.done(moved));
      },
    });
  };
  return [
    h('div', { class: 'head-line' }, h('h1', null, say.title),
      h('div', { class: 'tools' },
        () => (list.selected.value.size ? [h('span', null, text.table.selected(list.selected.value.size)),
          h('button', { type: 'button', onclick: move }, say.move), h('button', { type: 'button', onclick: () => many('purge') }, say.purge), h('button', { type: 'button', class: 'danger', onclick: () => many('delete') }, say.delete)] : null),
        h('button', { type: 'button', class: 'main', onclick: () => void declareQueue(list.again) }, say.declare))),
    list.tools, list.note, list.element,
  ];
}
