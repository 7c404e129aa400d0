// How a suggestion fits the text around the cursor: what of it is left after typing into it, what of the line it
// replaces, and when a place is not worth a suggestion at all.

const CLOSING = /^[)\]}>"'`;,:]+$/;

/** The text around a cursor; line ends are the document's own. */
export interface Place {
  readonly before: string;
  readonly after: string;
}

/** What to insert at the cursor, and how many characters after the cursor it replaces. */
export interface Fitted {
  readonly text: string;
  readonly replaces: number;
}

/** What stands between the cursor and the end of its line. */
export function restOfLine(after: string): string {
  const end = after.search(/\r?\n/);
  return end < 0 ? after : after.slice(0, end);
}

/**
 * What is left of a suggestion made for `origin` now that the cursor is at `place`: undefined when something else
 * was typed. Brackets and quotes that the editor closed by itself are replaced, so none is doubled.
 */
export function remaining(origin: Place, suggestion: string, place: Place): Fitted | undefined {
  if (!place.before.startsWith(origin.before)) return undefined;
  const typed = place.before.slice(origin.before.length);
  if (!suggestion.startsWith(typed)) return undefined;
  const text = suggestion.slice(typed.length);
  const added = place.after.length - origin.after.length;
  if (added < 0 || !place.after.endsWith(origin.after)) return undefined;
  const closed = place.after.slice(0, added);
  if (closed === '') return fit(text, place.after);
  if (!CLOSING.test(closed) || !isSubsequence(closed, text)) return undefined;
  return text === '' ? undefined : { text, replaces: added };
}

/**
 * A suggestion as it may be shown before `after`: undefined when nothing is left of it. If its first line holds
 * all that stands on the rest of the line, it replaces that; the end that repeats what follows is cut off.
 */
export function fit(suggestion: string, after: string): Fitted | undefined {
  const rest = restOfLine(after);
  const text = suggestion.slice(0, suggestion.length - repeated(suggestion, after, rest));
  if (text.trim() === '' ) return undefined;
  const [firstLine = ''] = text.split(/\r?\n/, 1);
  const bare = rest.trim();
  if (bare !== '' && CLOSING.test(bare) && isSubsequence(bare, firstLine) && surplus(firstLine) > 0) {
    return { text, replaces: rest.length };
  }
  return { text, replaces: 0 };
}

/** Whether a suggestion may be asked for while typing: not in the middle of a word. */
export function isCompletable(place: Place): boolean {
  return !/^\w/.test(place.after);
}

/** How much of the end of `text` the rest of the cursor's line, or the next whole line, says again. */
function repeated(text: string, after: string, rest: string): number {
  const tail = rest.trimEnd();
  if (tail.trim().length >= 3 && text.endsWith(tail)) return tail.length;
  const following = after.slice(rest.length).match(/^\r?\n([^\r\n]*)/)?.[1] ?? '';
  const end = text.lastIndexOf('\n');
  if (end >= 0 && following.trim().length >= 3 && text.slice(end + 1) === following) {
    return text.length - (text[end - 1] === '\r' ? end - 1 : end);
  }
  return 0;
}

/** How many closing brackets of a line close nothing that it opened. */
function surplus(line: string): number {
  let open = 0;
  let closers = 0;
  for (const character of line) {
    if ('([{'.includes(character)) open += 1;
    else if (')]}'.includes(character)) {
      if (open > 0) open -= 1;
      else closers += 1;
    }
  }
  return closers;
}

function isSubsequence(part: string, whole: string): boolean {
  let from = 0;
  for (const character of part) {
    const at = whole.indexOf(character, from);
    if (at < 0) return false;
    from = at + 1;
  }
  return true;
}
