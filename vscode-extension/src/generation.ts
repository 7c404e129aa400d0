// A chat generation that a command waits for: progress with a cancel button, one clear message when it fails.

import * as vscode from 'vscode';
import type { Client } from './client';
import { Cancelled, ServiceError } from './errors';
import type { Monitor } from './monitor';
import type { Attached, ChatMessage } from './protocol';
import { settings } from './settings';

export interface Generation {
  readonly title: string;
  readonly messages: readonly ChatMessage[];
  readonly root?: string | undefined;
  /** Called with all text so far; true says that it is enough. */
  readonly isEnough?: (text: string) => boolean;
  readonly onText?: (text: string) => void;
  readonly onAttached?: (attached: Attached) => void;
}

export interface Generated {
  readonly text: string;
  /** The model ran into the limit of tokens: the text is cut off. */
  readonly isCut: boolean;
}

export class Generator {
  constructor(
    private readonly client: Client,
    private readonly monitor: Monitor,
  ) {}

  /** What was generated; undefined when it was cancelled or failed, which has then been told. */
  async run(generation: Generation): Promise<Generated | undefined> {
    if (!this.monitor.isOnline) {
      await this.explainOffline();
      return undefined;
    }
    const options = { location: vscode.ProgressLocation.Notification, title: `Miton: ${generation.title}`, cancellable: true };
    try {
      return await vscode.window.withProgress(options, (progress, token) => this.monitor.during(this.generate(generation, progress, token)));
    } catch (error) {
      if (!(error instanceof Cancelled)) await this.tell(error);
      return undefined;
    }
  }

  async tell(error: unknown): Promise<void> {
    const message = error instanceof Error ? error.message : String(error);
    const fix = error instanceof ServiceError && (error.kind === 'unreachable' || error.kind === 'interrupted') ? ['Start Service'] : [];
    const choice = await vscode.window.showErrorMessage(`Miton: ${message}`, ...fix, 'Show Log');
    if (choice === 'Start Service') await vscode.commands.executeCommand('miton.service.start');
    if (choice === 'Show Log') await vscode.commands.executeCommand('miton.service.log');
  }

  private async explainOffline(): Promise<void> {
    const { state } = this.monitor;
    if (state.kind === 'offline') {
      const [label, command] = state.fix === 'token' ? ['Set Token...', 'miton.service.setToken'] : ['Start Service', 'miton.service.start'];
      if ((await vscode.window.showWarningMessage(`Miton: ${state.reason}`, label)) === label) await vscode.commands.executeCommand(command);
    } else {
      void vscode.window.showInformationMessage('Miton: the service is still loading its model; try again in a moment.');
    }
  }

  private async generate(generation: Generation, progress: vscode.Progress<{ message?: string }>, token: vscode.CancellationToken): Promise<Generated> {
    const abort = new AbortController();
    const subscription = token.onCancellationRequested(() => abort.abort());
    const contextTokens = settings.contextTokens();
    const body = {
      messages: generation.messages, max_tokens: settings.answerTokens(), temperature: 0,
      ...(generation.root !== undefined && this.monitor.holds(generation.root) && {
        workspace: generation.root, ...(contextTokens !== undefined && { context_tokens: contextTokens }),
      }),
    };
    let text = '';
    let isCut = false;
    try {
      for await (const piece of this.client.chat(body, abort.signal)) {
        text += piece.text;
        isCut = piece.finish === 'length';
        if (piece.attached) generation.onAttached?.(piece.attached);
        generation.onText?.(text);
        const lines = text.split('\n').length;
        progress.report({ message: lines > 1 ? `${lines} lines` : '...' });
        if (generation.isEnough?.(text)) break;
      }
    } finally {
      subscription.dispose();
    }
    return { text, isCut };
  }
}
