"""From the captures of an import to `Import`s: quoted paths, dotted names, Rust's use trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tree_sitter import Node

from ..chunking.naming import node_text
from .model import Import

WHOLE_FILE: Final = frozenset({"c", "cpp", "ruby", "lua"})
"""Languages whose import brings every name of the file into sight."""

LOADERS: Final = frozenset({"require", "require_relative", "load"})
"""Functions whose call is an import. Compared here: query predicates would read the text from the tree."""

_LAST_PART: Final = frozenset({"go"})
"""Languages whose import is known by the last part of its path."""


def read_imports(source: bytes, captures: Mapping[str, list[Node]], language: str) -> Iterator[Import]:
    """The imports that one match stands for; `captures` has `import` or `import.default`."""
    function = captures.get("import.function")
    if function is not None and node_text(source, function[0]) not in LOADERS:
        return
    statement = captures.get("import") or captures["import.default"]
    line = statement[0].start_point[0]
    for label, read in _READERS.items():
        if label in captures:
            star = "import.star" in captures
            for module, name, alias in read(node_text(source, captures[label][0]), star):
                yield Import(module, name, alias, line)
            return

    def part(label: str) -> str:
        nodes = captures.get(label)
        return node_text(source, nodes[0]).strip("\"'`<>") if nodes else ""

    module, name, alias = part("import.module"), part("import.name"), part("import.alias")
    if "import.default" in captures:
        name = "default"
    elif language in WHOLE_FILE and not name:
        name = "*"
    if not alias:
        alias = name or (module.rpartition("/")[2] if language in _LAST_PART else module)
    yield Import(module, name, alias, line)


def _dotted(text: str, star: bool) -> Iterator[tuple[str, str, str]]:
    """`a.b.C` or `A\\B\\C`: C of a.b."""
    text = "".join(text.split()).replace("\\", ".").lstrip(".")
    module, _, name = (text, "", "*") if star else text.rpartition(".")
    yield module, name, name


def _submodule(text: str, _star: bool) -> Iterator[tuple[str, str, str]]:
    yield "self", text, text


def _use_tree(text: str, _star: bool) -> Iterator[tuple[str, str, str]]:
    """Leaves of a Rust use tree: `a::{b, c as d, e::*, self}`."""
    yield from _use_leaves("", " ".join(text.split()), 0)


def _use_leaves(prefix: str, tree: str, depth: int) -> Iterator[tuple[str, str, str]]:
    tree = tree.strip()
    open_brace = tree.find("{")
    if open_brace >= 0 and depth < 32:
        inner = tree[open_brace + 1 : tree.rfind("}") if tree.endswith("}") else len(tree)]
        base = prefix + tree[:open_brace].replace(" ", "")
        for item in _top_level_items(inner):
            yield from _use_leaves(base, item, depth + 1)
        return
    path, _, alias = tree.partition(" as ")
    full = (prefix + path).replace(" ", "")
    if full.endswith("::self"):
        full = full[: -len("::self")]
    module, _, name = full.rpartition("::")
    if name:
        yield module, name, alias.strip() or name


def _top_level_items(text: str) -> Iterator[str]:
    depth = start = 0
    for position, letter in enumerate(text):
        if letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
        elif letter == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


_READERS: Final[Mapping[str, Callable[[str, bool], Iterator[tuple[str, str, str]]]]] = {
    "import.dotted": _dotted,
    "import.tree": _use_tree,
    "import.submodule": _submodule,
}
