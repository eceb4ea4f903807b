// @ts-check
/** Who is connected: over which protocol, from where, and how much flows. */
import { h } from '../core.js';
import { age, bytes, visible, whole } from '../format.js';
import { badge } from '../parts.js';
import { to } from '../route.js';
import { listed, table } from '../table.js';
import { text } from '../text.js';
import { vhost } from '../vhost.js';
import { path } from '../api.js';

const say = text.connections, name = text.columns;

/** What a connection waits for, and the colour of that. @param {any} row */
export function state(row) {
  if (row.held_back && row.held_back !== 'none') return badge(say.held(row.held_back), 'warn', say.heldWhy);
  return badge(row.state, row.state === 'running' ? 'good' : row.state === 'blocked' || row.state === 'blocking' ? 'bad' : 'warn');
}

/** @type {import('../table.js').Column[]} */
const COLUMNS = [
  { key: 'name', name: name.name, width: 'minmax(260px, 3fr)', show: (row) => visible(row.user_provided_name ? `${row.user_provided_name} (${row.name})` : row.name) },
  { key: 'vhost', name: name.vhost, width: 'minmax(90px, 1fr)', show: (row) => row.vhost },
  { key: 'user', name: name.user, width: 'minmax(90px, 1fr)', show: (row) => visible(row.user ?? '') },
  { key: 'state', name: name.state, width: '120px', show: state },
  { key: 'protocol', name: name.protocol, width: '110px', show: (row) => row.protocol },
  { key: 'ssl', name: name.tls, width: '70px', show: (row) => (row.ssl ? badge('TLS', 'good', row.ssl_protocol) : '') },
  { key: 'channels', name: name.channels, width: '100px', number: true, show: (row) => whole(row.channels) },
  { key: 'recv_oct_details.rate', name: name.received, width: '110px', number: true, show: (row) => `${bytes(row.recv_oct_details?.rate ?? 0)}/s` },
  { key: 'send_oct_details.rate', name: name.sent, width: '110px', number: true, show: (row) => `${bytes(row.send_oct_details?.rate ?? 0)}/s` },
  { key: 'memory_held', name: name.memory, width: '100px', number: true, hidden: true, show: (row) => bytes(row.memory_held) },
  { key: 'client_properties.product', name: name.client, width: '160px', hidden: true, show: (row) => visible(`${row.client_properties?.product ?? ''} ${row.client_properties?.version ?? ''}`) },
  { key: 'connected_at', name: name.since, width: '90px', number: true, hidden: true, ages: true, show: (row) => age(row.connected_at) },
];

/** @param {string[]} path_ */
export default function connections(path_) {
  const isStream = path_[0] === 'stream';
  const list_ = () => (isStream ? 'stream/connections' : vhost.value ? `vhosts/${path(vhost.value.slice(1))}/connections` : 'connections');
  const list = table({
    id: 'connections', label: say.title, columns: COLUMNS, sort: 'name', key: (row) => row.name,
    href: (row) => to(['connections', row.name]),
    load: listed(list_),
    empty: say.empty,
  });
  return [h('h1', null, isStream ? say.streams : say.title), list.tools, list.note, list.element];
}

