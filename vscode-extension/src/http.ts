// HTTP to the service through Node's own client: no proxy for an address on this machine, connections are
// kept open, and an abort closes the socket, which is what stops the model.

import * as http from 'node:http';
import * as https from 'node:https';
import { Cancelled, ServiceError, failureOf } from './errors';

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds without a byte from the service after which it counts as unreachable; 0 waits for ever. */
  readonly patience?: number;
  /** An error status whose body is an answer all the same. */
  readonly alsoAnswers?: number;
}

const plain = new http.Agent({ keepAlive: true, maxSockets: 16 });
const secure = new https.Agent({ keepAlive: true, maxSockets: 16 });

/** Sends a request and returns the answer's bytes as they come. Throws `ServiceError` or `Cancelled`. */
export async function* send(base: string, token: string | undefined, request: HttpRequest): AsyncGenerator<Uint8Array> {
  const { signal } = request;
  if (signal?.aborted) throw new Cancelled();
  let response: http.IncomingMessage | undefined;
  const abort = (): void => void (response ?? sent).destroy(new Cancelled());
  const sent = begin(base, token, request);
  signal?.addEventListener('abort', abort, { once: true });
  try {
    response = await answer(sent);
    const status = response.statusCode ?? 0;
    if (status >= 300 && status !== request.alsoAnswers) throw failureOf(status, await text(response));
    for await (const bytes of response as AsyncIterable<Uint8Array>) yield bytes;
    if (!response.complete) throw new Error('cut off');
  } catch (error) {
    if (signal?.aborted) throw new Cancelled();
    throw asFailure(error, base, response !== undefined);
  } finally {
    signal?.removeEventListener('abort', abort);
    // A reader that left early leaves the socket; a finished one gives it back to the agent.
    if (response === undefined || !response.complete) sent.destroy();
  }
}

function begin(base: string, token: string | undefined, request: HttpRequest): http.ClientRequest {
  const url = new URL(request.path, base);
  const body = request.body === undefined ? undefined : Buffer.from(JSON.stringify(request.body));
  const isSecure = url.protocol === 'https:';
  const sent = (isSecure ? https : http).request(url, {
    method: request.method,
    agent: isSecure ? secure : plain,
    timeout: request.patience ?? 0,
    headers: {
      accept: 'application/json, text/event-stream',
      ...(body && { 'content-type': 'application/json', 'content-length': body.length }),
      ...(token && { authorization: `Bearer ${token}` }),
    },
  });
  sent.on('timeout', () => sent.destroy(new ServiceError('unreachable', `${base} does not answer.`)));
  sent.end(body);
  return sent;
}

function answer(sent: http.ClientRequest): Promise<http.IncomingMessage> {
  return new Promise((resolve, reject) => sent.once('response', resolve).on('error', reject));
}

async function text(response: http.IncomingMessage): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of response as AsyncIterable<Uint8Array>) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

function asFailure(error: unknown, base: string, answered: boolean): Error {
  if (error instanceof ServiceError || error instanceof Cancelled) return error;
  const code = (error as NodeJS.ErrnoException).code ?? '';
  if (answered) return new ServiceError('interrupted', 'The service went away in the middle of its answer.', code);
  if (code === 'ECONNRESET' || code === 'EPIPE') {
    return new ServiceError('interrupted', 'The service closed the connection before it answered.', code);
  }
  if (code.startsWith('HPE_')) return new ServiceError('foreign', `${base} answers, but does not speak HTTP.`, code);
  return new ServiceError('unreachable', `No service answers at ${base}.`, code);
}
