// The list of exchanges, and the dialog that adds one.
'use strict';

const BasePage = require('./BasePage');
const Rows = require('./Rows');

const COLUMNS = ['Virtual host', 'Name', 'Type', 'Features', 'In', 'Out'];
const ADD = 'Add an exchange';

module.exports = class ExchangesPage extends Rows(BasePage) {
  isLoaded() { return this.element('main h1', 'Exchanges'); }
  async getPagingSectionHeaderText() { return `All exchanges (${await this.count()})`; }

  async getExchangesTable(columns) {
    const rows = await this.rows(COLUMNS, columns);
    return rows.map((row) => row.map((cell) => (cell === '(default)' ? '(AMQP default)' : cell)));
  }

  clickOnExchange(vhost, name) { return this.press(this.link(`exchanges/${vhost}/${name}`)); }

  ensureAddExchangeSectionIsVisible() { return this.element('main .head-line button', ADD); }

  async fillInAddNewExchange({ name, type }) {
    await this.press('main .head-line button', ADD);
    await this.choose('#form-type', type);
    await this.fill('#form-name', name);
    await this.answer('Add');
  }
};
