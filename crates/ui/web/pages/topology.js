// @ts-check
/** A picture of a virtual host: exchanges on the left, queues on the right, what binds them, and how much is counted to go where. */
import { ask, polled, query } from '../api.js';
import { computed, h, signal } from '../core.js';
import { named, rate, short, visible, whole } from '../format.js';
import { plain, queueLink, exchangeLink } from '../parts.js';
import { go, said, say as remember, to } from '../route.js';
import { text } from '../text.js';
import { vhost, vhosts } from '../vhost.js';

const say = text.topology;
/** Things of a kind that are drawn one by one. */
const DRAWN = 300;
/** Size of a box and the room around it. */
const BOX = { width: 190, height: 34, gapX: 150, gapY: 12 };
/** Milliseconds between two looks: what is counted between them is a rate. */
const LOOK_MS = 5000;

/** @typedef {{ id: string, kind: 'exchange' | 'queue', name: string, it: any, layer: number, x: number, y: number }} Box */
/** @typedef {{ from: Box, to: Box, it: any }} Line */

/** Boxes in layers: an exchange stands left of what it leads to, queues stand last. @param {any} picture */
function laid(picture) {
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  const add = (/** @type {'exchange' | 'queue'} */ kind, /** @type {any} */ it) => boxes.set(`${kind}:${it.name}`, { id: `${kind}:${it.name}`, kind, name: it.name, it, layer: 0, x: 0, y: 0 });
  picture.exchanges.slice(0, DRAWN).forEach((/** @type {any} */ it) => add('exchange', it));
  picture.queues.slice(0, DRAWN).forEach((/** @type {any} */ it) => add('queue', it));
  /** @type {Line[]} */
  const lines = [];
  for (const it of picture.edges) {
    const from = boxes.get(`exchange:${it.source}`), to_ = boxes.get(`${it.destination_type}:${it.destination}`);
    if (from && to_) lines.push({ from, to: to_, it });
  }
  for (const box of boxes.values()) {
    const behind = box.it.alternate != null && boxes.get(`exchange:${box.it.alternate}`);
    if (behind) lines.push({ from: box, to: behind, it: { keys: [say.alternate], bindings: 1, isAlternate: true } });
  }
  // Bindings may go round: as many steps as there are exchanges are enough.
  const among = lines.filter((line) => line.to.kind === 'exchange' && line.from !== line.to);
  for (let step = 0, moved = true; moved && step < Math.min(20, picture.exchanges.length); step += 1) {
    moved = false;
    for (const { from, to: behind } of among) if (behind.layer <= from.layer && from.layer < 20) { behind.layer = from.layer + 1; moved = true; }
  }
  const last = Math.max(0, ...[...boxes.values()].filter((box) => box.kind === 'exchange').map((box) => box.layer)) + 1;
  for (const box of boxes.values()) if (box.kind === 'queue') box.layer = last;
  const layers = Array.from({ length: last + 1 }, (_, layer) => [...boxes.values()].filter((box) => box.layer === layer));
  const row = () => layers.forEach((layer) => layer.forEach((box, at) => { box.y = at * (BOX.height + BOX.gapY); }));
  row();
  // What is bound to each other stands near each other: each goes to the middle of what it is bound to, a few times.
  for (let round = 0; round < 6; round += 1) {
    for (const layer of round % 2 ? layers : [...layers].reverse()) {
      const middle = new Map(layer.map((box) => {
        const ends = lines.filter((line) => line.from === box || line.to === box).map((line) => (line.from === box ? line.to.y : line.from.y));
        return [box, ends.length ? ends.reduce((sum, y) => sum + y, 0) / ends.length : box.y];
      }));
      layer.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0) || a.name.localeCompare(b.name));
      layer.forEach((box, at) => { box.y = at * (BOX.height + BOX.gapY); });
    }
  }
  const tallest = Math.max(1, ...layers.map((layer) => layer.length));
  for (const layer of layers) for (const box of layer) { box.x = box.layer * (BOX.width + BOX.gapX); box.y += ((tallest - layer.length) * (BOX.height + BOX.gapY)) / 2; }
  return { boxes: [...boxes.values()], lines, width: layers.length * (BOX.width + BOX.gapX) - BOX.gapX, height: tallest * (BOX.height + BOX.gapY) };
}

/** Letters of a name that fit. @param {string} name */
const fitted = (name) => { const shown = named(name); return shown.length > 24 ? `${shown.slice(0, 23)}…` : shown; };

/** @param {Line} line @param {number} perSecond */
function drawn({ from, to: end, it }, perSecond) {
  const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, end.x, end.y + BOX.height / 2], bend = Math.max(40, Math.abs(x2 - x1) / 2);
  const width = perSecond > 0 ? Math.min(8, 1.5 + Math.log10(1 + perSecond) * 1.6) : 1;
  return h('path', { class: `edge ${it.isAlternate ? 'alternate' : ''} ${perSecond > 0 ? 'busy' : ''}`, d: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`, 'stroke-width': width.toFixed(1) },
    h('title', null, `${named(from.name)} → ${named(end.name)}\n${it.keys.map(visible).join(', ')}${it.bindings > it.keys.length ? ` (${whole(it.bindings)})` : ''}\n${it.routed == null ? '' : say.routed(whole(it.routed), rate(perSecond))}`));
}

/** @param {Box} box @param {string} where */
function boxDrawn(box, where) {
  const { it } = box, isBehind = box.kind === 'queue' && it.messages > 0 && it.consumers === 0 && it.type !== 'stream';
  const under = box.kind === 'queue' ? say.queue(short(it.messages), it.consumers, rate(it.in_rate)) : say.exchange(it.type, rate(it.in_rate));
  const address = to([box.kind === 'queue' ? 'queues' : 'exchanges', where, box.kind === 'exchange' && box.name === '' ? 'amq.default' : box.name]);
  return h('g', { class: `box ${box.kind} ${isBehind ? 'behind' : ''}`, transform: `translate(${box.x},${box.y})`, tabindex: 0, role: 'link',
    onclick: () => go(address), onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter') go(address); } },
  h('rect', { width: BOX.width, height: BOX.height, rx: 6 }), h('text', { x: 10, y: 14 }, fitted(box.name)), h('text', { x: 10, y: 27, class: 'under' }, under), h('title', null, `${named(box.name)}\n${under}`));
}

/** The picture as a file, with its colours as they are. @param {SVGElement} svg */
function download(svg) {
  const copy = /** @type {SVGElement} */ (svg.cloneNode(true));
  const all = [...svg.querySelectorAll('*')];
  copy.querySelectorAll('*').forEach((one, at) => {
    const now = getComputedStyle(all[at]);
    for (const name of ['fill', 'stroke', 'font-size', 'font-family', 'stroke-dasharray']) one.setAttribute(name, now.getPropertyValue(name));
  });
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  const address = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: 'image/svg+xml' }));
  /** @type {HTMLAnchorElement} */ (h('a', { href: address, download: 'topology.svg' })).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

export default function topology() {
  const where = computed(() => said('vhost', vhost.value.slice(1) || vhosts.value[0] || '/')), prefix = computed(() => said('prefix'));
  const before = signal(/** @type {{ at: number, routed: Map<string, number> } | null} */ (null)), rates = signal(/** @type {Map<string, number>} */ (new Map()));
  const keyOf = (/** @type {any} */ edge) => JSON.stringify([edge.source, edge.destination]);
  const got = polled(async () => {
    const picture = await ask(`x/topology${query({ vhost: where.peek(), prefix: prefix.peek(), most: 2000 })}`);
    const at = performance.now(), routed = new Map(picture.edges.filter((/** @type {any} */ edge) => edge.routed != null).map((/** @type {any} */ edge) => [keyOf(edge), edge.routed]));
    const last = before.peek();
    if (last) rates.value = new Map([...routed].map(([key, count]) => [key, Math.max(0, count - (last.routed.get(key) ?? count)) * 1000 / Math.max(1, at - last.at)]));
    before.value = { at, routed };
    return picture;
  }, LOOK_MS);
  const again = (/** @type {Record<string, string | null>} */ change) => { remember(change); before.value = null; rates.value = new Map(); void got.again(); };
  const isTable = signal(false);
  const box = /** @type {HTMLInputElement} */ (h('input', { id: 'topology-prefix', 'aria-label': say.prefix, placeholder: say.prefix, value: prefix.peek(), spellcheck: 'false' }));
  const picture = () => {
    const it = got.value.value;
    if (!it) return h('p', { class: 'empty' }, got.refused.value ? text.refused(got.refused.value.message) : text.loading);
    if (it.edges.length === 0 && it.queues.length === 0) return h('p', { class: 'empty' }, say.none);
    if (isTable.value) return plain([[text.bindings.from], [text.bindings.to], [text.columns.key], [say.counted, true], [say.now, true]], it.edges.map((/** @type {any} */ edge) => [
      exchangeLink(it.vhost, edge.source), edge.destination_type === 'queue' ? queueLink(it.vhost, edge.destination) : exchangeLink(it.vhost, edge.destination), edge.keys.map(visible).join(', '), whole(edge.routed), rate(rates.value.get(keyOf(edge)) ?? 0)]));
    const { boxes, lines, width, height } = laid(it);
    const svg = /** @type {SVGElement} */ (/** @type {unknown} */ (h('svg', { class: 'topology', viewBox: `-10 -10 ${width + 20} ${height + 20}`, width: width + 20, height: height + 20, role: 'group', 'aria-label': say.title },
      lines.map((line) => drawn(line, rates.value.get(keyOf(line.it)) ?? 0)), boxes.map((one) => boxDrawn(one, it.vhost)))));
    return [h('div', { class: 'scroll-x', tabindex: 0, role: 'group', 'aria-label': say.title }, svg), h('button', { type: 'button', class: 'link', onclick: () => download(svg) }, say.download)];
  };
  return [h('h1', null, say.title), h('p', { class: 'pale' }, say.what),
    h('form', { class: 'tools', onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); again({ prefix: box.value.trim() || null }); } },
      h('label', null, `${text.vhost} `, h('select', { 'aria-label': text.vhost, onchange: (/** @type {Event} */ event) => again({ vhost: /** @type {HTMLSelectElement} */ (event.target).value }) }, () => vhosts.value.map((one) => h('option', { value: one, selected: one === where.value }, visible(one))))),
      box, h('button', null, text.table.filter), h('button', { type: 'button', onclick: () => { isTable.value = !isTable.peek(); } }, () => (isTable.value ? say.asPicture : text.chart.asTable))),
    () => (got.value.value && (got.value.value.exchange_count > DRAWN || got.value.value.queue_count > DRAWN) ? h('p', { class: 'band warn' }, say.cut(DRAWN, got.value.value.queue_count, got.value.value.exchange_count)) : null),
    h('section', { class: 'card' }, picture)];
}
