// The list of queues and streams, and the dialog that adds one.
'use strict';

const BasePage = require('./BasePage');
const Rows = require('./Rows');

const COLUMNS = ['Virtual host', 'Name', 'Type', 'Features', 'State', 'Ready', 'Unacked', 'Total', 'In', 'Out', 'Acked'];
const ADD = 'Add a queue';

module.exports = class QueuesAndStreamsPage extends Rows(BasePage) {
  isLoaded() { return this.element('main h1', 'Queues and streams'); }
  async getPagingSectionHeaderText() { return `All queues (${await this.count()})`; }
  getQueuesTable(columns) { return this.rows(COLUMNS, columns); }
  filterQueues(words) { return this.filter(words); }

  async isQueueVisible(vhost, name) { return !!await this.element(this.link(`queues/${vhost}/${name}`)); }
  clickOnQueue(vhost, name) { return this.press(this.link(`queues/${vhost}/${name}`)); }

  ensureAddQueueSectionIsVisible() { return this.element('main .head-line button', ADD); }

  async fillInAddNewQueue({ name, type }) {
    await this.press('main .head-line button', ADD);
    await this.choose('#form-type', type);
    await this.fill('#form-name', name);
    await this.answer('Add');
  }
};
