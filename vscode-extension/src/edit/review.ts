// A proposed change under review. The new text is in the document at once, so that it can be run, saved and undone
// like any other; green lines are new, what they took away stands struck out behind them, and every hunk can be
// accepted or rejected by itself.

import * as vscode from 'vscode';
import { asDiff, moved, replaceLines, type Hunk, type Proposal } from './hunks';

const SCHEME = 'miton-before';
const LONGEST_REMOVED = 90; // characters of removed text shown behind a line

interface Review {
  readonly document: vscode.TextDocument;
  readonly before: string;
  hunks: readonly Hunk[];
}

export class Reviews implements vscode.CodeLensProvider, vscode.HoverProvider, vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly open = new Map<string, Review>();
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeCodeLenses = this.changed.event;
  private readonly added = vscode.window.createTextEditorDecorationType({
    isWholeLine: true, backgroundColor: new vscode.ThemeColor('diffEditor.insertedLineBackground'),
    overviewRulerColor: new vscode.ThemeColor('diffEditorOverview.insertedForeground'), overviewRulerLane: vscode.OverviewRulerLane.Left,
  });
  private readonly removed = vscode.window.createTextEditorDecorationType({
    after: { margin: '0 0 0 3em', color: new vscode.ThemeColor('gitDecoration.deletedResourceForeground'), fontStyle: 'italic', textDecoration: 'line-through' },
  });
  private readonly subscriptions: vscode.Disposable;

  constructor() {
    this.subscriptions = vscode.Disposable.from(
      this.added, this.removed, this.changed,
      vscode.languages.registerCodeLensProvider({ pattern: '**' }, this),
      vscode.languages.registerHoverProvider({ pattern: '**' }, this),
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.workspace.onDidChangeTextDocument((event) => this.follow(event)),
      vscode.workspace.onDidCloseTextDocument((document) => this.end(document)),
      vscode.window.onDidChangeActiveTextEditor(() => this.setContext()),
      vscode.window.onDidChangeVisibleTextEditors(() => this.draw()),
      vscode.commands.registerCommand('miton.edit.acceptHunk', (key?: string, id?: number) => this.accept(key, id)),
      vscode.commands.registerCommand('miton.edit.rejectHunk', (key?: string, id?: number) => this.reject(key, id)),
      vscode.commands.registerCommand('miton.edit.acceptAll', () => this.accept(undefined, 'all')),
      vscode.commands.registerCommand('miton.edit.rejectAll', () => this.reject(undefined, 'all')),
      vscode.commands.registerCommand('miton.edit.compare', (key?: string) => this.compare(key)),
    );
  }

  dispose(): void {
    this.subscriptions.dispose();
  }

  isReviewing(document: vscode.TextDocument): boolean {
    return this.open.has(document.uri.toString());
  }

  /** Put a proposal into its document. Resolves to false when VS Code did not take it (read-only, changed since). */
  async begin(document: vscode.TextDocument, proposal: Proposal): Promise<boolean> {
    const before = document.getText();
    const edit = new vscode.WorkspaceEdit();
    for (const part of proposal.edits) this.replace(edit, document, part);
    const review: Review = { document, before, hunks: [] };
    if (!(await vscode.workspace.applyEdit(edit))) return false;
    review.hunks = proposal.hunks;
    this.open.set(document.uri.toString(), review);
    this.draw();
    const [first] = proposal.hunks;
    const editor = vscode.window.visibleTextEditors.find((one) => one.document === document);
    if (first && editor) editor.revealRange(new vscode.Range(first.line, 0, first.line + first.added, 0), vscode.TextEditorRevealType.InCenterIfOutsideViewport);
    return true;
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const key = document.uri.toString();
    return (this.open.get(key)?.hunks ?? []).flatMap((hunk) => {
      const range = new vscode.Range(hunk.line, 0, hunk.line, 0);
      const lens = (title: string, command: string): vscode.CodeLens => new vscode.CodeLens(range, { title, command, arguments: [key, hunk.id] });
      return [
        lens('$(check) Accept', 'miton.edit.acceptHunk'),
        lens('$(discard) Reject', 'miton.edit.rejectHunk'),
        lens(`$(diff) -${hunk.removed.length} +${hunk.added}`, 'miton.edit.compare'),
      ];
    });
  }

  provideHover(document: vscode.TextDocument, position: vscode.Position): vscode.Hover | undefined {
    const review = this.open.get(document.uri.toString());
    const hunk = review?.hunks.find((one) => position.line >= lastUnchanged(one) && position.line < one.line + Math.max(1, one.added));
    if (!hunk || hunk.removed.length === 0) return undefined;
    return new vscode.Hover(new vscode.MarkdownString().appendCodeblock(asDiff(hunk, linesOf(document, hunk)), 'diff'));
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.open.get(decodeURIComponent(uri.query))?.before ?? '';
  }

  private async compare(key = this.activeKey()): Promise<void> {
    const review = this.open.get(key);
    if (!review) return;
    const before = vscode.Uri.from({ scheme: SCHEME, path: review.document.uri.path, query: encodeURIComponent(key) });
    await vscode.commands.executeCommand('vscode.diff', before, review.document.uri, `${review.document.uri.path.split('/').pop() ?? ''}: before and after`);
  }

  private accept(key = this.activeKey(), id: number | 'all' = this.hunkAtCursor(key)): void {
    const review = this.open.get(key);
    if (!review) return;
    review.hunks = id === 'all' ? [] : review.hunks.filter((hunk) => hunk.id !== id);
    this.settle(review);
  }

  private async reject(key = this.activeKey(), id: number | 'all' = this.hunkAtCursor(key)): Promise<void> {
    const review = this.open.get(key);
    if (!review) return;
    const rejected = review.hunks.filter((hunk) => id === 'all' || hunk.id === id);
    const edit = new vscode.WorkspaceEdit();
    for (const hunk of rejected) this.replace(edit, review.document, { line: hunk.line, count: hunk.added, lines: hunk.removed });
    // The rejected hunks are gone before the change comes back as an event, which moves those that stay.
    review.hunks = review.hunks.filter((hunk) => !rejected.includes(hunk));
    await vscode.workspace.applyEdit(edit);
    this.settle(review);
  }

  private replace(edit: vscode.WorkspaceEdit, document: vscode.TextDocument, part: { line: number; count: number; lines: readonly string[] }): void {
    const eol = document.eol === vscode.EndOfLine.CRLF ? '\r\n' : '\n';
    const { start, end, text } = replaceLines(part, document.lineCount, (line) => document.lineAt(line).text.length, eol);
    edit.replace(document.uri, new vscode.Range(...start, ...end), text);
  }

  /** Hunks move with the text; a document that is as it was before has nothing under review. */
  private follow(event: vscode.TextDocumentChangeEvent): void {
    const review = this.open.get(event.document.uri.toString());
    if (!review || event.contentChanges.length === 0) return;
    const changes = [...event.contentChanges].sort((a, b) => b.rangeOffset - a.rangeOffset); // last first: earlier ones stay valid
    for (const { range, text } of changes) {
      const change = { startLine: range.start.line, endLine: range.end.line, newLines: text.split('\n').length - 1 };
      review.hunks = review.hunks.map((hunk) => moved(hunk, change));
    }
    if (event.document.getText() === review.before) review.hunks = [];
    this.settle(review);
  }

  private settle(review: Review): void {
    if (review.hunks.length === 0) this.open.delete(review.document.uri.toString());
    this.draw();
  }

  private end(document: vscode.TextDocument): void {
    if (this.open.delete(document.uri.toString())) this.draw();
  }

  private draw(): void {
    for (const editor of vscode.window.visibleTextEditors) {
      const hunks = this.open.get(editor.document.uri.toString())?.hunks ?? [];
      editor.setDecorations(this.added, hunks.filter((hunk) => hunk.added > 0)
        .map((hunk) => new vscode.Range(hunk.line, 0, hunk.line + hunk.added - 1, 0)));
      editor.setDecorations(this.removed, hunks.flatMap((hunk) => removedText(editor.document, hunk)));
    }
    this.changed.fire();
    this.setContext();
  }

  private setContext(): void {
    void vscode.commands.executeCommand('setContext', 'miton.reviewing', this.open.has(this.activeKey()));
  }

  private activeKey(): string {
    return vscode.window.activeTextEditor?.document.uri.toString() ?? '';
  }

  private hunkAtCursor(key: string): number {
    const line = vscode.window.activeTextEditor?.selection.active.line ?? 0;
    const hunks = this.open.get(key)?.hunks ?? [];
    return (hunks.find((hunk) => line >= lastUnchanged(hunk) && line < hunk.line + hunk.added) ?? hunks[0])?.id ?? 0;
  }
}

/** What a hunk removed, struck out behind the lines that took its place; more than fits is in the hover. */
function removedText(document: vscode.TextDocument, hunk: Hunk): vscode.DecorationOptions[] {
  const places = hunk.added > 0 ? Array.from({ length: hunk.added }, (_, index) => hunk.line + index) : [lastUnchanged(hunk)];
  return hunk.removed.flatMap((text, index) => {
    const at = places[Math.min(index, places.length - 1)];
    if (at === undefined || at >= document.lineCount || index > places.length - 1 || text.trim() === '') return [];
    const isLast = index === places.length - 1;
    const more = isLast && hunk.removed.length > places.length ? `  (and ${hunk.removed.length - places.length} more)` : '';
    const end = document.lineAt(at).range.end;
    const short = text.trim().length > LONGEST_REMOVED ? `${text.trim().slice(0, LONGEST_REMOVED)}...` : text.trim();
    return [{ range: new vscode.Range(end, end), renderOptions: { after: { contentText: short + more } } }];
  });
}

function lastUnchanged(hunk: Hunk): number {
  return hunk.added > 0 ? hunk.line : Math.max(0, hunk.line - 1);
}

function linesOf(document: vscode.TextDocument, hunk: Hunk): string[] {
  return Array.from({ length: hunk.added }, (_, index) => hunk.line + index)
    .filter((line) => line < document.lineCount).map((line) => document.lineAt(line).text);
}
