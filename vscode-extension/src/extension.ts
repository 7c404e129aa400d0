// Wiring only: makes the parts, registers them, lets go of them.

import * as vscode from 'vscode';
import { Client } from './client';
import { registerCompletion } from './completion/register';
import { DocumentSync } from './documents';
import { Monitor } from './monitor';
import { roots } from './repository';
import { registerServiceCommands } from './serviceCommands';
import { ServiceProcess } from './serviceProcess';
import { ServiceConnection, settings } from './settings';
import { StatusBar } from './statusBar';

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const started = performance.now();
  const log = vscode.window.createOutputChannel('Miton', { log: true });
  const connection = new ServiceConnection(context.secrets);
  await connection.load();
  const client = new Client(() => connection.current());
  const monitor = new Monitor(client, roots, (message) => log.info(message));
  const service = new ServiceProcess(monitor, log);
  monitor.act({ paused: !settings.completionEnabled() });

  context.subscriptions.push(
    log, monitor, service,
    new StatusBar(monitor),
    new DocumentSync(client, monitor),
    registerServiceCommands(connection, monitor, service, log),
    registerCompletion(client, monitor),
    monitor.onChange(() => {
      void service.offer();
      void vscode.commands.executeCommand('setContext', 'miton.connected', monitor.isOnline);
    }),
    vscode.workspace.onDidChangeWorkspaceFolders(() => void monitor.check()),
    vscode.workspace.onDidGrantWorkspaceTrust(() => void monitor.check()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration('miton.completion.enabled')) monitor.act({ paused: !settings.completionEnabled() });
      if (event.affectsConfiguration('miton.service.url')) void monitor.check();
    }),
  );
  void monitor.check();
  log.info(`activated in ${(performance.now() - started).toFixed(1)} ms`);
}
