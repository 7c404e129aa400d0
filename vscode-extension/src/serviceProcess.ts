// Starts the service as a program of its own, after the user has agreed, with its output in a visible log.

import { spawn, type ChildProcess } from 'node:child_process';
import * as vscode from 'vscode';
import { isLoopback, portOf } from './addresses';
import type { Monitor } from './monitor';
import { settings, update } from './settings';

const FIRST_START_MS = 30 * 60_000; // the first start may install and download
const LAST_LINES = 5;

export class ServiceProcess implements vscode.Disposable {
  private child: ChildProcess | undefined;
  private asked = false;

  constructor(
    private readonly monitor: Monitor,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  get isRunning(): boolean {
    return this.child !== undefined;
  }

  /** Once per session: start an absent service, or ask whether to, as the settings say. */
  async offer(): Promise<void> {
    const { state } = this.monitor;
    if (this.asked || this.child || state.kind !== 'offline' || state.fix !== 'start') return;
    if (!vscode.workspace.isTrusted || settings.start() === 'never' || !isLoopback(settings.url())) return;
    this.asked = true;
    if (settings.start() === 'always') {
      this.start();
      return;
    }
    const command = settings.command().join(' ');
    const choice = await vscode.window.showInformationMessage(
      `Miton's service is not running. Start it on this machine with "${command}"?`, 'Start', 'Always Start', 'Not Now',
    );
    if (choice === 'Always Start') await update('service.start', 'always');
    if (choice === 'Start' || choice === 'Always Start') this.start();
  }

  start(): void {
    if (!vscode.workspace.isTrusted) {
      void vscode.window.showWarningMessage('Miton starts no program in a restricted workspace. Trust the workspace, or start the service in a terminal.');
      return;
    }
    if (!isLoopback(settings.url())) {
      void vscode.window.showWarningMessage(`The service at ${settings.url()} is on another machine; start it there.`);
      return;
    }
    if (this.child) return;
    const [program = 'miton', ...given] = settings.command();
    const model = settings.model();
    const args = [...given, '--port', String(portOf(settings.url())), ...(model ? ['--model', model] : [])];
    this.log.info(`$ ${[program, ...args].join(' ')}`);
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.child = child;
    const last: string[] = [];
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8');
      stream.on('data', (text: string) => {
        for (const line of text.split('\n').filter((one) => one.trim() !== '')) {
          this.log.info(line);
          last.push(line.trim());
        }
        last.splice(0, last.length - LAST_LINES);
      });
    }
    child.on('error', (error: NodeJS.ErrnoException) => this.ended(child, whyNot(program, error)));
    child.on('exit', (code, signal) => {
      const how = signal ? `was ended by ${signal}` : `ended with code ${code ?? 'unknown'}`;
      this.ended(child, `The service ${how}. ${code === 0 ? '' : (last.at(-1) ?? '')}`.trim());
    });
    this.monitor.expectStart(FIRST_START_MS);
  }

  /** Ask the service to end; it stops what it is doing and keeps what it has memorised. */
  async stop(): Promise<void> {
    const { child } = this;
    if (!child) return;
    const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    child.kill('SIGTERM');
    await gone;
  }

  dispose(): void {
    this.child?.kill('SIGTERM');
  }

  private ended(child: ChildProcess, reason: string): void {
    if (this.child !== child) return;
    this.child = undefined;
    this.log.warn(reason);
    this.monitor.startFailed(reason);
  }
}

function whyNot(program: string, error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT') {
    return `The program "${program}" was not found. Install Miton, or name its program in the setting miton.service.command.`;
  }
  return `"${program}" could not be started: ${error.message}`;
}
