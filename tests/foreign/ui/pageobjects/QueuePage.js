// A queue or stream. What RabbitMQ has in sections that unfold is in parts here, and in buttons of the first line.
'use strict';

const BasePage = require('./BasePage');
const { AWAY_MS, WAIT_MS } = BasePage;

const PART = 'main .tabs a', BUTTON = 'main .head-line button';
/** RabbitMQ's sections: the part or the button that stands for each. */
const SECTIONS = {
  Overview: [PART, 'Now'], Consumers: [PART, 'Consumers'], Bindings: [PART, 'Routes in'], 'Stream publishers': [PART, 'Publishers'],
  'Publish message': [BUTTON, 'Publish'], 'Move messages': [PART, 'Move'], Purge: [BUTTON, 'Purge'], Delete: [BUTTON, 'Delete'],
  'Runtime Metrics': [PART, 'Runtime'], 'Message rates breakdown': [PART, 'Rates'],
};
/** What is within them, by its title here. */
const SUBSECTIONS = { 'Queued messages': 'Messages', 'Message rates': 'Messages a second', Details: 'Facts' };

/** A number of the first part. */
function stat(name) {
  const box = [...document.querySelectorAll('main .stat')].find((one) => one.querySelector('dt').textContent === name);
  const said = box?.querySelector('dd').textContent;
  return /^\d/.test(said ?? '') ? said : null;
}

/** Names and values of a card of the first part; null: they have not come. */
function facts(title) {
  const card = [...document.querySelectorAll('main .card')].find((one) => one.querySelector('h2')?.textContent === title);
  const said = (css) => [...card.querySelectorAll(`dl:first-of-type > ${css}`)].map((one) => one.textContent);
  const values = card ? said('dd') : [];
  return values.length ? said('dt').map((name, at) => [name, values[at]]) : null;
}

/** A heading within a part: its own text, without that of what stands beside it. */
function subsection(name) {
  return [...document.querySelectorAll('main h2, main figcaption')].some((one) => one.checkVisibility() && one.firstChild?.textContent.trim() === name);
}

function consumers() {
  const card = [...document.querySelectorAll('main .card')].find((one) => one.querySelector('h2')?.textContent === 'Consumers');
  return [...card?.querySelectorAll('tbody tr') ?? []].map((row) => [...row.querySelectorAll('td')].map((cell) => cell.innerText.trim()));
}

module.exports = class QueuePage extends BasePage {
  isLoaded() { return this.objectIsLoaded(); }
  getName() { return this.text('main h1'); }

  async isSectionDisplayed(name) {
    const [css, title] = SECTIONS[name];
    const until = Date.now() + WAIT_MS;
    while (!await this.isThere(css, title)) {
      if (Date.now() > until) return false;
      await this.driver.sleep(200);
    }
    if (css === PART) {
      await this.openPart(title);
      await this.element('main .card, main figure');
    }
    return true;
  }

  async isSectionNotDisplayed(name) {
    await this.isLoaded();
    await this.driver.sleep(AWAY_MS);
    return !await this.isThere(...SECTIONS[name]);
  }

  async isSubsectionDisplayed(name) {
    await this.openPart('Now');
    return this.seen(`the heading of ${name}`, subsection, SUBSECTIONS[name]);
  }

  async getConsumerCount() {
    await this.openPart('Now');
    return this.seen('the number of consumers', stat, 'Consumers');
  }

  /** RabbitMQ's reader of the table puts the first argument within, and all others beside it. */
  async getFeatures() {
    await this.openPart('Now');
    const row = ([name, value]) => ({ name: `${name}:`, value });
    const [first, ...others] = await this.seen('arguments', facts, 'Arguments');
    const isDurable = (await this.seen('facts', facts, 'Facts')).some(([name, value]) => name === 'Durability' && value === 'durable');
    return [{ name: 'arguments:', value: [row(first)] }, ...others.map(row), row(['durable', String(isDurable)])];
  }

  async getConsumersSectionTitle() {
    const count = await this.getConsumerCount();
    return `${await (await this.element(PART, 'Consumers')).getText()} (${count})`;
  }

  clickOnConsumerSection() { return this.openPart('Consumers'); }

  /** In RabbitMQ's order: who, tag, acks, exclusive, prefetch, active, activity, arguments. */
  async getConsumersTable() {
    const isSingle = await this.isThere('main .head-line .badge[title*="x-single-active-consumer: true"]');
    return (await this.driver.executeScript(consumers)).map(([tag, channel, acks, prefetch, active, more]) => [
      channel, tag, acks, '', prefetch, active, active === 'waits' ? 'waiting' : isSingle ? 'single active' : 'up', more]);
  }

  ensureDeleteQueueSectionIsVisible() { return this.element(BUTTON, 'Delete'); }

  async deleteQueue() {
    const name = await this.getName();
    await this.press(BUTTON, 'Delete');
    // Where somebody consumes, or much is in it, the name is typed.
    if (await this.isThere('dialog[open] input')) await this.fill('dialog[open] input', name);
    await this.answer('Delete');
    await this.element('main h1', 'Queues and streams');
  }
};
