// Code out of a model's answer, which may wrap it in a fence and talk before and after it.

import { commonIndent, dedent, indent } from './block';

export interface FencedCode {
  readonly code: string;
  /** The fence is closed: whatever follows is not code, and the model may be stopped. */
  readonly closed: boolean;
}

/** The first fenced block of an answer; undefined where there is none: prose must not get into a file. */
export function codeOf(answer: string): FencedCode | undefined {
  const open = /^([ \t]*)(`{3,}|~{3,})[^\n]*\n/m.exec(answer);
  if (!open) return undefined;
  const fence = open[2] ?? '```';
  const body = answer.slice(open.index + open[0].length);
  const close = new RegExp(`^[ \\t]*${fence[0]}{${fence.length},}[ \\t]*$`, 'm').exec(body);
  if (!close) return { code: body.replace(/\n?[ \t]*[`~]{0,2}$/, ''), closed: false };
  return { code: body.slice(0, close.index).replace(/\n$/, ''), closed: true };
}

/** The answer's code as lines that stand where the original lines stood: at their indentation, without stray blanks. */
export function replacementFor(original: readonly string[], code: string): string[] {
  const lines = code.replace(/\r\n/g, '\n').split('\n').map((line) => line.trimEnd());
  while (lines.length > 0 && lines[0] === '') lines.shift();
  while (lines.length > 0 && lines.at(-1) === '') lines.pop();
  if (lines.length === 0) return [];
  const placed = indent(dedent(lines, commonIndent(lines)), commonIndent(original));
  // Blank lines that the selection began or ended with are not the model's business.
  const leading = original.findIndex((line) => line.trim() !== '');
  if (leading < 0) return placed;
  const trailing = original.length - 1 - original.findLastIndex((line) => line.trim() !== '');
  return [...original.slice(0, leading), ...placed, ...original.slice(original.length - trailing)];
}
