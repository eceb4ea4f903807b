// A virtual host.
'use strict';

const AdminTab = require('./AdminTab');

module.exports = class VhostAdminTab extends AdminTab {
  async isLoaded() {
    for (const title of ['Facts', 'Permissions', 'Topic permissions']) await this.element('main .card h2', title);
    return true;
  }

  getName() { return this.text('main h1'); }
};
