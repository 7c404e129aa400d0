"""Import rules of languages whose imports follow folders: Go, Rust, Java and its kin, C, Ruby, Lua."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from .model import Import
from .paths import PathIndex, join, parent

_GO_MODULE: Final = re.compile(r"^module\s+(\S+)", re.MULTILINE)


def resolve_go(index: PathIndex, path: str, item: Import) -> list[str]:
    """All files of the package folder: by go.mod where one was read, else by at least two last components."""
    folders: list[str] = []
    for folder, module in index.go_modules.items():
        if item.module == module or item.module.startswith(module + "/"):
            folders.append(join(folder, item.module[len(module) :].lstrip("/")))
    if not index.go_modules:
        parts = item.module.split("/")
        # The last two components at least, or a folder called `context` would pass for the standard library's.
        tails = ["/".join(parts[first:]) for first in range(1, len(parts) - 1)] if "." in parts[0] else []
        folders = next((found for tail in tails if (found := index.folders_ending_with(tail))), [])
    return [
        file
        for folder in folders[:1]
        for file in index.in_folder(folder)
        if file.endswith(".go") and not file.endswith("_test.go")
    ]


def read_go_mod(index: PathIndex, path: str, text: str) -> None:
    """Take the module path of a go.mod."""
    found = _GO_MODULE.search(text)
    if found:
        index.go_modules[parent(path)] = found[1].strip('"')


def resolve_rust(index: PathIndex, path: str, item: Import) -> list[str]:
    """The module file that `item` names or is in; crates of the workspace by the name of their folder."""
    parts = [part for part in item.module.split("::") if part]
    if item.name and item.name != "*":
        parts.append(item.name)
    own = _rust_module_folder(path)
    root = _rust_root(index, path)
    first, rest = (parts[0], parts[1:]) if parts else ("", [])
    if first == "crate":
        bases = [root]
    elif first == "self":
        bases = [own]
    elif first == "super":
        bases = [parent(own)]
        while rest and rest[0] == "super":
            bases, rest = [parent(bases[0])], rest[1:]
    else:
        crates = [parent(lib) for lib in index.ending_with("src/lib.rs")]
        named = [src for src in crates if parent(src).rpartition("/")[2].replace("-", "_") == first]
        bases = named or ([own, root] if rest else [])
        rest = rest if named else parts
    for base in bases:
        for length in range(len(rest), 0, -1):
            module = join(base, *rest[:length])
            for file in (module + ".rs", join(module, "mod.rs")):
                if file in index:
                    return [file]
        if first in ("crate", "super", "self") or base not in (own, root):
            for file in (join(base, "lib.rs"), join(base, "main.rs"), join(base, "mod.rs"), base + ".rs"):
                if file in index:
                    return [file]
    return []


def _rust_module_folder(path: str) -> str:
    """Folder of a file's child modules."""
    name = path.rpartition("/")[2]
    return parent(path) if name in ("mod.rs", "lib.rs", "main.rs") else path.removesuffix(".rs")


def _rust_root(index: PathIndex, path: str) -> str:
    above = parent(path)
    while True:
        if join(above, "lib.rs") in index or join(above, "main.rs") in index or not above:
            return above
        above = parent(above)


def resolve_dotted(*extensions: str) -> Callable[[PathIndex, str, Import], list[str]]:
    """Resolver for `package.Class` imports: the file of the class, a class that has the member, or the folder."""

    def resolve(index: PathIndex, path: str, item: Import) -> list[str]:
        tail = item.module.replace(".", "/")
        if item.name == "*":
            files = [
                file for folder in index.folders_ending_with(tail)[:1] for file in index.in_folder(folder)
            ]
            return [file for file in files if file.endswith(extensions)] or _ending(index, [tail], extensions)
        found = _ending(index, [f"{tail}/{item.name}" if tail else item.name, tail], extensions)
        if found:
            return found
        # The folders may start below the package's first parts (PSR-4, Kotlin's advice).
        parts = tail.split("/")
        shorter = ["/".join([*parts[first:], item.name]) for first in range(1, len(parts))]
        return _ending(index, shorter, extensions)

    return resolve


def _ending(index: PathIndex, tails: list[str], extensions: tuple[str, ...]) -> list[str]:
    for tail in tails:
        for extension in extensions:
            found = index.ending_with(tail + extension) if tail else []
            if found:
                return found[:1]
    return []


def resolve_relative(*endings: str) -> Callable[[PathIndex, str, Import], list[str]]:
    """Resolver for imports of files: beside the importing file, else the nearest of that name."""

    def resolve(index: PathIndex, path: str, item: Import) -> list[str]:
        module = item.module.replace(".", "/") if "/init.lua" in endings else item.module
        names = [module + ending for ending in endings]
        beside = [file for name in names if (file := join(parent(path), name)) in index]
        if beside or module.startswith("."):
            return beside[:1]
        anywhere = [file for name in names for file in index.ending_with(join(name))]
        return sorted(anywhere, key=lambda file: -_shared(file, path))[:1]

    return resolve


def _shared(one: str, other: str) -> int:
    """Leading components that two paths have in common."""
    pairs = zip(one.split("/"), other.split("/"), strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), 0)
