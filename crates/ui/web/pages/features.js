// @ts-check
/** Deprecated features, those in use first, and feature flags. */
import { ask, polled } from '../api.js';
import { h } from '../core.js';
import { badge, card, plain } from '../parts.js';
import { text } from '../text.js';

const say = text.features;

export default function features() {
  const flags = polled(() => ask('feature-flags'), 60_000), deprecated = polled(() => ask('deprecated-features'), 60_000), used = polled(() => ask('deprecated-features/used'), 60_000);
  return [h('h1', null, say.title),
    card(say.used, () => plain([[text.columns.name], [say.phase], [text.columns.state]], (used.value.value ?? []).map((/** @type {any} */ one) => [one.name, String(one.deprecation_phase).replaceAll('_', ' '), badge(one.state, 'warn')]), say.noneUsed)),
    card(say.deprecated, () => plain([[text.columns.name], [say.phase], [text.columns.state]], (deprecated.value.value ?? []).map((/** @type {any} */ one) => [one.name, String(one.deprecation_phase).replaceAll('_', ' '), one.state]))),
    card(say.flags, h('p', { class: 'pale' }, say.flagsWhy), () => plain([[text.columns.name], [say.stability], [text.columns.state], [say.about]], (flags.value.value ?? []).map((/** @type {any} */ one) => [one.name, one.stability, badge(one.state, one.state === 'enabled' ? 'good' : ''), one.desc])))];
}
