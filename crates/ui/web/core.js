// @ts-check
/** Signals and elements: all there is between data and the page. */

/** @typedef {{ run: () => void, sources: Set<Set<Effect>>, parts: (() => void)[] }} Effect */
/**
 * A value that effects follow.
 * @template T
 * @typedef {{ value: T, peek: () => T }} Signal
 */

/** @type {Effect | null} the effect that what is made now belongs to */
let owner = null;
/** @type {Effect | null} the effect that follows what is read now */
let reader = null;
/** @type {Set<Effect>} */
const due = new Set();

/**
 * @template T
 * @param {T} value
 * @returns {Signal<T>}
 */
export function signal(value) {
  /** @type {Set<Effect>} */
  const readers = new Set();
  return {
    get value() {
      if (reader) {
        readers.add(reader);
        reader.sources.add(readers);
      }
      return value;
    },
    set value(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const one of readers) {
        if (due.size === 0) queueMicrotask(flush);
        due.add(one);
      }
    },
    peek: () => value,
  };
}

function flush() {
  for (const one of due) {
    due.delete(one);
    one.run();
  }
}

/** @param {Effect} it */
function forget(it) {
  for (const readers of it.sources) readers.delete(it);
  it.sources.clear();
  for (const part of it.parts.splice(0)) part();
}

/**
 * Runs `work` now and whenever a signal that it read changes.
 * @param {() => void} work
 * @returns {() => void} ends it
 */
export function effect(work) {
  /** @type {Effect} */
  const it = {
    sources: new Set(),
    parts: [],
    run() {
      forget(it);
      const outer = [owner, reader];
      owner = reader = it;
      try { work(); } finally { [owner, reader] = outer; }
    },
  };
  const end = () => { forget(it); due.delete(it); };
  owner?.parts.push(end);
  it.run();
  return end;
}

/**
 * As {@link effect}, and it belongs to nobody: it is there until it is ended.
 * @param {() => void} work
 * @returns {() => void} ends it
 */
function root(work) {
  const outer = [owner, reader];
  owner = reader = null;
  try { return effect(work); } finally { [owner, reader] = outer; }
}

/**
 * Runs `work` without following the signals that it reads.
 * @template T
 * @param {() => T} work
 * @returns {T}
 */
export function untracked(work) {
  const outer = reader;
  reader = null;
  try { return work(); } finally { reader = outer; }
}

/** @param {() => void} work  run when what surrounds goes */
export function whenGone(work) { owner?.parts.push(work); }

/**
 * A signal that is what `work` says, as long as what surrounds is there.
 * @template T
 * @param {() => T} work
 * @returns {Signal<T>}
 */
export function computed(work) {
  const to = signal(/** @type {T} */ (/** @type {unknown} */ (undefined)));
  effect(() => { to.value = work(); });
  return to;
}

/**
 * Runs `work` every so often while what surrounds is there and the page is seen.
 * @param {number} milliseconds
 * @param {() => void} work
 */
export function every(milliseconds, work) {
  const timer = setInterval(() => { if (!document.hidden) work(); }, milliseconds);
  const seen = () => { if (!document.hidden) work(); };
  document.addEventListener('visibilitychange', seen);
  whenGone(() => { clearInterval(timer); document.removeEventListener('visibilitychange', seen); });
}

const SVG = 'http://www.w3.org/2000/svg';
const OF_SVG = new Set(['svg', 'use', 'path', 'g', 'circle', 'rect', 'line', 'polyline', 'text', 'title', 'defs', 'marker']);

/**
 * An element. Attributes and children that are functions follow the signals that they read; `on...` listens. Text is
 * never read as HTML.
 * @param {string} name
 * @param {Record<string, any> | null} [attributes]
 * @param {...any} children
 * @returns {HTMLElement}
 */
export function h(name, attributes, ...children) {
  const element = /** @type {HTMLElement} */ (OF_SVG.has(name)
    ? document.createElementNS(SVG, name) : document.createElement(name));
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (typeof value === 'function') effect(() => set(element, key, value()));
    else set(element, key, value);
  }
  add(element, children);
  return element;
}

/** Attributes that are properties, as they change while the user types. */
const PROPERTIES = new Set(['value', 'checked', 'disabled', 'indeterminate', 'selected', 'open']);

/** @param {HTMLElement} element @param {string} key @param {any} value */
function set(element, key, value) {
  if (key === 'vars') {
    // Styles of one element go by properties of the sheet: the content policy lets no attribute have them.
    for (const [name, to] of Object.entries(value ?? {})) element.style.setProperty(name, String(to));
  } else if (PROPERTIES.has(key) && key in element) /** @type {any} */ (element)[key] = value;
  else if (value === false || value == null) element.removeAttribute(key);
  else element.setAttribute(key, value === true ? '' : String(value));
}

/** @param {Element | DocumentFragment} to @param {any} child */
export function add(to, child) {
  if (Array.isArray(child)) child.forEach((one) => add(to, one));
  else if (typeof child === 'function') {
    const end = document.createComment('');
    to.append(end);
    /** @type {ChildNode[]} */
    let shown = [];
    effect(() => {
      const box = document.createDocumentFragment();
      add(box, child());
      for (const old of shown) old.remove();
      shown = [...box.childNodes];
      end.before(box);
    });
    whenGone(() => shown.forEach((old) => old.remove()));
  } else if (child instanceof Node) to.append(child);
  else if (child != null && child !== false) to.append(document.createTextNode(String(child)));
}

/**
 * A list whose elements stay as long as their keys do.
 * @template T
 * @param {() => T[]} items
 * @param {(item: T) => string} key
 * @param {(item: Signal<T>) => Node} show
 */
export function keyed(items, key, show) {
  /** @type {Map<string, { item: Signal<T>, node: ChildNode, end: () => void }>} */
  const kept = new Map();
  const box = document.createDocumentFragment();
  const last = document.createComment('');
  box.append(last);
  effect(() => {
    const now = items();
    untracked(() => {
      const names = new Set(now.map(key));
      for (const [name, old] of kept) {
        if (names.has(name)) continue;
        old.end(); old.node.remove(); kept.delete(name);
      }
      /** @type {ChildNode} */
      let before = last;
      for (const one of [...now].reverse()) {
        const name = key(one);
        let there = kept.get(name);
        if (there) there.item.value = one;
        else {
          const item = signal(one);
          /** @type {ChildNode | undefined} */
          let node;
          const end = root(() => { node = /** @type {ChildNode} */ (untracked(() => show(item))); });
          there = { item, node: /** @type {ChildNode} */ (/** @type {unknown} */ (node)), end };
          kept.set(name, there);
        }
        if (there.node.nextSibling !== before) before.before(there.node);
        before = there.node;
      }
    });
  });
  whenGone(() => { for (const old of kept.values()) { old.end(); old.node.remove(); } last.remove(); });
  return box;
}
