// How the context view says where a chunk is and why it was attached.

import type { ContextItem } from '../protocol';

/** One-based lines, as editors count: 17-20, or 17. */
export function linesOf(item: Pick<ContextItem, 'start_line' | 'end_line'>): string {
  return item.start_line === item.end_line ? `${item.start_line + 1}` : `${item.start_line + 1}-${item.end_line + 1}`;
}

export function whyOf(item: Pick<ContextItem, 'reasons'>): string {
  return item.reasons.length > 0 ? item.reasons.join(', ') : 'no reason told';
}
