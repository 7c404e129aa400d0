"""The defining file of called names, against jedi on real packages: what jedi's inference finds, names find too."""

from __future__ import annotations

import ast
import importlib.util
import random
from pathlib import Path

import jedi
import pytest

from miton_lsp.symbols import SymbolGraph, file_symbols

CALLS_PER_PACKAGE = 40


def package_texts(package: str) -> tuple[Path, dict[str, str]]:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    return root, {
        path.relative_to(root.parent).as_posix(): path.read_text("utf-8")
        for path in sorted(root.rglob("*.py"))
    }


def calls_of(path: str, text: str) -> list[tuple[str, str, int, int]]:
    """(path, name, line, column in characters) of each call by name or attribute; lines from 1."""
    calls = []
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name):
            line, column, name = function.lineno, function.col_offset, function.id
        elif isinstance(function, ast.Attribute) and function.end_col_offset is not None:
            name = function.attr
            line, column = (
                function.end_lineno or function.lineno,
                function.end_col_offset - len(name.encode()),
            )
        else:
            continue
        calls.append((path, name, line, len(lines[line - 1].encode()[:column].decode())))
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("package", ["httpx", "rich", "click", "flask"])
def test_the_defining_file_that_jedi_finds_is_among_the_candidates(package: str) -> None:
    root, texts = package_texts(package)
    graph = SymbolGraph()
    for path, text in texts.items():
        graph.update(path, file_symbols(text, path))
    calls = [call for path, text in texts.items() for call in calls_of(path, text)]
    random.Random(1).shuffle(calls)
    project = jedi.Project(str(root.parent))
    asked = found = first = 0
    for path, name, line, column in calls:
        if asked == CALLS_PER_PACKAGE:
            break
        script = jedi.Script(texts[path], path=str(root.parent / path), project=project)
        wanted = {
            Path(name.module_path).relative_to(root.parent).as_posix()
            for name in script.goto(line, column, follow_imports=True)
            if name.type in ("function", "class")
            and name.module_path
            and root in Path(name.module_path).parents
        }
        if not wanted:
            continue
        asked += 1
        ranked = [candidate for candidate, _, _ in graph.candidates(path, [name])]
        found += bool(wanted & set(ranked))
        first += bool(ranked) and ranked[0] in wanted
    assert asked == CALLS_PER_PACKAGE
    assert found / asked >= 0.95, f"{found} of {asked}"
    assert first / asked >= 0.85, f"{first} of {asked}"
