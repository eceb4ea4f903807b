// @ts-check
/** How long things took, by time: durations of a step stand above each other in groups, many are dark. The same as a table. */
import { effect, h, signal, untracked } from './core.js';
import { widthOf } from './chart.js';
import { clock, duration, NONE, whole } from './format.js';
import { text } from './text.js';

const say = text.heatmap;
/** Rows of the table. */
const ROWS_MAX = 120;
/** Shades that counts are told apart by: `--heat-1` and so on. */
const SHADES = 5;
const LEFT = 60, RIGHT = 8, TOP = 8, BOTTOM = 20, ROW = 16;

/** @typedef {{ timestamp: number, counts: number[] }} Step  what was counted until then, since the step before */
/** @typedef {{ bounds_us: number[], samples: Step[] }} Counted */

/** How many there were in all. @param {number[]} counts */
export const sum = (counts) => counts.reduce((all, one) => all + one, 0);

/**
 * The place that so many of a hundred are not above, as a group and how far into it; none: nothing was counted.
 * @param {number[]} counts @param {number} percent
 */
export function quantile(counts, percent) {
  const wanted = Math.ceil((sum(counts) * percent) / 100);
  let before = 0;
  for (const [at, count] of counts.entries()) {
    if (count > 0 && before + count >= wanted) return at + (wanted - before) / count;
    before += count;
  }
  return null;
}

/** The durations of a group in words. @param {number[]} bounds @param {number} group */
export const grouped = (bounds, group) => (group >= bounds.length ? say.above(duration(bounds.at(-1)))
  : group === 0 ? say.atMost(duration(bounds[0])) : say.between(duration(bounds[group - 1]), duration(bounds[group])));

/** The bound of the group that a place is in. @param {number[]} bounds @param {number | null} place */
export function bounded(bounds, place) {
  if (place == null) return NONE;
  const group = Math.ceil(place) - 1;
  return group >= bounds.length ? say.above(duration(bounds.at(-1))) : say.atMost(duration(bounds[group]));
}

/** The most that a shade stands for. @param {number} shade @param {number} most */
const limit = (shade, most) => Math.floor((1 + most) ** (shade / SHADES) - 1 + 1e-9);

/** @param {number} count @param {number} most */
const shadeOf = (count, most) => Math.min(SHADES, Math.max(1, Math.ceil((SHADES * Math.log(1 + count)) / Math.log(1 + most) - 1e-9)));

/** @param {{ title: string, counted: () => Counted | undefined }} it */
export function heatmap(it) {
  const isTable = signal(false);
  /** The step and the group that are pointed at. */
  const cross = signal(/** @type {[number, number | null] | null} */ (null));
  const counted = () => it.counted() ?? { bounds_us: [], samples: [] };
  const groups = () => counted().bounds_us.length + 1;
  const most = () => Math.max(0, ...counted().samples.flatMap((step) => step.counts));
  const canvas = /** @type {HTMLCanvasElement} */ (h('canvas', { role: 'img', tabindex: 0, vars: () => ({ '--height': `${TOP + BOTTOM + ROW * groups()}px` }) }));
  const width = widthOf(canvas);

  /** Where a step begins: where the one before ended, unless nobody counted in between. @param {Step[]} steps @param {number} at */
  const begin = (steps, at) => {
    const usual = steps.length > 1 ? (steps[steps.length - 1].timestamp - steps[0].timestamp) / (steps.length - 1) : 10_000;
    return Math.max(steps[at - 1]?.timestamp ?? 0, steps[at].timestamp - 3 * usual, at === 0 ? steps[0].timestamp - usual : 0);
  };
  /** Where things are on the canvas. */
  const frame = () => {
    const steps = counted().samples, from = steps.length ? begin(steps, 0) : 0, until = steps.at(-1)?.timestamp ?? 1;
    const inside = untracked(() => width.value) - LEFT - RIGHT;
    return {
      from, until, inside,
      x: (/** @type {number} */ time) => LEFT + (inside * (time - from)) / (until - from || 1),
      y: (/** @type {number} */ place) => TOP + ROW * (groups() - place),
    };
  };

  effect(() => {
    const { bounds_us: bounds, samples: steps } = counted(), largest = most(), on = cross.value;
    if (isTable.value || width.value === 0) return;
    const ratio = devicePixelRatio, tall = TOP + BOTTOM + ROW * groups();
    canvas.width = width.value * ratio;
    canvas.height = tall * ratio;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    pen.scale(ratio, ratio);
    const style = getComputedStyle(canvas), color = (/** @type {string} */ name) => style.getPropertyValue(name);
    const { from, until, inside, x, y } = frame();
    pen.font = `11px ${style.fontFamily}`;
    pen.textBaseline = 'middle'; pen.textAlign = 'right'; pen.lineWidth = 1;
    bounds.forEach((bound, group) => {
      const line = Math.round(y(group + 1)) + 0.5;
      pen.strokeStyle = color('--rule');
      pen.beginPath(); pen.moveTo(LEFT, line); pen.lineTo(LEFT + inside, line); pen.stroke();
      pen.fillStyle = color('--ink-2'); pen.fillText(duration(bound), LEFT - 6, line);
    });
    if (largest === 0) {
      pen.textAlign = 'center'; pen.fillStyle = color('--ink-2'); pen.fillText(text.chart.empty, LEFT + inside / 2, tall / 2);
      return;
    }
    steps.forEach((step, at) => {
      const left = x(begin(steps, at)), right = x(step.timestamp);
      step.counts.forEach((count, group) => {
        if (count === 0) return;
        pen.fillStyle = color(`--heat-${shadeOf(count, largest)}`);
        pen.fillRect(left, y(group + 1) + 1, Math.max(1, right - left - 0.5), ROW - 1);
      });
    });
    // A line over dark and pale groups: with a rim of paper it is seen over both.
    for (const [percent, dash] of /** @type {[number, number[]][]} */ ([[50, []], [99, [5, 3]]])) {
      const path = new Path2D(), places = steps.map((step) => quantile(step.counts, percent));
      places.forEach((place, at) => {
        if (place == null) return;
        const left = x(begin(steps, at)), right = x(steps[at].timestamp);
        if (places[at - 1] == null) path.moveTo(left, y(place));
        path.lineTo((left + right) / 2, y(place));
        if (places[at + 1] == null) path.lineTo(right, y(place));
      });
      pen.setLineDash([]); pen.lineWidth = 4.5; pen.strokeStyle = color('--paper'); pen.stroke(path);
      pen.setLineDash(dash); pen.lineWidth = 1.75; pen.strokeStyle = color('--ink'); pen.stroke(path);
    }
    pen.setLineDash([]);
    pen.fillStyle = color('--ink-2'); pen.textAlign = 'center'; pen.textBaseline = 'alphabetic';
    const ticks = Math.max(1, Math.min(5, Math.floor(inside / 110)));
    for (let tick = 0; tick <= ticks; tick += 1) {
      const time = from + ((until - from) * tick) / ticks;
      pen.fillText(clock(time), Math.min(width.value - 28, Math.max(LEFT + 4, x(time))), tall - 5);
    }
    if (on && steps[on[0]]) {
      const [at, group] = on, left = x(begin(steps, at)), right = x(steps[at].timestamp);
      pen.strokeStyle = color('--ink-2'); pen.lineWidth = 1;
      pen.strokeRect(Math.round(left) - 0.5, TOP - 0.5, Math.max(2, right - left), ROW * groups() + 1);
      if (group != null) { pen.lineWidth = 2; pen.strokeRect(Math.round(left) - 0.5, y(group + 1) + 0.5, Math.max(2, right - left), ROW); }
    }
  });

  /** What a step has, in words. @param {Step | undefined} step */
  const told = (step) => (step ? say.step(clock(step.timestamp), sum(step.counts), bounded(counted().bounds_us, quantile(step.counts, 50)), bounded(counted().bounds_us, quantile(step.counts, 99))) : text.chart.empty);
  effect(() => {
    const steps = counted().samples, step = steps[cross.value?.[0] ?? steps.length - 1];
    canvas.setAttribute('aria-label', `${it.title}: ${told(step)}`);
  });
  canvas.addEventListener('pointermove', (event) => {
    const { from, until, inside } = frame(), steps = counted().samples;
    const time = from + ((event.offsetX - LEFT) / inside) * (until - from), at = steps.findIndex((step) => step.timestamp >= time);
    const group = groups() - 1 - Math.floor((event.offsetY - TOP) / ROW);
    cross.value = at < 0 || event.offsetX < LEFT ? null : [at, group >= 0 && group < groups() ? group : null];
  });
  canvas.addEventListener('pointerleave', () => { cross.value = null; });
  canvas.addEventListener('blur', () => { cross.value = null; });
  canvas.addEventListener('keydown', (event) => {
    const steps = counted().samples, [at, group] = cross.peek() ?? [steps.length, null];
    const step = event.key === 'ArrowLeft' ? -1 : event.key === 'ArrowRight' ? 1 : 0, up = event.key === 'ArrowUp' ? 1 : event.key === 'ArrowDown' ? -1 : 0;
    if ((!step && !up) || steps.length === 0) return;
    cross.value = [Math.max(0, Math.min(steps.length - 1, at + step)), up ? Math.max(0, Math.min(groups() - 1, (group ?? -1) + up)) : group];
    event.preventDefault();
  });

  /** The step and group that are pointed at, else what the colours and lines mean. */
  const legend = () => {
    const largest = most(), { bounds_us: bounds, samples: steps } = counted();
    if (largest === 0) return null;
    const shades = Array.from({ length: SHADES }, (_, at) => at + 1).filter((shade) => limit(shade, largest) > limit(shade - 1, largest));
    const [at, group] = cross.value ?? [-1, null], step = steps[at];
    return [
      h('ul', { class: 'legend' }, h('li', null, h('i', { class: 'own' }), text.latency.p50), h('li', null, h('i', { class: 'own dashed' }), text.latency.p99),
        shades.map((shade) => h('li', null, h('i', { class: 'heat', vars: { '--own': `var(--heat-${shade})` } }), say.upTo(limit(shade, largest))))),
      h('p', { class: 'pale small' }, step ? [told(step), group != null && `; ${say.group(grouped(bounds, group), step.counts[group])}`] : say.point)];
  };
  const rows = () => {
    const { bounds_us: bounds, samples } = counted();
    const steps = samples.slice(-ROWS_MAX).reverse(), used = [...bounds, 0].map((_, group) => group).filter((group) => steps.some((step) => step.counts[group] > 0));
    if (steps.length === 0) return h('p', { class: 'empty' }, text.chart.empty);
    const head = [text.chart.time, say.count, text.latency.p50, text.latency.p99, ...used.map((group) => grouped(bounds, group))];
    return h('div', { class: 'as-table', tabindex: 0, role: 'group', 'aria-label': it.title }, h('table', { class: 'plain' },
      h('thead', null, h('tr', null, head.map((name, at) => h('th', { scope: 'col', class: at ? 'number' : '' }, name)))),
      h('tbody', null, steps.map((step) => h('tr', null, h('td', null, clock(step.timestamp)), [
        whole(sum(step.counts)), bounded(bounds, quantile(step.counts, 50)), bounded(bounds, quantile(step.counts, 99)), ...used.map((group) => whole(step.counts[group]))].map((cell) => h('td', { class: 'number' }, cell)))))));
  };
  return h('figure', { class: 'chart' },
    h('figcaption', null, it.title, h('span', { class: 'tools' },
      h('button', { type: 'button', class: 'link small', onclick: () => { isTable.value = !isTable.peek(); } }, () => (isTable.value ? text.chart.asChart : text.chart.asTable)))),
    h('div', { hidden: () => isTable.value }, canvas, legend), () => (isTable.value ? rows() : null));
}
