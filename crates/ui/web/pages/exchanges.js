// @ts-check
/** All exchanges. */
import { h } from '../core.js';
import { declareExchange } from '../forms.js';
import { named, rate, rateOf } from '../format.js';
import { flags } from '../parts.js';
import { to } from '../route.js';
import { listed, table } from '../table.js';
import { text } from '../text.js';
import { within } from '../vhost.js';

const say = text.exchanges, name = text.columns;

/** @type {import('../table.js').Column[]} */
const COLUMNS = [
  { key: 'name', name: name.name, width: 'minmax(240px, 3fr)', show: (row) => named(row.name) },
  { key: 'vhost', name: name.vhost, width: 'minmax(100px, 1fr)', show: (row) => row.vhost },
  { key: 'type', name: name.type, width: '150px', show: (row) => row.type },
  { key: 'features', name: name.features, width: '180px', sorts: false, show: (row) => flags(row) },
  { key: 'message_stats.publish_in_details.rate', name: name.in, width: '100px', number: true, show: (row) => rate(rateOf(row, 'publish_in')) },
  { key: 'message_stats.publish_out_details.rate', name: name.out, width: '100px', number: true, show: (row) => rate(rateOf(row, 'publish_out')) },
];

export default function exchanges() {
  const list = table({
    id: 'exchanges', label: say.title, columns: COLUMNS, sort: 'name', key: (row) => JSON.stringify([row.vhost, row.name]),
    href: (row) => to(['exchanges', row.vhost, row.name]),
    load: listed(() => within('exchanges')),
  });
  return [
    h('div', { class: 'head-line' }, h('h1', null, say.title), h('div', { class: 'tools' },
      h('button', { type: 'button', class: 'main', onclick: () => void declareExchange(list.again) }, say.declare))),
    list.tools, list.note, list.element,
  ];
}
