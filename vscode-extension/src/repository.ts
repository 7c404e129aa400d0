// Where a document lies: the folder of the workspace that holds it, and its path inside, as the service names them.

import * as fs from 'node:fs';
import * as path from 'node:path';
import * as vscode from 'vscode';

export interface Location {
  readonly root: string; // absolute, links resolved
  readonly path: string; // relative, with forward slashes
}

const resolved = new Map<string, string>();

/** Roots of the folders on disk, as the service names them; none while the workspace is not trusted. */
export function roots(): string[] {
  if (!vscode.workspace.isTrusted) return [];
  return (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === 'file').map(rootOf);
}

/** Where a file is; undefined for what is not a file of the trusted workspace on disk. */
export function locate(uri: vscode.Uri): Location | undefined {
  if (uri.scheme !== 'file' || !vscode.workspace.isTrusted) return undefined;
  const folder = vscode.workspace.getWorkspaceFolder(uri);
  if (!folder) return undefined;
  const relative = path.relative(folder.uri.fsPath, uri.fsPath).split(path.sep).join('/');
  return relative === '' || relative.startsWith('..') ? undefined : { root: rootOf(folder), path: relative };
}

/** The file that the service names by root and path, under the folder as the workspace names it. */
export function uriOf(location: Location): vscode.Uri {
  const folder = (vscode.workspace.workspaceFolders ?? []).find((candidate) => rootOf(candidate) === location.root);
  return folder ? vscode.Uri.joinPath(folder.uri, location.path) : vscode.Uri.file(path.join(location.root, location.path));
}

/** The root a question is about: the active file's, else the first. */
export function activeRoot(): string | undefined {
  const active = vscode.window.activeTextEditor?.document.uri;
  return (active && locate(active)?.root) ?? roots()[0];
}

function rootOf(folder: vscode.WorkspaceFolder): string {
  const given = folder.uri.fsPath;
  let real = resolved.get(given);
  if (real === undefined) {
    try {
      real = fs.realpathSync(given);
    } catch {
      real = given; // the folder is gone; the service will say so
    }
    resolved.set(given, real);
  }
  return real;
}
