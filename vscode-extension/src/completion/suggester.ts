// From a place in a document to the suggestion to show there: remembered ones first, then one request at a time.
//
// The model writes about 40 tokens a second on two cores, and nobody waits three seconds for grey text. So what is
// there after a second is shown up to its last whole line, and grows when the rest has come.

import type { Attached, CompletionBody, Piece } from '../protocol';
import { SuggestionCache } from './cache';
import { fit, type Fitted, type Place } from './fitting';

export const PATIENCE_MS = 1000;

export interface Asked {
  readonly document: string;
  readonly place: Place;
  readonly body: CompletionBody;
}

export interface SuggesterEvents {
  /** A request has ended by itself; `firstMs` is the time until there was something to show. */
  completed(asked: Asked, attached: Attached | undefined, firstMs: number): void;
  /** A suggestion that is shown has become longer. */
  longer(asked: Asked): void;
  /** A request failed after a part of its suggestion was shown. */
  failed(error: unknown): void;
}

type Complete = (body: CompletionBody, signal: AbortSignal) => AsyncGenerator<Piece>;

export class Suggester {
  readonly cache = new SuggestionCache();
  private running: Run | undefined;

  constructor(
    private readonly complete: Complete,
    private readonly events: SuggesterEvents,
    private readonly patienceMs = PATIENCE_MS,
  ) {}

  /** What is known for a place without asking; a request that has nothing to do with it is stopped. */
  known(document: string, place: Place): Fitted | undefined {
    const fitted = this.cache.get(document, place);
    if (!fitted || this.running?.asked.document !== document) this.stop();
    return fitted;
  }

  /** Ask the service. Resolves to nothing when `signal` says that nobody wants it any more. Throws `ServiceError`. */
  async ask(asked: Asked, signal: AbortSignal): Promise<Fitted | undefined> {
    this.stop();
    const run = new Run(asked, signal);
    this.running = run;
    const whole = this.consume(run);
    // The failure is thrown here, or told as an event once this has returned.
    const settled = whole.then(() => true, () => true);
    const late = await Promise.race([settled.then(() => false), run.late(this.patienceMs)]);
    if (!late || run.aborted) {
      await whole;
      if (run.aborted) return undefined;
      this.cache.put(asked.document, asked.place, run.text);
      return fit(run.text, asked.place.after);
    }
    const part = run.showPart();
    this.cache.put(asked.document, asked.place, part);
    void whole.then(
      () => this.finishLate(run),
      (error: unknown) => this.events.failed(error),
    );
    return fit(part, asked.place.after);
  }

  /** Stop the request in progress. */
  stop(): void {
    const run = this.running;
    this.running = undefined;
    if (!run) return;
    run.abort();
    if (run.shown !== undefined) this.cache.drop(run.asked.document, run.asked.place); // it was only a part
  }

  private async consume(run: Run): Promise<void> {
    const started = performance.now();
    let attached: Attached | undefined;
    let firstMs = 0;
    try {
      for await (const piece of this.complete(run.asked.body, run.controller.signal)) {
        if (piece.text && firstMs === 0) firstMs = performance.now() - started;
        run.add(piece.text);
        attached = piece.attached ?? attached;
      }
    } catch (error) {
      if (run.aborted) return;
      throw error;
    } finally {
      run.end();
      if (this.running === run) this.running = undefined;
    }
    this.events.completed(run.asked, attached, firstMs || performance.now() - started);
  }

  private finishLate(run: Run): void {
    if (run.aborted) return;
    this.cache.put(run.asked.document, run.asked.place, run.text);
    if (run.text !== run.shown) this.events.longer(run.asked);
  }
}

/** One request in progress. */
class Run {
  readonly controller = new AbortController();
  text = '';
  shown: string | undefined; // the part that is shown while the rest is coming
  private ended = false;
  private onText: (() => void) | undefined;
  private readonly abortBySignal = (): void => this.abort();

  constructor(
    readonly asked: Asked,
    private readonly signal: AbortSignal,
  ) {
    if (signal.aborted) this.abort();
    signal.addEventListener('abort', this.abortBySignal, { once: true });
  }

  get aborted(): boolean {
    return this.controller.signal.aborted;
  }

  abort(): void {
    this.controller.abort();
  }

  add(text: string): void {
    this.text += text;
    this.onText?.();
  }

  end(): void {
    this.ended = true;
    this.signal.removeEventListener('abort', this.abortBySignal);
    this.onText?.();
  }

  /** The part to show now; the request goes on although the one who asked has been answered. */
  showPart(): string {
    this.signal.removeEventListener('abort', this.abortBySignal);
    this.shown = this.lines();
    return this.shown;
  }

  /** Whole lines of what has come. */
  lines(): string {
    return this.text.slice(0, Math.max(0, this.text.lastIndexOf('\n')));
  }

  /** Resolves to true when `ms` have passed and there is a whole line to show, while more is coming. */
  late(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.onText = () => {
          if (this.ended || this.lines().trim() !== '') {
            this.onText = undefined;
            resolve(!this.ended);
          }
        };
        this.onText();
      }, ms);
      this.controller.signal.addEventListener('abort', () => {
        clearTimeout(timer);
        resolve(false);
      }, { once: true });
    });
  }
}
