// @ts-check
/** Super streams: the partitions of each, what is in them, and how far consumers have read. */
import { ask, path, polled, put, query } from '../api.js';
import { computed, effect, h, keyed, signal, untracked } from '../core.js';
import { ask as askFor, note } from '../dialog.js';
import { vhostField } from '../forms.js';
import { named, visible, whole } from '../format.js';
import { badge, exchangeLink, orMissing, plain, queueLink } from '../parts.js';
import { said, say as remember } from '../route.js';
import { text } from '../text.js';
import { vhost, within } from '../vhost.js';

const say = text.superStreams;
/** Super streams that are shown, and partitions of each. */
const MOST = 50, PARTITIONS_MAX = 100;
/** Requests that are under way at once. */
const AT_ONCE = 6;
const EACH_MS = 10_000;

/** @typedef {{ name: string, key: string, messages: number | null, consumers: number | null, end: number | null, offsets: [string, number][] }} Partition */
/** @typedef {{ vhost: string, name: string }} SuperStream */

/** As `Promise.all`, a few at a time. @template A, B @param {A[]} all @param {(one: A) => Promise<B>} work @returns {Promise<B[]>} */
async function each(all, work) {
  /** @type {B[]} */
  const done = [];
  const waiting = [...all.entries()];
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) done[next[0]] = await work(next[1]);
  }));
  return done;
}

/** What the node answers; nothing where it says no: the rest is shown all the same. @param {string} where */
async function asked(where) {
  try { return await ask(where); } catch { return null; }
}

/** The partitions of a super stream, in their order. @param {SuperStream} it */
async function bindings(it) {
  const rows = (await ask(`exchanges/${path(it.vhost, it.name)}/bindings/source`)).filter((/** @type {any} */ one) => one.destination_type === 'queue');
  const order = (/** @type {any} */ one) => Number(one.arguments?.['x-stream-partition-order'] ?? rows.length);
  return rows.sort((/** @type {any} */ a, /** @type {any} */ b) => order(a) - order(b));
}

/** One partition with what it keeps of its consumers. @param {string} vhost @param {any} binding @returns {Promise<Partition>} */
async function partition(vhost, binding) {
  const name = binding.destination, of = path(vhost, name);
  const [queue, tracking, place] = await Promise.all([
    asked(`queues/${of}${query({ columns: 'messages,consumers' })}`), asked(`stream/${of}/tracking${query({ type: 'offset' })}`), asked(`x/queues/${of}/messages${query({ from: 'next', count: 0 })}`)]);
  return {
    name, key: binding.routing_key, messages: queue?.messages ?? null, consumers: queue?.consumers ?? null, end: place?.end_offset ?? null,
    offsets: Object.entries(tracking?.offsets ?? {}).map(([reference, offset]) => [reference, Number(offset)]),
  };
}

/** How many messages lie behind the one that a consumer stored the offset of. @param {Partition} of @param {number} offset */
const lag = (of, offset) => (of.end == null ? null : Math.max(0, of.end - 1 - offset));

/** @param {Partition} it */
const offsets = (it) => (it.offsets.length === 0 ? h('span', { class: 'pale' }, say.noOffsets)
  : h('ul', { class: 'offsets' }, it.offsets.sort(([a], [b]) => (a < b ? -1 : 1)).map(([reference, offset]) => {
    const behind = lag(it, offset);
    return h('li', null, h('span', { class: 'name' }, visible(reference)), ' ', h('span', { class: 'pale' }, say.at(offset)), ' ',
      behind == null ? null : behind === 0 ? badge(say.upToDate, 'good') : badge(say.lag(behind), 'warn'));
  })));

/** @param {SuperStream} it @param {import('../core.js').Signal<boolean>} isOpen */
function partitions(it, isOpen) {
  const got = polled(async () => {
    const rows = await bindings(it);
    return { count: rows.length, shown: isOpen.peek() ? await each(rows.slice(0, PARTITIONS_MAX), (one) => partition(it.vhost, one)) : null };
  }, EACH_MS);
  effect(() => { if (isOpen.value && got.value.value && !got.value.value.shown) untracked(() => void got.again()); });
  const shown = () => got.value.value?.shown;
  const all = (/** @type {'messages' | 'consumers'} */ of) => (shown() ?? []).reduce((sum, one) => sum + (one[of] ?? 0), 0);
  const sums = () => (got.value.value == null ? '' : [say.partitions(got.value.value.count), shown() ? `, ${say.sums(all('messages'), all('consumers'))}` : '']);
  const body = () => (!isOpen.value ? null : got.refused.value ? orMissing(got, say.kind) : shown() == null ? h('p', { class: 'empty' }, text.loading) : [
    plain([[say.partition], [text.columns.key], [text.queue.depth, true], [text.columns.consumers, true], [say.end, true], [say.offsets]], (shown() ?? []).map((one) => [
      queueLink(it.vhost, one.name), h('code', null, visible(one.key)), whole(one.messages), whole(one.consumers), whole(one.end), offsets(one)]), say.noPartitions),
    (got.value.value?.count ?? 0) > PARTITIONS_MAX && h('p', { class: 'pale' }, say.firstPartitions(PARTITIONS_MAX))]);
  return { sums, body };
}

/** @param {SuperStream} it @param {boolean} begins  it is the only one, and nothing is opened by the address */
function shown(it, begins) {
  const key = JSON.stringify([it.vhost, it.name]);
  const isOpen = computed(() => { const open = said('open'); return open === key || (begins && open === ''); });
  const own = partitions(it, isOpen);
  return h('section', { class: 'card', 'aria-label': text.inVhost(named(it.name), it.vhost) },
    h('div', { class: 'head-line' }, h('h2', null, exchangeLink(it.vhost, it.name)), h('span', { class: 'crumb' }, text.inVhost('', it.vhost).trim()), h('span', { class: 'pale' }, own.sums),
      h('div', { class: 'tools' }, h('button', { type: 'button', 'aria-expanded': () => String(isOpen.value), 'aria-label': () => (isOpen.value ? say.closeOne(named(it.name)) : say.openOne(named(it.name))), onclick: () => remember({ open: isOpen.peek() ? '-' : key }) }, () => (isOpen.value ? text.close : say.open)))),
    own.body);
}

/** @param {() => void} done */
function add(done) {
  void askFor({
    title: say.add, verb: text.forms.declare,
    body: () => h('div', { class: 'form' }, vhostField(), h('label', { for: 'form-name' }, text.columns.name), h('input', { id: 'form-name', name: 'name', required: true, maxlength: 240, spellcheck: 'false', autocomplete: 'off' }),
      h('label', { for: 'form-partitions' }, say.count), h('input', { id: 'form-partitions', name: 'partitions', type: 'number', min: 1, max: 1000, value: 3, required: true }), h('span', { class: 'under' }, say.addWhy)),
    act: async (data) => {
      const name = String(data.get('name'));
      await put(`stream/super-streams/${path(String(data.get('vhost')), name)}`, { partitions: Number(data.get('partitions')) });
      note(say.added(visible(name)));
      done();
    },
  });
}

export default function superStreams() {
  const got = polled(() => ask(`${within('exchanges')}${query({ page: 1, page_size: MOST + 1, pagination: 'true', sort: 'arguments.x-super-stream', sort_reverse: true, columns: 'name,vhost,arguments', disable_stats: true })}`), EACH_MS);
  const seen = signal(vhost.peek());
  effect(() => { if (vhost.value !== seen.peek()) { seen.value = vhost.value; untracked(() => void got.again()); } });
  const all = computed(() => /** @type {SuperStream[]} */ ((got.value.value?.items ?? []).filter((/** @type {any} */ one) => one.arguments?.['x-super-stream'] === true)));
  return [
    h('div', { class: 'head-line' }, h('h1', null, say.title), h('div', { class: 'tools' }, h('button', { type: 'button', class: 'main', onclick: () => add(() => void got.again()) }, say.add))),
    h('p', { class: 'pale' }, say.what), () => orMissing(got, say.title),
    () => (got.value.value == null ? (got.refused.value ? null : h('p', { class: 'empty' }, text.loading)) : all.value.length === 0 ? h('p', { class: 'empty' }, say.none) : null),
    keyed(() => all.value.slice(0, MOST), (one) => JSON.stringify([one.vhost, one.name]), (one) => shown(one.peek(), all.peek().length === 1)),
    () => (all.value.length > MOST ? h('p', { class: 'pale' }, say.firstOnes(MOST)) : null),
  ];
}
