// The service's HTTP interface as types: docs/api.md in the repository is the specification.

/** Zero-based; `character` counts UTF-16 code units, as VS Code does. */
export interface Cursor {
  readonly line: number;
  readonly character: number;
}

/** One attached chunk and why it was chosen; lines are zero-based, both inclusive. */
export interface ContextItem {
  readonly path: string;
  readonly symbol: string;
  readonly start_line: number;
  readonly end_line: number;
  readonly tokens: number;
  readonly score: number;
  readonly reasons: readonly string[];
}

export interface Timings {
  readonly recall_ms: number;
  readonly ttft_ms: number;
  readonly prefill_tokens: number;
  readonly cached_tokens: number;
  readonly decode_tokens: number;
}

export interface Attached {
  readonly context: readonly ContextItem[];
  readonly timings: Timings;
}

export interface CompletionBody {
  readonly workspace?: string;
  readonly path?: string;
  readonly cursor?: Cursor;
  readonly buffer?: string;
  readonly prompt?: string;
  readonly suffix?: string;
  readonly multi_line?: boolean;
  readonly stop?: readonly string[];
  readonly max_tokens: number;
  readonly context_tokens?: number;
}

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

export interface ChatBody {
  readonly messages: readonly ChatMessage[];
  readonly workspace?: string;
  readonly context_tokens?: number;
  readonly max_tokens: number;
  readonly temperature: number;
}

/** A step of a stream: new text, and in its last step how it ended and what was attached. */
export interface Piece {
  readonly text: string;
  readonly finish?: 'stop' | 'length';
  readonly attached?: Attached;
}

export interface Health {
  readonly status: 'ok' | 'loading' | 'error' | 'stopping';
  readonly version: string;
  readonly loading?: { readonly stage: string; readonly done: number; readonly total: number };
  readonly message?: string;
}

export interface WorkspaceState {
  readonly root: string;
  readonly state: 'indexing' | 'ready' | 'error';
  readonly files: number;
  readonly chunks: number;
  readonly tokens: number;
  readonly indexed_tokens: number;
  readonly seconds_left: number | null;
  readonly skipped: readonly { readonly path: string; readonly reason: string }[];
}

export interface RecalledContext {
  readonly path: string;
  readonly context: readonly ContextItem[];
  readonly tokens: number;
  readonly timings: { readonly recall_ms: number };
}
