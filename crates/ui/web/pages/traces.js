// @ts-check
/**
 * The firehose: the virtual hosts in which each publish and each delivery is told of, and a look at what is told. The look has a
 * queue of its own, which goes with it, and by itself a minute after nobody looks.
 */
import { listen, path, post, put, query, remove, user } from '../api.js';
import { attempt, confirm } from '../dialog.js';
import { effect, h, signal, whenGone } from '../core.js';
import { clock, named, visible } from '../format.js';
import { badge } from '../parts.js';
import { to } from '../route.js';
import { listed, table } from '../table.js';
import { text } from '../text.js';

const say = text.traces;
const EXCHANGE = 'amq.rabbitmq.trace';
/** Rows that are kept, messages that the queue keeps, and bytes of each that are shown. */
const ROWS_MAX = 200, KEPT_MAX = 1000, SHOWN = 200;
/** Virtual hosts that are seen without scrolling. */
const SHOWN_ROWS = 8;
/** How long the queue is there without being used, and after how long it is declared anew, in milliseconds. */
const EXPIRES_MS = 60_000, AGAIN_MS = 15_000;

/** A queue that gets all that is told of a virtual host. @param {string} vhost @param {string} queue */
async function declare(vhost, queue) {
  await put(`queues/${path(vhost, queue)}`, { durable: true, auto_delete: false, arguments: { 'x-queue-type': 'classic', 'x-expires': EXPIRES_MS, 'x-max-length': KEPT_MAX } });
  await post(`bindings/${path(vhost)}/e/${path(EXCHANGE)}/q/${path(queue)}`, { routing_key: '#', arguments: {} });
}

/** @param {number} at @param {any} message */
function row(at, message) {
  const [verb, object] = String(message.routing_key).split(/\.(.*)/s), headers = message.properties?.headers ?? {};
  const isPublish = verb === 'publish';
  return h('tr', null, h('td', null, clock(at)), h('td', null, badge(isPublish ? say.published : say.delivered, isPublish ? '' : 'good')),
    h('td', null, h('span', { class: 'name' }, isPublish ? named(object) : visible(object ?? ''))), h('td', null, h('code', null, (headers.routing_keys ?? []).map(visible).join(', '))),
    h('td', null, visible(String(headers.user ?? ''))), h('td', null, h('code', null, message.payload_encoding === 'base64' ? text.messages.binary : visible(String(message.payload)))));
}

/** @param {string} vhost  the one that is looked into @param {() => void} stop  the way back */
function look(vhost, stop) {
  const queue = `leveret-trace-${crypto.getRandomValues(new Uint32Array(2)).join('-')}`, where = `x/queues/${path(vhost, queue)}/tail${query({ count: ROWS_MAX, truncate: SHOWN })}`;
  const body = h('tbody'), came = signal(0), refused = signal(''), isOpen = signal(false);
  let declared = 0, isOver = false;
  /** Declarations that are under way: the last of them takes the queue away, where it was left meanwhile. */
  let underWay = 0;
  const takeAway = () => { if (isOver && underWay === 0) void remove(`queues/${path(vhost, queue)}`).catch(() => {}); };
  const again = async () => {
    declared = Date.now();
    underWay += 1;
    try { await declare(vhost, queue); } finally { underWay -= 1; }
    takeAway();
  };
  effect(() => {
    if (!user.value) return;
    /** @type {() => void} */
    let end = () => {};
    let isGone = false;
    whenGone(() => { isGone = true; end(); });
    void again().then(() => {
      if (isGone) return;
      end = listen(where, {
        messages: (told) => {
          came.value += told.came;
          body.prepend(...told.messages.map((/** @type {any} */ one) => row(told.timestamp, one)).reverse());
          while (body.children.length > ROWS_MAX) body.lastElementChild?.remove();
          // A queue that is declared again is used: it expires a minute after the last time.
          if (Date.now() - declared > AGAIN_MS) void again().catch(() => {});
        },
      }, (open) => { isOpen.value = open; }, (why) => {
        // It expired while this machine slept.
        if (why.status === 404) { void again().catch(() => {}); return false; }
        refused.value = why.message;
        return why.status < 500;
      });
    }, (error) => { refused.value = error.message; });
  });
  whenGone(() => { isOver = true; takeAway(); });
  return h('section', { class: 'card', 'aria-labelledby': 'trace-title' },
    h('div', { class: 'head-line' }, h('h2', { id: 'trace-title' }, say.lookInto(visible(vhost))), () => (isOpen.value ? badge(say.live, 'good') : null),
      h('span', { class: 'pale' }, () => (came.value > ROWS_MAX ? say.newest(ROWS_MAX, came.value) : say.came(came.value))),
      h('div', { class: 'tools' }, h('button', { type: 'button', onclick: stop }, say.endLook))),
    h('div', { role: 'status' }, () => (refused.value ? h('p', { class: 'band bad' }, text.refused(refused.value)) : null)),
    h('div', { class: 'scroll-x' }, h('table', { class: 'plain traced' },
      h('thead', null, h('tr', null, [text.chart.time, say.what, say.object, text.columns.key, text.columns.user, text.messages.payload].map((name) => h('th', { scope: 'col' }, name)))), body)),
    () => (came.value === 0 && !refused.value ? h('p', { class: 'empty' }, say.nothing) : null));
}

export default function traces() {
  const looked = signal(/** @type {string | null} */ (null));
  const trace = (/** @type {string} */ name) => void confirm({
    title: say.startTitle(visible(name)), why: say.startWhy, verb: text.vhosts.startTracing, name,
    act: async () => { await put(`vhosts/${path(name)}`, { tracing: true }); list.again(); },
  });
  const untrace = (/** @type {string} */ name) => void attempt(async () => {
    await put(`vhosts/${path(name)}`, { tracing: false });
    if (looked.peek() === name) looked.value = null;
    list.again();
  }, say.stopped(visible(name)));
  /** @param {any} one */
  const actions = (one) => h('span', { class: 'tools' }, one.tracing
    ? [h('button', { type: 'button', class: 'link', 'aria-label': say.lookOf(visible(one.name)), onclick: () => { looked.value = one.name; } }, say.look), h('button', { type: 'button', class: 'link', 'aria-label': say.stopOf(visible(one.name)), onclick: () => untrace(one.name) }, text.vhosts.stopTracing)]
    : h('button', { type: 'button', class: 'link', 'aria-label': say.startOf(visible(one.name)), onclick: () => trace(one.name) }, text.vhosts.startTracing));
  const list = table({
    id: 'traces', label: text.nav.vhosts, sort: 'tracing', reverse: true, key: (row) => row.name, href: (row) => to(['vhosts', row.name]), load: listed(() => 'vhosts', { columns: 'name,tracing' }),
    columns: [
      { key: 'name', name: text.columns.vhost, width: 'minmax(140px, 2fr)', show: (row) => visible(row.name) },
      { key: 'tracing', name: text.columns.state, width: 'minmax(90px, 1fr)', show: (row) => (row.tracing ? badge(text.vhosts.traced, 'warn') : say.not) },
      { key: 'actions', name: text.bindings.actions, width: 'minmax(170px, 1fr)', sorts: false, show: actions }],
  });
  return [
    h('h1', null, say.title), h('p', { class: 'pale' }, say.about),
    () => { const now = looked.value; return now == null ? null : look(now, () => { looked.value = null; }); },
    list.tools, list.note, h('div', { class: 'short', hidden: () => list.total.value === 0, vars: () => ({ '--shown': Math.min(SHOWN_ROWS, list.total.value) }) }, list.element),
  ];
}
