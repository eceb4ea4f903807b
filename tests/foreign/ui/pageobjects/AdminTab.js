// What RabbitMQ has behind its tab *Admin*, and Leveret in the list of pages. Addresses are RabbitMQ's where it has them.
'use strict';

const OverviewPage = require('./OverviewPage');

module.exports = class AdminTab extends OverviewPage {
  isLoaded() { return this.element('nav a[href="#/users"][aria-current=page]'); }

  waitForUsersMenuOption() { return this.offered('users'); }
  waitForLimitsMenuOption() { return this.offered('limits'); }
  waitForVhostsMenuOption() { return this.offered('vhosts'); }
  waitForPoliciesMenuOption() { return this.offered('policies'); }
  waitForFeatureFlagsMenuOption() { return this.offered('features'); }
  waitForClusterMenuOption() { return this.offered('cluster-name'); }
  waitForFederationStatusMenuOption() { return this.offered('federation'); }
  waitForFederationUpstreamsMenuOption() { return this.offered('federation-upstreams'); }
  waitForShovelStatusMenuOption() { return this.offered('shovels'); }
  waitForShovelManagementMenuOption() { return this.offered('dynamic-shovels'); }
  waitForTopProcessesMenuOption() { return this.offered('top'); }
  waitForTopEtsTableMenuOption() { return this.offered('top/ets'); }
  waitForTracingMenuOption() { return this.offered('traces'); }

  clickOnUsers() { return this.open('users'); }
  clickOnLimits() { return this.open('limits'); }
  clickOnVhosts() { return this.open('vhosts'); }
  clickOnPolicies() { return this.open('policies'); }
  clickOnFeatureFlags() { return this.open('features'); }

  async searchForUser(name) {
    await this.fill('#filter', name);
    await this.element(`main .table a[href="#/users/${encodeURIComponent(name)}"]`);
    return true;
  }
};
