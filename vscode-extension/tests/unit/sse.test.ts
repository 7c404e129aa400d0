import { expect, test } from 'vitest';
import { EventParser } from '../../src/sse';

const stream = 'data: {"text": "\u00e9\u{1f600}\u0085\u2028"}\n\n: comment\r\ndata: one\r\ndata: two\r\n\r\ndata:[DONE]\n\n';
const events = ['{"text": "\u00e9\u{1f600}\u0085\u2028"}', 'one\ntwo', '[DONE]'];

test('events are the same wherever the bytes are cut', () => {
  const bytes = new TextEncoder().encode(stream);
  for (let first = 0; first <= bytes.length; first++) {
    for (let second = first; second <= bytes.length; second += 3) {
      const parser = new EventParser();
      const parts = [bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)];
      expect(parts.flatMap((part) => parser.push(part))).toEqual(events);
    }
  }
});

test('an event that has not ended is not told', () => {
  expect(new EventParser().push(new TextEncoder().encode('data: half\n'))).toEqual([]);
});
