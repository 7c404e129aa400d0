// The context view: what the service holds of each repository, and what the last request was given, and why.

import * as vscode from 'vscode';
import type { Client } from '../client';
import { linesOf, whyOf } from './text';
import type { Monitor } from '../monitor';
import { openChunk } from '../navigation';
import type { ContextItem, WorkspaceState } from '../protocol';
import { locate } from '../repository';
import { settings } from '../settings';
import { count, describe } from '../status';

/** What a request attached. */
export interface RequestContext {
  readonly root: string;
  readonly title: string;
  readonly items: readonly ContextItem[];
}

type Node =
  | { readonly kind: 'workspace'; readonly state: WorkspaceState }
  | { readonly kind: 'skipped'; readonly state: WorkspaceState }
  | { readonly kind: 'skippedFile'; readonly path: string; readonly reason: string }
  | { readonly kind: 'request'; readonly context: RequestContext }
  | { readonly kind: 'chunk'; readonly root: string; readonly item: ContextItem };

export class ContextView implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changed.event;
  private readonly view: vscode.TreeView<Node>;
  private readonly subscriptions: vscode.Disposable;
  private last: RequestContext | undefined;

  constructor(
    private readonly client: Client,
    private readonly monitor: Monitor,
  ) {
    this.view = vscode.window.createTreeView('miton.context', { treeDataProvider: this, showCollapseAll: true });
    this.subscriptions = vscode.Disposable.from(
      this.view, this.changed,
      monitor.onChange(() => this.redraw()),
      vscode.commands.registerCommand('miton.context.refresh', async () => {
        await monitor.check();
        this.changed.fire();
      }),
      vscode.commands.registerCommand('miton.context.atCursor', () => this.showAtCursor()),
      vscode.commands.registerCommand('miton.context.open', (root: string, item: ContextItem) => openChunk(root, item)),
    );
  }

  dispose(): void {
    this.subscriptions.dispose();
  }

  show(context: RequestContext): void {
    this.last = context;
    this.changed.fire();
  }

  getChildren(node?: Node): Node[] {
    const { state } = this.monitor;
    if (!node) {
      if (state.kind !== 'online') return [];
      const request: Node[] = this.last ? [{ kind: 'request', context: this.last }] : [];
      return [...request, ...state.workspaces.map((workspace): Node => ({ kind: 'workspace', state: workspace }))];
    }
    switch (node.kind) {
      case 'request':
        return node.context.items.map((item) => ({ kind: 'chunk', root: node.context.root, item }));
      case 'workspace':
        return node.state.skipped.length > 0 ? [{ kind: 'skipped', state: node.state }] : [];
      case 'skipped':
        return node.state.skipped.map(({ path, reason }) => ({ kind: 'skippedFile', path, reason }));
      case 'chunk':
      case 'skippedFile':
        return [];
    }
  }

  getTreeItem(node: Node): vscode.TreeItem {
    const { None, Collapsed, Expanded } = vscode.TreeItemCollapsibleState;
    switch (node.kind) {
      case 'workspace': {
        const item = new vscode.TreeItem(node.state.root.split('/').pop() ?? node.state.root, node.state.skipped.length > 0 ? Expanded : None);
        item.description = describe(node.state).replace(/^[^:]*: /, '');
        item.tooltip = node.state.root;
        item.iconPath = new vscode.ThemeIcon(node.state.state === 'indexing' ? 'sync~spin' : node.state.state === 'error' ? 'error' : 'database');
        return item;
      }
      case 'skipped': {
        const item = new vscode.TreeItem(`${count(node.state.skipped.length, 'file')} left out`, Collapsed);
        item.iconPath = new vscode.ThemeIcon('circle-slash');
        return item;
      }
      case 'skippedFile': {
        const item = new vscode.TreeItem(node.path, None);
        item.description = node.reason;
        return item;
      }
      case 'request': {
        const tokens = node.context.items.reduce((sum, item) => sum + item.tokens, 0);
        const item = new vscode.TreeItem(node.context.title, Expanded);
        item.description = node.context.items.length === 0 ? 'nothing was attached' : `${count(node.context.items.length, 'chunk')}, ${count(tokens, 'token')}`;
        item.iconPath = new vscode.ThemeIcon('eye');
        return item;
      }
      case 'chunk': {
        const { root, item: chunk } = node;
        const item = new vscode.TreeItem(chunk.symbol.split('.').pop() || chunk.path, None);
        item.description = `${chunk.path}:${linesOf(chunk)}, ${whyOf(chunk)}`;
        item.tooltip = `${chunk.path}, lines ${linesOf(chunk)}\n${chunk.symbol}\n${whyOf(chunk)}\n${count(chunk.tokens, 'token')}, score ${chunk.score}`;
        item.iconPath = new vscode.ThemeIcon('symbol-method');
        item.command = { command: 'miton.context.open', title: 'Open', arguments: [root, chunk] };
        return item;
      }
    }
  }

  /** What a completion at the cursor would be given now. */
  private async showAtCursor(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const location = editor && locate(editor.document.uri);
    if (!editor || !location || !this.monitor.holds(location.root)) {
      void vscode.window.showInformationMessage('Miton: open a file of a repository that the service holds.');
      return;
    }
    const { line, character } = editor.selection.active;
    try {
      const recalled = await this.client.contextAt(location.root, location.path, { line, character }, editor.document.getText(), settings.contextTokens());
      this.show({ root: location.root, title: `At ${location.path}:${line + 1}`, items: recalled.context });
      await vscode.commands.executeCommand('miton.context.focus');
    } catch (error) {
      this.monitor.failed(error);
      void vscode.window.showErrorMessage(`Miton: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  private drawn = '';

  /** The tree follows the service's state, not every key that makes it generate. */
  private redraw(): void {
    const state = JSON.stringify(this.monitor.state);
    if (state === this.drawn) return;
    this.drawn = state;
    this.changed.fire();
  }
}
