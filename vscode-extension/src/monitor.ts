// Keeps watch over the service: what it last said, and when to ask again. Knows nothing of VS Code.

import type { Client } from './client';
import { Cancelled, ServiceError } from './errors';
import type { WorkspaceState } from './protocol';
import { indexedShare, stateAfter, stateOf, type Activity, type ServiceState } from './status';

const READY_MS = 15_000;
const BUSY_MS = 700; // loading or indexing: the percentage moves
const OFFLINE_MS = 3000;
const STARTING_MS = 500;

export class Monitor {
  state: ServiceState = { kind: 'connecting' };
  activity: Activity = { generating: 0, paused: false, latencyMs: undefined };
  private readonly listeners = new Set<() => void>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private checking: Promise<void> | undefined;
  private startingUntil = 0;
  private closed = false;

  /** `roots` are the repositories that should be open in the service; none in a restricted workspace. */
  constructor(
    private readonly client: Client,
    private readonly roots: () => readonly string[],
    private readonly log: (message: string) => void,
  ) {}

  get isOnline(): boolean {
    return this.state.kind === 'online';
  }

  onChange(listener: () => void): { dispose(): void } {
    this.listeners.add(listener);
    return { dispose: () => void this.listeners.delete(listener) };
  }

  /** Whether the service holds this repository. */
  holds(root: string): boolean {
    return this.workspace(root) !== undefined;
  }

  workspace(root: string): WorkspaceState | undefined {
    return this.state.kind === 'online' ? this.state.workspaces.find((workspace) => workspace.root === root) : undefined;
  }

  /** Ask the service now, and from now on as often as its state calls for. */
  async check(): Promise<void> {
    this.checking ??= this.ask().finally(() => (this.checking = undefined));
    await this.checking;
  }

  /** The extension has just started the service: until `ms` have passed, no answer means starting. */
  expectStart(ms: number): void {
    this.startingUntil = Date.now() + ms;
    this.become({ kind: 'starting' });
    void this.check();
  }

  /** The service that was being started has ended. */
  startFailed(reason: string): void {
    this.startingUntil = 0;
    this.become({ kind: 'offline', reason, fix: 'log' });
  }

  /** A request failed: what that tells about the service is shown at once, and checked. */
  failed(error: unknown): void {
    if (error instanceof Cancelled) return;
    if (!(error instanceof ServiceError)) {
      this.log(`Unexpected: ${String(error)}`);
      return;
    }
    this.log(`${error.kind}: ${error.message}`);
    const state = stateAfter(error);
    if (state) {
      this.become(state);
      this.schedule(this.interval());
    } else if (error.code === 'workspace_not_open') {
      void this.check();
    }
  }

  /** Counts as generating until the promise settles; a failure is noted and thrown on. */
  async during<T>(work: Promise<T>): Promise<T> {
    this.act({ generating: this.activity.generating + 1 });
    try {
      return await work;
    } catch (error) {
      this.failed(error);
      throw error;
    } finally {
      this.act({ generating: this.activity.generating - 1 });
    }
  }

  act(change: Partial<Activity>): void {
    this.activity = { ...this.activity, ...change };
    this.tell();
  }

  dispose(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.listeners.clear();
  }

  private async ask(): Promise<void> {
    try {
      const health = await this.client.health();
      this.become(stateOf(health) ?? (await this.online(health.version)));
    } catch (error) {
      const state = error instanceof ServiceError ? stateAfter(error) : undefined;
      if (state?.kind === 'offline' && state.fix === 'start' && Date.now() < this.startingUntil) this.become({ kind: 'starting' });
      else if (state) this.become(state);
      else this.log(`Unexpected: ${String(error)}`);
    }
    this.schedule(this.interval());
  }

  private async online(version: string): Promise<ServiceState> {
    this.startingUntil = 0;
    const model = this.state.kind === 'online' ? this.state.model : await this.client.model();
    const wanted = this.roots();
    const opened = new Set((await this.client.workspaces()).map((workspace) => workspace.root));
    for (const root of wanted) {
      if (opened.has(root)) continue;
      try {
        await this.client.openWorkspace(root);
      } catch (error) {
        // One folder that cannot be opened must not take the service away from the others.
        if (!(error instanceof ServiceError && error.kind === 'refused')) throw error;
        this.log(`${root} is not used as a repository: ${error.message}`);
      }
    }
    const workspaces = (await this.client.workspaces()).filter((workspace) => wanted.includes(workspace.root));
    return { kind: 'online', model, version, workspaces };
  }

  private become(state: ServiceState): void {
    if (this.closed) return;
    if (state.kind !== this.state.kind) this.log(state.kind === 'offline' ? `offline: ${state.reason}` : state.kind);
    this.state = state;
    this.tell();
  }

  private interval(): number {
    switch (this.state.kind) {
      case 'starting':
      case 'connecting':
        return STARTING_MS;
      case 'loading':
        return BUSY_MS;
      case 'offline':
        return OFFLINE_MS;
      case 'online':
        return indexedShare(this.state.workspaces) === undefined ? READY_MS : BUSY_MS;
    }
  }

  private schedule(ms: number): void {
    clearTimeout(this.timer);
    if (!this.closed) this.timer = setTimeout(() => void this.check(), ms);
  }

  private tell(): void {
    for (const listener of this.listeners) listener();
  }
}
