"""Scripts and styles inside markup: their own outline, moved to where they stand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from tree_sitter import Node

from .grammars import parse
from .naming import node_text
from .outline import Outline
from .syntax_tables import SYNTAX
from .unit import Unit, line_start

_LANGUAGE: Final = re.compile(r"""\b(?:lang|type)\s*=\s*["']?(?:text/|application/)?([\w+-]+)""")
_NAMES: Final[Mapping[str, str]] = {
    "ts": "typescript",
    "jsx": "javascript",
    "js": "javascript",
    "module": "javascript",
    "babel": "javascript",
    "ld+json": "json",
    "importmap": "json",
    "less": "scss",
}


def embedded_units(
    source: bytes, languages: Mapping[str, str], maximum: int, count: Callable[[int, int], int]
) -> Callable[[Node, int, int], list[Unit]]:
    """Reader of embedded code for `Outline`; `languages` gives the default language by node type."""

    def read(node: Node, _start: int, _end: int) -> list[Unit]:
        raw = next((child for child in node.named_children if child.type == "raw_text"), None)
        if raw is None:
            return []
        found = _LANGUAGE.search(node_text(source, node.named_children[0]))
        name = _NAMES.get(found[1].lower(), found[1].lower()) if found else languages[node.type]
        syntax = SYNTAX.get(name)
        offset = raw.start_byte
        first_line = source.find(b"\n", offset, raw.end_byte) + 1
        if first_line and not source[offset:first_line].strip():
            offset = first_line
        inner = source[offset : raw.end_byte]
        tree = parse(inner, syntax.grammar) if syntax is not None and inner.strip() else None
        if syntax is None or tree is None:
            return []
        outline = Outline(inner, syntax, maximum, lambda a, b: count(a + offset, b + offset), read)
        units = outline.read(tree.root_node)
        for unit in units:
            unit.start = line_start(source, unit.start + offset)
        return units

    return read
