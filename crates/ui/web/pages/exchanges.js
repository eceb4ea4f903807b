// @ts-check
/** All exchanges. */
import { ask, query } from '../api.js';
import { h } from '../core.js';
import { declareExchange } from '../forms.js';
import { named, rate } from '../format.js';
import { flags } from '../parts.js';
import { to } from '../route.js';
import { paged, table } from '../table.js';
import { text } from '../text.js';
import { within } from '../vhost.js';

const say = text.exchanges, name = text.columns;

/** @param {any} row @param {string} of */
const rateOf = (row, of) => rate(row.message_stats?.[`${of}_details`]?.rate ?? 0);

/** @type {import('../table.js').Column[]} */
const COLUMNS = [
  { key: 'name', name: name.name, width: 'minmax(240px, 3fr)', show: (row) => named(row.name) },
  { key: 'vhost', name: name.vhost, width: 'minmax(100px, 1fr)', show: (row) => row.vhost },
  { key: 'type', name: name.type, width: '150px', show: (row) => row.type },
  { key: 'features', name: name.features, width: '180px', sorts: false, show: (row) => flags(row) },
  { key: 'message_stats.publish_in_details.rate', name: name.in, width: '100px', number: true, show: (row) => rateOf(row, 'publish_in') },
  { key: 'message_stats.publish_out_details.rate', name: name.out, width: '100px', number: true, show: (row) => rateOf(row, 'publish_out') },
];

export default function exchanges() {
  const list = table({
    id: 'exchanges', label: say.title, columns: COLUMNS, sort: 'name', key: (row) => `${row.vhost}\u0000${row.name}`,
    href: (row) => to(['exchanges', row.vhost, row.name]),
    load: async (wanted) => paged(await ask(`${within('exchanges')}${query({
      page: wanted.page, page_size: wanted.size, name: wanted.name, use_regex: 'false', pagination: 'true', sort: wanted.sort, sort_reverse: wanted.reverse,
    })}`)),
  });
  return [
    h('div', { class: 'head-line' }, h('h1', null, say.title), h('div', { class: 'tools' },
      h('button', { type: 'button', class: 'main', onclick: () => void declareExchange(list.again) }, say.declare))),
    list.tools, list.note, list.element,
  ];
}
