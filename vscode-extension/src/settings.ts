// The extension's settings, read when they are needed, and the token, which is a secret and not a setting.

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import * as vscode from 'vscode';
import type { Connection } from './client';
import { isLoopback } from './addresses';

const SECRET = 'miton.token';

export type StartPolicy = 'ask' | 'always' | 'never';

function read<T>(name: string, scope?: vscode.ConfigurationScope): T {
  return vscode.workspace.getConfiguration('miton', scope).get(name) as T;
}

export const settings = {
  url: (): string => read<string>('service.url').replace(/\/$/, ''),
  start: (): StartPolicy => read('service.start'),
  command: (): string[] => read('service.command'),
  model: (): string => read('service.model'),
  completionEnabled: (): boolean => read('completion.enabled'),
  disabledLanguages: (scope: vscode.ConfigurationScope): string[] => read('completion.disabledLanguages', scope),
  disabledFiles: (scope: vscode.ConfigurationScope): string[] => read('completion.disabledFiles', scope),
  multiLine: (scope: vscode.ConfigurationScope): 'auto' | 'always' | 'never' => read('completion.multiLine', scope),
  completionTokens: (): number => read('completion.maxTokens'),
  contextTokens: (): number | undefined => read<number | null>('contextTokens') ?? undefined,
  answerTokens: (): number => read('chat.maxTokens'),
};

/** Changes a setting where the user keeps it already, else for the user. */
export async function update(name: string, value: unknown): Promise<void> {
  const configuration = vscode.workspace.getConfiguration('miton');
  const told = configuration.inspect(name);
  const target = told?.workspaceValue === undefined ? vscode.ConfigurationTarget.Global : vscode.ConfigurationTarget.Workspace;
  await configuration.update(name, value, target);
}

/** Address and token of the service. */
export class ServiceConnection {
  private secret: string | undefined;

  constructor(private readonly secrets: vscode.SecretStorage) {}

  async load(): Promise<void> {
    this.secret = await this.secrets.get(SECRET);
  }

  current(): Connection {
    const url = settings.url();
    return { url, token: this.secret ?? (isLoopback(url) ? ownToken() : undefined) };
  }

  async setToken(token: string): Promise<void> {
    this.secret = token;
    await this.secrets.store(SECRET, token);
  }

  async forgetToken(): Promise<void> {
    this.secret = undefined;
    await this.secrets.delete(SECRET);
  }
}

/** The token that a service of this user on this machine made for itself; it is read by nobody else. */
function ownToken(): string | undefined {
  if (process.env['MITON_TOKEN']) return process.env['MITON_TOKEN'];
  const state = process.env['MITON_STATE']
    ?? path.join(process.env['XDG_STATE_HOME'] || path.join(os.homedir(), '.local', 'state'), 'miton');
  try {
    return fs.readFileSync(path.join(state, 'token'), 'utf8').trim() || undefined;
  } catch {
    return undefined; // most services ask for none
  }
}
