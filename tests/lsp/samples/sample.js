'use strict';

import { readFile } from 'node:fs/promises';
import path, { join as joinPath } from 'path';
const events = require('events');

const LIMIT = 10;

/**
 * Adds two numbers.
 */
function add(a, b) {
  return a + b;
}

// Reads a file in one go.
export const load = async (name) => {
  const text = await readFile(joinPath('.', name), 'utf8');
  return text.split('\n').map((line) => line.trim());
};

export default class Queue extends events.EventEmitter {
  #items = [];
  static limit = LIMIT;

  constructor(name) {
    super();
    this.name = name;
  }

  get length() {
    return this.#items.length;
  }

  async push(item) {
    this.#items.push(item);
    this.emit('push', item, path.basename(this.name));
    return add(this.length, 0);
  }
}

export function* numbers(limit) {
  for (let i = 0; i < limit; i++) {
    yield i;
  }
}

module.exports.area = function (width, height) {
  return width * height;
};
