// Where a piece of code from a chat answer belongs in a file: over the function of the same name, else the selection,
// else at the cursor.

import { enclosingBlock, type Lines } from './block';

const NAMES = [
  /^\s*(?:async\s+)?def\s+(\w+)/,
  /^\s*(?:export\s+|default\s+|abstract\s+|public\s+|pub\s+)*(?:class|interface|enum|struct|trait|type)\s+(\w+)/,
  /^\s*(?:export\s+|default\s+|async\s+|pub\s+|unsafe\s+)*(?:function\*?|fn|fun|sub)\s+(\w+)/,
  /^\s*func\s+(?:\([^)]*\)\s*)?(\w+)/,
  /^\s*(?:export\s+)?(?:const|let|var)\s+(\w+)\s*=\s*(?:async\s*)?(?:\([^)]*\)|\w+)\s*=>/,
];

/** The name of the first function or class that code defines. */
export function definedName(lines: readonly string[]): string | undefined {
  for (const line of lines) {
    for (const pattern of NAMES) {
      const name = pattern.exec(line)?.[1];
      if (name) return name;
    }
  }
  return undefined;
}

/** The lines of a document that code takes the place of; undefined when it defines nothing that is there. */
export function placeOf(code: readonly string[], document: readonly string[]): Lines | undefined {
  const name = definedName(code);
  if (name === undefined) return undefined;
  const line = document.findIndex((text) => definedName([text]) === name);
  return line < 0 ? undefined : enclosingBlock(document, line);
}
