// @ts-check
/** Lines over time on a canvas, and the same as a table. Never stacked: what is behind would not be seen. */
import { effect, h, signal, whenGone } from './core.js';
import { clock } from './format.js';
import { said, say } from './route.js';
import { text } from './text.js';

/** Points of a line that are drawn. */
const POINTS_MAX = 2000;
/** Rows of the table. */
const ROWS_MAX = 120;
const LEFT = 52, RIGHT = 8, TOP = 8, BOTTOM = 20;

/**
 * @typedef {[number, number | null]} Point  when, in milliseconds, and how much; nothing: nobody knows
 * @typedef {{ name: string, color: string, dash?: boolean, points: Point[] }} Line
 */

/** Where the pointer is, in time: one for all charts of a page. */
const cross = signal(/** @type {number | null} */ (null));

/** @param {number} n  the next of 1, 2, 4, 5, 8 times a power of ten */
export function nice(n) {
  const power = 10 ** Math.floor(Math.log10(n));
  return power * ([1, 2, 4, 5, 8, 10].find((step) => step * power >= n * 0.999999) ?? 10);
}

/** The range of time in the hash. @returns {[number, number] | null} */
function zoom() {
  const [from, until] = said('range').split('-').map(Number);
  return from > 0 && until > from ? [from, until] : null;
}

/** @param {Point[]} points  so many at most, of which each stands for the most of those around it */
export function thinned(points) {
  if (points.length <= POINTS_MAX) return points;
  const each = Math.ceil(points.length / POINTS_MAX);
  /** @type {Point[]} */
  const kept = [];
  for (let at = 0; at < points.length; at += each) {
    kept.push(points.slice(at, at + each).reduce((most, one) => ((one[1] ?? -1) > (most[1] ?? -1) ? one : most)));
  }
  return kept;
}

/** The value at a time: of the point nearest to it. @param {Line} line @param {number} time */
function valueAt(line, time) {
  let best = null, distance = Infinity;
  for (const [at, value] of line.points) {
    if (Math.abs(at - time) < distance) { distance = Math.abs(at - time); best = value; }
  }
  return best;
}

/** The width of a canvas in the page. It changes with the theme too, so that what is drawn by it takes the new colours. @param {HTMLCanvasElement} canvas */
export function widthOf(canvas) {
  const width = signal(0);
  const size = new ResizeObserver(() => { width.value = canvas.clientWidth; });
  size.observe(canvas);
  const themed = new MutationObserver(() => { const now = width.peek(); width.value = 0; queueMicrotask(() => { width.value = now; }); });
  themed.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  whenGone(() => { size.disconnect(); themed.disconnect(); });
  return width;
}

/**
 * @param {{ title: string, lines: () => Line[], format: (n: number | null | undefined) => string, height?: number, most?: () => number }} it
 */
export function chart(it) {
  const height = it.height ?? 160;
  const isTable = signal(false);
  const canvas = /** @type {HTMLCanvasElement} */ (h('canvas', { role: 'img', tabindex: 0, vars: { '--height': `${height}px` } }));
  const width = widthOf(canvas);
  const shown = () => {
    const range = zoom();
    const lines = it.lines().map((line) => ({ ...line, points: thinned(range ? line.points.filter(([at]) => at >= range[0] && at <= range[1]) : line.points) }));
    const times = lines.flatMap((line) => line.points.map(([at]) => at));
    return { lines, from: range?.[0] ?? Math.min(...times), until: range?.[1] ?? Math.max(...times), isEmpty: times.length === 0 };
  };
  /** @type {{ from: number, until: number, times: number[] }} */
  let drawn = { from: 0, until: 0, times: [] };

  effect(() => {
    const { lines, from, until, isEmpty } = shown();
    const at = cross.value;
    if (isTable.value || width.value === 0) return;
    const ratio = devicePixelRatio;
    canvas.width = width.value * ratio;
    canvas.height = height * ratio;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    pen.scale(ratio, ratio);
    const style = getComputedStyle(canvas), color = (/** @type {string} */ name) => style.getPropertyValue(name);
    pen.font = `11px ${style.fontFamily}`;
    const inside = width.value - LEFT - RIGHT, tall = height - TOP - BOTTOM;
    const values = lines.flatMap((line) => line.points.map(([, value]) => value ?? 0));
    const most = it.most?.() ?? nice(Math.max(4, ...values));
    const x = (/** @type {number} */ time) => LEFT + inside * (until > from ? (time - from) / (until - from) : 1);
    const y = (/** @type {number} */ value) => TOP + tall * (1 - value / most);
    drawn = { from, until, times: lines[0]?.points.map(([time]) => time) ?? [] };
    pen.textBaseline = 'middle'; pen.textAlign = 'right'; pen.lineWidth = 1;
    for (let tick = 0; tick <= 4; tick += 1) {
      const value = (most * tick) / 4, line = Math.round(y(value)) + 0.5;
      pen.strokeStyle = color('--rule');
      pen.beginPath(); pen.moveTo(LEFT, line); pen.lineTo(width.value - RIGHT, line); pen.stroke();
      pen.fillStyle = color('--ink-2'); pen.fillText(it.format(value), LEFT - 6, line);
    }
    if (isEmpty) {
      pen.textAlign = 'center'; pen.fillText(text.chart.empty, LEFT + inside / 2, TOP + tall * 0.375);
      return;
    }
    pen.textAlign = 'center'; pen.textBaseline = 'alphabetic';
    const ticks = until > from ? Math.max(1, Math.min(5, Math.floor(inside / 110))) : 0;
    for (let tick = 0; tick <= ticks; tick += 1) {
      const time = from + ((until - from) * tick) / (ticks || 1);
      pen.fillText(clock(time), Math.min(width.value - 28, Math.max(LEFT + 4, x(time))), height - 5);
    }
    // Twice the usual distance between two points is a gap, and stays one.
    for (const { color: of, dash, points } of lines) {
      const gap = points.length > 2 ? 3 * Math.max(1000, (points[points.length - 1][0] - points[0][0]) / points.length) : Infinity;
      pen.strokeStyle = color(of); pen.setLineDash(dash ? [5, 3] : []); pen.lineWidth = 1.75;
      pen.beginPath();
      let before = -Infinity;
      for (const [time, value] of points) {
        if (value == null) { before = -Infinity; continue; }
        if (time - before > gap) pen.moveTo(x(time), y(value)); else pen.lineTo(x(time), y(value));
        before = time;
      }
      pen.stroke();
      // One alone is no line.
      if (points.length === 1 && points[0][1] != null) { pen.beginPath(); pen.arc(x(points[0][0]), y(points[0][1]), 2, 0, 7); pen.stroke(); }
    }
    pen.setLineDash([]);
    if (at != null && at >= from && at <= until) {
      pen.strokeStyle = color('--ink-2'); pen.lineWidth = 1;
      pen.beginPath(); pen.moveTo(x(at), TOP); pen.lineTo(x(at), height - BOTTOM); pen.stroke();
    }
  });

  const said_ = (/** @type {Line} */ line) => it.format(cross.value == null ? line.points.at(-1)?.[1] : valueAt(line, cross.value));
  const legend = h('ul', { class: 'legend' }, () => shown().lines.map((line) => h('li', null,
    h('i', { vars: { '--own': `var(${line.color})` }, class: line.dash ? 'dashed' : '' }), line.name, ' ', h('b', null, said_(line)))),
  () => (cross.value == null ? null : h('li', null, clock(cross.value))));
  effect(() => {
    const { lines } = shown();
    canvas.setAttribute('aria-label', `${it.title}: ${lines.map((line) => `${line.name} ${said_(line)}`).join(', ') || text.chart.empty}`);
  });

  const timeAt = (/** @type {MouseEvent} */ event) => {
    const share = (event.offsetX - LEFT) / (canvas.clientWidth - LEFT - RIGHT);
    return drawn.from + (drawn.until - drawn.from) * Math.max(0, Math.min(1, share));
  };
  /** @type {number | null} */
  let pressed = null;
  canvas.addEventListener('pointermove', (event) => { cross.value = timeAt(event); });
  canvas.addEventListener('pointerleave', () => { cross.value = null; });
  canvas.addEventListener('pointerdown', (event) => { pressed = timeAt(event); });
  canvas.addEventListener('pointerup', (event) => {
    const [from, until] = [pressed ?? 0, timeAt(event)].sort((a, b) => a - b);
    if (pressed != null && until - from > (drawn.until - drawn.from) / 50) say({ range: `${Math.floor(from)}-${Math.ceil(until)}` });
    pressed = null;
  });
  canvas.addEventListener('keydown', (event) => {
    const step = event.key === 'ArrowLeft' ? -1 : event.key === 'ArrowRight' ? 1 : 0;
    if (!step || drawn.times.length === 0) return;
    const now = cross.peek() ?? drawn.times[drawn.times.length - 1];
    const on = drawn.times.reduce((best, time, i) => (Math.abs(time - now) < Math.abs(drawn.times[best] - now) ? i : best), 0);
    cross.value = drawn.times[Math.max(0, Math.min(drawn.times.length - 1, on + step))];
    event.preventDefault();
  });
  canvas.addEventListener('blur', () => { cross.value = null; });
  const rows = () => {
    const { lines } = shown();
    const times = (lines[0]?.points ?? []).map(([time]) => time).slice(-ROWS_MAX).reverse();
    return h('div', { class: 'as-table', tabindex: 0, role: 'group', 'aria-label': it.title }, h('table', { class: 'plain' },
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, text.chart.time), lines.map((line) => h('th', { scope: 'col', class: 'number' }, line.name)))),
      h('tbody', null, times.map((time) => h('tr', null, h('td', null, clock(time)), lines.map((line) => h('td', { class: 'number' }, it.format(valueAt(line, time)))))))));
  };
  return h('figure', { class: 'chart' },
    h('figcaption', null, it.title, h('span', { class: 'tools' },
      () => (zoom() ? h('button', { type: 'button', class: 'link small', onclick: () => say({ range: null }) }, text.chart.whole) : null),
      h('button', { type: 'button', class: 'link small', onclick: () => { isTable.value = !isTable.peek(); } }, () => (isTable.value ? text.chart.asChart : text.chart.asTable)))),
    h('div', { hidden: () => isTable.value }, canvas), () => (isTable.value ? rows() : null), legend);
}

/**
 * A line of a counter of messages, by how fast it grows, and one of a length.
 * @param {any} it @param {string} of @param {string} name @param {string} color @param {boolean} [dash] @returns {Line}
 */
export const flow = (it, of, name, color, dash) => ({ name, color, dash, points: samples(it?.message_stats?.[`${of}_details`], true) });
/** See {@link flow}. @param {any} it @param {string} of @param {string} name @param {string} color @param {boolean} [dash] @returns {Line} */
export const depth = (it, of, name, color, dash) => ({ name, color, dash, points: samples(it?.[`${of}_details`], false) });

/** A line of the size of a word. @param {(number | null)[]} values */
export function spark(values) {
  const most = Math.max(1, ...values.map((value) => value ?? 0)), step = 60 / Math.max(1, values.length - 1);
  const points = values.map((value, i) => `${(i * step).toFixed(1)},${(15 - (14 * (value ?? 0)) / most).toFixed(1)}`).join(' ');
  return h('svg', { class: 'spark', viewBox: '0 0 60 16', 'aria-hidden': 'true' }, h('polyline', { points }));
}

/**
 * The samples of a figure of the API as points, its rates between them or its values.
 * @param {any} details  `..._details`, with samples
 * @param {boolean} isRate
 * @returns {Point[]}
 */
export function samples(details, isRate) {
  const all = /** @type {{ timestamp: number, sample: number }[]} */ ([...(details?.samples ?? [])]).sort((a, b) => a.timestamp - b.timestamp);
  if (!isRate) return all.map(({ timestamp, sample }) => [timestamp, sample]);
  return all.slice(1).map(({ timestamp, sample }, i) => {
    const gap = (timestamp - all[i].timestamp) / 1000;
    return [timestamp, gap > 0 ? Math.max(0, sample - all[i].sample) / gap : null];
  });
}
