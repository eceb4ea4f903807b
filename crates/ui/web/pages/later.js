// @ts-check
/** Pages of RabbitMQ's for what is not served yet: said in a sentence, so that a bookmark is no riddle. */
import { h } from '../core.js';
import { text } from '../text.js';

/** @param {string[]} path */
export default function later(path) {
  const of = /federation/.test(path[0]) ? text.later.federation : /shovel/.test(path[0]) ? text.later.shovels : text.later.top;
  return [h('h1', null, of.title), h('p', null, of.why)];
}
