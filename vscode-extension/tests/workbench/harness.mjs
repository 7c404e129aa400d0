// The real workbench in a real browser, and the real service on a real model: start, stop, look, type.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

export const HERE = path.dirname(fileURLToPath(import.meta.url));
export const ROOT = path.resolve(HERE, '../../..');
export const ARTIFACTS = path.join(ROOT, 'artifacts', 'vscode');
const EDITORS = process.env.MITON_EDITORS ?? path.join(os.homedir(), '.cache/miton-editors');
const CODE_SERVER = path.join(EDITORS, 'node_modules/code-server/out/node/entry.js');
const { chromium } = createRequire(path.join(EDITORS, 'package.json'))('playwright-core');
fs.mkdirSync(ARTIFACTS, { recursive: true });

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Polls until `look` returns something true, and returns it. */
export async function until(look, what, ms = 30_000) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(Date.now() < end, `timed out waiting for ${what}`);
    await sleep(50);
  }
}

export function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export function temporaryDirectory(name) {
  return fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), `miton-${name}-`)));
}

/** A copy of the small repository, with a commit of its own. */
export function makeRepository() {
  const root = path.join(temporaryDirectory('repository'), 'shop-repository');
  fs.cpSync(path.join(HERE, 'repository'), root, { recursive: true });
  const git = (...args) => execFileSync('git', ['-c', 'user.name=Test', '-c', 'user.email=test@example.org', ...args], { cwd: root });
  git('init', '-q', '-b', 'main');
  git('add', '.');
  git('commit', '-q', '-m', 'Start');
  return root;
}

/** The real service; its chunk memory is fresh, its models are the user's. */
export class Service {
  constructor(port, extra = []) {
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.extra = extra;
    this.cache = temporaryDirectory('cache');
    const models = path.join(process.env.MITON_CACHE ?? path.join(os.homedir(), '.cache/miton'), 'models');
    fs.symlinkSync(models, path.join(this.cache, 'models'));
  }

  static get command() {
    return [path.join(process.env.MITON_VENV ?? path.join(ROOT, '.venv'), 'bin/miton'), 'serve'];
  }

  get environment() {
    return { ...process.env, MITON_CACHE: this.cache, MITON_STATE: path.join(this.cache, 'state') };
  }

  async start(extra = this.extra) {
    const [program, ...args] = Service.command;
    this.process = spawn(program, [...args, '--port', String(this.port), ...extra], { env: this.environment, stdio: ['ignore', 'pipe', 'pipe'] });
    const log = fs.createWriteStream(path.join(ARTIFACTS, 'service.log'), { flags: 'a' });
    this.process.stdout.pipe(log);
    this.process.stderr.pipe(log);
    await until(() => this.isReady(), 'the service to be ready', 180_000);
  }

  async isReady() {
    try {
      return (await fetch(`${this.url}/health`)).status === 200;
    } catch {
      return false;
    }
  }

  async get(route, token) {
    const answer = await fetch(this.url + route, token ? { headers: { authorization: `Bearer ${token}` } } : {});
    return route === '/metrics' ? answer.text() : answer.json();
  }

  /** How many requests of a kind ended in a way, as /metrics counts them. */
  async counted(kind, outcome) {
    const match = new RegExp(`^miton_requests_total\\{kind="${kind}",outcome="${outcome}"\\} (\\S+)`, 'm').exec(await this.get('/metrics'));
    return match ? Number(match[1]) : 0;
  }

  async stop(signal = 'SIGTERM') {
    if (!this.process || this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = new Promise((resolve) => this.process.once('exit', resolve));
    this.process.kill(signal);
    await gone;
  }
}

/** VS Code in code-server with the packed extension, and Chromium in front of it. */
export class Workbench {
  static async open(folder, settings, { trust = true, environment = {} } = {}) {
    const bench = new Workbench();
    bench.home = temporaryDirectory('workbench');
    const dir = (name) => path.join(bench.home, name);
    for (const scope of ['User', 'Machine']) fs.mkdirSync(dir(`data/${scope}`), { recursive: true });
    const configured = JSON.stringify({
      'workbench.startupEditor': 'none', 'telemetry.telemetryLevel': 'off', 'extensions.autoUpdate': false,
      'extensions.autoCheckUpdates': false, 'update.mode': 'none', 'chat.disableAIFeatures': true, 'editor.inlineSuggest.enabled': true,
      'editor.quickSuggestions': { other: 'off', comments: 'off', strings: 'off' }, 'editor.accessibilitySupport': 'off',
      'files.autoSave': 'off', 'workbench.tips.enabled': false, 'window.commandCenter': false, 'git.openRepositoryInParentFolders': 'never',
      'security.workspace.trust.enabled': !trust, 'editor.minimap.enabled': false, 'workbench.colorTheme': 'Default Dark Modern', ...settings,
    });
    // Settings of scope machine are read where the files are, the others where the browser's user is.
    for (const scope of ['User', 'Machine']) fs.writeFileSync(dir(`data/${scope}/settings.json`), configured);
    fs.writeFileSync(dir('config.yaml'), 'auth: none\n');
    const common = [CODE_SERVER, '--user-data-dir', dir('data'), '--extensions-dir', dir('extensions'), '--config', dir('config.yaml')];
    const env = { ...process.env, ...environment, EXTENSIONS_GALLERY: JSON.stringify({ serviceUrl: 'http://127.0.0.1:9' }) };
    delete env.VSCODE_IPC_HOOK_CLI;
    execFileSync(process.execPath, [...common, '--install-extension', path.join(ROOT, 'vscode-extension/miton.vsix')], { env, stdio: 'pipe' });
    const port = await freePort();
    bench.server = spawn(process.execPath, [
      ...common, '--bind-addr', `127.0.0.1:${port}`, '--disable-telemetry', '--disable-update-check',
      ...(trust ? ['--disable-workspace-trust'] : []), '--disable-getting-started-override', '--disable-file-downloads',
    ], { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    const log = fs.createWriteStream(path.join(ARTIFACTS, 'code-server.log'), { flags: 'a' });
    bench.server.stdout.pipe(log);
    bench.server.stderr.pipe(log);
    await until(async () => (await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined))?.status === 200, 'code-server');
    bench.browser = await chromium.launchPersistentContext(dir('chrome'), {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, viewport: { width: 1280, height: 800 },
      args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    });
    bench.page = bench.browser.pages()[0];
    bench.outside = new Set();
    bench.page.on('request', (request) => {
      const url = new URL(request.url());
      if (/^(http|ws)s?:/.test(url.protocol) && url.hostname !== '127.0.0.1') bench.outside.add(url.origin);
    });
    await bench.page.goto(`http://127.0.0.1:${port}/?folder=${folder}`);
    await bench.page.locator('.monaco-workbench').waitFor();
    return bench;
  }

  get status() {
    return this.page.locator('.statusbar-item', { hasText: 'Miton' });
  }

  async statusText() {
    return (await this.status.first().innerText().catch(() => '')).trim();
  }

  untilStatus(pattern, ms) {
    return until(async () => pattern.test(await this.statusText()), `the status ${pattern}`, ms);
  }

  get editor() {
    return this.page.locator('.editor-instance .monaco-editor').first();
  }

  async openFile(name, line, column = 1) {
    await this.page.keyboard.press('Control+P');
    await this.page.locator('.quick-input-widget:visible input').first().waitFor();
    await this.page.keyboard.type(name);
    await this.page.locator('.quick-input-list .monaco-list-row', { hasText: path.basename(name) }).first().waitFor();
    await this.page.keyboard.press('Enter');
    await this.page.locator('.tab.active', { hasText: path.basename(name) }).first().waitFor();
    await this.editor.locator('.view-lines').waitFor();
    await this.editor.locator('.view-lines').click({ position: { x: 400, y: 2 } });
    if (line !== undefined) await this.goTo(line, column);
  }

  async goTo(line, column = 1) {
    await this.page.keyboard.press('Control+G');
    await this.answer(`${line}:${column}`);
  }

  /** Types into the input box that is open. */
  async answer(text) {
    const input = this.page.locator('.quick-input-widget:visible input').first();
    await input.waitFor();
    await this.page.keyboard.type(text);
    await this.page.keyboard.press('Enter');
    await input.waitFor({ state: 'hidden' });
  }

  async command(title) {
    await this.page.keyboard.press('F1');
    const input = this.page.locator('.quick-input-widget:visible input').first();
    await input.waitFor();
    await this.page.keyboard.type(title);
    await this.page.locator('.quick-input-list .monaco-list-row', { hasText: title.replace(/^.*?: /, '') }).first().waitFor();
    await this.page.keyboard.press('Enter');
  }

  get ghost() {
    return this.page.locator('.ghost-text-decoration, .ghost-text, .ghost-text-decoration-preview, .suggest-preview-text');
  }

  async ghostText(ms = 30_000) {
    await this.ghost.first().waitFor({ timeout: ms });
    return plain((await this.ghost.allInnerTexts()).join('\n'));
  }

  async text() {
    const lines = await this.editor.locator('.view-lines .view-line').evaluateAll((all) =>
      all.map((line) => ({ top: parseFloat(line.style.top), text: line.textContent })).sort((a, b) => a.top - b.top).map(({ text }) => text));
    return plain(lines.join('\n'));
  }

  shot(name) {
    return this.page.screenshot({ path: path.join(ARTIFACTS, `${name}.png`) });
  }

  async close() {
    await this.browser?.close().catch(() => undefined);
    const gone = new Promise((resolve) => this.server.once('exit', resolve));
    process.kill(-this.server.pid, 'SIGTERM');
    await gone;
    fs.rmSync(this.home, { recursive: true, force: true, maxRetries: 5 });
  }
}

const plain = (text) => text.replace(/\u00a0/g, ' ').replace(/\u200b/g, '');
