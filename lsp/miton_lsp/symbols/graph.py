"""The symbol graph of a workspace: who defines, imports, calls and inherits what, kept up to date by file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .model import Definition, FileSymbols, Import
from .paths import PathIndex, parent
from .resolution import resolve_import

MAX_REEXPORTS = 8


@dataclass(frozen=True)
class Candidate:
    """A definition that a name may mean; `score` in (0, 1] times the name's weight, `reason` for people."""

    path: str
    definition: Definition
    reason: str
    score: float


class SymbolGraph:
    """Symbols of many files. Not locked: one writer, or the caller's lock."""

    def __init__(self) -> None:
        self.paths = PathIndex()
        self._files: dict[str, FileSymbols] = {}
        self._by_name: dict[str, dict[str, list[Definition]]] = {}
        self._users: dict[str, set[str]] = {}  # name -> files that refer to it

    def update(self, path: str, symbols: FileSymbols) -> None:
        """Add the file, or replace what was known of it."""
        self.remove(path)
        self._files[path] = symbols
        self.paths.add(path)
        for definition in symbols.definitions:
            self._by_name.setdefault(definition.name, {}).setdefault(path, []).append(definition)
        for name in {reference.name for reference in symbols.references}:
            self._users.setdefault(name, set()).add(path)

    def remove(self, path: str) -> None:
        """Forget the file; unknown paths are ignored."""
        symbols = self._files.pop(path, None)
        if symbols is None:
            return
        self.paths.remove(path)
        for name in {definition.name for definition in symbols.definitions}:
            files = self._by_name[name]
            del files[path]
            if not files:
                del self._by_name[name]
        for name in {reference.name for reference in symbols.references}:
            users = self._users[name]
            users.discard(path)
            if not users:
                del self._users[name]

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def symbols_of(self, path: str) -> FileSymbols:
        """What is known of the file; empty for an unknown one."""
        return self._files.get(path, FileSymbols())

    def definitions_of(self, name: str) -> list[tuple[str, Definition]]:
        """Every definition of the bare `name`, by path."""
        files = self._by_name.get(name, {})
        return [(path, definition) for path in sorted(files) for definition in files[path]]

    def resolve_import(self, path: str, item: Import) -> str | None:
        """The workspace file that `item` means, or None (standard library, third party, missing)."""
        found = resolve_import(self.paths, path, item)
        if not found:
            return None
        if item.name and item.name != "*":
            # A package's attribute hides its submodule of the same name.
            package = self._files[found[0]]
            known = any(d.name == item.name for d in package.definitions) or any(
                i.alias == item.name for i in package.imports
            )
            if not known and len(found) > 1:
                return found[1]
        return found[0]

    def imported(self, path: str, name: str) -> list[tuple[str, Definition, Import]]:
        """Definitions that `name`, imported by the file `path`, leads to, through re-exports."""
        results: list[tuple[str, Definition, Import]] = []
        for item in self.symbols_of(path).imports:
            if item.name == "*" or (item.alias == name and item.name):
                wanted = name if item.name == "*" else item.name
                results += [(found, d, item) for found, d in self._follow(path, item, wanted, MAX_REEXPORTS)]
        return results

    def _follow(self, path: str, item: Import, name: str, hops: int) -> list[tuple[str, Definition]]:
        target = self.resolve_import(path, item)
        if target is None or hops == 0:
            return []
        direct = [
            (target, definition)
            for definition in self._by_name.get(name, {}).get(target, ())
            if definition.symbol == name
        ]
        if direct:
            return direct
        for further in self._files[target].imports:
            if further.name == "*" or further.alias == name:
                wanted = name if further.name == "*" else further.name
                found = self._follow(target, further, wanted, hops - 1)
                if found:
                    return found
        return []

    def imports_of(self, path: str) -> list[tuple[str, Import]]:
        """Workspace files that the file imports, with the import, in the order they stand."""
        found: dict[str, Import] = {}
        for item in self.symbols_of(path).imports:
            target = self.resolve_import(path, item)
            if target is not None:
                found.setdefault(target, item)
        return list(found.items())

    def candidates(
        self, path: str, names: Mapping[str, float] | Iterable[str]
    ) -> list[tuple[str, Definition, str]]:
        """Definitions that `names`, used in the file `path`, may mean, best first, with the reason."""
        return [(c.path, c.definition, c.reason) for c in self.scored_candidates(path, names)]

    def scored_candidates(self, path: str, names: Mapping[str, float] | Iterable[str]) -> list[Candidate]:
        """As `candidates`, with scores. `names` may carry weights; without them each weighs 1."""
        weights = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names, 1.0)
        imported_files = dict(self.imports_of(path))
        best: dict[tuple[str, str, int], Candidate] = {}
        for name, weight in weights.items():
            for candidate in self._meanings(path, name, imported_files):
                key = (candidate.path, candidate.definition.symbol, candidate.definition.start_line)
                score = candidate.score * weight
                if key not in best or best[key].score < score:
                    best[key] = Candidate(candidate.path, candidate.definition, candidate.reason, score)
        return sorted(best.values(), key=lambda c: (-c.score, c.path, c.definition.start_line))

    def _meanings(self, path: str, name: str, imported_files: Mapping[str, Import]) -> list[Candidate]:
        use = self._use(path, name)
        found = [
            Candidate(target, definition, f"imported by this file: `{statement(item)}`", 1.0)
            for target, definition, item in self.imported(path, name)
        ]
        everywhere = self.definitions_of(name)
        for target, definition in everywhere:
            if target in imported_files:
                reason = f"{use}defined in a file this one imports: `{statement(imported_files[target])}`"
                score = 0.7
            elif target == path:
                reason, score = f"{use}defined in this file", 0.6
            elif parent(target) == parent(path):
                reason, score = f"{use}defined in the same package", 0.5 / len(everywhere) ** 0.5
            elif len(everywhere) == 1:
                reason, score = f"{use}the only definition of `{name}`", 0.45
            else:
                reason = f"{use}one of {len(everywhere)} definitions of `{name}`"
                score = 0.35 / len(everywhere) ** 0.5
            found.append(Candidate(target, definition, reason, score))
        return found

    def _use(self, path: str, name: str) -> str:
        kinds = {r.kind for r in self.symbols_of(path).references if r.name == name}
        if "base" in kinds:
            return "base class of a class here; "
        if "call" in kinds:
            return "called here; "
        return ""


def statement(item: Import) -> str:
    """The import as one would write it, in Python's words."""
    if not item.name:
        return f"import {item.module}" + (f" as {item.alias}" if item.alias != item.module else "")
    alias = f" as {item.alias}" if item.alias != item.name else ""
    return f"from {item.module} import {item.name}{alias}"
