// Cases of the web interface that axe-core looks at: every page, its tabs and a dialog, in each theme.
'use strict';

const amqp = require('amqplib');
const { equal, sleep } = require('./bench');
const { api, entered, go, press, start } = require('./ui_bench');

const OURS = 'ours alone: ';
const AXE = require.resolve('axe-core/axe.min.js');
/** A browser looks at thirteen pages, which takes a processor some ten seconds. */
const AXE_MS = 120_000;

const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const HOUR_MS = 3_600_000;

/** Pages by the case that looks at them: each has to end within the time of a case. */
const PAGES = {
  queues: ['#/', '#/queues', ...['now', 'messages&message=0', 'consumers', 'unacked', 'routes', 'policy', 'move', 'raw'].map((tab) => `#/queues/%2F/axe?tab=${tab}`), '#/messages', '#/dead-letters', '#/delayed', '#/delayed/%2F/axe', '#/streams/super'],
  objects: ['#/exchanges', '#/exchanges/%2F/amq.topic', '#/exchanges/%2F/amq.topic?tab=publish', '#/trace', '#/topology', '#/connections', '#/channels', '#/consumers', '#/vhosts', '#/vhosts/%2F', '#/users', '#/users/guest', '#/policies', '#/policies/%2F/axe', '#/limits'],
  node: ['#/definitions', '#/nodes', '#/nodes/NODE', '#/alarms', '#/features', '#/log', '#/latency', '#/latency?kind=turn', '#/settings', '#/traces', '#/keys', '#/api', '#/shovels'],
};

/** A queue with a message and one that waits, a policy, and a super stream; gone at the end. */
async function filled(ends) {
  const connection = await amqp.connect(`amqp://127.0.0.1:${(await start()).amqp}`);
  ends.push(() => connection.close());
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue('axe', { durable: true });
  await channel.assertExchange('axe.later', 'x-delayed-message', { durable: true, arguments: { 'x-delayed-type': 'direct' } });
  await channel.bindQueue('axe', 'axe.later', 'axe');
  await api('PUT', 'policies/%2F/axe', { pattern: '^axe', definition: { 'max-length': 10 } });
  await api('PUT', 'stream/super-streams/%2F/axe.super', { partitions: 2 });
  ends.push(...['queues/%2F/axe', 'exchanges/%2F/axe.later', 'policies/%2F/axe', 'exchanges/%2F/axe.super', 'queues/%2F/axe.super-0', 'queues/%2F/axe.super-1'].map((where) => () => api('DELETE', where)));
  channel.sendToQueue('axe', Buffer.from('{"a": [1]}'), { headers: { a: 1 } });
  channel.publish('axe.later', 'axe', Buffer.from('x'), { headers: { 'x-delay': HOUR_MS } });
  await channel.waitForConfirms();
}

module.exports = function axe(suite) {
  for (const theme of ['light', 'dark', 'contrast']) {
    for (const [part, pages] of Object.entries(PAGES)) {
      suite.add(`axe.${theme}.${part}`, `${pages.length} pages and tabs in the theme ${theme}, looked at by axe for WCAG 2.2 AA`, `${OURS}nothing is found`, async (ends) => {
        await filled(ends);
        const [{ name }] = await api('GET', 'nodes');
        const { page } = await entered(ends, { theme, unguarded: true });
        await page.addScriptTag({ path: AXE });
        const found = [];
        const look = async (where) => {
          const got = await page.evaluate((rules) => axe.run(document, { runOnly: rules }), RULES);
          found.push(...got.violations.map((one) => `${where}: ${one.id} ${one.nodes[0].html.slice(0, 120)}`));
        };
        for (const address of pages) {
          await page.evaluate((to) => { location.hash = to; }, address.replace('NODE', encodeURIComponent(name)));
          await sleep(250);
          await look(address);
        }
        if (part === 'queues') {
          await go(page, '#/queues', 'Queues');
          await press(page, 'Add a queue');
          await look('the dialog to add a queue');
        }
        equal(found, [], 'found');
      }, { ms: AXE_MS });
    }
  }
};
module.exports.PAGES = PAGES;
module.exports.filled = filled;
