// What every page has: the head with user and virtual host, the list of pages, refusals, and the login where a session
// is over. The methods have the names that RabbitMQ's specs call; what they look at is Leveret's.
'use strict';

const { By } = require('selenium-webdriver');

/** How long something is waited for that is to come. */
const WAIT_MS = 10_000;
/** How long something is waited for that is to stay away. */
const AWAY_MS = 1_000;
/** Clicks on an element that is drawn anew meanwhile. */
const TRIES = 5;

// Functions that run in the page.

/** The first element that is seen, of this text if one is given. */
function found(css, text) {
  const said = (one) => one.textContent.trim();
  return [...document.querySelectorAll(css)].find((one) => one.checkVisibility() && (text == null || said(one) === text)) ?? null;
}

/** What the address names, as a queue in a virtual host; empty: a list, or none. */
const NAMED = "decodeURIComponent(location.hash.split('?')[0].split('/')[3] ?? '')";

/**
 * The heading of the page, once it is that of the address and what it is about has come. RabbitMQ has a page of its own
 * for what is not there.
 */
const heading = `
  const title = document.querySelector('main h1')?.textContent.trim(), name = ${NAMED};
  const missing = [...document.querySelectorAll('main > .band')].map((one) => one.textContent);
  if (!title || (name && title !== name)) return null;
  if (missing.some((text) => /^There is no /.test(text))) return 'Not found';
  return !name || missing.length || document.querySelector('main .head-line .badge') ? title : null;`;

/** What was refused: notes over the page, and bands in it. Alarms of the node are none of the user's doing. */
function refusals() {
  const all = document.querySelectorAll('.toasts .band.bad, main .band.bad, dialog[open] .band.bad');
  return [...all].filter((one) => one.checkVisibility() && !one.closest('.bands')).map((one) => one.textContent.trim());
}

/** Whether the page of a link of the list of pages is there, with its rows if it is a list; or the login. */
function arrived(name) {
  if (document.querySelector('.login')) return true;
  if (document.querySelector('main h1')?.textContent.trim() !== name) return false;
  return !document.querySelector('main .table') || !!document.querySelector('main .tools [role=status]')?.textContent
    || !!document.querySelector('main .notes .band');
}

/** The first line of an object's page, once something is known of it. */
const object = `
  const line = document.querySelector('main .head-line');
  return line?.querySelector('h1')?.textContent === ${NAMED} && line.querySelector('.badge') ? line : null;`;

module.exports = class BasePage {
  constructor({ driver }) {
    this.driver = driver;
  }

  // Of these the methods below are made.

  /** What a function gives in the page, once that is something. */
  seen(what, look, ...words) {
    return this.driver.wait(() => this.driver.executeScript(look, ...words), WAIT_MS, `${what} was not seen`);
  }

  element(css, text) {
    return this.seen(text == null ? css : `${css} with "${text}"`, found, css, text);
  }

  async isThere(css, text) {
    return (await this.driver.executeScript(found, css, text)) != null;
  }

  async text(css) {
    return (await (await this.element(css)).getText()).trim();
  }

  async press(css, text) {
    for (let left = TRIES; ; left -= 1) {
      try { return await (await this.element(css, text)).click(); } catch (error) {
        if (left === 1 || !/Stale|Intercepted/.test(error.name)) throw error;
        await this.driver.sleep(100);
      }
    }
  }

  async fill(css, text) {
    const field = await this.element(css);
    await field.clear();
    await field.sendKeys(text);
  }

  /** Chooses an option of a list by its value. */
  async choose(css, value) {
    await this.element(css);
    await (await this.driver.findElement(By.css(`${css} option[value="${value}"]`))).click();
  }

  /** The button of an open dialog is pressed, and the dialog is gone; or the error says why it stays. */
  async answer(verb) {
    await this.press('dialog[open] .tools button', verb);
    const why = () => {
      const dialog = document.querySelector('dialog[open]');
      return dialog ? dialog.querySelector('[role=alert] .band')?.textContent : 'done';
    };
    const said = await this.seen(`the end of "${verb}"`, why);
    if (said !== 'done') throw new Error(said);
  }

  /** The link of the list of pages, once it is seen. */
  offered(address) {
    return this.element(`nav a[href="#/${address}"]`);
  }

  async open(address) {
    const name = await (await this.offered(address)).getText();
    for (let left = TRIES; ; left -= 1) {
      // The login over the page takes what is behind it away from the mouse.
      if (await this.isThere('.login')) return;
      try { await (await this.offered(address)).click(); break; } catch (error) {
        if (left === 1 || !/Stale|Intercepted/.test(error.name)) throw error;
        await this.driver.sleep(100);
      }
    }
    await this.seen(`the page ${name}`, arrived, name);
  }

  /** Opens a part of a page that has several. */
  async openPart(name) {
    await this.press('main .tabs a', name);
    await this.element('main .tabs a[aria-current=page]', name);
  }

  objectIsLoaded() { return this.seen('the object', object); }

  // The methods of RabbitMQ's specs.

  isLoaded() { return this.element('main h1'); }
  refresh() { return this.driver.navigate().refresh(); }
  logout() { return this.press('.head button', 'Log out'); }
  async getUser() { return `User ${await this.text('.head > span:not(.cluster)')}`; }

  /** Rows are kept up without being asked, and stay where they are: there is nothing to choose. */
  async selectRefreshOption(_option) {}

  waitForOverviewTab() { return this.offered(''); }
  waitForConnectionsTab() { return this.offered('connections'); }
  waitForChannelsTab() { return this.offered('channels'); }
  waitForExchangesTab() { return this.offered('exchanges'); }
  waitForQueuesTab() { return this.offered('queues'); }
  /** Connections of the stream protocol are among the others. */
  waitForStreamConnectionsTab() { return this.offered('connections'); }
  /** What RabbitMQ has behind a tab *Admin* stands in the list of pages; policies are there for every user. */
  waitForAdminTab() { return this.offered('policies'); }

  clickOnOverviewTab() { return this.open(''); }
  clickOnConnectionsTab() { return this.open('connections'); }
  clickOnChannelsTab() { return this.open('channels'); }
  clickOnExchangesTab() { return this.open('exchanges'); }
  clickOnQueuesTab() { return this.open('queues'); }
  async clickOnAdminTab() { return this.open(await this.isThere('nav a[href="#/users"]') ? 'users' : 'policies'); }

  /** The virtual hosts to choose from: none where all of none is all there is. */
  getSelectableVhosts() {
    return this.seen('virtual hosts', () => {
      const names = [...document.querySelectorAll('.head label:first-of-type option')].map((one) => one.textContent);
      return names.length > 1 ? names : null;
    });
  }

  getMainHeadingText() { return this.seen('a heading', heading); }

  async isPopupWarningDisplayed() { return (await this.driver.executeScript(refusals)).length > 0; }
  async isPopupWarningNotDisplayed() {
    await this.driver.sleep(AWAY_MS / 4);
    return !await this.isPopupWarningDisplayed();
  }
  async getPopupWarning() { return (await this.driver.executeScript(refusals))[0]; }

  /** Chooses columns by the last word of RabbitMQ's ids. */
  async selectTableColumnsById(ids) {
    await this.press('main .chooser summary');
    for (const id of ids) {
      const name = id.split('-').at(-1);
      const title = `${name[0].toUpperCase()}${name.slice(1)}`;
      const isShown = await this.driver.executeScript((text) => [...document.querySelectorAll('main .chooser label')]
        .find((one) => one.textContent.trim() === text)?.querySelector('input')?.checked === true, title);
      if (!isShown) await this.press('main .chooser label', title);
    }
    await this.press('main .chooser summary');
  }
};

module.exports.AWAY_MS = AWAY_MS;
module.exports.WAIT_MS = WAIT_MS;
