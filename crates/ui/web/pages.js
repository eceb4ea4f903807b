// @ts-check
/** Which page an address means: ours, and those of RabbitMQ's interface. */
import { text } from './text.js';

/**
 * What a module of pages gives: elements for an address.
 * @typedef {(path: string[]) => any} Page
 */

/** @type {Record<string, () => Promise<{ default: Page }>>} */
const MODULES = {
  overview: () => import('./pages/overview.js'),
  queues: () => import('./pages/queues.js'),
  queue: () => import('./pages/queue.js'),
  exchanges: () => import('./pages/exchanges.js'),
  exchange: () => import('./pages/exchange.js'),
  connections: () => import('./pages/connections.js'),
  connection: () => import('./pages/connection.js'),
  channels: () => import('./pages/channels.js'),
  channel: () => import('./pages/channel.js'),
  consumers: () => import('./pages/consumers.js'),
  vhosts: () => import('./pages/vhosts.js'),
  vhost: () => import('./pages/vhost.js'),
  users: () => import('./pages/users.js'),
  user: () => import('./pages/user.js'),
  policies: () => import('./pages/policies.js'),
  policy: () => import('./pages/policy.js'),
  limits: () => import('./pages/limits.js'),
  find: () => import('./pages/find.js'),
  dead_letters: () => import('./pages/dead_letters.js'),
  trace: () => import('./pages/trace.js'),
  topology: () => import('./pages/topology.js'),
  definitions: () => import('./pages/definitions.js'),
  nodes: () => import('./pages/nodes.js'),
  node: () => import('./pages/node.js'),
  alarms: () => import('./pages/alarms.js'),
  log: () => import('./pages/log.js'),
  latency: () => import('./pages/latency.js'),
  settings: () => import('./pages/settings.js'),
  api: () => import('./pages/api.js'),
  keys: () => import('./pages/keys.js'),
  delayed: () => import('./pages/delayed.js'),
  delayed_queue: () => import('./pages/delayed_queue.js'),
  super_streams: () => import('./pages/super_streams.js'),
  traces: () => import('./pages/traces.js'),
  features: () => import('./pages/features.js'),
  later: () => import('./pages/later.js'),
  missing: () => import('./pages/missing.js'),
};

/** @type {[RegExp, string][]} by how many names stand in the address */
const ADDRESSES = [
  [/^$|^\/cluster-name$/, 'overview'],
  [/^\/queues$/, 'queues'], [/^\/queues\/2$/, 'queue'],
  [/^\/exchanges$/, 'exchanges'], [/^\/exchanges\/2$/, 'exchange'],
  [/^\/connections$/, 'connections'], [/^\/connections\/1$/, 'connection'],
  [/^\/stream\/connections$/, 'connections'], [/^\/stream\/connections\/2$/, 'connection'],
  [/^\/channels$/, 'channels'], [/^\/channels\/1$/, 'channel'],
  [/^\/consumers$/, 'consumers'],
  [/^\/messages$/, 'find'], [/^\/dead-letters$/, 'dead_letters'], [/^\/trace$/, 'trace'], [/^\/topology$/, 'topology'],
  [/^\/vhosts$/, 'vhosts'], [/^\/vhosts\/1$/, 'vhost'], [/^\/users$/, 'users'], [/^\/users\/1$/, 'user'],
  [/^\/policies$/, 'policies'], [/^\/policies\/2$/, 'policy'], [/^\/limits$/, 'limits'], [/^\/definitions$/, 'definitions'],
  [/^\/nodes$/, 'nodes'], [/^\/nodes\/1$/, 'node'], [/^\/alarms$/, 'alarms'], [/^\/(features|feature-flags|deprecated-features)$/, 'features'],
  [/^\/(dynamic-shovels|shovels|federation|federation-upstreams)/, 'later'], [/^\/(top|process)(\/|$)/, 'later'],
  [/^\/log$/, 'log'], [/^\/latency$/, 'latency'], [/^\/settings$/, 'settings'], [/^\/api$/, 'api'], [/^\/keys$/, 'keys'], [/^\/traces(\/|$)/, 'traces'],
  [/^\/delayed$/, 'delayed'], [/^\/delayed\/2$/, 'delayed_queue'], [/^\/(streams\/super|stream\/super-streams)$/, 'super_streams'],
];

/** Words of addresses that are no names of objects, first and second. */
const SECOND = new Set(['connections', 'super-streams', 'super', 'ets', 'node']);

/** The address with its names counted. @param {string[]} path */
export function shape(path) {
  const own = path.filter((name, at) => name !== '' || at > 0);
  if (own.length === 0) return '';
  const words = own.length > 1 && ['stream', 'streams', 'top'].includes(own[0]) && SECOND.has(own[1]) ? 2 : 1;
  const names = own.length - words;
  return `/${own.slice(0, words).join('/')}${names > 0 ? `/${names}` : ''}`;
}

/** The module of an address, and whether there is one. @param {string[]} path */
export function find(path) {
  const of = shape(path);
  const name = ADDRESSES.find(([pattern]) => pattern.test(of))?.[1] ?? 'missing';
  return MODULES[name]();
}

/** The first steps of addresses, the names of their pages, the tag that one needs, and a letter to go there by. */
export const NAV = /** @type {[string, [string, string, string, string][]][]} */ ([
  [text.sections.look, [['', text.nav.overview, '', 'o'], ['alarms', text.nav.alarms, '', 'a'], ['messages', text.nav.messages, '', 'm'], ['dead-letters', text.nav.deadLetters, '', 'x'], ['trace', text.nav.trace, '', 'r'], ['topology', text.nav.topology, '', 't']]],
  [text.sections.objects, [
    ['queues', text.nav.queues, '', 'q'], ['exchanges', text.nav.exchanges, '', 'e'], ['connections', text.nav.connections, '', 'c'],
    ['channels', text.nav.channels, '', 'h'], ['consumers', text.nav.consumers, '', 's'],
    ['streams/super', text.nav.superStreams, '', 'b'], ['delayed', text.nav.delayed, '', 'w']]],
  [text.sections.rights, [
    ['vhosts', text.nav.vhosts, 'administrator', 'v'], ['users', text.nav.users, 'administrator', 'u'], ['policies', text.nav.policies, '', 'p'], ['limits', text.nav.limits, '', 'l']]],
  [text.sections.node, [
    ['nodes', text.nav.nodes, 'monitoring', 'n'], ['latency', text.nav.latency, 'monitoring', 'y'], ['log', text.nav.log, 'administrator', 'i'], ['traces', text.nav.traces, 'administrator', ''], ['settings', text.nav.settings, 'administrator', ''],
    ['definitions', text.nav.definitions, 'administrator', 'd'], ['features', text.nav.features, '', 'f'], ['api', text.nav.api, '', ''], ['keys', text.keys, '', '']]],
]);
