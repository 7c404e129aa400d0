// The service as an object: one method per route that the extension uses. Knows nothing of VS Code.

import { ServiceError } from './errors';
import { send, type HttpRequest } from './http';
import type {
  Attached, ChatBody, CompletionBody, Cursor, Health, Piece, RecalledContext, WorkspaceState,
} from './protocol';
import { EventParser } from './sse';

export interface Connection {
  readonly url: string;
  readonly token: string | undefined;
}

const PATIENCE_MS = 10_000; // for routes that answer at once; generations may queue behind others

export class Client {
  /** `connection` is asked at each request, for address and token may change while VS Code runs. */
  constructor(private readonly connection: () => Connection) {}

  get url(): string {
    return this.connection().url;
  }

  /** Also while the service loads, stops or has failed (503): that is an answer here, not an error. */
  async health(): Promise<Health> {
    const answer = await this.json({ method: 'GET', path: '/health', patience: PATIENCE_MS, alsoAnswers: 503 });
    if ((answer as { service?: unknown } | null)?.service !== 'miton') {
      throw new ServiceError('foreign', `Another program answers at ${this.url}.`);
    }
    return answer as Health;
  }

  async model(): Promise<string> {
    const answer = (await this.json({ method: 'GET', path: '/v1/models', patience: PATIENCE_MS })) as { data: { id: string }[] };
    return answer.data[0]?.id ?? '';
  }

  async workspaces(): Promise<WorkspaceState[]> {
    const answer = await this.json({ method: 'GET', path: '/v1/workspaces', patience: PATIENCE_MS });
    return (answer as { data: WorkspaceState[] }).data;
  }

  async openWorkspace(root: string): Promise<WorkspaceState> {
    return (await this.json({ method: 'POST', path: '/v1/workspaces', body: { root } })) as WorkspaceState;
  }

  async putDocument(workspace: string, path: string, text: string, version: number): Promise<void> {
    await this.json({ method: 'PUT', path: '/v1/documents', body: { workspace, path, text, version }, patience: PATIENCE_MS });
  }

  async dropDocument(workspace: string, path: string): Promise<void> {
    await this.json({ method: 'DELETE', path: '/v1/documents', body: { workspace, path }, patience: PATIENCE_MS });
  }

  async contextAt(workspace: string, path: string, cursor: Cursor, buffer: string, contextTokens?: number): Promise<RecalledContext> {
    const body = { workspace, path, cursor, buffer, ...(contextTokens !== undefined && { context_tokens: contextTokens }) };
    return (await this.json({ method: 'POST', path: '/v1/context', body, patience: PATIENCE_MS })) as RecalledContext;
  }

  complete(body: CompletionBody, signal: AbortSignal): AsyncGenerator<Piece> {
    return this.stream('/v1/completions', body, (choice) => choice.text ?? '', signal);
  }

  chat(body: ChatBody, signal: AbortSignal): AsyncGenerator<Piece> {
    return this.stream('/v1/chat/completions', body, (choice) => choice.delta?.content ?? '', signal);
  }

  private async json(request: HttpRequest): Promise<unknown> {
    const { url, token } = this.connection();
    const parts: Uint8Array[] = [];
    for await (const part of send(url, token, request)) parts.push(part);
    try {
      return JSON.parse(Buffer.concat(parts).toString('utf8'));
    } catch {
      throw new ServiceError('foreign', `${url} answers, but not as Miton does.`);
    }
  }

  private async *stream(path: string, body: object, textOf: (choice: Choice) => string, signal: AbortSignal): AsyncGenerator<Piece> {
    const { url, token } = this.connection();
    const parser = new EventParser();
    let ended = false;
    for await (const bytes of send(url, token, { method: 'POST', path, body: { ...body, stream: true }, signal })) {
      for (const data of parser.push(bytes)) {
        if (data === '[DONE]') {
          ended = true;
          continue;
        }
        const event = JSON.parse(data) as StreamEvent;
        if (event.error) throw failureInStream(event.error);
        const choice = event.choices?.[0];
        yield {
          text: choice ? textOf(choice) : '',
          ...(choice?.finish_reason && { finish: choice.finish_reason }),
          ...(event.miton && { attached: event.miton }),
        };
      }
    }
    if (!ended) throw new ServiceError('interrupted', 'The service went away in the middle of its answer.');
  }
}

interface Choice {
  readonly text?: string;
  readonly delta?: { readonly content?: string | null };
  readonly finish_reason?: 'stop' | 'length' | null;
}

interface StreamEvent {
  readonly choices?: readonly Choice[];
  readonly miton?: Attached;
  readonly error?: { readonly message: string; readonly code?: string };
}

/** An error that ends a stream: a service that is being stopped has interrupted it, anything else is its fault. */
function failureInStream(error: { readonly message: string; readonly code?: string }): ServiceError {
  return new ServiceError(error.code === 'stopping' ? 'interrupted' : 'failed', error.message, error.code);
}
