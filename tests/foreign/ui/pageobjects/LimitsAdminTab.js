// Limits of virtual hosts and of users.
'use strict';

const AdminTab = require('./AdminTab');

/** The rows of a table, once it or the sentence in its place is there. */
function rows(title) {
  const card = [...document.querySelectorAll('main .card')].find((one) => one.querySelector('h2')?.textContent === title);
  return card?.querySelector('table, .empty') ? [...card.querySelectorAll('tbody tr')].map((one) => one.textContent) : null;
}

module.exports = class LimitsAdminTab extends AdminTab {
  isLoaded() { return this.element('main h1', 'Limits'); }
  list_virtual_host_limits() { return this.seen('limits of virtual hosts', rows, 'Virtual hosts'); }
  list_user_limits() { return this.seen('limits of users', rows, 'Users'); }
};
