// Commands about the service itself.

import * as vscode from 'vscode';
import type { Monitor } from './monitor';
import type { ServiceProcess } from './serviceProcess';
import { settings, update, type ServiceConnection } from './settings';
import { showMenu } from './statusBar';

export function registerServiceCommands(
  connection: ServiceConnection, monitor: Monitor, service: ServiceProcess, log: vscode.LogOutputChannel,
): vscode.Disposable {
  const register = vscode.commands.registerCommand;
  return vscode.Disposable.from(
    register('miton.menu', () => showMenu(monitor, service.isRunning)),
    register('miton.settings', () => vscode.commands.executeCommand('workbench.action.openSettings', '@ext:miton.miton')),
    register('miton.service.start', () => service.start()),
    register('miton.service.stop', () => service.stop()),
    register('miton.service.log', () => log.show()),
    register('miton.service.statusPage', () => vscode.env.openExternal(vscode.Uri.parse(settings.url()))),
    register('miton.service.setToken', () => setToken(connection, monitor)),
    register('miton.service.forgetToken', async () => {
      await connection.forgetToken();
      await monitor.check();
    }),
    register('miton.service.model', () => switchModel(monitor, service)),
  );
}

async function setToken(connection: ServiceConnection, monitor: Monitor): Promise<void> {
  const token = await vscode.window.showInputBox({
    title: 'Miton: token of the service', password: true, ignoreFocusOut: true,
    prompt: 'The token the service was started with, or the one in ~/.local/state/miton/token where it runs. It is kept in VS Code\'s secret storage.',
    validateInput: (value) => (/^[\x21-\x7e]*$/.test(value.trim()) ? undefined : 'A token has no spaces and only plain characters.'),
  });
  if (!token?.trim()) return;
  await connection.setToken(token.trim());
  await monitor.check();
}

async function switchModel(monitor: Monitor, service: ServiceProcess): Promise<void> {
  const now = monitor.state.kind === 'online' ? monitor.state.model : '';
  const model = await vscode.window.showInputBox({
    title: 'Miton: model', value: settings.model() || now,
    prompt: 'A short name (miton models lists them), the path of a GGUF file, or org/name. Empty: the service\'s default.',
  });
  if (model === undefined || model.trim() === (settings.model() || now)) return;
  await update('service.model', model.trim());
  if (service.isRunning) {
    await service.stop();
    service.start();
  } else if (monitor.isOnline) {
    void vscode.window.showInformationMessage(`This service was not started here. Stop it and start it again with: miton serve --model ${model.trim()}`);
  }
}
