"""Python's import rules on workspace paths: packages, src layouts, relative imports, stubs."""

from __future__ import annotations

from .model import Import
from .paths import PathIndex, join, parent

_SUFFIXES = ("/__init__.py", ".py", "/__init__.pyi", ".pyi")


def resolve(index: PathIndex, path: str, item: Import) -> list[str]:
    """Files that `item`, in the file `path`, may mean; the submodule of a package comes after the package."""
    dots = len(item.module) - len(item.module.lstrip("."))
    parts = [part for part in item.module[dots:].split(".") if part]
    if dots:
        base = parent(path)
        for _ in range(dots - 1):
            base = parent(base)
        roots = [join(base, *parts)]
    else:
        roots = _absolute(index, path, parts)
    found: list[str] = []
    for root in roots:
        modules = _module(index, root)
        if item.name and item.name != "*":
            modules += _module(index, join(root, item.name))
        found += [module for module in modules if module not in found]
        if found:
            break
    return found


def _module(index: PathIndex, root: str) -> list[str]:
    return [root + suffix for suffix in _SUFFIXES if root + suffix in index]


def _absolute(index: PathIndex, path: str, parts: list[str]) -> list[str]:
    """Places the dotted name may stand at: the folders above the importing file first, then anywhere."""
    if not parts:
        return []
    tail = "/".join(parts)
    roots = []
    above = parent(path)
    while True:
        roots.append(join(above, tail))
        if not above:
            break
        above = parent(above)
    # sys.path has the workspace's root before the file's own folder, except for scripts.
    roots = roots[::-1]
    ends = [f"{tail}{suffix}" for suffix in _SUFFIXES]
    anywhere = [
        found[: -len(end) + len(tail)] for end in ends for found in index.ending_with(end) if found != end
    ]
    packages = [
        root
        for root in anywhere
        if f"{parent(root[: -len(tail)].rstrip('/') + '/x')}/__init__.py" not in index
    ]
    return roots + sorted(packages, key=lambda root: (root.count("/"), root))
