import { expect, test } from 'vitest';
import { Suggester, type Asked } from '../../src/completion/suggester';
import { Cancelled, ServiceError } from '../../src/errors';
import type { CompletionBody, Piece } from '../../src/protocol';

/** A model whose words the test speaks. */
class Model {
  signal: AbortSignal | undefined;
  private pieces: (string | Error | undefined)[] = [];
  private wake: () => void = () => undefined;

  readonly complete = async function* (this: Model, _body: CompletionBody, signal: AbortSignal): AsyncGenerator<Piece> {
    this.signal = signal;
    signal.addEventListener('abort', () => this.wake());
    for (;;) {
      if (signal.aborted) throw new Cancelled();
      const next = this.pieces.shift();
      if (next instanceof Error) throw next;
      if (next !== undefined) yield { text: next };
      else if (this.ended) return;
      else await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }.bind(this);
  private ended = false;

  say(text: string | Error): void {
    this.pieces.push(text);
    this.wake();
  }

  end(): void {
    this.ended = true;
    this.wake();
  }
}

function setUp(patienceMs: number) {
  const model = new Model();
  const told: string[] = [];
  const suggester = new Suggester(model.complete, {
    completed: () => told.push('completed'),
    longer: () => told.push('longer'),
    failed: () => told.push('failed'),
  }, patienceMs);
  return { model, told, suggester };
}

const asked: Asked = { document: 'a.py', place: { before: 'x = ', after: '\n' }, body: { max_tokens: 8 } };
const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

test('a suggestion is whole when the model is quick, and is remembered', async () => {
  const { model, told, suggester } = setUp(10_000);
  const answer = suggester.ask(asked, new AbortController().signal);
  model.say('f(1)\ng(2)');
  model.end();
  expect(await answer).toEqual({ text: 'f(1)\ng(2)', replaces: 0 });
  expect(suggester.known('a.py', { before: 'x = f', after: '\n' })).toEqual({ text: '(1)\ng(2)', replaces: 0 });
  expect(suggester.known('b.py', asked.place)).toBeUndefined();
  expect(told).toEqual(['completed']);
});

test('a newer keystroke stops the model', async () => {
  const { model, told, suggester } = setUp(10_000);
  const abort = new AbortController();
  const answer = suggester.ask(asked, abort.signal);
  await settle();
  abort.abort();
  expect(await answer).toBeUndefined();
  expect(model.signal?.aborted).toBe(true);
  expect(told).toEqual([]);
});

test('after the patience whole lines are shown, and the rest when it comes', async () => {
  const { model, told, suggester } = setUp(0);
  const answer = suggester.ask(asked, new AbortController().signal);
  model.say('f(1)\ng(');
  expect(await answer).toEqual({ text: 'f(1)', replaces: 0 });
  model.say('2)');
  model.end();
  await settle();
  expect(told).toEqual(['completed', 'longer']);
  expect(suggester.known('a.py', asked.place)).toEqual({ text: 'f(1)\ng(2)', replaces: 0 });
});

test('typing into the part that is shown lets the model go on; typing something else stops it', async () => {
  const { model, suggester } = setUp(0);
  const answer = suggester.ask(asked, new AbortController().signal);
  model.say('f(1)\ng(');
  await answer;
  expect(suggester.known('a.py', { before: 'x = f(', after: '\n' })).toEqual({ text: '1)', replaces: 0 });
  expect(model.signal?.aborted).toBe(false);
  expect(suggester.known('a.py', { before: 'x = q', after: '\n' })).toBeUndefined();
  expect(model.signal?.aborted).toBe(true);
  expect(suggester.known('a.py', asked.place)).toBeUndefined(); // a part must not pass for the whole
});

test('a failure is thrown to the one who waits, and told when nobody does', async () => {
  const first = setUp(10_000);
  const answer = first.suggester.ask(asked, new AbortController().signal);
  first.model.say(new ServiceError('interrupted', 'gone'));
  await expect(answer).rejects.toThrow('gone');
  expect(first.suggester.cache.answered('a.py', asked.place)).toBe(false);

  const second = setUp(0);
  const part = second.suggester.ask(asked, new AbortController().signal);
  second.model.say('f(1)\n');
  expect(await part).toEqual({ text: 'f(1)', replaces: 0 });
  second.model.say(new ServiceError('interrupted', 'gone'));
  await settle();
  expect(second.told).toEqual(['failed']);
});
