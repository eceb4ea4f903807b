// The login. It says in one sentence beside the fields what RabbitMQ says in two places, in a window over them and below.
'use strict';

const BasePage = require('./BasePage');

/** The sentence of a refusal, once the login that is under way is answered; empty: there is none. */
function refused() {
  const button = document.querySelector('.login button');
  if (button?.disabled) return null;
  return { text: document.querySelector('.login [role=alert] .band')?.textContent.trim() ?? '' };
}

module.exports = class LoginPage extends BasePage {
  isLoaded() { return this.element('.login input[name=username]'); }

  async login(name, password) {
    await this.isLoaded();
    await this.fill('.login input[name=username]', name);
    await this.fill('.login input[name=password]', password);
    await this.press('.login button');
  }

  /** RabbitMQ writes the verb as a noun. */
  async getLoginButton() { return (await this.text('.login button')).replace('Log in', 'Login'); }

  async refusal() { return (await this.seen('the answer to a login', refused)).text; }

  async isWarningVisible() { return (await this.refusal()) !== ''; }
  async isWarningNotVisible() { return (await this.refusal()) === ''; }
  async getWarning() { return (await this.refusal()) === '' ? '' : 'Login failed'; }

  /** The reason in RabbitMQ's words. */
  async getPopupWarning() { return (await this.refusal()).replace(/^This user may not use the management interface.*/, 'Not management user'); }
  /** Nothing opens over the login: the next try takes the sentence away. */
  async closePopupWarning() {}
};
