// Tells the service what is typed and not saved, so that other files' context is what the editor shows.

import * as vscode from 'vscode';
import type { Client } from './client';
import type { Monitor } from './monitor';
import { locate, type Location } from './repository';

const PAUSE_MS = 400;

export class DocumentSync implements vscode.Disposable {
  private readonly pending = new Map<string, ReturnType<typeof setTimeout>>();
  private readonly pushed = new Map<string, Location>();
  private readonly subscriptions: vscode.Disposable[];
  private session = '';

  constructor(
    private readonly client: Client,
    private readonly monitor: Monitor,
  ) {
    this.subscriptions = [
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        if (contentChanges.length > 0) this.later(document);
      }),
      vscode.workspace.onDidSaveTextDocument((document) => void this.drop(document)),
      vscode.workspace.onDidCloseTextDocument((document) => void this.drop(document)),
      monitor.onChange(() => this.restore()),
    ];
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
    for (const timer of this.pending.values()) clearTimeout(timer);
  }

  private later(document: vscode.TextDocument): void {
    if (document.uri.scheme !== 'file') return;
    const key = document.uri.toString();
    clearTimeout(this.pending.get(key));
    this.pending.set(key, setTimeout(() => {
      this.pending.delete(key);
      void this.push(document);
    }, PAUSE_MS));
  }

  private async push(document: vscode.TextDocument): Promise<void> {
    const location = locate(document.uri);
    if (!location || !this.monitor.holds(location.root) || document.isClosed) return;
    if (!document.isDirty) return this.drop(document); // undone: the disk says the same again
    this.pushed.set(document.uri.toString(), location);
    await this.quietly(this.client.putDocument(location.root, location.path, document.getText(), document.version));
  }

  private async drop(document: vscode.TextDocument): Promise<void> {
    const key = document.uri.toString();
    clearTimeout(this.pending.get(key));
    this.pending.delete(key);
    const location = this.pushed.get(key);
    if (!location) return;
    this.pushed.delete(key);
    if (this.monitor.holds(location.root)) await this.quietly(this.client.dropDocument(location.root, location.path));
  }

  /** A service that comes (back) knows no buffers: push those that are not saved. */
  private restore(): void {
    const { state } = this.monitor;
    const session = state.kind === 'online' ? state.workspaces.map((workspace) => workspace.root).join('\n') : '';
    if (session === this.session) return;
    this.session = session;
    if (session !== '') for (const document of vscode.workspace.textDocuments) if (document.isDirty) this.later(document);
  }

  /** Nobody waits for these; ignored files are refused and that is right. */
  private async quietly(work: Promise<void>): Promise<void> {
    await work.catch((error: unknown) => this.monitor.failed(error));
  }
}
