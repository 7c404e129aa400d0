"""The symbol graph of a workspace: who defines, imports, calls and inherits what, kept up to date by file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .model import Definition, FileSymbols, Import
from .paths import PathIndex
from .ranking import Candidate, rank
from .resolution import CONFIGS, resolve_import

MAX_REEXPORTS = 8


class SymbolGraph:
    """Symbols of many files. Not locked: one writer, or the caller's lock."""

    def __init__(self) -> None:
        self.paths = PathIndex()
        self._files: dict[str, FileSymbols] = {}
        self._by_name: dict[str, dict[str, list[Definition]]] = {}
        self._users: dict[str, set[str]] = {}  # name -> files that refer to it
        self._resolved: dict[tuple[str, Import], list[str]] = {}

    def update(self, path: str, symbols: FileSymbols) -> None:
        """Add the file, or replace what was known of it."""
        known = path in self._files
        self._forget(path)
        self._files[path] = symbols
        if not known:
            self.paths.add(path)
            self._resolved.clear()
        for definition in symbols.definitions:
            self._by_name.setdefault(definition.name, {}).setdefault(path, []).append(definition)
        for name in {reference.name for reference in symbols.references}:
            self._users.setdefault(name, set()).add(path)

    def remove(self, path: str) -> None:
        """Forget the file; unknown paths are ignored."""
        if path in self._files:
            self._forget(path)
            self.paths.remove(path)
            self._resolved.clear()

    def configure(self, path: str, text: str) -> bool:
        """Take what a project file says of imports (tsconfig.json, jsconfig.json, go.mod); False for others."""
        read: Callable[[PathIndex, str, str], None] | None = CONFIGS.get(path.rpartition("/")[2])
        if read is None:
            return False
        read(self.paths, path, text)
        self._resolved.clear()
        return True

    def _forget(self, path: str) -> None:
        symbols = self._files.pop(path, None)
        if symbols is None:
            return
        for name in {definition.name for definition in symbols.definitions}:
            _drop(self._by_name, name, path)
        for name in {reference.name for reference in symbols.references}:
            self._users[name].discard(path)
            if not self._users[name]:
                del self._users[name]

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def __len__(self) -> int:
        return len(self._files)

    def symbols_of(self, path: str) -> FileSymbols:
        """What is known of the file; empty for an unknown one."""
        return self._files.get(path, FileSymbols())

    def definitions_of(self, name: str) -> list[tuple[str, Definition]]:
        """Every definition of the bare `name`, by path."""
        files = self._by_name.get(name, {})
        return [(path, definition) for path in sorted(files) for definition in files[path]]

    def users_of(self, name: str) -> list[str]:
        """Files that refer to the bare `name`, sorted."""
        return sorted(self._users.get(name, ()))

    # imports

    def import_targets(self, path: str, item: Import) -> list[str]:
        """Workspace files an import may mean: several for a package that is a folder (Go, Java's `.*`)."""
        key = (path, item)
        found = self._resolved.get(key)
        if found is None:
            found = [file for file in resolve_import(self.paths, path, item) if file in self._files]
            self._resolved[key] = found
        return found

    def resolve_import(self, path: str, item: Import) -> str | None:
        """The workspace file that `item` means, or None (standard library, third party, missing)."""
        found = self.import_targets(path, item)
        if len(found) > 1 and item.name not in ("", "*"):
            # An attribute of a package hides its submodule of the same name.
            return next((file for file in found if self._has(file, item.name)), found[-1])
        return found[0] if found else None

    def _has(self, path: str, name: str) -> bool:
        if path in self._by_name.get(name, ()):
            return True
        return any(item.alias == name for item in self._files[path].imports)

    def imports_of(self, path: str) -> list[tuple[str, Import]]:
        """Workspace files that the file imports, with the import, in the order they stand."""
        found: dict[str, Import] = {}
        for item in self.symbols_of(path).imports:
            target = self.resolve_import(path, item)
            targets = self.import_targets(path, item) if item.name in ("", "*") else [target]
            for file in targets:
                if file is not None:
                    found.setdefault(file, item)
        return list(found.items())

    def imported(self, path: str, name: str) -> list[tuple[str, Definition, Import]]:
        """Definitions that `name`, imported by the file `path`, leads to, through re-exports."""
        results: list[tuple[str, Definition, Import]] = []
        for item in self.symbols_of(path).imports:
            wanted = _wanted(item, name)
            if wanted:
                seen = {path}
                results += [
                    (file, found, item)
                    for file, found in self._follow(path, item, wanted, MAX_REEXPORTS, seen)
                ]
        return results

    def _follow(
        self, path: str, item: Import, name: str, hops: int, seen: set[str]
    ) -> list[tuple[str, Definition]]:
        target = self.resolve_import(path, item)
        targets = self.import_targets(path, item) if item.name == "*" else [target]
        for file in targets:
            if file is None:
                continue
            direct = [
                (file, definition)
                for definition in self._by_name.get(name, {}).get(file, ())
                if "." not in definition.symbol or definition.kind != "method"
            ]
            if direct:
                return direct
            if hops == 0 or file in seen:
                continue
            seen.add(file)
            for further in self._files[file].imports:
                wanted = _wanted(further, name)
                found = self._follow(file, further, wanted, hops - 1, seen) if wanted else []
                if found:
                    return found
        return []

    # neighbours

    def callees(self, path: str, definition: Definition) -> list[tuple[str, Definition]]:
        """What the definition calls, where the call's name leads to one best definition each."""
        names = {
            reference.name
            for reference in self.symbols_of(path).references
            if reference.kind == "call"
            and definition.start_line <= reference.start_line <= definition.end_line
        }
        found = [rank(self, path, {name: 1.0}) for name in sorted(names)]
        return [(ranked[0].path, ranked[0].definition) for ranked in found if ranked]

    def callers(self, name: str) -> list[tuple[str, Definition]]:
        """Innermost functions around calls of the bare `name`."""
        result: dict[tuple[str, Definition], None] = {}
        for path in self.users_of(name):
            symbols = self._files[path]
            for reference in symbols.references:
                if reference.name == name and reference.kind == "call":
                    around = _innermost(symbols, reference.start_line, ("function", "method"))
                    if around is not None:
                        result[path, around] = None
        return list(result)

    def bases(self, path: str, definition: Definition) -> list[tuple[str, Definition]]:
        """Classes that the class inherits from, as far as they are in the workspace."""
        symbols = self.symbols_of(path)
        result = []
        for reference in symbols.references:
            if (
                reference.kind == "base"
                and _innermost(symbols, reference.start_line, ("class",)) == definition
            ):
                ranked = [c for c in rank(self, path, {reference.name: 1.0}) if c.definition.kind == "class"]
                result += [(c.path, c.definition) for c in ranked[:1]]
        return result

    def subclasses(self, name: str) -> list[tuple[str, Definition]]:
        """Classes that name `name` among their bases."""
        result: dict[tuple[str, Definition], None] = {}
        for path in self.users_of(name):
            symbols = self._files[path]
            for reference in symbols.references:
                if reference.name == name and reference.kind == "base":
                    around = _innermost(symbols, reference.start_line, ("class",))
                    if around is not None:
                        result[path, around] = None
        return list(result)

    # meanings of names

    def candidates(
        self, path: str, names: Mapping[str, float] | Iterable[str]
    ) -> list[tuple[str, Definition, str]]:
        """Definitions that `names`, used in the file `path`, may mean, best first, with the reason."""
        return [(c.path, c.definition, c.reason) for c in self.scored_candidates(path, names)]

    def scored_candidates(self, path: str, names: Mapping[str, float] | Iterable[str]) -> list[Candidate]:
        """As `candidates`, with scores. `names` may carry weights; without them each weighs 1."""
        return rank(self, path, dict(names) if isinstance(names, Mapping) else dict.fromkeys(names, 1.0))


def _wanted(item: Import, name: str) -> str:
    """The name to look for in the imported file if the import brings `name` into sight, else ""."""
    if item.name == "*":
        return name
    if item.alias != name or not item.name:
        return ""
    return name if item.name == "default" else item.name


def _innermost(symbols: FileSymbols, line: int, kinds: tuple[str, ...]) -> Definition | None:
    around = [d for d in symbols.definitions if d.kind in kinds and d.start_line <= line <= d.end_line]
    return min(around, key=lambda d: d.end_line - d.start_line, default=None)


def _drop(table: dict[str, dict[str, list[Definition]]], name: str, path: str) -> None:
    files = table[name]
    del files[path]
    if not files:
        del table[name]
