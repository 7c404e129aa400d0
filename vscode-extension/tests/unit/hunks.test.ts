import { expect, test } from 'vitest';
import { moved, propose, replaceLines, type Hunk, type LineEdit } from '../../src/edit/hunks';

/** A document of lines, edited as VS Code does: by text ranges, and telling about it. */
function apply(text: string, edit: LineEdit): { text: string; change: { startLine: number; endLine: number; newLines: number } } {
  const lines = text.split('\n');
  const { start, end, text: inserted } = replaceLines(edit, lines.length, (line) => lines[line]?.length ?? 0, '\n');
  const offset = ([line, character]: [number, number]): number => lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0) + character;
  return {
    text: text.slice(0, offset(start)) + inserted + text.slice(offset(end)),
    change: { startLine: start[0], endLine: end[0], newLines: inserted.split('\n').length - 1 },
  };
}

/** Small random texts, always the same ones. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => (state = (state * 48271) % 2147483647) % below;
}

function texts(seed: number): { before: string[]; after: string[]; head: string[]; tail: string[] } {
  const next = random(seed);
  const lines = (most: number): string[] => Array.from({ length: next(most) }, () => 'abcd'[next(4)] ?? '');
  return { before: [...lines(7), 'x'], after: [...lines(7), 'y'], head: lines(3), tail: lines(3) };
}

test('applying a proposal gives the new text; rejecting all hunks in any order gives the old one back', () => {
  for (let seed = 1; seed < 500; seed++) {
    const { before, after, head, tail } = texts(seed);
    const original = [...head, ...before, ...tail].join('\n');
    const proposal = propose(head.length, before, after);
    let text = original;
    for (const edit of [...proposal.edits].reverse()) text = apply(text, edit).text;
    expect(text).toBe([...head, ...after, ...tail].join('\n'));

    const next = random(seed);
    let hunks: readonly Hunk[] = proposal.hunks;
    while (hunks.length > 0) {
      const hunk = hunks[next(hunks.length)] as Hunk;
      const applied = apply(text, { line: hunk.line, count: hunk.added, lines: hunk.removed });
      text = applied.text;
      hunks = hunks.filter((one) => one !== hunk).map((one) => moved(one, applied.change));
    }
    expect(text).toBe(original);
  }
});

test('accepting one hunk and rejecting the other keeps just the one', () => {
  const { hunks } = propose(0, ['a', 'b', 'c'], ['A', 'b', 'C', 'D']);
  expect(hunks).toEqual([{ id: 1, line: 0, added: 1, removed: ['a'] }, { id: 2, line: 2, added: 2, removed: ['c'] }]);
  expect(apply('A\nb\nC\nD\n', { line: 2, count: 2, lines: ['c'] }).text).toBe('A\nb\nc\n');
});

test('hunks move with what is typed above, and grow with what is typed inside', () => {
  const hunk: Hunk = { id: 1, line: 5, added: 2, removed: [] };
  expect(moved(hunk, { startLine: 1, endLine: 1, newLines: 3 })).toMatchObject({ line: 8, added: 2 });
  expect(moved(hunk, { startLine: 6, endLine: 6, newLines: 1 })).toMatchObject({ line: 5, added: 3 });
  expect(moved(hunk, { startLine: 9, endLine: 12, newLines: 0 })).toEqual(hunk);
  expect(moved(hunk, { startLine: 2, endLine: 3, newLines: 0 })).toMatchObject({ line: 4, added: 2 });
});

test('a docstring proposal leaves out what changes code', () => {
  const { edits } = propose(3, ['def f(a):', '    return a'], ['def f(a):', '    """Same."""', '    return a + 1'], true);
  expect(edits).toEqual([]);
  const added = propose(3, ['def f(a):', '    return a'], ['def f(a):', '    """Same."""', '    return a'], true);
  expect(added.edits).toEqual([{ line: 4, count: 0, lines: ['    """Same."""'] }]);
});

test('line ends are the document\'s own', () => {
  expect(replaceLines({ line: 0, count: 1, lines: ['a', 'b'] }, 3, () => 1, '\r\n')).toEqual({ start: [0, 0], end: [1, 0], text: 'a\r\nb\r\n' });
});
