// @ts-check
/** A node: what it has and uses, where it listens, and what its memory is for. */
import { ask, may, path, polled, query } from '../api.js';
import { chart, samples } from '../chart.js';
import { h } from '../core.js';
import { bytes, percent, span, whole } from '../format.js';
import { badge, bar, card, facts, meter, orMissing, plain } from '../parts.js';
import { text } from '../text.js';

const say = text.nodes;
const AGE = 3600, STEP = 20;

/** @param {string} name */
function memory(name) {
  const got = polled(() => ask(`nodes/${path(name)}/memory`), 10_000);
  const parts = () => Object.entries(got.value.value?.memory ?? {}).filter(([key, value]) => typeof value === 'number' && value > 0 && key !== 'strategy').map(([key, value]) => /** @type {[string, number]} */ ([key, Number(value)])).sort((a, b) => b[1] - a[1]);
  const sum = () => parts().reduce((all, [, value]) => all + value, 0) || 1;
  return card(say.memory, () => plain([[say.part], [text.columns.bytes, true], [say.share]], parts().map(([key, value]) => [key.replaceAll('_', ' '), bytes(value), [bar(key, () => value / sum()), percent(value / sum())]])));
}

/** @param {string[]} path_ */
export default function node(path_) {
  const name = String(path_[1]);
  const got = polled(() => ask(`nodes/${path(name)}${query({ memory: true, node_stats_age: AGE, node_stats_incr: STEP, lengths_age: AGE, lengths_incr: STEP, data_rates_age: AGE, data_rates_incr: STEP, samples: 'known' })}`));
  const overview = polled(() => ask('overview'), 30_000);
  const it = () => got.value.value ?? {};
  const line = (/** @type {string} */ of, /** @type {string} */ label, /** @type {string} */ color) => ({ name: label, color, points: samples(it()[`${of}_details`], false) });
  return [
    h('div', { class: 'head-line' }, h('h1', null, name), () => (got.value.value ? (it().mem_alarm ? badge(text.overview.memoryAlarm, 'bad') : it().disk_free_alarm ? badge(text.overview.diskAlarm, 'bad') : badge(text.overview.running, 'good')) : null)),
    () => orMissing(got, say.kind),
    h('div', { class: 'two even' },
      card(say.uses, meter(text.overview.memory, () => (it().mem_used ?? 0) / (it().mem_limit || 1), () => text.overview.of(bytes(it().mem_used), bytes(it().mem_limit))), meter(text.overview.files, () => (it().fd_used ?? 0) / (it().fd_total || 1), () => text.overview.of(whole(it().fd_used), whole(it().fd_total))),
        meter(text.overview.disk, () => (it().disk_free_limit ?? 0) / (it().disk_free || 1), () => text.overview.diskFree(bytes(it().disk_free), bytes(it().disk_free_limit)))),
      card(text.queue.facts, () => facts([[say.uptime, it().uptime && span(it().uptime)], [say.speaksAs, it().rabbitmq_version], [say.cores, whole(it().processors)], [say.process, it().os_pid], [say.data, it().db_dir], [say.config, (it().config_files ?? []).join(', ')], [say.log, (it().log_files ?? []).join(', ')],
        [say.flush, it().io_sync_avg_time != null && `${it().io_sync_avg_time.toFixed(2)} ms`]]))),
    h('div', { class: 'two even' }, chart({ title: say.memory, format: bytes, lines: () => [line('mem_used', say.used, '--in')] }), chart({ title: say.diskFree, format: bytes, lines: () => [line('disk_free', say.free, '--out')] })),
    may('monitoring') && memory(name),
    card(say.listeners, () => plain([[text.columns.protocol], [say.address], [say.port, true]], (overview.value.value?.listeners ?? []).map((/** @type {any} */ one) => [one.protocol, one.ip_address, String(one.port)]))),
  ];
}
