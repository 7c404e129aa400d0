// A commit message for what is staged (or, when nothing is, for all changes), written into the Source Control view.

import * as vscode from 'vscode';
import { commitMessages, shortened, subjectOf } from './edit/prompts';
import type { Generator } from './generation';

const ROOM = 12_000; // characters of diff, about 4,000 tokens

/** The part of the built-in Git extension's interface (version 1) that is used here. */
interface GitExtension {
  getAPI(version: 1): { readonly repositories: readonly Repository[] };
}

interface Repository {
  readonly rootUri: vscode.Uri;
  readonly inputBox: { value: string };
  diff(staged: boolean): Promise<string>;
}

export async function writeCommitMessage(generator: Generator, from?: { readonly rootUri?: vscode.Uri }): Promise<void> {
  const repository = await choose(from?.rootUri);
  if (!repository) return;
  const staged = await repository.diff(true);
  const diff = staged.trim() === '' ? await repository.diff(false) : staged;
  if (diff.trim() === '') {
    void vscode.window.showInformationMessage('Miton: there are no changes to describe. New files count once they are staged.');
    return;
  }
  const before = repository.inputBox.value;
  const written = await generator.run({
    title: 'writing a commit message', messages: commitMessages(shortened(diff, ROOM)),
    onText: (text) => (repository.inputBox.value = subjectOf(text)),
    isEnough: (text) => /\S[^\n]*\n/.test(text) && subjectOf(text) !== '',
  });
  repository.inputBox.value = written === undefined ? before : subjectOf(written.text) || before;
}

async function choose(root: vscode.Uri | undefined): Promise<Repository | undefined> {
  const extension = vscode.extensions.getExtension<GitExtension>('vscode.git');
  const repositories = extension ? (await extension.activate()).getAPI(1).repositories : [];
  const named = root && repositories.find((repository) => repository.rootUri.toString() === root.toString());
  if (named ?? repositories.length <= 1) {
    if (repositories.length === 0) void vscode.window.showInformationMessage('Miton: no git repository is open.');
    return named ?? repositories[0];
  }
  const picked = await vscode.window.showQuickPick(
    repositories.map((repository) => ({ label: vscode.workspace.asRelativePath(repository.rootUri), repository })), { title: 'Miton: commit message for' },
  );
  return picked?.repository;
}
