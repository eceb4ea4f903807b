// The overview, and definitions, which RabbitMQ has on it and Leveret on a page of their own.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const BasePage = require('./BasePage');
const { WAIT_MS } = BasePage;

const INPUT = 'main input[type=file]';
/** Where files go that the browser is given. */
const DOWNLOADS = process.env.LEVERET_DOWNLOADS;

/** What the button says that puts the file in: how many things are new or different. */
function verb() {
  return [...document.querySelectorAll('main .card button')].map((one) => one.textContent.trim()).find((text) => /^Put \d/.test(text));
}

module.exports = class OverviewPage extends BasePage {
  /** Gives the page a file; what would come of it is shown. */
  async giveFile(file) {
    await this.open('definitions');
    await (await this.element(INPUT)).sendKeys(file);
  }

  async uploadBrokerDefinitions(file) {
    await this.giveFile(file);
    await this.press('main .card button', await this.seen('the button to put it in', verb));
    const said = await this.text('.toasts .band');
    return said.replace('All of it is there now.', 'Your definitions were imported successfully.');
  }

  /** What is said to a file that is not taken. */
  async uploadBrokerDefinitionsExpectingError(file) {
    await this.giveFile(file);
    return this.text('.toasts .band.bad, main .card .band.bad');
  }

  /** The endings of files that the dialog of the browser shows; beside them it is told the media type that they mean. */
  async getFileInputAcceptAttribute() {
    await this.open('definitions');
    const accept = await (await this.element(INPUT)).getAttribute('accept');
    return accept.split(',').filter((one) => one.startsWith('.')).join(',');
  }

  async downloadBrokerDefinitions(_name) {
    await this.open('definitions');
    await this.driver.sendDevToolsCommand('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: DOWNLOADS });
    await this.press('main button', 'Download');
    const file = () => fs.readdirSync(DOWNLOADS).find((name) => /^definitions.*\.json$/.test(name));
    await this.driver.wait(file, WAIT_MS, 'no file came');
    const { users } = JSON.parse(fs.readFileSync(path.join(DOWNLOADS, file()), 'utf8'));
    if (!users.some((one) => one.name === 'guest')) throw new Error('the file has no users');
  }

  /** Changes what the browser remembers of the interface's looks. Totals cannot be folded here; colours can be chosen. */
  ensureTotalsSectionIsInvisible() { return this.choose('.head label:nth-of-type(2) select', 'dark'); }
};
