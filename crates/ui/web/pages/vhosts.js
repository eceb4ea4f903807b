// @ts-check
/** Virtual hosts: what flows in each, and new ones. */
import { path, put } from '../api.js';
import { h } from '../core.js';
import { ask as askFor, note } from '../dialog.js';
import { rate, visible, whole } from '../format.js';
import { badge } from '../parts.js';
import { to } from '../route.js';
import { listed, table } from '../table.js';
import { text } from '../text.js';
import { seeVhosts } from '../vhost.js';

const say = text.vhosts, name = text.columns;

/** @type {import('../table.js').Column[]} */
const COLUMNS = [
  { key: 'name', name: name.name, width: 'minmax(180px, 2fr)', show: (row) => visible(row.name) },
  { key: 'description', name: say.description, width: 'minmax(140px, 2fr)', show: (row) => visible(row.description ?? '') },
  { key: 'default_queue_type', name: say.defaultType, width: '130px', show: (row) => row.default_queue_type ?? '' },
  { key: 'tags', name: say.tags, width: '120px', sorts: false, show: (row) => (row.tags ?? []).map((/** @type {string} */ tag) => badge(visible(tag))) },
  { key: 'protected_from_deletion', name: say.protected, width: '110px', show: (row) => (row.protected_from_deletion ? badge(say.protected, 'good') : '') },
  { key: 'tracing', name: say.tracing, width: '90px', show: (row) => (row.tracing ? badge(say.traced, 'warn') : '') },
  { key: 'messages_ready', name: name.ready, width: '100px', number: true, show: (row) => whole(row.messages_ready ?? 0) },
  { key: 'messages_unacknowledged', name: name.unacked, width: '100px', number: true, show: (row) => whole(row.messages_unacknowledged ?? 0) },
  { key: 'message_stats.publish_details.rate', name: name.in, width: '90px', number: true, show: (row) => rate(row.message_stats?.publish_details?.rate ?? 0) },
  { key: 'message_stats.deliver_get_details.rate', name: name.out, width: '90px', number: true, show: (row) => rate(row.message_stats?.deliver_get_details?.rate ?? 0) },
];

/** The fields of a virtual host. @param {any} [now] */
export const vhostFields = (now) => [
  h('label', { for: 'form-description' }, say.description), h('input', { id: 'form-description', name: 'description', value: now?.description ?? '' }),
  h('label', { for: 'form-tags' }, say.tags), h('input', { id: 'form-tags', name: 'tags', value: (now?.tags ?? []).join(','), placeholder: say.tagsHint }),
  h('label', { for: 'form-type' }, say.defaultType), h('select', { id: 'form-type', name: 'default_queue_type' }, ['classic', 'quorum', 'stream'].map((one) => h('option', { value: one, selected: (now?.default_queue_type ?? 'classic') === one }, text.forms.types[/** @type {'classic'} */ (one)]))),
];

/** @param {string} where @param {FormData} data */
export const putVhost = (where, data) => put(`vhosts/${path(where)}`, { description: data.get('description'), tags: data.get('tags'), default_queue_type: data.get('default_queue_type') });

export default function vhosts() {
  const list = table({
    id: 'vhosts', label: say.title, columns: COLUMNS, sort: 'name', key: (row) => row.name, href: (row) => to(['vhosts', row.name]),
    load: listed(() => 'vhosts'),
  });
  const add = () => void askFor({
    title: say.add, verb: text.forms.declare,
    body: () => h('div', { class: 'form' }, h('label', { for: 'form-name' }, name.name), h('input', { id: 'form-name', name: 'name', required: true, spellcheck: 'false' }), vhostFields()),
    act: async (data) => {
      const where = String(data.get('name'));
      await putVhost(where, data);
      note([text.forms.declared, ' ', h('a', { href: to(['vhosts', where]) }, visible(where))]);
      list.again();
      void seeVhosts();
    },
  });
  return [h('div', { class: 'head-line' }, h('h1', null, say.title), h('div', { class: 'tools' }, h('button', { type: 'button', class: 'main', onclick: add }, say.add))), list.tools, list.note, list.element];
}
