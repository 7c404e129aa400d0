// What the model is told for each command. One task, one answer: small models do best with little around it.

import type { ChatMessage } from '../protocol';

export interface Code {
  readonly path: string;
  readonly language: string;
  readonly text: string;
}

const EDITOR = 'You are a careful programmer who edits code. Answer with one fenced code block and nothing else.';

export function editMessages(code: Code, instruction: string): ChatMessage[] {
  return [
    { role: 'system', content: EDITOR },
    { role: 'user', content: `${fenced(code)}\n\nRewrite this code from ${code.path}: ${instruction}\nKeep everything that need not change exactly as it is. Answer with the whole rewritten code in one \`\`\`${code.language} block.` },
  ];
}

export const DOCSTRING = 'add a short documentation comment (in Python a docstring, triple-quoted, right below the signature) that says what it does, its parameters and its result. Do not change the code itself.';

export function fixInstruction(problems: readonly string[]): string {
  return `fix ${problems.length === 1 ? 'this problem' : 'these problems'}:\n${problems.map((problem) => `- ${problem}`).join('\n')}`;
}

export function testMessages(code: Code, framework: string): ChatMessage[] {
  return [
    { role: 'system', content: EDITOR },
    { role: 'user', content: `${fenced(code)}\n\nWrite ${framework} tests for this code from ${code.path}: usual cases, edge cases, errors it raises. Import what you test from its module. Answer with the whole test file in one \`\`\`${code.language} block.` },
  ];
}

export function nameMessages(code: Code, name: string): ChatMessage[] {
  return [
    { role: 'system', content: 'You name things in code. Answer with names only, one per line, no explanations.' },
    { role: 'user', content: `${fenced(code)}\n\nSuggest five better names for \`${name}\` in this code, in the code's own naming style, best first.` },
  ];
}

export function commitMessages(diff: string): ChatMessage[] {
  return [
    { role: 'system', content: 'You write git commit messages: one line in the imperative, at most 72 characters, that says what changes and why. Answer with the message only.' },
    { role: 'user', content: `\`\`\`diff\n${diff}\n\`\`\`\n\nWrite the commit message for this change.` },
  ];
}

/** Names out of an answer: identifiers only, without the old name, each once. */
export function namesOf(answer: string, old: string): string[] {
  const names = answer.split('\n').map((line) => /^[\s\d.)*`-]*([\p{L}_$][\p{L}\p{N}_$]*)/u.exec(line)?.[1] ?? '');
  return [...new Set(names)].filter((name) => name !== '' && name !== old).slice(0, 5);
}

/** A commit message out of an answer: its first line, without quotes and fences. */
export function subjectOf(answer: string): string {
  const line = answer.split('\n').map((one) => one.trim()).find((one) => one !== '' && !one.startsWith('```')) ?? '';
  return line.replace(/^["'`*]+|["'`*]+$/g, '').replace(/^(?:commit message|subject):\s*/i, '').replace(/\.$/, '');
}

/** A diff that fits: whole files' diffs as long as there is room, then the names of the rest. */
export function shortened(diff: string, room: number): string {
  if (diff.length <= room) return diff;
  const files = diff.split(/^(?=diff --git )/m);
  let left = room;
  return files.map((file) => {
    const heads = file.split('\n', 1)[0] ?? '';
    const text = file.length <= left ? file : left > 400 ? `${file.slice(0, left)}\n[...]\n` : `${heads}\n`;
    left = Math.max(0, left - text.length);
    return text;
  }).join('');
}

/** The test framework and the file that tests of `path` usually go to. */
export function testPlace(path: string, language: string): { framework: string; path: string } {
  const slash = path.lastIndexOf('/');
  const folder = slash < 0 ? '' : path.slice(0, slash + 1);
  const name = path.slice(slash + 1);
  const dot = name.lastIndexOf('.');
  const [stem, extension] = dot <= 0 ? [name, ''] : [name.slice(0, dot), name.slice(dot)];
  switch (language) {
    case 'python':
      return { framework: 'pytest', path: `tests/test_${stem}${extension}` };
    case 'go':
      return { framework: 'testing package', path: `${folder}${stem}_test${extension}` };
    case 'typescript':
    case 'javascript':
    case 'typescriptreact':
    case 'javascriptreact':
      return { framework: 'vitest', path: `${folder}${stem}.test${extension}` };
    case 'java':
      return { framework: 'JUnit', path: `${folder.replace('src/main/', 'src/test/')}${stem}Test${extension}` };
    default:
      return { framework: 'unit', path: `tests/${stem}_test${extension}` };
  }
}

export function fenced(code: Code): string {
  // A fence longer than any inside the code.
  const longest = Math.max(2, ...[...code.text.matchAll(/`{3,}/g)].map((match) => match[0].length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${code.language}\n${code.text}\n${fence}`;
}
