// What the status bar says, as a pure function of what is known about the service.

import { ServiceError } from './errors';
import type { Health, WorkspaceState } from './protocol';

export type Fix = 'start' | 'token' | 'address' | 'log';

export type ServiceState =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'starting' } // the extension has started it, it does not answer yet
  | { readonly kind: 'offline'; readonly reason: string; readonly fix: Fix }
  | { readonly kind: 'loading'; readonly stage: string; readonly share: number | undefined }
  | { readonly kind: 'online'; readonly model: string; readonly version: string; readonly workspaces: readonly WorkspaceState[] };

export interface Activity {
  readonly generating: number;
  readonly paused: boolean;
  readonly latencyMs: number | undefined;
}

export interface Shown {
  readonly text: string;
  readonly detail: string; // markdown
  readonly severity: 'normal' | 'warning' | 'error';
}

/** The state that a failed request tells; undefined when it tells nothing about the service. */
export function stateAfter(error: ServiceError): ServiceState | undefined {
  switch (error.kind) {
    case 'unreachable':
      return { kind: 'offline', reason: error.message, fix: 'start' };
    case 'interrupted':
      return { kind: 'offline', reason: error.message, fix: 'start' };
    case 'foreign':
      return { kind: 'offline', reason: error.message, fix: 'address' };
    case 'unauthorised':
      return { kind: 'offline', reason: 'The service asks for a token, and this one is missing or wrong.', fix: 'token' };
    case 'failed':
      return { kind: 'offline', reason: error.message, fix: 'log' };
    case 'loading':
      return { kind: 'loading', stage: error.message, share: undefined };
    case 'refused':
      return undefined;
  }
}

/** The state that /health tells while the service is not ready; undefined when it is. */
export function stateOf(health: Health): ServiceState | undefined {
  switch (health.status) {
    case 'ok':
      return undefined;
    case 'loading': {
      const { stage = 'starting', done = 0, total = 0 } = health.loading ?? {};
      return { kind: 'loading', stage, share: total > 0 ? done / total : undefined };
    }
    case 'stopping':
      return { kind: 'offline', reason: 'The service is being stopped.', fix: 'start' };
    case 'error':
      return { kind: 'offline', reason: `The service could not load its model: ${health.message ?? 'no reason given'}`, fix: 'log' };
  }
}

/** Share of all workspaces' tokens that are memorised, 0 to 1; undefined when nothing is being indexed. */
export function indexedShare(workspaces: readonly WorkspaceState[]): number | undefined {
  if (!workspaces.some((workspace) => workspace.state === 'indexing')) return undefined;
  const total = workspaces.reduce((sum, workspace) => sum + workspace.tokens, 0);
  const done = workspaces.reduce((sum, workspace) => sum + workspace.indexed_tokens, 0);
  return total > 0 ? done / total : 0;
}

const FIXES: Record<Fix, string> = {
  start: '[Start the service](command:miton.service.start)',
  token: '[Set the token](command:miton.service.setToken)',
  address: '[Change the address](command:workbench.action.openSettings?%22miton.service.url%22)',
  log: '[Show the log](command:miton.service.log)',
};

export function show(state: ServiceState, activity: Activity): Shown {
  switch (state.kind) {
    case 'connecting':
      return { text: '$(loading~spin) Miton', detail: 'Looking for the service...', severity: 'normal' };
    case 'starting':
      return { text: '$(loading~spin) Miton: starting', detail: 'The service is being started. [Show the log](command:miton.service.log)', severity: 'normal' };
    case 'offline':
      return {
        text: state.fix === 'token' ? '$(key) Miton: token needed' : '$(debug-disconnect) Miton: offline',
        detail: `${state.reason}\n\n${FIXES[state.fix]}`,
        severity: state.fix === 'log' ? 'error' : 'warning',
      };
    case 'loading': {
      const share = state.share === undefined ? '' : ` ${percent(state.share)}`;
      return { text: `$(loading~spin) Miton: loading${share}`, detail: state.stage, severity: 'normal' };
    }
    case 'online':
      return { text: onlineText(state.workspaces, activity), detail: onlineDetail(state, activity), severity: 'normal' };
  }
}

function onlineText(workspaces: readonly WorkspaceState[], activity: Activity): string {
  if (activity.generating > 0) return '$(loading~spin) Miton: generating';
  const share = indexedShare(workspaces);
  if (share !== undefined) return `$(sync~spin) Miton: indexing ${percent(share)}`;
  if (activity.paused) return '$(debug-pause) Miton: paused';
  return '$(check) Miton: ready';
}

function onlineDetail(state: ServiceState & { kind: 'online' }, activity: Activity): string {
  const lines = [`**Miton ${state.version}**, model \`${state.model}\``];
  if (activity.paused) lines.push('Completions are paused. [Resume](command:miton.completion.toggle)');
  if (activity.latencyMs !== undefined) lines.push(`Last completion: first text after ${Math.round(activity.latencyMs)} ms`);
  for (const workspace of state.workspaces) lines.push(describe(workspace));
  if (state.workspaces.length === 0) lines.push('No repository is open: files are completed by themselves.');
  return lines.join('\n\n');
}

/** One line about a workspace, for tooltips and the context view. */
export function describe(workspace: WorkspaceState): string {
  const name = workspace.root.split('/').pop() ?? workspace.root;
  const size = `${count(workspace.files, 'file')}, ${count(workspace.chunks, 'chunk')}, ${count(workspace.tokens, 'token')}`;
  if (workspace.state === 'ready') return `${name}: ${size}`;
  if (workspace.state === 'error') return `${name}: indexing failed, see the service's log`;
  const left = workspace.seconds_left ? `, ${duration(workspace.seconds_left)} left` : '';
  return `${name}: indexing ${percent(workspace.tokens > 0 ? workspace.indexed_tokens / workspace.tokens : 0)} of ${size}${left}`;
}

export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
}

function percent(share: number): string {
  return `${Math.floor(Math.min(1, Math.max(0, share)) * 100)}%`;
}

function duration(seconds: number): string {
  return seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`;
}
