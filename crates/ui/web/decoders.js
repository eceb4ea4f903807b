// @ts-check
/** MessagePack and CBOR (RFC 8949), for as much as bodies of messages have of them. */

/** Values within values. */
const DEPTH_MAX = 64;

/** A place in bytes that is read on from. */
class Place {
  /** @param {Uint8Array} raw */
  constructor(raw) {
    this.raw = raw;
    this.view = new DataView(raw.buffer, raw.byteOffset, raw.byteLength);
    this.at = 0;
  }

  /** @param {number} count */
  step(count) {
    const at = this.at;
    if (at + count > this.raw.length) throw new RangeError('the end is missing');
    this.at += count;
    return at;
  }

  byte() { return this.raw[this.step(1)]; }

  /** @param {number} count */
  bytes(count) {
    const at = this.step(count);
    return this.raw.subarray(at, at + count);
  }

  /** @param {number} count */
  text(count) { return new TextDecoder('utf-8', { fatal: true }).decode(this.bytes(count)); }

  /** A number of 1, 2, 4 or 8 bytes; one that loses nothing as a number is one. @param {number} size @param {boolean} [signed] */
  integer(size, signed) {
    const at = this.step(size);
    if (size === 1) return signed ? this.view.getInt8(at) : this.view.getUint8(at);
    if (size === 2) return signed ? this.view.getInt16(at) : this.view.getUint16(at);
    if (size === 4) return signed ? this.view.getInt32(at) : this.view.getUint32(at);
    const large = signed ? this.view.getBigInt64(at) : this.view.getBigUint64(at);
    return Number.isSafeInteger(Number(large)) ? Number(large) : large;
  }

  /** @param {number} size */
  float(size) {
    const at = this.step(size);
    if (size === 8) return this.view.getFloat64(at);
    if (size === 4) return this.view.getFloat32(at);
    const half = this.view.getUint16(at), exponent = (half >> 10) & 31, rest = half & 1023;
    const value = exponent === 0 ? rest * 2 ** -24 : exponent === 31 ? (rest ? NaN : Infinity) : (1024 + rest) * 2 ** (exponent - 25);
    return half & 0x8000 ? -value : value;
  }

  /** @template T @param {(place: Place, depth: number) => T} one @param {number} count @param {number} depth @returns {T[]} */
  list(one, count, depth) {
    // Each item has a byte at least.
    if (count > this.raw.length - this.at) throw new RangeError('the end is missing');
    return Array.from({ length: count }, () => one(this, depth + 1));
  }

  /** @param {(place: Place, depth: number) => any} one @param {number} count @param {number} depth */
  map(one, count, depth) {
    if (2 * count > this.raw.length - this.at) throw new RangeError('the end is missing');
    /** @type {[string, any][]} */
    const all = [];
    for (let i = 0; i < count; i += 1) all.push([String(one(this, depth + 1)), one(this, depth + 1)]);
    // A name like `__proto__` is a name.
    return Object.fromEntries(all);
  }
}

/** @param {Uint8Array} raw @param {(place: Place, depth: number) => any} one */
function whole(raw, one) {
  const place = new Place(raw);
  const value = one(place, 0);
  if (place.at !== raw.length) throw new RangeError('something is behind it');
  return value;
}

/** @param {Place} it @param {number} depth @returns {any} */
function packed(it, depth) {
  if (depth > DEPTH_MAX) throw new RangeError('too deep');
  const tag = it.byte();
  if (tag < 0x80) return tag;
  if (tag < 0x90) return it.map(packed, tag & 15, depth);
  if (tag < 0xa0) return it.list(packed, tag & 15, depth);
  if (tag < 0xc0) return it.text(tag & 31);
  if (tag >= 0xe0) return tag - 256;
  const size = (/** @type {number} */ first) => Number(it.integer(2 ** (tag - first)));
  switch (tag) {
    case 0xc0: return null;
    case 0xc2: return false;
    case 0xc3: return true;
    case 0xc4: case 0xc5: case 0xc6: return it.bytes(size(0xc4));
    case 0xc7: case 0xc8: case 0xc9: { const count = size(0xc7); return { type: it.integer(1, true), data: it.bytes(count) }; }
    case 0xca: return it.float(4);
    case 0xcb: return it.float(8);
    case 0xcc: case 0xcd: case 0xce: case 0xcf: return it.integer(2 ** (tag - 0xcc));
    case 0xd0: case 0xd1: case 0xd2: case 0xd3: return it.integer(2 ** (tag - 0xd0), true);
    case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8: return { type: it.integer(1, true), data: it.bytes(2 ** (tag - 0xd4)) };
    case 0xd9: case 0xda: case 0xdb: return it.text(size(0xd9));
    case 0xdc: case 0xdd: return it.list(packed, Number(it.integer(tag === 0xdc ? 2 : 4)), depth);
    case 0xde: case 0xdf: return it.map(packed, Number(it.integer(tag === 0xde ? 2 : 4)), depth);
    default: throw new RangeError('no such kind');
  }
}

/** @param {Place} it @param {number} info @returns {number | bigint | null}  null: until its end is said */
function argument(it, info) {
  if (info < 24) return info;
  if (info < 28) return it.integer(2 ** (info - 24));
  if (info === 31) return null;
  throw new RangeError('no such kind');
}

/** The end of what did not say how long it is. */
const BREAK = Symbol('break');

/** @param {Place} it @param {number} depth @returns {any} */
function item(it, depth) {
  if (depth > DEPTH_MAX) throw new RangeError('too deep');
  const tag = it.byte(), major = tag >> 5, info = tag & 31;
  if (major === 7) {
    if (info === 31) return BREAK;
    if (info >= 25 && info <= 27) return it.float(2 ** (info - 24));
    if (info === 24) return `simple(${it.byte()})`;
    return [false, true, null, undefined][info - 20] ?? (info === 20 ? false : null);
  }
  const count = argument(it, info);
  if (major === 0 && count != null) return count;
  if (major === 1 && count != null) return typeof count === 'bigint' ? -1n - count : -1 - count;
  if (major === 6) return item(it, depth + 1);
  if (count != null) {
    const size = Number(count);
    if (major === 2) return it.bytes(size);
    if (major === 3) return it.text(size);
    return major === 4 ? it.list(item, size, depth) : it.map(item, size, depth);
  }
  /** @type {any[]} */
  const parts = [];
  for (let one = item(it, depth + 1); one !== BREAK; one = item(it, depth + 1)) parts.push(one);
  if (major === 4) return parts;
  if (major === 3) return parts.join('');
  if (major === 2) return parts;
  if (major !== 5 || parts.length % 2) throw new RangeError('no such kind');
  return Object.fromEntries(parts.flatMap((key, at) => (at % 2 ? [] : [[String(key), parts[at + 1]]])));
}

/** @param {Uint8Array} raw @returns {any} */
export const messagePack = (raw) => whole(raw, packed);

/** @param {Uint8Array} raw @returns {any} */
export const cbor = (raw) => whole(raw, item);
