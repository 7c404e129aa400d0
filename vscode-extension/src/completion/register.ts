// The completion provider and its commands.

import * as vscode from 'vscode';
import type { Client } from '../client';
import { Cancelled } from '../errors';
import type { Monitor } from '../monitor';
import type { ContextItem } from '../protocol';
import { settings, update } from '../settings';
import { ACCEPTED, CompletionProvider, isWanted } from './provider';
import { Suggester } from './suggester';

/** What a finished request attached, for whoever shows it. */
export interface LastContext {
  readonly root: string;
  readonly title: string;
  readonly items: readonly ContextItem[];
}

export function registerCompletion(client: Client, monitor: Monitor, tell: (context: LastContext) => void = () => undefined): vscode.Disposable {
  const suggester = new Suggester((body, signal) => client.complete(body, signal), {
    completed: ({ body }, attached, firstMs) => {
      monitor.act({ latencyMs: firstMs });
      if (attached && body.workspace !== undefined) {
        tell({ root: body.workspace, title: `Completion in ${body.path ?? ''}`, items: attached.context });
      }
    },
    longer: ({ document }) => {
      if (vscode.window.activeTextEditor?.document.uri.toString() === document) {
        void vscode.commands.executeCommand('editor.action.inlineSuggest.trigger');
      }
    },
    failed: (error) => {
      if (!(error instanceof Cancelled)) monitor.failed(error);
    },
  });
  const provider = new CompletionProvider(suggester, monitor);
  const register = vscode.commands.registerCommand;
  return vscode.Disposable.from(
    vscode.languages.registerInlineCompletionItemProvider({ pattern: '**' }, provider),
    register('miton.completion.trigger', () => vscode.commands.executeCommand('editor.action.inlineSuggest.trigger')),
    register('miton.completion.toggle', () => update('completion.enabled', !settings.completionEnabled())),
    register('miton.completion.toggleLanguage', toggleLanguage),
    register('miton.completion.toggleFile', toggleFile),
    register(ACCEPTED, () => vscode.commands.executeCommand('setContext', 'miton.accepted', true)),
    // What other files say is context of this one.
    vscode.workspace.onDidSaveTextDocument(() => suggester.cache.forget()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (!event.affectsConfiguration('miton')) return;
      suggester.cache.forget();
      provider.forgetRefusals();
    }),
    { dispose: () => suggester.stop() },
  );
}

async function toggleLanguage(): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (!document) return;
  const listed = settings.disabledLanguages(document);
  const { languageId } = document;
  await update('completion.disabledLanguages', toggled(listed, languageId));
}

async function toggleFile(): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (!document) return;
  const pattern = `**/${vscode.workspace.asRelativePath(document.uri, false)}`;
  const before = isWanted(document);
  await update('completion.disabledFiles', toggled(settings.disabledFiles(document), pattern));
  if (!before && !isWanted(document)) {
    void vscode.window.showInformationMessage('Completions stay off here: another pattern, the language, or the pause turns them off.');
  }
}

function toggled(list: readonly string[], item: string): string[] {
  return list.includes(item) ? list.filter((other) => other !== item) : [...list, item];
}
