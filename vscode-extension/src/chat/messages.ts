// What the chat view's page and the extension say to each other.

import type { ContextItem } from '../protocol';
import type { Outcome } from './conversation';

/** A turn as the page shows it. */
export interface ShownTurn {
  readonly question: string;
  readonly attachments: readonly string[];
  readonly answer: string;
  readonly context: readonly ContextItem[];
  readonly outcome: Outcome;
  readonly error?: string;
}

export type ToPage =
  | { readonly type: 'turns'; readonly turns: readonly ShownTurn[] }
  | { readonly type: 'text'; readonly text: string } // more of the last turn's answer
  | { readonly type: 'turn'; readonly turn: ShownTurn } // the last turn has changed
  | { readonly type: 'names'; readonly query: string; readonly names: readonly string[] }
  | { readonly type: 'focus' };

export type FromPage =
  | { readonly type: 'ready' }
  | { readonly type: 'ask'; readonly question: string }
  | { readonly type: 'stop' }
  | { readonly type: 'names'; readonly query: string }
  | { readonly type: 'open'; readonly turn: number; readonly source: number }
  | { readonly type: 'insert' | 'copy' | 'apply'; readonly code: string };
