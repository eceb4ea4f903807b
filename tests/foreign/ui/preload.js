// Loaded before each of RabbitMQ's specs: their browser is the one that was found here, headless, as any user.
'use strict';

const { Builder } = require('selenium-webdriver');

const MORE = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'];
const { build } = Builder.prototype;

Builder.prototype.build = function buildHere() {
  const wanted = this.getCapabilities(), options = wanted.get('goog:chromeOptions');
  wanted.set('goog:chromeOptions', {
    ...options,
    binary: process.env.LEVERET_BROWSER,
    // A guest may keep no files, and a spec wants one.
    args: [...options.args.filter((one) => one !== 'guest'), ...MORE],
  });
  return build.call(this);
};
