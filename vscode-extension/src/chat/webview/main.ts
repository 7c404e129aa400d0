// The chat view's page: shows turns as they stream in, sends questions, and asks the extension to do the rest.

import type { ContextItem } from '../../protocol';
import { mentionAt } from '../mentions';
import type { FromPage, ShownTurn, ToPage } from '../messages';
import { escape, render } from './markdown';

declare function acquireVsCodeApi(): {
  postMessage(message: FromPage): void;
  getState(): { draft: string } | undefined;
  setState(state: { draft: string }): void;
};

const vscode = acquireVsCodeApi();
const list = element('turns');
const form = element('form') as HTMLFormElement;
const input = element('question') as HTMLTextAreaElement;
const send = element('send') as HTMLButtonElement;
const menu = element('names');
let turns: ShownTurn[] = [];
let streamed = '';
let drawing = false;
let chosen = 0;

input.value = vscode.getState()?.draft ?? '';
resize();
window.addEventListener('message', (event: MessageEvent<ToPage>) => receive(event.data));
vscode.postMessage({ type: 'ready' });

function element(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`The page has no ${id}.`);
  return found;
}

function receive(message: ToPage): void {
  switch (message.type) {
    case 'turns':
      turns = [...message.turns];
      streamed = turns.at(-1)?.answer ?? '';
      list.replaceChildren(...turns.map(drawTurn));
      scroll(true);
      break;
    case 'turn':
      turns[turns.length - 1] = message.turn;
      streamed = message.turn.answer;
      list.lastElementChild?.replaceWith(drawTurn(message.turn, turns.length - 1));
      scroll(false);
      break;
    case 'text':
      streamed += message.text;
      drawSoon();
      break;
    case 'names':
      showNames(message.query, message.names);
      break;
    case 'focus':
      input.focus();
      break;
  }
  const isRunning = turns.at(-1)?.outcome === 'running';
  document.body.classList.toggle('empty', turns.length === 0);
  send.textContent = isRunning ? 'Stop' : 'Ask';
  send.classList.toggle('stop', isRunning);
}

/** Tokens come faster than a page can be laid out: draw once per frame. */
function drawSoon(): void {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    const answer = list.lastElementChild?.querySelector('.answer');
    if (answer) answer.innerHTML = render(streamed);
    scroll(false);
  });
}

function drawTurn(turn: ShownTurn, index: number): HTMLElement {
  const section = document.createElement('section');
  section.dataset['turn'] = String(index);
  const attached = turn.attachments.map((label) => `<span class="attached">${escape(label)}</span>`).join('');
  section.innerHTML = `<div class="question">${escape(turn.question)}${attached && `<div>${attached}</div>`}</div>
    <div class="answer">${render(turn.answer)}</div>${note(turn)}${sources(turn.context)}`;
  linkNames(section, turn.context);
  return section;
}

function note(turn: ShownTurn): string {
  switch (turn.outcome) {
    case 'running':
      return turn.answer === '' ? '<p class="note running">Reading the repository<span class="dots"></span></p>' : '';
    case 'stopped':
      return '<p class="note">Stopped.</p>';
    case 'cut':
      return '<p class="note">The answer reached its longest length; the setting miton.chat.maxTokens allows more.</p>';
    case 'failed':
      return `<p class="note failed" role="alert">${escape(turn.error ?? 'The answer failed.')}</p>`;
    case 'done':
      return '';
  }
}

function sources(context: readonly ContextItem[]): string {
  if (context.length === 0) return '';
  const items = context.map((item, index) => {
    const why = escape(`${item.reasons.join(', ')} (${item.tokens} tokens)`);
    const symbol = item.symbol ? ` <span class="symbol">${escape(item.symbol.split('.').pop() ?? '')}</span>` : '';
    return `<li><button data-source="${index}" title="${why}">${escape(item.path)}:${item.start_line + 1}-${item.end_line + 1}${symbol}</button></li>`;
  });
  return `<details class="sources" open><summary>${context.length} pieces of code were read</summary><ol>${items.join('')}</ol></details>`;
}

/** Names in the answer that mean an attached chunk lead there, too. */
function linkNames(section: HTMLElement, context: readonly ContextItem[]): void {
  for (const code of section.querySelectorAll('.answer :not(pre) > code')) {
    const name = (code.textContent ?? '').replace(/\(.*\)$/, '');
    const index = context.findIndex((item) => item.path === name || item.symbol === name || item.symbol.endsWith(`.${name}`) || item.path.endsWith(`/${name}`));
    if (name === '' || index < 0) continue;
    code.classList.add('link');
    code.setAttribute('data-source', String(index));
  }
}

list.addEventListener('click', (event) => {
  const target = event.target instanceof Element ? event.target : undefined;
  const source = target?.closest<HTMLElement>('[data-source]');
  const turn = target?.closest<HTMLElement>('[data-turn]');
  if (source && turn) {
    vscode.postMessage({ type: 'open', turn: Number(turn.dataset['turn']), source: Number(source.dataset['source']) });
    return;
  }
  const button = target?.closest<HTMLElement>('[data-code]');
  const code = button?.closest('figure')?.querySelector('code')?.textContent;
  if (button && code !== null && code !== undefined) {
    vscode.postMessage({ type: button.dataset['code'] as 'insert' | 'copy' | 'apply', code });
    if (button.dataset['code'] === 'copy') {
      button.textContent = 'Copied';
      setTimeout(() => (button.textContent = 'Copy'), 1200);
    }
  }
});

form.addEventListener('submit', (event) => {
  event.preventDefault();
  if (turns.at(-1)?.outcome === 'running') {
    vscode.postMessage({ type: 'stop' });
    return;
  }
  const question = input.value.trim();
  if (question === '') return;
  vscode.postMessage({ type: 'ask', question });
  input.value = '';
  keepDraft();
});

input.addEventListener('input', () => {
  keepDraft();
  const query = mentionAt(input.value, input.selectionStart);
  if (query === undefined) hideNames();
  else vscode.postMessage({ type: 'names', query });
});

input.addEventListener('keydown', (event) => {
  if (!menu.hidden && namesKey(event)) return;
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    if (turns.at(-1)?.outcome !== 'running') form.requestSubmit();
  } else if (event.key === 'Escape' && turns.at(-1)?.outcome === 'running') {
    vscode.postMessage({ type: 'stop' });
  }
});

function namesKey(event: KeyboardEvent): boolean {
  const options = [...menu.children];
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    chosen = (chosen + (event.key === 'ArrowDown' ? 1 : options.length - 1)) % options.length;
    options.forEach((option, index) => option.classList.toggle('chosen', index === chosen));
  } else if (event.key === 'Enter' || event.key === 'Tab') {
    take(options[chosen]?.textContent ?? '');
  } else if (event.key === 'Escape') {
    hideNames();
  } else {
    return false;
  }
  event.preventDefault();
  return true;
}

function showNames(query: string, names: readonly string[]): void {
  if (mentionAt(input.value, input.selectionStart) !== query) return; // typed on since
  chosen = 0;
  menu.replaceChildren(...names.map((name, index) => {
    const option = document.createElement('div');
    option.textContent = name;
    option.classList.toggle('chosen', index === 0);
    option.addEventListener('mousedown', (event) => {
      event.preventDefault();
      take(name);
    });
    return option;
  }));
  menu.hidden = names.length === 0;
}

function hideNames(): void {
  menu.hidden = true;
}

function take(name: string): void {
  const query = mentionAt(input.value, input.selectionStart);
  if (query === undefined || name === '') return;
  input.setRangeText(`${name} `, input.selectionStart - query.length, input.selectionStart, 'end');
  hideNames();
  keepDraft();
}

function keepDraft(): void {
  vscode.setState({ draft: input.value });
  resize();
}

function resize(): void {
  input.style.height = 'auto';
  input.style.height = `${Math.min(input.scrollHeight + 2, 200)}px`;
}

/** Stay at the end, unless the reader has scrolled up. */
function scroll(always: boolean): void {
  const room = list.scrollHeight - list.scrollTop - list.clientHeight;
  if (always || room < 120) list.scrollTop = list.scrollHeight;
}
