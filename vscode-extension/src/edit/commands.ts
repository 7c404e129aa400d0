// Edit selection, add docstring, fix diagnostic, write tests, suggest a name: from the editor to a reviewed change.

import * as vscode from 'vscode';
import type { Generated, Generator } from '../generation';
import { locate } from '../repository';
import { codeOf, replacementFor } from './answer';
import { commonIndent, dedent, enclosingBlock, type Lines } from './block';
import { propose } from './hunks';
import { DOCSTRING, editMessages, fixInstruction, nameMessages, namesOf, testMessages, testPlace, type Code } from './prompts';
import type { Reviews } from './review';

const LONGEST = 400; // lines: a small model loses its way in more, and the answer repeats them all

export function registerEditing(generator: Generator, reviews: Reviews, memory: vscode.Memento): vscode.Disposable {
  const editing = new Editing(generator, reviews, memory);
  const register = vscode.commands.registerTextEditorCommand;
  return vscode.Disposable.from(
    register('miton.edit', (editor) => void editing.byInstruction(editor)),
    register('miton.addDocstring', (editor) => void editing.docstring(editor)),
    vscode.commands.registerCommand('miton.fix', (line?: number) => editing.fix(line)),
    register('miton.writeTests', (editor) => void editing.tests(editor)),
    register('miton.rename', (editor) => void editing.rename(editor)),
    vscode.languages.registerCodeActionsProvider({ pattern: '**' }, new Actions(), {
      providedCodeActionKinds: [vscode.CodeActionKind.QuickFix, vscode.CodeActionKind.RefactorRewrite],
    }),
  );
}

const LAST_INSTRUCTION = 'miton.lastInstruction';

class Editing {
  constructor(
    private readonly generator: Generator,
    private readonly reviews: Reviews,
    private readonly memory: vscode.Memento,
  ) {}

  async byInstruction(editor: vscode.TextEditor): Promise<void> {
    const lines = await this.target(editor);
    if (!lines || !this.isFree(editor.document)) return;
    editor.selection = new vscode.Selection(lines.start, 0, lines.end, editor.document.lineAt(lines.end).text.length);
    const instruction = await vscode.window.showInputBox({
      title: `Miton: edit ${lines.end - lines.start + 1} lines of ${vscode.workspace.asRelativePath(editor.document.uri)}`,
      prompt: 'What should change?', placeHolder: 'e.g. return 0 for an empty list', value: this.memory.get<string>(LAST_INSTRUCTION, ''),
      ignoreFocusOut: true,
    });
    if (!instruction?.trim()) return;
    await this.memory.update(LAST_INSTRUCTION, instruction.trim());
    await this.change(editor, lines, 'editing', instruction.trim());
  }

  async docstring(editor: vscode.TextEditor): Promise<void> {
    const lines = await this.target(editor);
    if (lines) await this.change(editor, lines, 'writing a docstring', DOCSTRING, true);
  }

  /** Fix the problems at a line, or those of the cursor's function. */
  async fix(line?: number): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    if (!editor) return;
    const at = line ?? editor.selection.active.line;
    const lines = await this.target(editor, at);
    if (!lines) return;
    const here = vscode.languages.getDiagnostics(editor.document.uri)
      .filter(({ range }) => (line === undefined ? range.start.line <= lines.end && range.end.line >= lines.start : range.start.line <= line && range.end.line >= line));
    if (here.length === 0) {
      void vscode.window.showInformationMessage('Miton: nothing is reported here. Place the cursor on a problem, or use Edit Selection.');
      return;
    }
    const problems = here.map(({ message, range }) => `${message} (at \`${editor.document.lineAt(range.start.line).text.trim()}\`)`);
    await this.change(editor, lines, 'fixing', fixInstruction(problems));
  }

  async tests(editor: vscode.TextEditor): Promise<void> {
    const { document } = editor;
    const lines = await this.target(editor);
    if (!lines) return;
    const location = locate(document.uri);
    const place = testPlace(location?.path ?? document.uri.path, document.languageId);
    const answer = await this.generator.run({
      title: `writing ${place.framework} tests`, messages: testMessages(codeIn(document, lines), place.framework), root: location?.root,
      isEnough: (text) => codeOf(text)?.closed ?? false,
    });
    const code = answer && this.codeIn(answer);
    if (code === undefined) return;
    // Untitled: saving is the user's decision.
    const opened = await vscode.workspace.openTextDocument({ language: document.languageId, content: `${code.trimEnd()}\n` });
    await vscode.window.showTextDocument(opened, vscode.ViewColumn.Beside);
    void vscode.window.showInformationMessage(`Miton: read the tests, run them, and save them as ${place.path}.`);
  }

  async rename(editor: vscode.TextEditor): Promise<void> {
    const { document } = editor;
    const position = editor.selection.active;
    const range = document.getWordRangeAtPosition(position);
    const lines = await this.target(editor);
    if (!range || !lines) {
      void vscode.window.showInformationMessage('Miton: place the cursor on the name that you want to change.');
      return;
    }
    const old = document.getText(range);
    const answer = await this.generator.run({ title: `looking for a better name than ${old}`, messages: nameMessages(codeIn(document, lines), old) });
    if (answer === undefined) return;
    const names = namesOf(answer.text, old);
    const name = await vscode.window.showQuickPick(names, { title: `Miton: rename ${old}`, placeHolder: names.length > 0 ? 'Pick a name' : 'The model had no other name' });
    if (!name) return;
    try {
      const edit = await vscode.commands.executeCommand<vscode.WorkspaceEdit>('vscode.executeDocumentRenameProvider', document.uri, position, name);
      await vscode.workspace.applyEdit(edit);
    } catch {
      await vscode.env.clipboard.writeText(name);
      void vscode.window.showWarningMessage(`Miton: no extension can rename in ${document.languageId} here; "${name}" is on the clipboard.`);
    }
  }

  /** Generate a replacement of whole lines and put it under review. */
  private async change(editor: vscode.TextEditor, lines: Lines, title: string, instruction: string, onlyAdd = false): Promise<void> {
    const { document } = editor;
    if (!this.isFree(document)) return;
    const { version } = document;
    const answer = await this.generator.run({
      title, messages: editMessages(codeIn(document, lines), instruction), root: locate(document.uri)?.root,
      isEnough: (text) => codeOf(text)?.closed ?? false,
    });
    const code = answer && this.codeIn(answer);
    if (code === undefined) return;
    if (document.isClosed || document.version !== version) {
      void vscode.window.showWarningMessage('Miton: the file changed while the edit was being written, so it was not applied. Ask again.');
      return;
    }
    const before = textOf(document, lines);
    const after = replacementFor(before, code);
    const proposal = propose(lines.start, before, after, onlyAdd);
    if (after.length === 0 || proposal.hunks.length === 0) {
      void vscode.window.showInformationMessage('Miton: the model proposes no change. Say it in other words, or select less.');
      return;
    }
    if (!(await this.reviews.begin(document, proposal))) {
      void vscode.window.showErrorMessage('Miton: the change could not be applied; the file may be read-only.');
    }
  }

  /** The code of an answer; what is no code, or only a part of it, is told and not used. */
  private codeIn(answer: Generated): string | undefined {
    const found = codeOf(answer.text);
    if (found && !found.closed && answer.isCut) {
      void vscode.window.showWarningMessage('Miton: the answer was cut off before its end, so it was not used. Select less, or raise miton.chat.maxTokens.');
      return undefined;
    }
    if (!found || found.code.trim() === '') {
      void vscode.window.showInformationMessage('Miton: the model answered without code. Say it in other words, or select less.');
      return undefined;
    }
    return found.code;
  }

  private isFree(document: vscode.TextDocument): boolean {
    if (!this.reviews.isReviewing(document)) return true;
    void vscode.window.showInformationMessage('Miton: accept or reject the changes in this file first.');
    return false;
  }

  /** The whole lines of the selection, or the function around the cursor. */
  private async target(editor: vscode.TextEditor, line?: number): Promise<Lines | undefined> {
    const lines = await linesFor(editor, line);
    if (lines.end - lines.start < LONGEST) return lines;
    void vscode.window.showInformationMessage(`Miton: ${lines.end - lines.start + 1} lines are too many at once; select at most ${LONGEST}.`);
    return undefined;
  }
}

/** The whole lines of the selection, or the function around a line (by default the cursor's). */
export async function linesFor(editor: vscode.TextEditor, line?: number): Promise<Lines> {
  const { document, selection } = editor;
  if (line === undefined && !selection.isEmpty) {
    const end = selection.end.character === 0 && selection.end.line > selection.start.line ? selection.end.line - 1 : selection.end.line;
    return { start: selection.start.line, end };
  }
  const at = line ?? selection.active.line;
  const symbols = await vscode.commands.executeCommand<(vscode.DocumentSymbol | vscode.SymbolInformation)[] | undefined>('vscode.executeDocumentSymbolProvider', document.uri);
  const found = innermost(symbols ?? [], at);
  return found ?? enclosingBlock(document.getText().split(/\r?\n/), at);
}

const BLOCKS = new Set([vscode.SymbolKind.Function, vscode.SymbolKind.Method, vscode.SymbolKind.Constructor, vscode.SymbolKind.Class]);

function innermost(symbols: readonly (vscode.DocumentSymbol | vscode.SymbolInformation)[], line: number): Lines | undefined {
  for (const symbol of symbols) {
    if (!('children' in symbol) || !symbol.range.contains(new vscode.Position(line, symbol.range.start.line === line ? symbol.range.start.character : 0))) continue;
    const inner = innermost(symbol.children, line);
    if (inner) return inner;
    if (BLOCKS.has(symbol.kind)) return { start: symbol.range.start.line, end: symbol.range.end.line };
  }
  return undefined;
}

function textOf(document: vscode.TextDocument, lines: Lines): string[] {
  return Array.from({ length: lines.end - lines.start + 1 }, (_, index) => document.lineAt(lines.start + index).text);
}

/** Lines as the model gets them: without their common indentation, which it would lose. */
export function codeIn(document: vscode.TextDocument, lines: Lines): Code {
  const text = textOf(document, lines);
  const path = locate(document.uri)?.path ?? document.uri.path.split('/').pop() ?? 'untitled';
  return { path, language: document.languageId, text: dedent(text, commonIndent(text)).join('\n') };
}

/** The lightbulb: fix a problem; edit or explain a selection. */
class Actions implements vscode.CodeActionProvider {
  provideCodeActions(_document: vscode.TextDocument, range: vscode.Range, context: vscode.CodeActionContext): vscode.CodeAction[] {
    const fixes = context.diagnostics.map((diagnostic) => {
      const action = new vscode.CodeAction(`Fix with Miton: ${diagnostic.message.split('\n', 1)[0] ?? ''}`, vscode.CodeActionKind.QuickFix);
      action.diagnostics = [diagnostic];
      action.command = { command: 'miton.fix', title: 'Fix', arguments: [diagnostic.range.start.line] };
      return action;
    });
    if (range.isEmpty) return fixes;
    const edit = new vscode.CodeAction('Edit with Miton...', vscode.CodeActionKind.RefactorRewrite);
    edit.command = { command: 'miton.edit', title: 'Edit' };
    return [...fixes, edit];
  }
}
