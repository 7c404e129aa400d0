"""JavaScript's and TypeScript's import rules on workspace paths: relative, index files, path aliases."""

from __future__ import annotations

import json
import re
from typing import Final

from .model import Import
from .paths import PathIndex, join, parent

_EXTENSIONS: Final = (
    ".ts",
    ".tsx",
    ".d.ts",
    ".js",
    ".jsx",
    ".mts",
    ".mjs",
    ".cts",
    ".cjs",
    ".vue",
    ".svelte",
    ".json",
)
_COMPILED: Final = re.compile(r"\.([mc]?)jsx?$")
_SOURCE_FOLDERS: Final = ("src", "app", "lib", "")


def resolve(index: PathIndex, path: str, item: Import) -> list[str]:
    """The file that `item.module` names: relative, by a tsconfig's paths, by `@/`, or a workspace package."""
    module = item.module.partition("?")[0]
    if module.startswith("."):
        return _file(index, join(parent(path), module))
    for folder, pattern, targets in index.aliases:
        if not path.startswith(folder):
            continue
        star = _match(pattern, module)
        if star is not None:
            for target in targets:
                found = _file(index, join(folder, target.replace("*", star)))
                if found:
                    return found
    if module[:2] in ("@/", "~/"):
        return _below_roots(index, path, module[2:])
    if module.startswith("/"):
        return _file(index, module.lstrip("/"))
    return _package(index, module)


def read_config(index: PathIndex, path: str, text: str) -> None:
    """Take `baseUrl` and `paths` of a tsconfig.json or jsconfig.json (comments and last commas allowed)."""
    plain = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda m: m[1] or "", text, flags=re.DOTALL)
    try:
        options = json.loads(re.sub(r",(\s*[}\]])", r"\1", plain)).get("compilerOptions", {})
        base = join(parent(path), str(options.get("baseUrl", ".")))
        paths = dict(options.get("paths", {}))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return
    index.aliases = [alias for alias in index.aliases if alias[0] != base]
    for pattern, targets in paths.items():
        if isinstance(targets, list):
            index.aliases.append((base, str(pattern), [str(target) for target in targets]))


def _match(pattern: str, module: str) -> str | None:
    before, star, after = pattern.partition("*")
    if not star:
        return "" if module == pattern else None
    if module.startswith(before) and module.endswith(after) and len(module) >= len(before) + len(after):
        return module[len(before) : len(module) - len(after)]
    return None


def _file(index: PathIndex, base: str) -> list[str]:
    found = [base] if base in index else []
    source = _COMPILED.search(base)
    stems = [base, base[: source.start()]] if source else [base]
    for stem in stems:
        found += [stem + end for end in _EXTENSIONS if stem + end in index]
    found += [join(base, "index" + end) for end in _EXTENSIONS if join(base, "index" + end) in index]
    return found[:1]


def _below_roots(index: PathIndex, path: str, module: str) -> list[str]:
    """`@/x` by custom: below the nearest source folder."""
    above = parent(path)
    while True:
        for folder in _SOURCE_FOLDERS:
            found = _file(index, join(above, folder, module))
            if found:
                return found
        if not above:
            return []
        above = parent(above)


def _package(index: PathIndex, module: str) -> list[str]:
    """A package of the same workspace, by the name of its folder: `@scope/name` is packages/name."""
    parts = module.split("/")
    name, rest = (parts[1], parts[2:]) if module.startswith("@") and len(parts) > 1 else (parts[0], parts[1:])
    for manifest in index.ending_with(f"{name}/package.json"):
        folder = parent(manifest)
        for inside in ("src", ""):
            found = _file(index, join(folder, inside, *(rest or ["index"])))
            if found:
                return found
    return []
