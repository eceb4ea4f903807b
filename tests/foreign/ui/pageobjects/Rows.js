// Rows of a list, for the page objects of lists.
//
// RabbitMQ's lists have pages; Leveret's scroll, and only rows in view are elements. A page is so many rows from a place
// on: what a spec turns to is scrolled to. Cells are given in the order that RabbitMQ has its columns in.
'use strict';

/** Rows by the titles of their columns, once all that are in view have come. */
function rows() {
  const said = (one) => one.innerText.trim();
  if (!document.querySelector('main .tools [role=status]')?.textContent || document.querySelector('main .table .row.pale')) return null;
  const titles = [...document.querySelectorAll('main .titles [role=columnheader]')].map((one) => said(one).replace(/ [↑↓]$/, ''));
  return [...document.querySelectorAll('main .table .row')].map((row) => ({
    at: Number(row.getAttribute('aria-rowindex')) - 2,
    cells: Object.fromEntries([...row.querySelectorAll('[role=cell]')].map((cell, n) => [titles[n], said(cell)])),
  }));
}

function scroll(at) {
  const view = document.querySelector('main .table .view');
  view.scrollTop = at * (view.querySelector('.row')?.offsetHeight ?? 0);
  return true;
}

module.exports = (Page) => class Rows extends Page {
  /** Rows that a page has, and the first of this one. */
  size = Infinity;
  first = 0;

  async rows(titles, columns = titles.length) {
    const all = await this.seen('rows', rows);
    const shown = all.filter(({ at }) => at >= this.first && at < this.first + this.size).sort((a, b) => a.at - b.at);
    return shown.map(({ cells }) => titles.slice(0, columns).map((title) => cells[title] ?? ''));
  }

  /** How many rows there are, as the list says it. */
  async count() { return this.text('main .tools [role=status]'); }

  async filter(words) {
    await this.fill('#filter', words);
    // The rows from before stay until the new ones have come; whether any do is for the caller to see.
    const isNarrow = async () => (await this.rows(['Name'])).every(([name]) => name.includes(words));
    await this.driver.wait(isNarrow, 3_000).catch(() => {});
  }

  async setPageSize(size) {
    [this.size, this.first] = [size, 0];
    await this.seen('the list', scroll, 0);
  }

  async selectPage(number) {
    this.first = (number - 1) * this.size;
    await this.seen('the list', scroll, this.first);
  }

  /** The link of a row. */
  link(address) { return `main .table a[href="#/${address}"]`; }
};
