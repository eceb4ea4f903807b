// @ts-check
/** Numbers, sizes, rates and times in words. */

const UNITS = ['', 'k', 'M', 'G', 'T', 'P'];
const whole_ = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const clock_ = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const date_ = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

/** What is not known. */
export const NONE = '–';

/** @param {number | null | undefined} n  12,408 */
export const whole = (n) => (n == null || Number.isNaN(n) ? NONE : whole_.format(n));

/** @param {number | null | undefined} n  12.4k */
export function short(n) {
  if (n == null || Number.isNaN(n)) return NONE;
  let unit = 0, value = Math.abs(n);
  while (value >= 999.5 && unit < UNITS.length - 1) { value /= 1000; unit += 1; }
  const digits = unit === 0 ? (Number.isInteger(n) ? 0 : value < 10 ? 1 : 0) : value < 10 ? 2 : value < 100 ? 1 : 0;
  return (n < 0 ? '-' : '') + value.toFixed(digits) + UNITS[unit];
}

/** @param {number | null | undefined} n  51.7 MB */
export function bytes(n) {
  if (n == null || Number.isNaN(n)) return NONE;
  const text = short(Math.round(n)), unit = text.match(/[a-zA-Z]$/)?.[0] ?? '';
  return unit ? `${text.slice(0, -1)} ${unit}B` : `${text} B`;
}

/** @param {number | null | undefined} n  12.4k/s */
export const rate = (n) => (n == null ? NONE : `${short(n)}/s`);

/** How fast a counter of an object grows. @param {any} it @param {string} of */
export const rateOf = (it, of) => it?.message_stats?.[`${of}_details`]?.rate ?? 0;

/** @param {number | null | undefined} share  0.97 as 97 % */
export const percent = (share) => (share == null || Number.isNaN(share) ? NONE : `${whole_.format(share * 100)} %`);

/** @param {number | null | undefined} milliseconds  a length of time: 350 ms, 12 s, 3 min, 5 h, 2 d */
export function span(milliseconds) {
  if (milliseconds == null || Number.isNaN(milliseconds)) return NONE;
  const steps = /** @type {[number, string][]} */ ([[86_400_000, 'd'], [3_600_000, 'h'], [60_000, 'min'], [1000, 's']]);
  for (const [size, name] of steps) {
    if (milliseconds >= size) {
      const value = milliseconds / size;
      return `${value < 10 && name !== 's' ? value.toFixed(1).replace(/\.0$/, '') : Math.floor(value)} ${name}`;
    }
  }
  return `${Math.round(milliseconds)} ms`;
}

/** @param {number | null | undefined} microseconds  a short length of time: 50 µs, 1.5 ms, 12 s */
export function duration(microseconds) {
  if (microseconds == null || Number.isNaN(microseconds)) return NONE;
  if (microseconds < 1000) return `${Math.round(microseconds)} µs`;
  return microseconds < 1_000_000 ? `${Number((microseconds / 1000).toPrecision(3))} ms` : span(microseconds / 1000);
}

/** @param {number} at  milliseconds since 1970: 14:02:31 */
export const clock = (at) => clock_.format(at);

/** @param {number | null | undefined} at  milliseconds since 1970: 28 Nov 2026, 14:02:31 */
export const date = (at) => (at == null ? NONE : date_.format(at));

/** @param {number | null | undefined} at  milliseconds since 1970: 5 min */
export const age = (at) => (at == null ? NONE : span(Math.max(0, Date.now() - at)));

/**
 * Text as one sees it: what has no shape, or would turn the line around, by its number.
 * @param {string} text
 */
export const visible = (text) => text.replace(
  /[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
  (letter) => `\\u{${/** @type {number} */ (letter.codePointAt(0)).toString(16)}}`,
);

/** A name, of which an empty one is the default exchange's or nobody's. @param {string | null | undefined} name */
export const named = (name) => (name === '' || name == null ? '(default)' : visible(name));
