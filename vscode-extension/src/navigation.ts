// Opens the exact lines of a chunk.

import * as vscode from 'vscode';
import type { ContextItem } from './protocol';
import { uriOf } from './repository';

export async function openChunk(root: string, item: Pick<ContextItem, 'path' | 'start_line' | 'end_line'>, preserveFocus = false): Promise<void> {
  try {
    const document = await vscode.workspace.openTextDocument(uriOf({ root, path: item.path }));
    const last = Math.min(item.end_line, document.lineCount - 1);
    const range = new vscode.Range(Math.min(item.start_line, last), 0, last, document.lineAt(last).text.length);
    const editor = await vscode.window.showTextDocument(document, { selection: range, preserveFocus, preview: true });
    editor.revealRange(range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  } catch {
    void vscode.window.showWarningMessage(`Miton: ${item.path} is no longer there.`);
  }
}
