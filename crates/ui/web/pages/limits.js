// @ts-check
/** Limits of all users and virtual hosts. */
import { ask, may, polled } from '../api.js';
import { h } from '../core.js';
import { visible } from '../format.js';
import { LIMITS, limited } from '../limits.js';
import { card, plain } from '../parts.js';
import { to } from '../route.js';
import { text } from '../text.js';

const say = text.limits;

/** @param {'user' | 'vhost'} of @param {string} title @param {string} why */
function section(of, title, why) {
  const got = polled(() => ask(`${of}-limits`));
  return card(title, h('p', { class: 'pale' }, why), () => plain([[text.columns.name], ...LIMITS[of].map((limit) => /** @type {[string, boolean]} */ ([limit, true]))], (got.value.value ?? []).map((/** @type {any} */ one) => [
    may('administrator') ? h('a', { href: to([`${of}s`, one[of]]), class: 'name' }, visible(one[of])) : visible(one[of]), ...LIMITS[of].map((limit) => (one.value[limit] == null ? '' : limited(limit, one.value[limit])))]), say.none));
}

export default function limits() {
  return [h('h1', null, say.title), section('vhost', text.nav.vhosts, say.vhostWhy), may('administrator') ? section('user', text.nav.users, say.userWhy) : card(text.nav.users, h('p', { class: 'empty' }, say.usersHidden))];
}
