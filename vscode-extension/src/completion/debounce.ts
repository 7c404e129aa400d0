// How long to wait after a keystroke before asking: a fast typist's next key comes soon, so wait for it; a slow
// one wants the suggestion now. Never under 75 ms, never over 250 ms.

export const SHORTEST_MS = 75;
export const LONGEST_MS = 250;
const PAUSE_MS = 1000; // a longer gap is thinking, not typing
const WEIGHT = 0.3; // of the newest interval in the running mean

export class Debounce {
  private last = Number.NEGATIVE_INFINITY;
  private interval = LONGEST_MS;

  /** Note a keystroke at `now` (milliseconds) and return the delay before a request. */
  keystroke(now: number): number {
    const gap = now - this.last;
    this.last = now;
    if (gap < PAUSE_MS) this.interval += WEIGHT * (gap - this.interval);
    return this.delay(gap);
  }

  private delay(gap: number): number {
    // After a pause nothing tells that another key follows: the shortest delay shows the suggestion first.
    if (gap >= PAUSE_MS) return SHORTEST_MS;
    // Half as long again as the typist's rhythm: most runs of keys then send one request, at their end.
    return Math.round(Math.min(LONGEST_MS, Math.max(SHORTEST_MS, this.interval * 1.5)));
  }
}
