// An exchange.
'use strict';

const BasePage = require('./BasePage');

const DELETE = ['main .head-line button', 'Delete'];

module.exports = class ExchangePage extends BasePage {
  isLoaded() { return this.objectIsLoaded(); }
  getName() { return this.text('main h1'); }
  ensureDeleteExchangeSectionIsVisible() { return this.element(...DELETE); }

  async deleteExchange() {
    await this.press(...DELETE);
    await this.answer('Delete');
    await this.element('main h1', 'Exchanges');
  }
};
