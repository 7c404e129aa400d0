// Which lines a command is about when nothing is selected: the function around the cursor, found by indentation.
// It is the fallback for languages without a symbol provider, and good enough for all that indent their blocks.

/** Zero-based lines, both inclusive. */
export interface Lines {
  readonly start: number;
  readonly end: number;
}

const HEADER = /^\s*(?:@|(?:export|default|public|private|protected|static|async|abstract|override|final|inline|pub|unsafe|virtual)\s+)*(?:def|class|function|fn|func|fun|sub|impl|trait|interface|enum|struct|module|namespace)\b|^\s*(?:[\w<>[\],.:*&\s]+\s)?[\w~]+\s*\([^;]*\)\s*(?:const\s*)?(?:->[^{]*|:[^{]*)?\{\s*$|=>\s*\{\s*$/;
const CONTROL = /^\s*(?:if|else|for|while|switch|match|catch|try|with|do|return|elif|except|finally)\b/;
const DECORATOR = /^\s*(?:@|#\[|\[\w)/;
const CLOSER = /^\s*(?:[)\]}]+[;,)]*|end)\s*$/;

/** The innermost function or class around a line, with its decorators; the paragraph where there is none. */
export function enclosingBlock(lines: readonly string[], line: number): Lines {
  for (let at = line, below = Number.POSITIVE_INFINITY; at >= 0; at--) {
    const text = lines[at] ?? '';
    if (text.trim() === '') continue;
    const width = indentation(text);
    if (at !== line && width >= below) continue;
    if (HEADER.test(text) && !CONTROL.test(text)) {
      const end = endOf(lines, at, width);
      if (end >= line) return { start: withDecorators(lines, at, width), end };
    }
    if (!/^\s*[)\]}]/.test(text)) below = Math.min(below, width); // what closes belongs to a line further up
    if (at === line && DECORATOR.test(text)) return enclosingBlock(lines, nextCode(lines, at + 1));
  }
  return paragraph(lines, line);
}

function endOf(lines: readonly string[], header: number, width: number): number {
  let end = header;
  for (let at = header + 1; at < lines.length; at++) {
    const text = lines[at] ?? '';
    if (text.trim() === '') continue;
    if (indentation(text) > width) end = at;
    else if (indentation(text) === width && CLOSER.test(text)) return at;
    else if (indentation(text) === width && /^\s*[)\]}].*[:{]\s*$/.test(text)) end = at; // the end of a long signature
    else break;
  }
  return end;
}

function withDecorators(lines: readonly string[], header: number, width: number): number {
  let start = header;
  while (start > 0 && DECORATOR.test(lines[start - 1] ?? '') && indentation(lines[start - 1] ?? '') === width) start -= 1;
  return start;
}

function nextCode(lines: readonly string[], from: number): number {
  const found = lines.findIndex((text, at) => at >= from && text.trim() !== '' && !DECORATOR.test(text));
  return found < 0 ? lines.length - 1 : found;
}

function paragraph(lines: readonly string[], line: number): Lines {
  const isBlank = (at: number): boolean => (lines[at] ?? '').trim() === '';
  let start = line;
  let end = line;
  if (isBlank(line)) return { start, end };
  while (start > 0 && !isBlank(start - 1)) start -= 1;
  while (end + 1 < lines.length && !isBlank(end + 1)) end += 1;
  return { start, end };
}

/** Width of a line's leading white space; a tab goes to the next multiple of 4. */
export function indentation(line: string): number {
  let width = 0;
  for (const character of line) {
    if (character === ' ') width += 1;
    else if (character === '\t') width += 4 - (width % 4);
    else break;
  }
  return width;
}

/** The white space that all lines that are not blank begin with. */
export function commonIndent(lines: readonly string[]): string {
  const leads = lines.filter((line) => line.trim() !== '').map((line) => /^[ \t]*/.exec(line)?.[0] ?? '');
  let common = leads[0] ?? '';
  for (const lead of leads) while (!lead.startsWith(common)) common = common.slice(0, -1);
  return common;
}

export function dedent(lines: readonly string[], by: string): string[] {
  return lines.map((line) => (line.startsWith(by) ? line.slice(by.length) : line.trimStart()));
}

export function indent(lines: readonly string[], by: string): string[] {
  return lines.map((line) => (line.trim() === '' ? '' : by + line));
}
