// @ts-check
/** A policy: what it says, and the queues that it counts for. */
import { ask, path, polled, query } from '../api.js';
import { h } from '../core.js';
import { visible, whole } from '../format.js';
import { badge, card, facts, orMissing, pairs, plain, queueLink } from '../parts.js';
import { text } from '../text.js';

const say = text.policies;
/** Queues that are shown. */
const SHOWN = 100;

/** @param {string[]} path_ */
export default function policy(path_) {
  const [, where, name] = path_;
  const got = polled(() => ask(`policies/${path(where, name)}`), 15_000);
  const it = () => got.value.value ?? {};
  const queues = polled(async () => {
    if (!it().pattern) return { items: [], filtered_count: 0 };
    return ask(`queues/${path(where)}${query({ page: 1, page_size: SHOWN, name: it().pattern, use_regex: 'true', columns: 'name,vhost,policy,messages,type' })}`).catch(() => ({ items: [], filtered_count: 0 }));
  });
  setTimeout(() => void queues.again(), 500);
  return [
    h('div', { class: 'head-line' }, h('h1', null, visible(name)), h('span', { class: 'crumb' }, text.inVhost('', where).trim())), () => orMissing(got, say.kind),
    card(text.queue.facts, () => facts([[text.queue.pattern, h('code', null, visible(it().pattern ?? ''))], [say.applies, String(it()['apply-to'] ?? '').replace('_', ' ')], [text.queue.priority, it().priority != null && whole(it().priority)]])),
    card(say.definition, () => pairs(it().definition)),
    card(say.about, () => plain([[text.columns.name], [text.columns.type], [say.counts]], (queues.value.value?.items ?? []).map((/** @type {any} */ one) => [
      queueLink(one.vhost, one.name), one.type, one.policy === name ? badge(text.queue.counts, 'good') : badge(say.loses(visible(one.policy ?? say.nobody)), 'warn')]), say.nothing),
    () => ((queues.value.value?.filtered_count ?? 0) > SHOWN ? h('p', { class: 'pale' }, say.of(SHOWN, queues.value.value.filtered_count)) : null)),
  ];
}
