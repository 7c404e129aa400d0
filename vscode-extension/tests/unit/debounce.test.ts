import { expect, test } from 'vitest';
import { Debounce, LONGEST_MS, SHORTEST_MS } from '../../src/completion/debounce';

function delays(gaps: number[]): number[] {
  const debounce = new Debounce();
  let now = 0;
  return gaps.map((gap) => debounce.keystroke((now += gap)));
}

test('the first key, and the first after a pause, wait the shortest time', () => {
  expect(delays([5000])).toEqual([SHORTEST_MS]);
  expect(delays([5000, 100, 100, 100, 5000]).at(-1)).toBe(SHORTEST_MS);
});

test('a steady typist waits longer than the next key takes to come', () => {
  for (const gap of [60, 90, 120, 150]) {
    const settled = delays([5000, ...Array<number>(30).fill(gap)]).at(-1) ?? 0;
    expect(settled).toBeGreaterThan(gap);
  }
});

test('no rhythm leaves the bounds', () => {
  for (let seed = 1; seed < 200; seed++) {
    const gaps = Array.from({ length: 40 }, (_, index) => (seed * 7919 * (index + 1)) % 1500);
    for (const delay of delays(gaps)) {
      expect(delay).toBeGreaterThanOrEqual(SHORTEST_MS);
      expect(delay).toBeLessThanOrEqual(LONGEST_MS);
    }
  }
});
