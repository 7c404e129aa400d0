"""How often recall finds what a completion needs: calls in real packages whose definition is in another file.

A task takes one call `name(...)` out of a file, puts the cursor behind its parenthesis, and asks whether the chunk
that defines `name` is among those selected. `before_name` puts the cursor before the name instead, so that nothing
at the cursor tells the answer: a harder question, without a bar, that keeps weights from fitting the easy one.
Tasks of kind "method" do the same for what no import leads to: tasks of kind "function" alone, all of them imported
names, would reward recalling imports and nothing else.
"""

from __future__ import annotations

import ast
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeGuard

from miton_lsp.chunking import ChunkOptions
from miton_service.context.recall import Selection, select
from miton_service.context.window import Cursor
from miton_service.workspace.walk import walk
from miton_service.workspace.workspace import Workspace

MIN_LINE = 25  # calls above this line stand among the imports
MAX_CALL_LINES = 5
MIN_TARGET_CHARACTERS = 12
BUDGET_TOKENS = 8192

TaskKind = Literal["function", "method"]
Defining = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Task:
    """One call. `buffer` is the file without the call's arguments; `target` is what was taken out."""

    path: str
    buffer: str
    cursor: Cursor
    name: str
    target: str
    defining_path: str
    defining_lines: tuple[int, ...]  # zero-based: the definition's own line, and a class's `__init__`


@dataclass(frozen=True)
class RecallReport:
    """Shares are of tasks; `recall_ms` are medians over them."""

    package: str
    tasks: int
    chunks: int
    found: float  # the chunk with the definition's own line is among those selected
    found_signature: float  # ... with the arguments: a class's `__init__` where it has one
    recall_ms: float
    missed: tuple[Task, ...] = ()


def open_for_evaluation(root: Path, options: ChunkOptions | None = None) -> Workspace:
    """A workspace read from disk at once, without watching or memorising."""
    workspace = Workspace(root.resolve(), options or ChunkOptions())
    for found in walk(workspace.root):
        if found.reason is None:
            workspace.read(found.path)
    return workspace


def cross_file_tasks(
    workspace: Workspace, *, kind: TaskKind = "function", per_file: int = 3, seed: int = 0
) -> list[Task]:
    """Calls of what the same workspace defines in another file, at most `per_file` in a file.

    "function": `name(...)` of a function or class that the file imports from there. "method": `value.name(...)` of
    a method whose name is defined once in the workspace, so that it is certain what is meant; no import leads to it.
    """
    trees = dict(_parsed(workspace))
    functions = {
        (path, node.name): node for path, tree in trees.items() for node in tree.body if _defines(node)
    }
    methods = _methods_defined_once(trees)
    tasks: list[Task] = []
    generator = random.Random(seed)
    for path, tree in trees.items():
        meanings = methods if kind == "method" else _imported(path, tree, trees, functions)
        calls = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and (node.args or node.keywords) and node.lineno > MIN_LINE
            and (node.end_lineno or 0) - node.lineno < MAX_CALL_LINES
            and (name := _called(node, kind)) in meanings and meanings[name][0] != path
        ]  # fmt: skip
        generator.shuffle(calls)
        used: set[str] = set()
        for call in calls:
            name = _called(call, kind)
            if name in used or len(used) == per_file:
                continue
            task = _task(workspace.files[path].text, path, call, name, *meanings[name])
            if task is not None:
                used.add(name)
                tasks.append(task)
    return tasks


def select_for(
    workspace: Workspace, task: Task, *, before_name: bool = False, budget_tokens: int = BUDGET_TOKENS
) -> Selection:
    """What recall selects for a task."""
    cursor, buffer = task.cursor, task.buffer
    if before_name:
        lines = buffer.split("\n")
        line = lines[cursor.line]
        index = len(line.encode("utf-16-le")[: 2 * cursor.character].decode("utf-16-le"))
        lines[cursor.line] = line[: index - len(task.name) - 1] + line[index:]
        buffer = "\n".join(lines)
        cursor = Cursor(cursor.line, cursor.character - len(task.name.encode("utf-16-le")) // 2 - 1)
    return select(workspace, task.path, cursor, buffer, budget_tokens)


def evaluate_recall(
    root: Path,
    *,
    name: str = "",
    kind: TaskKind = "function",
    limit: int | None = None,
    before_name: bool = False,
    budget_tokens: int = BUDGET_TOKENS,
) -> RecallReport:
    """Run the tasks of the repository at `root`."""
    workspace = open_for_evaluation(root)
    tasks = cross_file_tasks(workspace, kind=kind)
    if limit is not None:
        random.Random(0).shuffle(tasks)
        tasks = tasks[:limit]
    chunks = sum(len(state.chunks) for state in workspace.files.values())
    outcomes = [_outcome(workspace, task, before_name, budget_tokens) for task in tasks]
    if not tasks:
        return RecallReport(name or root.name, 0, chunks, 0.0, 0.0, 0.0)
    return RecallReport(
        name or root.name,
        len(tasks),
        chunks,
        statistics.mean(found for found, _, _ in outcomes),
        statistics.mean(signature for _, signature, _ in outcomes),
        statistics.median(elapsed for _, _, elapsed in outcomes),
        tuple(task for task, (found, _, _) in zip(tasks, outcomes, strict=True) if not found),
    )


def total(reports: Sequence[RecallReport]) -> RecallReport:
    """All tasks of several reports as one; `recall_ms` is the median of their medians."""
    tasks = sum(report.tasks for report in reports) or 1
    return RecallReport(
        "all",
        sum(report.tasks for report in reports),
        sum(report.chunks for report in reports),
        sum(report.found * report.tasks for report in reports) / tasks,
        sum(report.found_signature * report.tasks for report in reports) / tasks,
        statistics.median(report.recall_ms for report in reports),
        tuple(task for report in reports for task in report.missed),
    )


def _outcome(workspace: Workspace, task: Task, before_name: bool, budget: int) -> tuple[bool, bool, float]:
    selection = select_for(workspace, task, before_name=before_name, budget_tokens=budget)
    workspace.selections.clear()
    workspace.recent.clear()
    workspace.drop_document(task.path)

    def holds(line: int) -> bool:
        return any(
            item.chunk.path == task.defining_path and item.chunk.start_line <= line <= item.chunk.end_line
            for item in selection.ranked
        )

    return holds(task.defining_lines[0]), holds(task.defining_lines[-1]), selection.recall_ms


def _parsed(workspace: Workspace) -> Iterator[tuple[str, ast.Module]]:
    for path, state in sorted(workspace.files.items()):
        if path.endswith(".py"):
            try:
                yield path, ast.parse(state.text)
            except (SyntaxError, ValueError):
                continue


def _defines(node: ast.AST) -> TypeGuard[Defining]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _called(call: ast.Call, kind: TaskKind) -> str:
    """The bare name of what is called; "" for a call of the other kind."""
    if kind == "method":
        return call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _imported(
    path: str, tree: ast.Module, files: dict[str, ast.Module], functions: dict[tuple[str, str], Defining]
) -> dict[str, tuple[str, Defining]]:
    return {
        alias.asname or alias.name: (target, functions[target, alias.name])
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        for target in _module_files(path, node, files)
        if (target, alias.name) in functions
    }


def _methods_defined_once(files: dict[str, ast.Module]) -> dict[str, tuple[str, Defining]]:
    found: dict[str, list[tuple[str, Defining]]] = {}
    for path, tree in files.items():
        for node in ast.walk(tree):
            if _defines(node):
                found.setdefault(node.name, []).append((path, node))
    in_classes = {
        id(node) for tree in files.values() for owner in ast.walk(tree) if isinstance(owner, ast.ClassDef)
        for node in owner.body
    }  # fmt: skip
    return {
        name: places[0]
        for name, places in found.items()
        if len(places) == 1 and id(places[0][1]) in in_classes and not name.startswith("__")
    }


def _module_files(path: str, node: ast.ImportFrom, files: dict[str, ast.Module]) -> list[str]:
    """The file that `node` imports from, if it is one of `files`: as Python resolves it, package or module."""
    module = (node.module or "").replace(".", "/")
    if node.level:
        base = "/".join(path.split("/")[: -node.level])
        module = "/".join(part for part in (base, module) if part)
    return [found for found in (f"{module}.py", f"{module}/__init__.py") if found in files]


def _task(
    text: str, path: str, call: ast.Call, name: str, defining_path: str, definition: Defining
) -> Task | None:
    lines = text.split("\n")
    if lines != text.splitlines() + [""] * text.endswith("\n"):
        return None  # form feeds and such: ast counts lines as Python does, editors do not
    line, last = (call.func.end_lineno or 1) - 1, (call.end_lineno or 1) - 1
    column = len(lines[line].encode()[: call.func.end_col_offset].decode())
    last_column = len(lines[last].encode()[: call.end_col_offset].decode())
    start = sum(len(above) + 1 for above in lines[:line]) + column + 1
    end = sum(len(above) + 1 for above in lines[:last]) + last_column
    if text[start - len(name) - 1 : start] != f"{name}(" or end - start < MIN_TARGET_CHARACTERS:
        return None
    init = next(
        (n for n in definition.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), definition
    )
    return Task(
        path,
        text[:start] + text[end:],
        Cursor(line, len(lines[line][: column + 1].encode("utf-16-le")) // 2),
        name,
        text[start:end],
        defining_path,
        (definition.lineno - 1, init.lineno - 1),
    )
