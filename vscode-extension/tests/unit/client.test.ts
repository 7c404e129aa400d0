// The client against programs that are not the service, or that die: what the user is told then. What the real
// service answers is tested in the workbench.

import * as net from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { Client } from '../../src/client';
import { ServiceError } from '../../src/errors';

let server: net.Server | undefined;
afterEach(() => server?.close());

/** A client of a program that answers each connection's first bytes as `answer` does. */
function clientOf(answer: (socket: net.Socket) => void): Promise<Client> {
  return new Promise((resolve) => {
    server = net.createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => answer(socket));
    }).listen(0, '127.0.0.1', () => {
      const { port } = server?.address() as net.AddressInfo;
      resolve(new Client(() => ({ url: `http://127.0.0.1:${port}`, token: undefined })));
    });
  });
}

function http(status: string, type: string, body: string): string {
  return `HTTP/1.1 ${status}\r\nContent-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

async function kindOf(work: Promise<unknown>): Promise<string> {
  const error: unknown = await work.then(() => undefined, (reason: unknown) => reason);
  expect(error).toBeInstanceOf(ServiceError);
  return (error as ServiceError).kind;
}

async function read(stream: AsyncGenerator<{ text: string }>): Promise<string> {
  let text = '';
  for await (const piece of stream) text += piece.text;
  return text;
}

const body = { prompt: 'x', max_tokens: 1 };
const never = new AbortController().signal;

test('nobody at the address', async () => {
  const client = await clientOf((socket) => socket.end());
  await new Promise((resolve) => server?.close(resolve));
  expect(await kindOf(client.health())).toBe('unreachable');
});

test('another web server, and one that does not speak HTTP', async () => {
  const page = await clientOf((socket) => socket.end(http('200 OK', 'text/html', '<html>')));
  expect(await kindOf(page.health())).toBe('foreign');
  server?.close();
  const json = await clientOf((socket) => socket.end(http('200 OK', 'application/json', '{"status": "ok"}')));
  expect(await kindOf(json.health())).toBe('foreign');
  server?.close();
  const missing = await clientOf((socket) => socket.end(http('404 Not Found', 'text/html', 'no')));
  expect(await kindOf(missing.workspaces())).toBe('foreign');
  server?.close();
  const ssh = await clientOf((socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n'));
  expect(await kindOf(ssh.health())).toBe('foreign');
});

test('a service that dies before or in the middle of its answer', async () => {
  const silent = await clientOf((socket) => socket.destroy());
  expect(await kindOf(read(silent.complete(body, never)))).toBe('interrupted');
  server?.close();
  const head = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n';
  const event = 'data: {"choices": [{"text": "a"}]}\n\n';
  const torn = await clientOf((socket) => {
    socket.write(`${head}${event.length.toString(16)}\r\n${event}\r\n`, () => socket.destroy());
  });
  expect(await kindOf(read(torn.complete(body, never)))).toBe('interrupted');
  server?.close();
  const short = await clientOf((socket) => socket.end(`${head}${event.length.toString(16)}\r\n${event}\r\n0\r\n\r\n`));
  expect(await kindOf(read(short.complete(body, never)))).toBe('interrupted'); // no [DONE]
});

test('an abort closes the connection, which is what stops the model', async () => {
  const closed = new Promise<void>((resolve) => {
    void clientOf((socket) => {
      socket.on('close', () => resolve());
    }).then((client) => {
      const abort = new AbortController();
      const text = read(client.complete(body, abort.signal));
      setTimeout(() => abort.abort(), 20);
      return expect(text).rejects.toThrow('Cancelled');
    });
  });
  await closed;
});
