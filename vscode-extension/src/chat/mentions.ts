// @file and @symbol in a question.

const MENTION = /(?<![\w@.])@([\p{L}\p{N}_$./\\-]*[\p{L}\p{N}_$])/gu;

/** The names that a question mentions, each once, in order. */
export function mentionsIn(question: string): string[] {
  return [...new Set([...question.matchAll(MENTION)].map((match) => (match[1] ?? '').replaceAll('\\', '/')))];
}

/** The mention that is being typed before the cursor: its text after the @, or undefined. */
export function mentionAt(text: string, cursor: number): string | undefined {
  return /(?<![\w@.])@([\p{L}\p{N}_$./\\-]*)$/u.exec(text.slice(0, cursor))?.[1];
}

/** Paths that a name may mean, best first: the whole path, then its end, then its file's beginning, then any part. */
export function rankPaths(paths: readonly string[], name: string, most = 8): string[] {
  const wanted = name.toLowerCase();
  const rank = (path: string): number => {
    const lower = path.toLowerCase();
    if (lower === wanted) return 0;
    if (lower.endsWith(`/${wanted}`)) return 1;
    if ((lower.split('/').pop() ?? '').startsWith(wanted)) return 2;
    if (lower.startsWith(wanted)) return 3;
    return lower.includes(wanted) ? 4 : 5;
  };
  return paths.map((path) => ({ path, rank: rank(path) }))
    .filter((one) => one.rank < 5)
    .sort((a, b) => a.rank - b.rank || a.path.length - b.path.length || a.path.localeCompare(b.path))
    .slice(0, most).map(({ path }) => path);
}
