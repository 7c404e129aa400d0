// The status bar item and its menu.

import * as vscode from 'vscode';
import { isWanted } from './completion/provider';
import type { Monitor } from './monitor';
import { settings } from './settings';
import { show } from './status';

export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem('miton.status', vscode.StatusBarAlignment.Right, 100);
  private readonly subscription: vscode.Disposable;

  constructor(private readonly monitor: Monitor) {
    this.item.name = 'Miton';
    this.item.command = 'miton.menu';
    this.subscription = monitor.onChange(() => this.draw());
    this.draw();
    this.item.show();
  }

  dispose(): void {
    this.subscription.dispose();
    this.item.dispose();
  }

  private draw(): void {
    const shown = show(this.monitor.state, this.monitor.activity);
    this.item.text = shown.text;
    const tooltip = new vscode.MarkdownString(shown.detail, true);
    tooltip.isTrusted = true; // its commands are ours; texts of the service are not put into links
    this.item.tooltip = tooltip;
    const colour = shown.severity === 'normal' ? undefined : new vscode.ThemeColor(`statusBarItem.${shown.severity}Background`);
    this.item.backgroundColor = colour;
  }
}

interface Entry extends vscode.QuickPickItem {
  readonly run?: { readonly command: string };
}

/** The menu behind the status bar item: what fits the state, most needed first. */
export async function showMenu(monitor: Monitor, ownsService: boolean): Promise<void> {
  const { state } = monitor;
  const document = vscode.window.activeTextEditor?.document;
  const entries: Entry[] = [];
  const add = (label: string, command: string, description = ''): void => void entries.push({ label, description, run: { command } });
  if (state.kind === 'offline') {
    if (state.fix === 'token') add('$(key) Set token...', 'miton.service.setToken', state.reason);
    else add('$(play) Start service', 'miton.service.start', state.reason);
  }
  if (state.kind === 'online') {
    add(settings.completionEnabled() ? '$(debug-pause) Pause completions' : '$(play) Resume completions', 'miton.completion.toggle');
    if (document && settings.completionEnabled()) {
      const verb = isWanted(document) ? 'off' : 'on';
      add(`$(symbol-keyword) Completions ${verb} for ${document.languageId}`, 'miton.completion.toggleLanguage');
      add(`$(file) Completions ${verb} for this file`, 'miton.completion.toggleFile');
    }
    add('$(comment-discussion) Open chat', 'miton.chat.focus');
    add('$(eye) Show context at the cursor', 'miton.context.atCursor');
    entries.push({ label: 'Service', kind: vscode.QuickPickItemKind.Separator });
    add('$(server-process) Switch model...', 'miton.service.model', state.model);
    add('$(dashboard) Open status page', 'miton.service.statusPage');
  }
  if (ownsService) add('$(debug-stop) Stop service', 'miton.service.stop');
  add('$(output) Show log', 'miton.service.log');
  add('$(gear) Settings', 'miton.settings');
  const picked = await vscode.window.showQuickPick(entries, { title: 'Miton', placeHolder: show(state, monitor.activity).text.replace(/\$\([^)]*\)\s*/, '') });
  if (picked?.run) await vscode.commands.executeCommand(picked.run.command);
}
