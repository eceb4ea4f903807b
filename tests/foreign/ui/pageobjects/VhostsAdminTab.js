// The list of virtual hosts.
'use strict';

const AdminTab = require('./AdminTab');
const Rows = require('./Rows');

/** The fourth is what a spec turns on. */
const COLUMNS = ['Name', 'Default queue type', 'Description', 'Tags', 'Ready', 'Unacked'];

module.exports = class VhostsAdminTab extends Rows(AdminTab) {
  isLoaded() { return this.element('main h1', 'Virtual hosts'); }
  getVhostsTable(columns) { return this.rows(COLUMNS, columns); }

  async searchForVhosts(name) {
    await this.filter(name);
    await this.element('main .table .row a');
    return this.getVhostsTable();
  }

  async hasVhosts(name) { return (await this.searchForVhosts(name)).some((row) => row[0] === name); }
  clickOnVhost(name) { return this.press('main .table .row a', name); }
};
