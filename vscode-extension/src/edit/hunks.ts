// A proposed change as hunks over lines, and where they are while the document goes on changing.

import { diffArrays } from 'diff';

/** `added` lines stand in the document from `line` on; they took the place of `removed`. */
export interface Hunk {
  readonly id: number;
  readonly line: number;
  readonly added: number;
  readonly removed: readonly string[];
}

/** One replacement of whole lines. */
export interface LineEdit {
  readonly line: number;
  readonly count: number;
  readonly lines: readonly string[];
}

export interface Change {
  /** Zero-based first and last line of the replaced range, and whether it starts and ends at a line's start. */
  readonly startLine: number;
  readonly endLine: number;
  readonly newLines: number; // line breaks in the inserted text
}

export interface Proposal {
  readonly edits: readonly LineEdit[]; // in terms of the document before any of them
  readonly hunks: readonly Hunk[]; // in terms of the document after all of them
}

/**
 * The difference between the lines from `first` on and their replacement. With `onlyAdd`, changes that take lines
 * away are left out: a docstring must not alter code.
 */
export function propose(first: number, before: readonly string[], after: readonly string[], onlyAdd = false): Proposal {
  const edits: LineEdit[] = [];
  const hunks: Hunk[] = [];
  let oldLine = first;
  let newLine = first;
  const parts = diffArrays([...before], [...after]);
  for (let index = 0; index < parts.length; index++) {
    const part = parts[index];
    if (!part) continue;
    if (!part.added && !part.removed) {
      oldLine += part.value.length;
      newLine += part.value.length;
      continue;
    }
    const next = parts[index + 1];
    const pair = next && (next.added || next.removed) && next.added !== part.added ? next : undefined;
    if (pair) index += 1;
    const removed = (part.removed ? part.value : pair?.value) ?? [];
    const added = (part.added ? part.value : pair?.value) ?? [];
    if (onlyAdd && removed.length > 0) {
      oldLine += removed.length;
      newLine += removed.length;
      continue;
    }
    edits.push({ line: oldLine, count: removed.length, lines: added });
    hunks.push({ id: hunks.length + 1, line: newLine, added: added.length, removed });
    oldLine += removed.length;
    newLine += added.length;
  }
  return { edits, hunks };
}

/** Where a hunk is after a change of the document: moved by one above it, grown or shrunk by one inside it. */
export function moved(hunk: Hunk, change: Change): Hunk {
  const delta = change.newLines - (change.endLine - change.startLine);
  const end = hunk.line + hunk.added; // exclusive
  if (change.startLine >= end) return hunk;
  if (change.endLine < hunk.line) return { ...hunk, line: hunk.line + delta };
  const line = Math.min(hunk.line, change.startLine);
  const newEnd = Math.max(end, change.endLine) + delta;
  if (change.startLine >= hunk.line) return { ...hunk, added: Math.max(0, newEnd - hunk.line) };
  return { ...hunk, line, added: Math.max(0, newEnd - line) };
}

/** Text positions and text that put `lines` in the place of whole lines of a document of `lineCount` lines. */
export function replaceLines(
  edit: LineEdit, lineCount: number, lengthOf: (line: number) => number, eol: string,
): { start: [number, number]; end: [number, number]; text: string } {
  const { line, count, lines } = edit;
  const end = line + count;
  if (end < lineCount) return { start: [line, 0], end: [end, 0], text: lines.map((one) => one + eol).join('') };
  // The last line has no line end to take along: take the one before instead.
  const last = lineCount - 1;
  if (line === 0) return { start: [0, 0], end: [last, lengthOf(last)], text: lines.join(eol) };
  return { start: [line - 1, lengthOf(line - 1)], end: [last, lengthOf(last)], text: lines.map((one) => eol + one).join('') };
}

/** A hunk as unified diff, for hovers. */
export function asDiff(hunk: Hunk, added: readonly string[]): string {
  return [...hunk.removed.map((line) => `- ${line}`), ...added.map((line) => `+ ${line}`)].join('\n');
}
