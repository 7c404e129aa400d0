// Suggestions that were made lately, so that typing into one, or going back over it, asks nothing again.

import { fit, remaining, type Fitted, type Place } from './fitting';

const KEPT = 32;

interface Entry {
  readonly document: string;
  readonly origin: Place;
  text: string;
}

export class SuggestionCache {
  private entries: Entry[] = []; // newest first

  /** Remember `text` as the suggestion for `place` of a document; the same place again replaces it. */
  put(document: string, place: Place, text: string): void {
    this.entries = this.entries.filter((entry) => !isAt(entry, document, place));
    this.entries.unshift({ document, origin: place, text });
    this.entries.length = Math.min(this.entries.length, KEPT);
  }

  /** What a remembered suggestion says at `place`; an exact match wins over one that was typed into. */
  get(document: string, place: Place): Fitted | undefined {
    const exact = this.entries.find((entry) => isAt(entry, document, place));
    if (exact) return fit(exact.text, place.after);
    for (const entry of this.entries) {
      if (entry.document !== document) continue;
      const left = remaining(entry.origin, entry.text, place);
      if (left) return left;
    }
    return undefined;
  }

  /** Whether the service answered for this very place, be it with nothing. */
  answered(document: string, place: Place): boolean {
    return this.entries.some((entry) => isAt(entry, document, place));
  }

  /** Forget the suggestion for one place. */
  drop(document: string, place: Place): void {
    this.entries = this.entries.filter((entry) => !isAt(entry, document, place));
  }

  /** Forget a document's suggestions: other files or the repository's context have changed. */
  forget(document?: string): void {
    this.entries = document === undefined ? [] : this.entries.filter((entry) => entry.document !== document);
  }
}

function isAt(entry: Entry, document: string, place: Place): boolean {
  return entry.document === document && entry.origin.before === place.before && entry.origin.after === place.after;
}
