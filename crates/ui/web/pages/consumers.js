// @ts-check
/** All consumers. */
import { h } from '../core.js';
import { visible, whole } from '../format.js';
import { badge } from '../parts.js';
import { to } from '../route.js';
import { listed, table } from '../table.js';
import { text } from '../text.js';
import { within } from '../vhost.js';

const say = text.consumers, name = text.columns;

/** @type {import('../table.js').Column[]} */
const COLUMNS = [
  { key: 'consumer_tag', name: name.tag, width: 'minmax(220px, 2fr)', show: (row) => visible(row.consumer_tag) },
  { key: 'queue.name', name: name.queue, width: 'minmax(180px, 2fr)', show: (row) => h('a', { href: to(['queues', row.queue.vhost, row.queue.name]) }, visible(row.queue.name)) },
  { key: 'queue.vhost', name: name.vhost, width: 'minmax(90px, 1fr)', show: (row) => row.queue.vhost },
  { key: 'channel_details.user', name: name.user, width: 'minmax(90px, 1fr)', show: (row) => visible(row.channel_details?.user ?? '') },
  { key: 'channel_details.name', name: name.connection, width: 'minmax(220px, 2fr)', show: (row) => visible(row.channel_details?.name ?? '') },
  { key: 'ack_required', name: name.acks, width: '100px', show: (row) => (row.ack_required ? text.queue.manual : text.queue.automatic) },
  { key: 'prefetch_count', name: name.prefetch, width: '90px', number: true, show: (row) => whole(row.prefetch_count) },
  { key: 'active', name: name.active, width: '90px', show: (row) => (row.active === false ? badge(text.queue.waits) : badge(text.queue.active, 'good')) },
];

export default function consumers() {
  const list = table({
    id: 'consumers', label: say.title, columns: COLUMNS, sort: 'consumer_tag',
    key: (row) => JSON.stringify([row.channel_details?.name, row.consumer_tag]), href: (row) => to(['channels', row.channel_details?.name ?? '']),
    load: listed(() => within('consumers')),
    empty: say.empty,
  });
  return [h('h1', null, say.title), list.tools, list.note, list.element];
}
