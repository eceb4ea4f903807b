// @ts-check
/** A message's body as one can read it: JSON, text, MessagePack, CBOR, what gzip hides, else bytes, and why. */
import { cbor, messagePack } from './decoders.js';
import { attempt } from './dialog.js';
import { h, signal } from './core.js';
import { bytes, visible } from './format.js';
import { text } from './text.js';

const say = text.bodies;
/** Bytes that are shown in hexadecimal digits. */
const HEX_MAX = 4096;
/** Bytes that a compressed body may become. */
const PLAIN_MAX = 16 << 20;
/** Names and items of a folded value that are shown at once. */
const ITEMS_MAX = 200;

/** @typedef {{ kind: string, why?: string, value?: any, plain?: string, raw?: Uint8Array }} Read */

/** The bytes of a payload. @param {any} message @returns {Uint8Array} */
export function bytesOf(message) {
  if (message.payload_encoding !== 'base64') return new TextEncoder().encode(message.payload);
  return Uint8Array.from(atob(message.payload), (letter) => letter.charCodeAt(0));
}

/** @param {Uint8Array} raw @returns {string | null} */
function utf8(raw) {
  try { return new TextDecoder('utf-8', { fatal: true }).decode(raw); } catch { return null; }
}

/** @param {Uint8Array} raw @param {'gzip' | 'deflate'} how @returns {Promise<Uint8Array>} */
async function unpacked(raw, how) {
  const stream = new Blob([/** @type {BlobPart} */ (raw)]).stream().pipeThrough(new DecompressionStream(how));
  const reader = stream.getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
    if (size > PLAIN_MAX) { await reader.cancel(); throw new Error(say.tooLarge(bytes(PLAIN_MAX))); }
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) { all.set(part, at); at += part.length; }
  return all;
}

/** @param {Uint8Array} raw @param {string} type  the content type that the message says, if any @returns {Read} */
function read(raw, type) {
  if (raw.length === 0) return { kind: say.empty };
  const plain = utf8(raw);
  if (plain != null) {
    if (/^\s*[[{"\d-]|^\s*(true|false|null)\s*$/.test(plain)) {
      try { return { kind: 'JSON', value: JSON.parse(plain), plain }; } catch (error) {
        if (/json/.test(type) || /^\s*[[{]/.test(plain)) return { kind: say.text, plain, why: say.notJson(/** @type {Error} */ (error).message) };
      }
    }
    if (/^\s*<[?!a-zA-Z]/.test(plain)) return { kind: 'XML', plain };
    return { kind: say.text, plain };
  }
  for (const [kind, decode] of /** @type {[string, (raw: Uint8Array) => any][]} */ ([['MessagePack', messagePack], ['CBOR', cbor]])) {
    try {
      const value = decode(raw);
      // A number alone is what any byte would be.
      if (typeof value === 'object' && value !== null) return { kind, value, raw };
    } catch { /* it is none of this kind */ }
  }
  return { kind: say.bytes, raw, why: say.noText };
}

/** @param {any} message @returns {Promise<Read>} */
async function peeled(message) {
  const raw = bytesOf(message), said = message.properties?.content_encoding ?? '', type = message.properties?.content_type ?? '';
  const how = raw[0] === 0x1f && raw[1] === 0x8b ? 'gzip' : /deflate/.test(said) ? 'deflate' : null;
  if (!how) return read(raw, type);
  try {
    const inner = read(await unpacked(raw, how), type);
    return { ...inner, kind: say.within(inner.kind, how) };
  } catch (error) {
    return { kind: say.bytes, raw, why: say.notUnpacked(how, /** @type {Error} */ (error).message) };
  }
}

/** Bytes and the letters that they are. @param {Uint8Array} raw */
function hex(raw) {
  const lines = [];
  for (let at = 0; at < Math.min(raw.length, HEX_MAX); at += 16) {
    const line = [...raw.subarray(at, at + 16)];
    const digits = line.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const letters = line.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '·')).join('');
    lines.push(`${at.toString(16).padStart(8, '0')}  ${digits.padEnd(47)}  ${letters}`);
  }
  if (raw.length > HEX_MAX) lines.push(say.more(bytes(raw.length - HEX_MAX)));
  return h('pre', null, lines.join('\n'));
}

/** @param {any} value */
const leaf = (value) => (value instanceof Uint8Array ? `0x${[...value.subarray(0, 32)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}${value.length > 32 ? '…' : ''}`
  : typeof value === 'bigint' ? String(value) : visible(JSON.stringify(value) ?? String(value)));

/** A value that can be folded. @param {string} name @param {any} value @param {boolean} isOpen @returns {HTMLElement} */
function folded(name, value, isOpen) {
  const label = name === '' ? '' : `${visible(name)}: `;
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return h('div', { class: 'leaf' }, label, leaf(value));
  const all = Array.isArray(value) ? value.map((one, at) => [String(at), one]) : Object.entries(value);
  const opened = signal(isOpen);
  return h('details', { open: isOpen, class: 'fold', ontoggle: (/** @type {Event} */ event) => { opened.value = /** @type {HTMLDetailsElement} */ (event.target).open; } },
    h('summary', null, label, Array.isArray(value) ? `[${all.length}]` : `{${all.length}}`),
    () => (opened.value ? [all.slice(0, ITEMS_MAX).map(([key, one]) => folded(key, one, false)), all.length > ITEMS_MAX && h('div', { class: 'leaf pale' }, say.items(all.length - ITEMS_MAX))] : null));
}

/** @param {any} message */
function download(message) {
  const address = URL.createObjectURL(new Blob([/** @type {BlobPart} */ (bytesOf(message))]));
  const link = /** @type {HTMLAnchorElement} */ (h('a', { href: address, download: 'payload' }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** A message's body. @param {any} message */
export function shownBody(message) {
  const got = signal(/** @type {Read | null} */ (null)), isRaw = signal(false);
  void peeled(message).then((all) => { got.value = all; });
  return h('div', { class: 'payload' },
    () => h('div', { class: 'tools' }, h('span', { class: 'pale' }, got.value?.kind ?? '', message.payload_bytes > bytesOf(message).length ? ` · ${say.cut(bytes(bytesOf(message).length), bytes(message.payload_bytes))}` : ''),
      h('span', { class: 'end' }),
      got.value?.value !== undefined && h('button', { type: 'button', onclick: () => { isRaw.value = !isRaw.peek(); } }, () => (isRaw.value ? say.folded : say.raw)),
      h('button', { type: 'button', onclick: () => void attempt(() => navigator.clipboard.writeText(got.value?.plain ?? message.payload), text.copied) }, text.copy),
      h('button', { type: 'button', onclick: () => download(message) }, say.download)),
    () => (got.value?.why ? h('p', { class: 'pale small' }, got.value.why) : null),
    () => {
      const it = got.value;
      if (!it) return null;
      if (it.value !== undefined && !isRaw.value) return h('div', { class: 'mono' }, folded('', it.value, true));
      if (it.plain != null) return h('pre', null, visible(it.plain).replaceAll('\\u{a}', '\n').replaceAll('\\u{9}', '\t'));
      return it.raw ? hex(it.raw) : null;
    });
}
