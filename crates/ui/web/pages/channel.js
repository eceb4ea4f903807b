// @ts-check
/** A channel: what it publishes and where to, what it consumes, and what it has not settled. */
import { ask, path, polled, query } from '../api.js';
import { chart, flow } from '../chart.js';
import { h } from '../core.js';
import { rate, short, visible, whole } from '../format.js';
import { badge, card, connectionLink, exchangeLink, facts, orMissing, plain, queueLink, stat } from '../parts.js';
import { text } from '../text.js';

const say = text.channel;
const AGE = 600, STEP = 5;

/** @param {string[]} path_ */
export default function channel(path_) {
  const name = String(path_[1]);
  const got = polled(() => ask(`channels/${path(name)}${query({ msg_rates_age: AGE, msg_rates_incr: STEP, samples: 'known' })}`));
  const it = () => got.value.value ?? {};
  const rateOf = (/** @type {any} */ stats, /** @type {string} */ of) => rate(stats?.[`${of}_details`]?.rate ?? 0);
  return [
    h('div', { class: 'head-line' }, h('h1', null, visible(name)), () => [it().transactional && badge(text.channels.transactional), it().confirm && badge(text.channels.confirms)]),
    () => orMissing(got, say.kind),
    h('dl', { class: 'stats' },
      stat(text.columns.unacked, () => whole(it().messages_unacknowledged), () => (it().prefetch_count ? say.prefetch(whole(it().prefetch_count)) : say.noPrefetch)),
      stat(text.columns.unconfirmed, () => whole(it().messages_unconfirmed), () => (it().messages_uncommitted ? say.uncommitted(whole(it().messages_uncommitted)) : '')),
      stat(text.columns.in, () => rateOf(it().message_stats, 'publish'), () => ''), stat(text.columns.out, () => rateOf(it().message_stats, 'deliver_get'), () => ''),
      stat(text.columns.consumers, () => whole(it().consumer_count), () => '')),
    h('div', { class: 'two even' },
      chart({ title: text.queue.rates, format: short, lines: () => [flow(it(), 'publish', text.columns.in, '--in'), flow(it(), 'deliver_get', text.columns.out, '--out'), flow(it(), 'ack', text.columns.acked, '--ack', true)] }),
      card(text.connection.facts, () => facts([[text.columns.connection, it().connection_details?.name && connectionLink(it().connection_details.name)], [text.columns.user, visible(it().user ?? '')], [text.columns.vhost, visible(it().vhost ?? '')],
        [say.shared, it().global_prefetch_count]]))),
    card(text.columns.consumers, () => plain([[text.columns.tag], [text.columns.queue], [text.columns.acks], [text.columns.prefetch, true], [text.columns.active]], (it().consumer_details ?? []).map((/** @type {any} */ one) => [
      h('span', { class: 'mono' }, visible(one.consumer_tag)), queueLink(one.queue.vhost, one.queue.name), one.ack_required ? text.queue.manual : text.queue.automatic, whole(one.prefetch_count), one.active === false ? badge(text.queue.waits) : badge(text.queue.active, 'good')]), text.queue.noConsumers)),
    () => ((it().publishes ?? []).length ? card(say.publishes, plain([[text.columns.exchange], [text.columns.in, true]], it().publishes.map((/** @type {any} */ one) => [exchangeLink(one.exchange.vhost, one.exchange.name), rateOf(one.stats, 'publish')]))) : null),
    () => ((it().deliveries ?? []).length ? card(say.deliveries, plain([[text.columns.queue], [text.columns.out, true], [text.columns.acked, true]], it().deliveries.map((/** @type {any} */ one) => [queueLink(one.queue.vhost, one.queue.name), rateOf(one.stats, 'deliver_get'), rateOf(one.stats, 'ack')]))) : null),
  ];
}
