// Ghost text: VS Code asks at every keystroke, this waits for a pause, asks the service, and shows what still fits.

import * as vscode from 'vscode';
import { Cancelled } from '../errors';
import type { Monitor } from '../monitor';
import type { CompletionBody } from '../protocol';
import { locate } from '../repository';
import { settings } from '../settings';
import { Debounce } from './debounce';
import { isCompletable, type Fitted, type Place } from './fitting';
import type { Asked, Suggester } from './suggester';

export const ACCEPTED = 'miton.completion.accepted';
const LARGEST_DOCUMENT = 2_000_000; // characters; the service reads no larger files either
const ALONE_BEFORE = 6000; // characters sent for a file that is not in a repository
const ALONE_AFTER = 2000;

export class CompletionProvider implements vscode.InlineCompletionItemProvider {
  private readonly debounce = new Debounce();
  /** Files that the service does not read (ignored, secret): completed by themselves. */
  private readonly unread = new Set<string>();

  constructor(
    private readonly suggester: Suggester,
    private readonly monitor: Monitor,
  ) {}

  async provideInlineCompletionItems(
    document: vscode.TextDocument, position: vscode.Position, context: vscode.InlineCompletionContext, token: vscode.CancellationToken,
  ): Promise<vscode.InlineCompletionItem[] | undefined> {
    const invoked = context.triggerKind === vscode.InlineCompletionTriggerKind.Invoke;
    if (!this.monitor.isOnline || !(invoked || isWanted(document))) return undefined;
    const selected = context.selectedCompletionInfo;
    const text = document.getText();
    if (text.length > LARGEST_DOCUMENT) return undefined;
    const key = document.uri.toString();
    const place = placeAt(text, document, position, selected);

    const known = this.suggester.known(key, place);
    if (known) return [this.item(known, position, selected)];
    if (this.suggester.cache.answered(key, place) && !invoked) return undefined;
    if (!invoked && !isCompletable(place)) return undefined;

    const delay = this.debounce.keystroke(performance.now());
    if (!invoked && !(await pause(delay, token))) return undefined;
    const version = document.version;
    const fitted = await this.ask({ document: key, place, body: this.body(document, position, place) }, token, document);
    if (token.isCancellationRequested || !fitted) return undefined;
    if (document.version === version) return [this.item(fitted, position, selected)];
    return undefined; // VS Code asks again for the newer text, and the cache answers if it was typed into
  }

  /** Ask for a document that the service refused again with its repository: settings or files have changed. */
  forgetRefusals(): void {
    this.unread.clear();
  }

  private async ask(asked: Asked, token: vscode.CancellationToken, document: vscode.TextDocument): Promise<Fitted | undefined> {
    const abort = new AbortController();
    const subscription = token.onCancellationRequested(() => abort.abort());
    try {
      return await this.monitor.during(this.suggester.ask(asked, abort.signal));
    } catch (error) {
      if (error instanceof Cancelled) return undefined;
      if (asked.body.workspace !== undefined && isRefusalOfFile(error)) this.unread.add(document.uri.toString());
      return undefined; // the monitor has it; a message box at every key would be worse than none
    } finally {
      subscription.dispose();
    }
  }

  private body(document: vscode.TextDocument, position: vscode.Position, place: Place): CompletionBody {
    const multiLine = settings.multiLine(document);
    const contextTokens = settings.contextTokens();
    const shared = {
      max_tokens: settings.completionTokens(),
      ...(multiLine !== 'auto' && { multi_line: multiLine === 'always' }),
    };
    const location = locate(document.uri);
    if (location && this.monitor.holds(location.root) && !this.unread.has(document.uri.toString())) {
      const line = place.before.length - (place.before.lastIndexOf('\n') + 1);
      return {
        ...shared, workspace: location.root, path: location.path, cursor: { line: position.line, character: line },
        buffer: place.before + place.after, ...(contextTokens !== undefined && { context_tokens: contextTokens }),
      };
    }
    return {
      ...shared, prompt: place.before.slice(-ALONE_BEFORE), suffix: place.after.slice(0, ALONE_AFTER),
      path: document.uri.path.split('/').pop() ?? 'untitled', stop: ['\n\n'],
    };
  }

  private item(fitted: Fitted, position: vscode.Position, selected: vscode.SelectedCompletionInfo | undefined): vscode.InlineCompletionItem {
    const end = position.translate(0, fitted.replaces);
    const range = new vscode.Range(selected ? selected.range.start : position, end);
    const item = new vscode.InlineCompletionItem((selected?.text ?? '') + fitted.text, range);
    item.command = { command: ACCEPTED, title: 'Accepted' };
    void vscode.commands.executeCommand('setContext', 'miton.suggested', true);
    return item;
  }
}

/** Whether the user wants completions while typing in this document. */
export function isWanted(document: vscode.TextDocument): boolean {
  if (!settings.completionEnabled() || settings.disabledLanguages(document).includes(document.languageId)) return false;
  const patterns = settings.disabledFiles(document);
  return !patterns.some((pattern) => vscode.languages.match({ pattern }, document) > 0);
}

/** The text around the cursor; what is selected in the suggest widget counts as typed. */
function placeAt(text: string, document: vscode.TextDocument, position: vscode.Position, selected: vscode.SelectedCompletionInfo | undefined): Place {
  const offset = document.offsetAt(position);
  if (!selected) return { before: text.slice(0, offset), after: text.slice(offset) };
  const start = document.offsetAt(selected.range.start);
  return { before: text.slice(0, start) + selected.text, after: text.slice(document.offsetAt(selected.range.end)) };
}

function isRefusalOfFile(error: unknown): boolean {
  return (error as { kind?: string }).kind === 'refused' && (error as { code?: string }).code === 'workspace';
}

/** Resolves to true after `ms`, to false as soon as the request is cancelled. */
function pause(ms: number, token: vscode.CancellationToken): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      subscription.dispose();
      resolve(true);
    }, ms);
    const subscription = token.onCancellationRequested(() => {
      clearTimeout(timer);
      subscription.dispose();
      resolve(false);
    });
  });
}
