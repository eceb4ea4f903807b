// @ts-check
/** How long messages, flushes and turns took, by time. */
import { ask, polled, query } from '../api.js';
import { computed, effect, h, untracked } from '../core.js';
import { duration, NONE, whole } from '../format.js';
import { heatmap } from '../heatmap.js';
import { AGES, ageChoice, orMissing, stat, tabs } from '../parts.js';
import { said, to } from '../route.js';
import { text } from '../text.js';

const say = text.latency;
/** A sample is kept each ten seconds. */
const EACH_MS = 10_000;
/** An hour is kept. */
const KNOWN = ['10m', '1h'];

/** @typedef {keyof typeof say.kinds} Kind */

export default function latency() {
  const kind = computed(() => /** @type {Kind} */ (Object.hasOwn(say.kinds, said('kind')) ? said('kind') : 'publish_to_commit'));
  const age = computed(() => /** @type {'10m' | '1h'} */ (said('age') === '1h' ? '1h' : '10m'));
  const seconds = () => AGES[age.value][0];
  const got = polled(() => ask(`x/latency${query({ age: seconds() })}`), EACH_MS);
  effect(() => {
    const wanted = seconds(), told = got.value.value;
    if (told && told.age !== wanted) untracked(() => void got.again());
  });
  const it = () => got.value.value?.kinds?.[kind.value];
  /** A bound that durations are not above; none where there are durations: they are above the largest. @param {number | null | undefined} bound */
  const bounded = (bound) => (!it()?.count ? NONE : bound == null ? text.heatmap.above(duration(it().bounds_us.at(-1))) : text.heatmap.atMost(duration(bound)));
  return [
    h('div', { class: 'head-line' }, h('h1', null, say.title), h('div', { class: 'tools' }, ageChoice(KNOWN))),
    () => orMissing(got, say.title),
    tabs(/** @type {[string, string][]} */ (Object.entries(say.kinds)), () => kind.value, (key) => to(['latency'], { kind: key === 'publish_to_commit' ? '' : key, age: age.value === '10m' ? '' : age.value })),
    h('p', { class: 'pale' }, () => say.about[kind.value]),
    h('dl', { class: 'stats' },
      stat(say.p50, () => bounded(it()?.p50_us), () => say.p50Why), stat(say.p99, () => bounded(it()?.p99_us), () => say.p99Why),
      stat(say.count, () => whole(it()?.count), () => text.ages[age.value])),
    () => heatmap({ title: say.kinds[kind.value], counted: it }),
  ];
}
