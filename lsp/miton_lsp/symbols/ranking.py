"""What a name used in a file may mean: definitions ranked by how directly the file reaches them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .model import Definition, Import
from .paths import parent

if TYPE_CHECKING:
    from .graph import SymbolGraph

IMPORTED: Final = 1.0
MEMBER_OF_IMPORTED: Final = 0.8
IMPORTED_FILE: Final = 0.7
SAME_FILE: Final = 0.75
SAME_PACKAGE: Final = 0.5
ONLY_ONE: Final = 0.45
ONE_OF_MANY: Final = 0.35


@dataclass(frozen=True)
class Candidate:
    """A definition that a name may mean; `score` in (0, 1] times the name's weight, `reason` for people."""

    path: str
    definition: Definition
    reason: str
    score: float


def rank(graph: SymbolGraph, path: str, names: Mapping[str, float]) -> list[Candidate]:
    """Candidates for all `names` (with weights), best first; each definition once, with its best reason."""
    imported_files = dict(graph.imports_of(path))
    uses = _uses(graph, path)
    imported_classes = _imported_classes(graph, path)
    best: dict[tuple[str, str, int], Candidate] = {}
    for name, weight in names.items():
        for target, definition, reason, score in _meanings(
            graph, path, name, imported_files, imported_classes
        ):
            key = (target, definition.symbol, definition.start_line)
            scored = score * weight
            if key not in best or best[key].score < scored:
                best[key] = Candidate(target, definition, uses.get(name, "") + reason, scored)
    return sorted(best.values(), key=lambda c: (-c.score, c.path, c.definition.start_line))


def _meanings(
    graph: SymbolGraph,
    path: str,
    name: str,
    imported_files: Mapping[str, Import],
    imported_classes: Mapping[tuple[str, str], Import],
) -> Iterator[tuple[str, Definition, str, float]]:
    for target, definition, item in graph.imported(path, name):
        yield target, definition, f"imported by this file: `{statement(item)}`", IMPORTED
    everywhere = graph.definitions_of(name)
    rarity = max(len(everywhere), 1) ** -0.25
    folder = parent(path)
    for target, definition in everywhere:
        owner = definition.symbol.rpartition(".")[0]
        if owner and (target, owner) in imported_classes:
            item = imported_classes[target, owner]
            reason = f"member of `{owner}`, imported by this file: `{statement(item)}`"
            yield target, definition, reason, MEMBER_OF_IMPORTED * rarity
        elif target in imported_files:
            reason = f"defined in a file this one imports: `{statement(imported_files[target])}`"
            yield target, definition, reason, IMPORTED_FILE * rarity
        elif target == path:
            yield target, definition, "defined in this file", SAME_FILE
        elif parent(target) == folder:
            yield target, definition, "defined in the same package", SAME_PACKAGE * rarity
        elif len(everywhere) == 1:
            yield target, definition, f"the only definition of `{name}`", ONLY_ONE
        else:
            reason = f"one of {len(everywhere)} definitions of `{name}`"
            yield target, definition, reason, ONE_OF_MANY * rarity


def _uses(graph: SymbolGraph, path: str) -> dict[str, str]:
    words: dict[str, str] = {}
    for reference in graph.symbols_of(path).references:
        if reference.kind == "base":
            words[reference.name] = "base class of a class here; "
        elif reference.kind == "call":
            words.setdefault(reference.name, "called here; ")
    return words


def _imported_classes(graph: SymbolGraph, path: str) -> dict[tuple[str, str], Import]:
    classes: dict[tuple[str, str], Import] = {}
    for item in graph.symbols_of(path).imports:
        if item.name and item.name != "*":
            for target, definition, _ in graph.imported(path, item.alias):
                if definition.kind == "class":
                    classes[target, definition.symbol] = item
    return classes


def statement(item: Import) -> str:
    """The import as one would write it, in Python's words."""
    if not item.name:
        return f"import {item.module}" + (f" as {item.alias}" if item.alias != item.module else "")
    if not item.module:
        return f"import {item.name}"
    alias = f" as {item.alias}" if item.alias not in (item.name, item.module) else ""
    return f"from {item.module} import {item.name}{alias}"
