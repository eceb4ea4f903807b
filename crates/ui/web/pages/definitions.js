// @ts-check
/** Definitions: taken out as a file, and put in with a look at what would come of it first. */
import { ask, path, post } from '../api.js';
import { h, signal } from '../core.js';
import { attempt, note } from '../dialog.js';
import { bytes, visible, whole } from '../format.js';
import { card, plain } from '../parts.js';
import { text } from '../text.js';
import { vhost } from '../vhost.js';

const say = text.definitions;
/** Bytes of a file that is read. */
const FILE_MAX = 20_000_000;
/** Lists of definitions, with what names an entry. */
const LISTS = /** @type {Record<string, string[]>} */ ({
  vhosts: ['name'], users: ['name'], permissions: ['user', 'vhost'], topic_permissions: ['user', 'vhost', 'exchange'], parameters: ['component', 'name', 'vhost'], global_parameters: ['name'],
  policies: ['vhost', 'name'], queues: ['vhost', 'name'], exchanges: ['vhost', 'name'], bindings: ['vhost', 'source', 'destination_type', 'destination', 'routing_key'],
});

const where = () => (vhost.value ? `definitions/${path(vhost.value.slice(1))}` : 'definitions');

/** A value with its keys in order, so that the same is the same text. @param {any} value @returns {string} */
function steady(value) {
  if (Array.isArray(value)) return `[${value.map(steady).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${steady(value[key])}`).join(',')}}`;
}

/** Entries of a list by their names. @param {any} file @param {string} list @param {string} [of]  the virtual host of all of them */
function named(file, list, of) {
  const all = Array.isArray(file?.[list]) ? file[list] : [];
  return new Map(all.map((/** @type {any} */ one) => {
    const entry = of != null && LISTS[list].includes('vhost') ? { vhost: of, ...one } : one;
    return [LISTS[list].map((key) => String(entry?.[key] ?? '')).join(' · '), steady(entry)];
  }));
}

/** What would be new, is the same, or differs. @param {any} now @param {any} file @param {string} [of] */
export function compared(now, file, of) {
  return Object.keys(LISTS).flatMap((list) => [...named(file, list, of)].map(([name, value]) => {
    const there = named(now, list, of).get(name);
    return { list, name, kind: there === undefined ? 'new' : there === value ? 'same' : 'differs' };
  }));
}

async function download() {
  await attempt(async () => {
    const got = await ask(where());
    const address = URL.createObjectURL(new Blob([JSON.stringify(got, null, 2)], { type: 'application/json' }));
    /** @type {HTMLAnchorElement} */ (h('a', { href: address, download: `definitions-${new Date().toISOString().slice(0, 10)}.json` })).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  });
}

export default function definitions() {
  const file = signal(/** @type {any} */ (null)), rows = signal(/** @type {{ list: string, name: string, kind: string }[]} */ ([])), report = signal(/** @type {any} */ (null));
  const read = (/** @type {File | undefined} */ chosen) => attempt(async () => {
    report.value = null; file.value = null;
    if (!chosen) return;
    if (chosen.size > FILE_MAX) throw new Error(say.tooLarge(bytes(FILE_MAX)));
    const all = JSON.parse(await chosen.text());
    rows.value = compared(await ask(where()), all, vhost.peek() ? vhost.peek().slice(1) : undefined);
    report.value = await post(`${where()}?dry_run=true&report=true`, all).catch((error) => ({ refused: [{ reason: error.message }], refused_count: 1 }));
    file.value = all;
  });
  const change = () => rows.value.filter((one) => one.kind !== 'same');
  const put = () => attempt(async () => {
    const got = await post(`${where()}?report=true`, file.peek());
    note(got?.imported === false ? say.notImported(got.reason ?? '') : say.imported, got?.imported === false ? 'bad' : 'good');
    rows.value = compared(await ask(where()), file.peek(), vhost.peek() ? vhost.peek().slice(1) : undefined);
  });
  return [
    h('h1', null, say.title),
    card(say.export, h('p', null, () => (vhost.value ? say.exportVhost(visible(vhost.value.slice(1))) : say.exportAll)), h('p', { class: 'tools' }, h('button', { type: 'button', class: 'main', onclick: () => void download() }, say.download))),
    card(say.import, h('p', null, say.importWhy), h('p', { class: 'tools' }, h('input', { type: 'file', accept: '.json,application/json', 'aria-label': say.file, onchange: (/** @type {Event} */ event) => void read(/** @type {HTMLInputElement} */ (event.target).files?.[0]) }))),
    () => (file.value ? card(say.compare,
      h('p', null, say.sums(rows.value.filter((one) => one.kind === 'new').length, rows.value.filter((one) => one.kind === 'differs').length, rows.value.filter((one) => one.kind === 'same').length)),
      (report.value?.refused_count ?? 0) > 0 ? [h('p', { class: 'band bad' }, say.refused(report.value.refused_count)), plain([[say.entry], [say.reason]], (report.value.refused ?? []).map((/** @type {any} */ one) => [`${one.list ?? ''} ${visible(String(one.entry ?? ''))}`, visible(String(one.reason ?? ''))]))] : null,
      plain([[say.list], [text.columns.name], [say.becomes]], change().slice(0, 500).map((one) => [one.list, h('span', { class: 'name' }, visible(one.name)), one.kind === 'new' ? say.isNew : say.differs]), say.nothingNew),
      change().length > 500 && h('p', { class: 'pale' }, say.others(whole(change().length - 500))),
      h('p', { class: 'tools' }, h('button', { type: 'button', class: 'main', disabled: (report.value?.refused_count ?? 0) > 0, onclick: () => void put() }, say.put(change().length)))) : null),
  ];
}
