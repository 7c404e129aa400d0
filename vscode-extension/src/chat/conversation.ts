// A conversation as data: what was asked with what attached, what was answered from which chunks, and the messages
// that the next question comes to.

import type { ChatMessage, ContextItem } from '../protocol';
import { fenced } from '../edit/prompts';

/** A file, symbol or selection that the user named: sent as a message of its own, never merged with the question. */
export interface Attachment {
  readonly label: string;
  readonly path: string;
  readonly language: string;
  readonly text: string;
  readonly startLine: number; // zero-based, inclusive
  readonly endLine: number;
}

export type Outcome = 'running' | 'done' | 'cut' | 'stopped' | 'failed';

export interface Turn {
  readonly question: string;
  readonly attachments: readonly Attachment[];
  readonly root: string | undefined;
  answer: string;
  context: readonly ContextItem[];
  outcome: Outcome;
  error?: string;
}

const SYSTEM = 'You are Miton, a programmer\'s assistant inside VS Code. Answer from the code of the repository that you are given, briefly, in markdown. Name the files and functions that you refer to in backquotes. If the code does not tell, say so.';
const HISTORY_CHARACTERS = 8000;
const KEPT_TURNS = 50;

/** The messages that ask a turn's question after the earlier turns; the question is last, for recall reads it. */
export function messagesFor(earlier: readonly Turn[], turn: Turn): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let room = HISTORY_CHARACTERS;
  for (const past of [...earlier].reverse()) {
    if (past.answer === '') continue; // failed or stopped before it began
    room -= past.question.length + past.answer.length;
    if (room < 0) break;
    messages.unshift({ role: 'user', content: past.question }, { role: 'assistant', content: past.answer });
  }
  const attached = turn.attachments.map((attachment): ChatMessage => ({ role: 'user', content: segment(attachment) }));
  return [{ role: 'system', content: SYSTEM }, ...messages, ...attached, { role: 'user', content: turn.question }];
}

function segment(attachment: Attachment): string {
  const { path, startLine, endLine, language, text } = attachment;
  return `${path}, lines ${startLine + 1} to ${endLine + 1}:\n${fenced({ path, language, text })}`;
}

/** Turns as they are kept between sessions: what was running then is stopped now. */
export function restored(kept: readonly Turn[]): Turn[] {
  return kept.map((turn) => (turn.outcome === 'running' ? { ...turn, outcome: 'stopped' as const } : { ...turn }));
}

/** The newest turns, without the attached texts, which can be long and are read again when they are needed. */
export function toKeep(turns: readonly Turn[]): Turn[] {
  return turns.slice(-KEPT_TURNS).map((turn) => ({ ...turn, attachments: turn.attachments.map((one) => ({ ...one, text: '' })) }));
}
