import { describe, expect, test } from 'vitest';
import { fit, isCompletable, remaining, type Place } from '../../src/completion/fitting';

/** The document after a fitted suggestion was taken. */
function taken(place: Place, fitted: { text: string; replaces: number }): string {
  return place.before + fitted.text + place.after.slice(fitted.replaces);
}

describe('fit', () => {
  test('leaves a suggestion alone at the end of a line', () => {
    expect(fit('foo(bar)', '\nnext = 1\n')).toEqual({ text: 'foo(bar)', replaces: 0 });
  });

  test('is nothing for white space', () => {
    expect(fit('  \n', '\n')).toBeUndefined();
  });

  test('does not repeat the rest of the line', () => {
    const place = { before: 'print(', after: 'value, end="")\n' };
    const fitted = fit('1, value, end="")', place.after);
    expect(fitted && taken(place, fitted)).toBe('print(1, value, end="")\n');
  });

  test('replaces a closing bracket that it brings itself, and keeps one that it needs', () => {
    const place = { before: 'f(', after: ')\n' };
    const own = fit('a, b)', place.after);
    expect(own && taken(place, own)).toBe('f(a, b)\n');
    const inner = fit('g(a)', place.after);
    expect(inner && taken(place, inner)).toBe('f(g(a))\n');
  });

  test('does not repeat the next line, with either line end', () => {
    for (const end of ['\n', '\r\n']) {
      const after = `${end}    return total${end}`;
      expect(fit(`total += 1${end}    return total`, after)).toEqual({ text: 'total += 1', replaces: 0 });
    }
  });
});

describe('remaining', () => {
  const origin: Place = { before: 'x = ', after: '\ny = 2\n' };
  const suggestion = 'compute(first, second)';

  test('typing into a suggestion leaves its rest, at every length', () => {
    for (let length = 0; length < suggestion.length; length++) {
      const place = { before: origin.before + suggestion.slice(0, length), after: origin.after };
      const left = remaining(origin, suggestion, place);
      expect(left && taken(place, left)).toBe(`x = ${suggestion}\ny = 2\n`);
    }
  });

  test('a bracket that the editor closed by itself is not doubled', () => {
    for (const typed of ['compute(', 'compute(first, ']) {
      const place = { before: origin.before + typed, after: `)${origin.after}` };
      const left = remaining(origin, suggestion, place);
      expect(left && taken(place, left)).toBe(`x = ${suggestion}\ny = 2\n`);
    }
  });

  test('is nothing for other text, another place, or a changed end', () => {
    expect(remaining(origin, suggestion, { before: 'x = other', after: origin.after })).toBeUndefined();
    expect(remaining(origin, suggestion, { before: 'z = comp', after: origin.after })).toBeUndefined();
    expect(remaining(origin, suggestion, { before: 'x = comp', after: '\ny = 3\n' })).toBeUndefined();
    expect(remaining(origin, suggestion, { before: origin.before + suggestion, after: origin.after })).toBeUndefined();
  });
});

test('nothing is suggested in the middle of a word', () => {
  expect(isCompletable({ before: 'fo', after: 'o = 1' })).toBe(false);
  expect(isCompletable({ before: 'foo', after: ' = 1' })).toBe(true);
  expect(isCompletable({ before: 'foo(', after: ')' })).toBe(true);
});
