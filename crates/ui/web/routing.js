// @ts-check
/** Where a message would go, and why not elsewhere: through one exchange after the other. */
import { ask, path, post } from './api.js';
import { h, signal } from './core.js';
import { named, visible } from './format.js';
import { badge, exchangeLink, pairs, plain, queueLink } from './parts.js';
import { text } from './text.js';

const say = text.exchange;
/** Exchanges that are followed behind the first. */
const STEPS_MAX = 20;

/** The default exchange has no name, and a path needs one. @param {string} name */
export const asked = (name) => (name === '' ? 'amq.default' : name);

/** @typedef {{ vhost: string, exchange: string, body: { routing_key: string, properties: any, payload?: string } }} Letter */
/** @typedef {{ exchange: string, why: string, route: any }} Step */

/**
 * The exchange itself, those that it leads through, and the one that takes what leads nowhere.
 * @param {Letter} letter @returns {Promise<Step[]>}
 */
export async function traced({ vhost, exchange, body }) {
  /** @type {Step[]} */
  const steps = [];
  const seen = new Set([exchange]);
  const waiting = [{ exchange, why: '' }];
  for (let next = waiting.shift(); next && steps.length < STEPS_MAX; next = waiting.shift()) {
    const route = await post(`x/exchanges/${path(vhost, asked(next.exchange))}/route`, body);
    steps.push({ ...next, route });
    const onward = route.bindings.filter((/** @type {any} */ one) => one.matched && one.destination_type === 'exchange').map((/** @type {any} */ one) => ({ exchange: one.destination, why: say.through(named(next.exchange)) }));
    if (!route.routed && route.bindings.every((/** @type {any} */ one) => !one.matched) && next.exchange !== '') {
      const about = await ask(`exchanges/${path(vhost, next.exchange)}?columns=name,arguments,policy,effective_policy_definition`).catch(() => null);
      const alternate = about?.arguments?.['alternate-exchange'];
      if (alternate != null) onward.push({ exchange: alternate, why: say.instead(named(next.exchange)) });
    }
    for (const one of onward) {
      if (!seen.has(one.exchange)) waiting.push(one);
      seen.add(one.exchange);
    }
  }
  return steps;
}

/** @param {string} vhost @param {Step[]} steps */
export function routeShown(vhost, steps) {
  const [first] = steps;
  return h('section', { class: 'card', role: 'status' }, h('h2', null, say.traced),
    h('p', null, first.route.routed ? say.goes : say.goesNowhere, ' ', h('span', { class: 'badges' }, first.route.queues.map((/** @type {string} */ one) => queueLink(vhost, one)))),
    first.route.delayed && h('p', { class: 'band warn' }, say.waits),
    steps.map((step) => [
      h('h3', null, exchangeLink(vhost, asked(step.exchange)), step.why && h('span', { class: 'pale' }, ` ${step.why}`)),
      bindingsShown(vhost, step.route), step.route.has_more_bindings && h('p', { class: 'pale' }, say.more)]));
}

/** The bindings of an exchange, those that match first. @param {string} vhost @param {any} route */
function bindingsShown(vhost, route) {
  const all = [...route.bindings].sort((a, b) => Number(b.matched) - Number(a.matched));
  const most = signal(50);
  return () => [plain([[text.columns.to], [text.columns.key], [text.columns.arguments], [say.matches], [say.why]], all.slice(0, most.value).map((one) => [
    one.destination_type === 'exchange' ? exchangeLink(vhost, one.destination) : queueLink(vhost, one.destination), h('code', null, visible(one.routing_key ?? '')), pairs(one.arguments) ?? '',
    one.matched ? badge(text.queue.yes, 'good') : badge(say.no), one.why ?? '']), text.bindings.none),
  all.length > most.value && h('button', { type: 'button', class: 'link', onclick: () => { most.value += 200; } }, say.showMore(all.length - most.value))];
}
