// What became of each case of one file of specs, as JSON into a file: also of those that a broken hook kept from running.
'use strict';

const fs = require('node:fs');

/** Words of a title, joined by hyphens. */
const word = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '');

/** The title of the file's own group is not part of a name: the file is. */
const named = (it) => it.titlePath().slice(1).map(word).join('.');

module.exports = class Reporter {
  constructor(runner, { reporterOptions }) {
    const seen = new Map();
    /** Hooks that failed, by the group that they are of. */
    const broken = new Map();
    const said = (error) => String(error?.message ?? error).split('\n').filter(Boolean).slice(0, 2).join(' ').slice(0, 300);
    const put = (test, status, why = '') => seen.set(test, { name: named(test), status, why, seconds: (test.duration ?? 0) / 1000 });
    runner.on('pass', (test) => put(test, 'ok'));
    runner.on('pending', (test) => put(test, 'skipped', 'skips itself'));
    runner.on('fail', (it, error) => {
      if (it.type !== 'hook') put(it, 'failed', said(error));
      // What breaks behind it breaks for want of it.
      else if (!broken.has(it.parent)) broken.set(it.parent, `${it.title.split(' in ')[0]}: ${said(error)}`);
    });
    runner.on('end', () => {
      runner.suite.eachTest((test) => {
        if (seen.has(test)) return;
        let group = test.parent;
        while (group && !broken.has(group)) group = group.parent;
        put(test, 'failed', group ? broken.get(group) : 'did not run');
      });
      // A hook may break behind its cases: what they left is not tidied up.
      for (const [group, why] of broken) {
        const isTold = [...seen.values()].some((one) => one.why === why);
        if (!isTold) seen.set(group, { name: [named(group), 'after'].filter(Boolean).join('.'), status: 'failed', why, seconds: 0 });
      }
      fs.writeFileSync(reporterOptions.output, JSON.stringify([...seen.values()]));
    });
  }
};
