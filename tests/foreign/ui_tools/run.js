// The web interface as checkers of pages see it: the Nu Html Checker on every page as it stands in the browser, and
// Lighthouse on three. Lighthouse counts time: nothing else may run meanwhile.
'use strict';

const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { promisify } = require('node:util');
const { Suite, equal, sleep } = require('../node/bench');
const { api, entered, opened, start } = require('../node/ui_bench');
const { PAGES, filled } = require('../node/ui_axe');

const suite = new Suite('ui-tools');
const OURS = 'ours alone: ';
const LONG_MS = 300_000;
const TRIES = 5;
/** A page that follows the node never falls silent: the checker waits no longer for that. */
const SILENCE_MS = 10_000;
/** What a page has settled after. */
const SETTLED_MS = 600;
const CHECKER = require.resolve('vnu-jar/build/dist/vnu.jar');
const ALL = Object.values(PAGES).flat();

const long = (name, behaviour, answer, act) => suite.add(name, behaviour, `${OURS}${answer}`, act, { ms: LONG_MS });

/** What the checker finds in a folder of pages: lines of errors. */
async function checked(folder) {
  try {
    await promisify(execFile)('java', ['-jar', CHECKER, '--errors-only', '--format', 'gnu', folder], { maxBuffer: 1 << 24 });
    return [];
  } catch (error) {
    if (typeof error.stderr !== 'string' || !error.stderr) throw error;
    return error.stderr.trim().split('\n').map((line) => path.basename(line).slice(0, 200));
  }
}

long('html', `the shell and ${ALL.length} pages as they stand in the browser, by the Nu Html Checker`, 'no errors', async (ends) => {
  await filled(ends);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'leveret-pages-'));
  ends.push(() => fs.promises.rm(folder, { recursive: true, force: true }));
  const save = (name, text) => fs.writeFileSync(path.join(folder, `${name}.html`), text);
  save('shell', await (await fetch((await start()).base)).text());
  const [{ name }] = await api('GET', 'nodes');
  const whole = (page) => page.evaluate(() => `<!doctype html>\n${document.documentElement.outerHTML}`);
  const { page: login } = await opened(ends);
  save('login', await whole(login));
  const { page } = await entered(ends);
  for (const [number, address] of ALL.entries()) {
    await page.evaluate((to) => { location.hash = to; }, address.replace('NODE', encodeURIComponent(name)));
    await sleep(SETTLED_MS);
    save(`${number}${address.replace(/[^\w]+/g, '_')}`, await whole(page));
  }
  equal(fs.readdirSync(folder).length, ALL.length + 2, 'pages');
  equal(await checked(folder), [], 'errors');
  // A checker that finds nothing anywhere proves nothing.
  save('wrong', '<!doctype html><html lang="en"><title>x</title><p><div role="nothing"></p>');
  if (!(await checked(folder)).length) throw new Error('the checker does not see what is wrong');
});

for (const [name, address] of [['login', ''], ['overview', '#/'], ['queues', '#/queues']]) {
  long(`lighthouse.${name}`, `the page ${name} by Lighthouse`, `95 for performance in the median of ${TRIES}, 100 for accessibility and best practices`, async (ends) => {
    await filled(ends);
    const { default: lighthouse, desktopConfig } = await import(pathToFileURL(require.resolve('lighthouse')).href);
    const { page } = await (name === 'login' ? opened(ends) : entered(ends));
    const { base } = await start(), port = Number(new URL(page.browser().wsEndpoint()).port);
    const scores = {}, why = [];
    for (let i = 0; i < TRIES; i += 1) {
      const { lhr } = await lighthouse(base + address, { port, disableStorageReset: true, maxWaitForLoad: SILENCE_MS, logLevel: 'error' }, desktopConfig, page);
      for (const [kind, one] of Object.entries(lhr.categories)) {
        (scores[kind] ??= []).push(Math.round(one.score * 100));
        if (kind === 'accessibility' || kind === 'best-practices') why.push(...one.auditRefs.map(({ id }) => lhr.audits[id]).filter((audit) => audit.score !== null && audit.score < 1).map((audit) => audit.id));
      }
    }
    process.stderr.write(`${name}: ${JSON.stringify(scores)}\n`);
    const middle = (kind) => scores[kind].sort((a, b) => a - b)[Math.floor(TRIES / 2)];
    equal([middle('accessibility'), middle('best-practices'), [...new Set(why)]], [100, 100, []], 'accessibility and best practices');
    if (middle('performance') < 95) throw new Error(`performance ${scores.performance}`);
  });
}

suite.main();
