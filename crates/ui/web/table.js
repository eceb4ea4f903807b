// @ts-check
/**
 * A list of any length: rows are asked for by the page as they come into view, and only those in view are elements.
 * Filter, order and columns are in the hash; the columns chosen last are remembered by the browser.
 */
import { computed, effect, every, h, signal, untracked, whenGone } from './core.js';
import { Refused, ask, query } from './api.js';
import { said, say } from './route.js';
import { text } from './text.js';
import { vhost } from './vhost.js';

/** Rows that are asked for at once. */
const PAGE = 100;
/** Rows above and below what is in view. */
const MARGIN = 12;
/** Rows that are elements at once, at most. */
const ROWS_MAX = 120;
/** Letters of a number that every column has room for: nothing has to be clipped, which takes time in each frame. */
const FITS = 8;
/** The tallest that a browser lays out soundly, in pixels. */
const TALL_MAX = 8_000_000;

/**
 * @typedef {{ key: string, name: string, width: string, show: (row: any) => any, number?: boolean, sorts?: boolean, hidden?: boolean, ages?: boolean, title?: (row: any) => string }} Column
 * @typedef {{ page: number, size: number, sort: string, reverse: boolean, name: string }} Wanted
 * @typedef {{ items: any[], total: number, all: number }} Page
 * @typedef {{
 *   id: string, label: string, columns: Column[], load: (wanted: Wanted) => Promise<Page>,
 *   key: (row: any) => string, href?: (row: any) => string, sort?: string, reverse?: boolean, selects?: boolean,
 *   empty?: any, milliseconds?: number, title?: (row: any) => string }} Table
 */

/**
 * Loads pages of a list of the API.
 * @param {() => string} list @param {Record<string, string>} [more]  further parts of the query
 * @returns {(wanted: Wanted) => Promise<Page>}
 */
export const listed = (list, more = {}) => async ({ page, size, name, sort, reverse }) => {
  const got = await ask(`${list()}${query({ page, page_size: size, pagination: 'true', name, use_regex: 'false', sort, sort_reverse: reverse, ...more })}`);
  return { items: got.items, total: got.filtered_count, all: got.total_count };
};

/** The height of a row by the density that was chosen. */
const rowHeight = () => parseInt(getComputedStyle(document.documentElement).getPropertyValue('--row'), 10) || 30;

/** @param {Table} it */
function chosenColumns(it) {
  const stored = localStorage.getItem(`columns-${it.id}`);
  const standard = it.columns.filter((column) => !column.hidden).map((column) => column.key).join(',');
  return computed(() => {
    const names = said('columns', stored ?? standard).split(',');
    const chosen = it.columns.filter((column, at) => at === 0 || names.includes(column.key));
    return chosen;
  });
}

/** @param {Table} it @param {import('./core.js').Signal<Column[]>} chosen */
function chooser(it, chosen) {
  const flip = (/** @type {Column} */ column) => {
    const now = chosen.peek(), has = now.includes(column);
    const keys = it.columns.filter((own) => (own === column ? !has : now.includes(own))).map((own) => own.key).join(',');
    localStorage.setItem(`columns-${it.id}`, keys);
    say({ columns: keys });
  };
  return h('details', { class: 'chooser' }, h('summary', null, text.table.columns), h('div', null,
    it.columns.slice(1).map((column) => h('label', null, h('input', {
      type: 'checkbox', checked: () => chosen.value.includes(column), onchange: () => flip(column),
    }), column.name)),
    h('button', { type: 'button', onclick: () => { localStorage.removeItem(`columns-${it.id}`); say({ columns: null }); } }, text.table.reset)));
}

/** @param {Table} it */
export function table(it) {
  const total = signal(0), all = signal(0), top = signal(0), room = signal(600), tick = signal(0);
  const refused = signal(/** @type {string} */ (''));
  /** The keys of rows that are selected, with what they were. */
  const selected = signal(/** @type {Map<string, any>} */ (new Map()));
  const isLoaded = signal(false);
  const chosen = chosenColumns(it);
  const sort = computed(() => said('sort', it.sort ?? it.columns[0].key));
  const reverse = computed(() => said('reverse', it.reverse ? '1' : '0') === '1');
  const filter = computed(() => said('name'));
  /** @type {Map<number, any[]>} */
  let pages = new Map();
  /** @type {Set<string>} */
  const coming = new Set();
  let age = 0, row = rowHeight(), isOver = false;
  whenGone(() => { isOver = true; });

  const want = async (/** @type {number} */ page) => {
    const mine = age, name = `${age}/${page}`;
    if (coming.has(name)) return;
    coming.add(name);
    try {
      const got = await it.load({ page, size: PAGE, sort: sort.peek(), reverse: reverse.peek(), name: filter.peek() });
      if (isOver || mine !== age) return;
      pages.set(page, got.items);
      total.value = got.total; all.value = got.all; isLoaded.value = true; refused.value = ''; tick.value += 1;
    } catch (error) {
      // The last page went while it was asked for: the first says how many there are.
      if (error instanceof Refused && error.status === 400 && page > 1) { total.value = (page - 1) * PAGE; pages.delete(page); } else if (error instanceof Refused && error.status > 401) refused.value = error.message;
    } finally { coming.delete(name); }
  };

  const view = h('div', { class: 'view', tabindex: 0, role: 'table', 'aria-label': it.label, 'aria-rowcount': () => total.value + 1 });
  /** Where the first row is, where there are more than can be laid out: the scroll bar then stands for parts of the list. */
  const stretch = computed(() => Math.max(1, (total.value * row) / TALL_MAX));
  const tall = h('div', { class: 'tall', role: 'rowgroup', vars: () => ({ '--tall': `${Math.min(total.value * row, TALL_MAX)}px` }) });
  const titles = h('div', { class: 'titles', role: 'row', 'aria-rowindex': 1 }, () => [
    it.selects && h('div', { role: 'columnheader' }, h('input', {
      type: 'checkbox', 'aria-label': text.table.selectAll, checked: () => selected.value.size > 0,
      onchange: () => { selected.value = selected.peek().size > 0 ? new Map() : new Map([...pages.values()].flat().map((one) => [it.key(one), one])); },
    })),
    chosen.value.map((column) => h('div', {
      role: 'columnheader', class: column.number ? 'number' : '',
      'aria-sort': () => (column.sorts === false ? null : sort.value === column.key ? (reverse.value ? 'descending' : 'ascending') : 'none'),
    }, column.sorts === false ? h('button', { type: 'button', disabled: true }, column.name) : h('button', {
      type: 'button', title: text.table.sort(column.name),
      onclick: () => (sort.peek() === column.key
        ? say({ reverse: reverse.peek() ? '0' : '1' }) : say({ sort: column.key, reverse: column.number ? '1' : '0' })),
    }, column.name, () => (sort.value === column.key ? (reverse.value ? ' ↓' : ' ↑') : ''))))]);
  view.append(h('div', { role: 'rowgroup' }, titles), tall);
  effect(() => {
    const widths = chosen.value.map((column) => column.width);
    const all = it.selects ? ['36px', ...widths] : widths;
    view.style.setProperty('--columns', all.join(' '));
    // Each width begins with the least that it may be.
    view.style.setProperty('--least', `${all.reduce((sum, width) => sum + Number(/\d+/.exec(width)?.[0] ?? 0), 0)}px`);
  });

  const flip = (/** @type {any} */ one) => {
    const next = new Map(selected.peek()), key = it.key(one);
    if (!next.delete(key)) next.set(key, one);
    selected.value = next;
  };
  /** @param {number} at @param {number} place */
  const shown = (at, place) => {
    const one = pages.get(Math.floor(at / PAGE) + 1)?.[at % PAGE];
    if (!one) return h('div', { class: 'row pale', role: 'row', 'aria-rowindex': at + 2, vars: { top: `${place}px` } }, h('div', { role: 'cell' }, '…'));
    const key = it.key(one), isOn = selected.peek().has(key);
    return h('div', { class: isOn ? 'row on' : 'row', role: 'row', 'aria-rowindex': at + 2, vars: { top: `${place}px` }, 'data-key': key },
      it.selects && h('div', { role: 'cell' }, h('input', { type: 'checkbox', checked: isOn, 'aria-label': text.table.select(key), onchange: () => flip(one) })),
      chosen.peek().map((column, n) => {
        const what = column.show(one), title = column.title?.(one) ?? (typeof what === 'string' ? what : null);
        const fits = column.number && typeof what === 'string' && what.length <= FITS;
        return h('div', { role: 'cell', class: fits ? 'number fits' : column.number ? 'number' : '', title },
          n === 0 && it.href ? h('a', { href: it.href(one) }, what) : what);
      }));
  };
  /** Rows that are elements, by their place in the list: each is made anew only where it would look otherwise. */
  const drawn = new Map();
  const draw = (/** @type {number} */ at, /** @type {number} */ place, /** @type {HTMLElement | null} */ next) => {
    const one = pages.get(Math.floor(at / PAGE) + 1)?.[at % PAGE], isOn = !!one && selected.peek().has(it.key(one)), columns = chosen.peek();
    let row = drawn.get(at);
    // A page that is loaded again is mostly as it was, and looks so unless a column tells how long something has lasted.
    if (row && row.one !== one && one && row.one && !columns.some((own) => own.ages) && JSON.stringify(row.one) === JSON.stringify(one)) row.one = one;
    if (row && row.one === one && row.isOn === isOn && row.columns === columns) {
      if (row.place !== place) row.element.style.setProperty('top', `${place}px`);
      row.place = place;
    } else {
      row?.element.remove();
      row = { one, isOn, columns, place, element: shown(at, place) };
      drawn.set(at, row);
    }
    if (row.element.nextSibling !== next || !row.element.parentNode) tall.insertBefore(row.element, next);
    return row.element;
  };
  let before = 0;
  effect(() => {
    tick.value; selected.value; chosen.value;
    const scrolled = top.value, factor = stretch.value, seen = Math.ceil(room.value / row);
    const first = Math.max(0, Math.floor((scrolled * factor) / row) - MARGIN);
    const last = Math.min(total.value, first + Math.min(ROWS_MAX, seen + 2 * MARGIN));
    untracked(() => {
      const focused = /** @type {HTMLElement | null} */ (document.activeElement?.closest?.('.row'))?.dataset.key;
      const held = tall.contains(document.activeElement) ? document.activeElement : null;
      const which = held instanceof HTMLInputElement ? 'input' : 'a';
      // Whoever scrolls finds the next page loaded: its rows come one by one, and are not all made when it is there.
      const ahead = Math.sign(scrolled - before);
      before = scrolled;
      const from = Math.max(1, Math.floor(first / PAGE) + 1 + Math.min(0, ahead));
      const to = Math.min(Math.ceil(last / PAGE) + Math.max(0, ahead), Math.ceil(total.peek() / PAGE));
      for (let page = from; page <= to; page += 1) if (!pages.has(page)) void want(page);
      for (const [at, { element }] of drawn) if (at < first || at >= last) { element.remove(); drawn.delete(at); }
      let next = null;
      // Rows keep their distance from what is in view, whatever the bar stands for.
      for (let at = last - 1; at >= first; at -= 1) next = draw(at, factor === 1 ? at * row : scrolled + at * row - scrolled * factor, next);
      if (held && focused && document.activeElement !== held) /** @type {HTMLElement | null} */ (tall.querySelector(`[data-key="${CSS.escape(focused)}"] ${which}`))?.focus({ preventScroll: true });
    });
  });

  view.addEventListener('scroll', () => { top.value = view.scrollTop; }, { passive: true });
  view.addEventListener('keydown', (event) => {
    const rows = /** @type {HTMLElement[]} */ ([...tall.querySelectorAll('.row')]);
    const on = rows.findIndex((one) => one.contains(document.activeElement));
    const step = event.key === 'ArrowDown' || event.key === 'j' ? 1 : event.key === 'ArrowUp' || event.key === 'k' ? -1 : 0;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (step) {
      const next = rows[Math.max(0, Math.min(rows.length - 1, on < 0 ? 0 : on + step))];
      /** @type {HTMLElement | null} */ (next?.querySelector('a') ?? next?.querySelector('input'))?.focus();
      next?.scrollIntoView({ block: 'nearest' });
      event.preventDefault();
    } else if (event.key === 'x' && it.selects && on >= 0) {
      /** @type {HTMLElement | null} */ (rows[on].querySelector('input'))?.click();
      event.preventDefault();
    }
  });
  const size = new ResizeObserver(() => { room.value = view.clientHeight; row = rowHeight(); });
  size.observe(view);
  whenGone(() => size.disconnect());

  const reset = () => { age += 1; pages = new Map(); view.scrollTop = 0; top.value = 0; void want(1); };
  const again = () => {
    const now = Math.floor((top.peek() * stretch.peek()) / row / PAGE) + 1;
    for (const page of [...pages.keys()]) if (Math.abs(page - now) > 2) pages.delete(page);
    void want(now);
  };
  every(it.milliseconds ?? 5000, again);
  let isFirst = true;
  effect(() => {
    sort.value; reverse.value; filter.value; vhost.value;
    untracked(() => (isFirst ? void want(1) : reset()));
    isFirst = false;
  });

  const box = h('input', {
    type: 'search', class: 'filter', id: 'filter', placeholder: text.table.filterHint, 'aria-label': text.table.filter, value: filter.peek(),
    oninput: (/** @type {Event} */ event) => say({ name: /** @type {HTMLInputElement} */ (event.target).value }),
  });
  // By the address, where it is another than what one types.
  effect(() => { if (document.activeElement !== box) /** @type {HTMLInputElement} */ (box).value = filter.value; });
  const tools = h('div', { class: 'tools' }, box,
    h('span', { class: 'pale', role: 'status' }, () => (isLoaded.value ? text.table.shown(total.value, all.value) : '')),
    h('span', { class: 'end' }), chooser(it, chosen));
  const element = h('div', { class: 'table' }, view);
  const note = h('div', { role: 'status', class: 'notes' }, () => (refused.value ? h('p', { class: 'band bad' }, text.refused(refused.value))
    : isLoaded.value && total.value === 0 ? h('p', { class: 'empty' }, filter.value ? text.table.noMatch(filter.value) : it.empty ?? text.table.empty) : null));
  return { element, tools, note, total, selected, again: reset };
}
