// @ts-check
/** What is around every page: the name, where to go, which virtual host, who is there, and what is wrong. */
import { ask, away, logOut, may, polled, seeWhoIsThere, user } from './api.js';
import { add, effect, every, h, signal, untracked } from './core.js';
import { age, bytes } from './format.js';
import { NAV, find } from './pages.js';
import { parse, place, route } from './route.js';
import { hearKeys, openPalette, showKeys } from './keys.js';
import { isLive, now } from './live.js';
import { text } from './text.js';
import { theme, THEMES } from './theme.js';
import { vhost, vhosts } from './vhost.js';

/** How long alarms may go unseen, in milliseconds. */
const ALARMS_MS = 5000;

function head() {
  return h('header', { class: 'head' },
    h('a', { class: 'skip', href: '#main', onclick: (/** @type {Event} */ event) => { event.preventDefault(); document.getElementById('main')?.focus(); } }, text.skip),
    h('a', { class: 'brand', href: '#/' }, 'Leveret'),
    h('span', { class: 'cluster' }, () => user.value?.cluster_name ?? ''),
    h('button', { type: 'button', class: 'go', onclick: () => void openPalette('') }, text.goTo, h('kbd', null, 'Ctrl K')),
    h('label', null, text.vhost, h('select', { onchange: (/** @type {Event} */ event) => { vhost.value = /** @type {HTMLSelectElement} */ (event.target).value; } },
      () => [h('option', { value: '' }, text.allVhosts), ...vhosts.value.map((one) => h('option', { value: `=${one}`, selected: vhost.value === `=${one}` }, one))])),
    h('label', null, text.theme, h('select', { onchange: (/** @type {Event} */ event) => { theme.value = /** @type {any} */ (event.target).value; } },
      THEMES.map((one) => h('option', { value: one, selected: theme.peek() === one }, text.themes[one])))),
    h('button', { type: 'button', class: 'link', onclick: () => void showKeys(), title: text.keys, 'aria-label': text.keys }, '?'),
    h('span', null, () => user.value?.name ?? ''),
    h('button', { type: 'button', class: 'link', onclick: () => void logOut() }, text.logOut));
}

function nav() {
  /** Whether a page is shown, or one below it. */
  const isHere = (/** @type {string} */ to) => to.split('/').every((name, at) => (route.value.path[at] ?? '') === name);
  return h('nav', { 'aria-label': text.pages }, NAV.map(([title, pages]) => [
    h('h2', null, title),
    h('ul', null, () => pages.filter(([, , tag]) => !tag || may(tag)).map(([to, name]) => h('li', null,
      h('a', { href: `#/${to}`, 'aria-current': () => (isHere(to) ? 'page' : null) }, name))))]));
}

/** What is wrong with the node, on every page. */
function bands() {
  let isFirst = true;
  const alarms = polled(async () => {
    // Who sees figures of the node is told of alarms with them, from the first second on.
    if (may('monitoring') && (isFirst || isLive.peek())) { isFirst = false; return ''; }
    try { await ask('health/checks/alarms'); return ''; } catch (error) {
      return /** @type {any} */ (error).status === 503 ? /** @type {Error} */ (error).message : '';
    }
  }, ALARMS_MS);
  const alarm = () => {
    const node = isLive.value ? now.value?.node : undefined;
    if (!node) return alarms.value.value;
    return node.mem_alarm ? text.advice.memoryAlarm(bytes(node.mem_used), bytes(node.mem_limit))
      : node.disk_free_alarm ? text.advice.diskAlarm(bytes(node.disk_free), bytes(node.disk_free_limit)) : '';
  };
  const tick = signal(0);
  every(1000, () => { if (away.peek()) tick.value += 1; });
  every(3000, () => { if (away.peek()) void seeWhoIsThere(); });
  return h('div', { role: 'status', class: 'bands' },
    () => (tick.value, away.value ? h('p', { class: 'band bad' }, text.awaySince(age(away.value.since))) : null),
    () => (alarm() ? h('p', { class: 'band bad' }, h('a', { href: '#/alarms' }, alarm())) : null));
}

let isHearing = false;

export function shell() {
  if (!isHearing) hearKeys();
  isHearing = true;
  const main = h('main', { id: 'main', tabindex: 0 });
  /** What is made for the page that is asked for; nothing yet: the one before stays. */
  const shown = signal(/** @type {(() => any) | null} */ (null));
  effect(() => {
    const at = place.value, path = parse(at).path;
    void find(path).then((module) => {
      // Another page may have been asked for meanwhile.
      if (place.peek() === at) shown.value = () => module.default(path);
    });
  });
  let isFirst = true;
  effect(() => {
    const page = shown.value;
    if (!page) return;
    const box = document.createDocumentFragment();
    untracked(() => add(box, [bands(), page()]));
    main.replaceChildren(box);
    main.scrollTop = 0;
    // Where pages are in a row, the one that is open may be out of sight.
    requestAnimationFrame(() => document.querySelector('nav a[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }));
    document.title = `${main.querySelector('h1')?.textContent ?? ''} · Leveret`;
    // Who hears the page hears of the new one.
    if (!isFirst) main.focus({ preventScroll: true });
    isFirst = false;
  });
  return h('div', { class: 'frame' }, head(), nav(), main);
}
