import { expect, test } from 'vitest';
import { ServiceError, failureOf } from '../../src/errors';
import type { WorkspaceState } from '../../src/protocol';
import { indexedShare, show, stateAfter, stateOf, type ServiceState } from '../../src/status';

const workspace: WorkspaceState = {
  root: '/home/me/shop', state: 'ready', files: 1, chunks: 12, tokens: 1000, indexed_tokens: 1000, seconds_left: 0, skipped: [],
};
const idle = { generating: 0, paused: false, latencyMs: undefined };
const online = (...workspaces: WorkspaceState[]): ServiceState => ({ kind: 'online', model: 'm', version: '1', workspaces });

test('online: ready, indexing, generating, paused', () => {
  expect(show(online(workspace), idle).text).toContain('ready');
  expect(show(online(workspace), idle).detail).toContain('shop: 1 file, 12 chunks, 1,000 tokens');
  const indexing = { ...workspace, state: 'indexing' as const, indexed_tokens: 499, seconds_left: 30.2 };
  expect(show(online(indexing), idle).text).toContain('indexing 49%');
  expect(show(online(indexing), idle).detail).toContain('31 s left');
  expect(show(online(workspace), { ...idle, generating: 2 }).text).toContain('generating');
  expect(show(online(workspace), { ...idle, paused: true }).text).toContain('paused');
  expect(show(online(workspace), { ...idle, latencyMs: 123.4 }).detail).toContain('123 ms');
});

test('the share is that of all workspaces, and 100% is not said before it is reached', () => {
  const indexing = { ...workspace, state: 'indexing' as const, tokens: 3000, indexed_tokens: 2999 };
  expect(indexedShare([workspace, indexing])).toBeCloseTo(3999 / 4000);
  expect(show(online(indexing), idle).text).toContain('99%');
  expect(indexedShare([workspace])).toBeUndefined();
  expect(indexedShare([{ ...indexing, tokens: 0, indexed_tokens: 0 }])).toBe(0);
});

test('every failure tells the reason and a fix', () => {
  const offline = (kind: 'unreachable' | 'foreign' | 'unauthorised' | 'failed' | 'interrupted'): string => {
    const state = stateAfter(new ServiceError(kind, 'the reason'));
    expect(state?.kind).toBe('offline');
    return show(state as ServiceState, idle).detail;
  };
  expect(offline('unreachable')).toMatch(/the reason[^]*miton\.service\.start/);
  expect(offline('interrupted')).toMatch(/the reason[^]*miton\.service\.start/);
  expect(offline('foreign')).toMatch(/the reason[^]*openSettings/);
  expect(offline('unauthorised')).toMatch(/token[^]*setToken/);
  expect(offline('failed')).toMatch(/the reason[^]*miton\.service\.log/);
  expect(stateAfter(new ServiceError('refused', 'bad path'))).toBeUndefined();
});

test('health as the service tells it', () => {
  expect(stateOf({ status: 'ok', version: '1' })).toBeUndefined();
  const loading = stateOf({ status: 'loading', version: '1', loading: { stage: 'downloading', done: 1, total: 4 } });
  expect(show(loading as ServiceState, idle).text).toContain('loading 25%');
  expect(stateOf({ status: 'error', version: '1', message: 'no disk' })).toMatchObject({ kind: 'offline', fix: 'log' });
});

test('error answers by status and body', () => {
  const body = (message: string, code: string): string => JSON.stringify({ error: { message, code } });
  expect(failureOf(401, body('no', 'x')).kind).toBe('unauthorised');
  expect(failureOf(503, body('Still loading', 'loading')).kind).toBe('loading');
  expect(failureOf(503, body('bad', 'load_failed')).kind).toBe('failed');
  expect(failureOf(400, body('bad', 'workspace'))).toMatchObject({ kind: 'refused', code: 'workspace' });
  expect(failureOf(500, body('boom', 'engine_error')).kind).toBe('failed');
  expect(failureOf(502, '<html>').kind).toBe('foreign');
  expect(failureOf(400, '{"detail": 1}').kind).toBe('foreign');
});
