// @ts-check
/** All channels, those with most that is not settled first. */
import { path } from '../api.js';
import { h } from '../core.js';
import { rate, rateOf, visible, whole } from '../format.js';
import { badge } from '../parts.js';
import { to } from '../route.js';
import { listed, table } from '../table.js';
import { text } from '../text.js';
import { vhost } from '../vhost.js';

const say = text.channels, name = text.columns;

/** @type {import('../table.js').Column[]} */
const COLUMNS = [
  { key: 'name', name: name.name, width: 'minmax(260px, 3fr)', show: (row) => visible(row.name) },
  { key: 'vhost', name: name.vhost, width: 'minmax(90px, 1fr)', show: (row) => row.vhost },
  { key: 'user', name: name.user, width: 'minmax(90px, 1fr)', show: (row) => visible(row.user) },
  { key: 'mode', name: name.mode, width: '90px', sorts: false, show: (row) => (row.transactional ? badge('T', '', say.transactional) : row.confirm ? badge('C', '', say.confirms) : '') },
  { key: 'messages_unconfirmed', name: name.unconfirmed, width: '110px', number: true, show: (row) => whole(row.messages_unconfirmed) },
  { key: 'prefetch_count', name: name.prefetch, width: '90px', number: true, show: (row) => whole(row.prefetch_count) },
  { key: 'messages_unacknowledged', name: name.unacked, width: '100px', number: true, show: (row) => whole(row.messages_unacknowledged) },
  { key: 'message_stats.publish_details.rate', name: name.in, width: '90px', number: true, show: (row) => rate(rateOf(row, 'publish')) },
  { key: 'message_stats.deliver_get_details.rate', name: name.out, width: '90px', number: true, show: (row) => rate(rateOf(row, 'deliver_get')) },
  { key: 'message_stats.ack_details.rate', name: name.acked, width: '90px', number: true, show: (row) => rate(rateOf(row, 'ack')) },
];

export default function channels() {
  const list = table({
    id: 'channels', label: say.title, columns: COLUMNS, sort: 'messages_unacknowledged', reverse: true, key: (row) => row.name,
    href: (row) => to(['channels', row.name]),
    load: listed(() => (vhost.value ? `vhosts/${path(vhost.value.slice(1))}/channels` : 'channels')),
    empty: say.empty,
  });
  return [h('h1', null, say.title), list.tools, list.note, list.element];
}
