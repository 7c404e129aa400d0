"""FileSymbols of a text, by its language's tree-sitter query."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tree_sitter import Node, Query, QueryCursor, Tree

from ..chunking import language_of
from ..chunking.grammars import language as compiled
from ..chunking.grammars import parse
from ..chunking.naming import node_text
from ..chunking.syntax_tables import SYNTAX
from .import_reading import read_imports
from .model import Definition, FileSymbols, Import, Reference
from .queries import QUERY_FILES, query_text

_STRENGTH: Final = {"base": 0, "call": 1, "type": 2, "attribute": 3, "name": 4}
_BODY_HOLDERS: Final = frozenset({"function_definition", "declaration", "field_declaration"})
_EMBEDDING: Final = frozenset({"vue", "svelte", "html"})
_queries: dict[str, Query] = {}
_lock = threading.Lock()


@dataclass
class _Found:
    definitions: list[tuple[Node, str, str]] = field(default_factory=list)
    imports: dict[Import, None] = field(default_factory=dict)
    references: dict[int, tuple[str, int, str]] = field(default_factory=dict)
    own_names: set[int] = field(default_factory=set)


def file_symbols(text: str, path: str) -> FileSymbols:
    """Definitions, imports and references of the file `path`; empty where its language has no query.

    Any text is accepted. Plain names that neither the file nor its imports define are left out of references.
    """
    language = language_of(path, text)
    if language not in QUERY_FILES and language not in _EMBEDDING:
        return FileSymbols()
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return FileSymbols()
    if language in _EMBEDDING:
        return _script_symbols(source, language)
    tree = parse(source, SYNTAX[language].grammar)
    return symbols_of(source, tree, language) if tree is not None else FileSymbols()


def symbols_of(source: bytes, tree: Tree, language: str) -> FileSymbols:
    """Symbols of a parsed text."""
    found = _Found()
    for _, captures in QueryCursor(_query(language)).matches(tree.root_node):
        _collect(found, source, captures, language)
    definitions = list(_qualified(found.definitions))
    return FileSymbols(tuple(definitions), tuple(found.imports), tuple(_references(found, definitions)))


def _script_symbols(source: bytes, language: str) -> FileSymbols:
    """Scripts of a markup file, read as TypeScript, everything else blanked so that lines stay."""
    tree = parse(source, SYNTAX[language].grammar)
    if tree is None:
        return FileSymbols()
    blank = bytearray(byte if byte == 10 else 32 for byte in source)
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        if node.type == "raw_text" and node.parent is not None and node.parent.type == "script_element":
            blank[node.start_byte : node.end_byte] = source[node.start_byte : node.end_byte]
        stack.extend(node.named_children)
    script = bytes(blank)
    parsed = parse(script, SYNTAX["typescript"].grammar)
    return symbols_of(script, parsed, "typescript") if parsed is not None else FileSymbols()


def _query(language: str) -> Query:
    query = _queries.get(language)
    if query is None:
        with _lock:
            query = _queries[language] = Query(compiled(SYNTAX[language].grammar), query_text(language))
    return query


def _collect(found: _Found, source: bytes, captures: dict[str, list[Node]], language: str) -> None:
    if "import" in captures or "import.default" in captures:
        for item in read_imports(source, captures, language):
            found.imports[item] = None
        return
    for label, nodes in captures.items():
        group, _, kind = label.partition(".")
        if group == "reference":
            for node in nodes:
                _keep_strongest(found.references, source, node, kind)
        elif group == "definition":
            name = (captures.get("name") or captures["scope"])[0]
            text = node_text(source, name)
            if kind != "scope":
                found.own_names.add(name.start_byte)
            if "owner" in captures:
                text = f"{node_text(source, captures['owner'][0]).replace('::', '.')}.{text}"
            found.definitions.append((_whole(nodes[0]), text, kind))


def _whole(node: Node) -> Node:
    """In C a function's name stands in a declarator: the definition is the node around it that has the body."""
    around: Node | None = node
    for _ in range(5):
        if around is None or around.type in _BODY_HOLDERS:
            return around or node
        if not around.type.endswith("declarator"):
            break
        around = around.parent
    return node


def _keep_strongest(
    references: dict[int, tuple[str, int, str]], source: bytes, node: Node, kind: str
) -> None:
    """One reference per place: a call is also an attribute and a name; the strongest kind is kept."""
    start = node.start_byte
    known = references.get(start)
    if known is None:
        references[start] = (node_text(source, node), node.start_point[0], kind)
    elif _STRENGTH[kind] < _STRENGTH[known[2]]:
        references[start] = (known[0], known[1], kind)


def _qualified(found: Sequence[tuple[Node, str, str]]) -> list[Definition]:
    """Qualify names by the definitions around them; functions inside classes are methods."""
    result: list[Definition] = []
    around: list[tuple[int, str, str]] = []  # end byte, symbol, kind
    seen: dict[tuple[int, str], str] = {}
    for node, name, kind in sorted(
        found, key=lambda item: (item[0].start_byte, -item[0].end_byte, item[2] == "variable")
    ):
        start, end = node.start_byte, node.end_byte
        if (start, name) in seen:  # a function assigned to a variable is a function
            continue
        seen[start, name] = kind
        while around and around[-1][0] <= start:
            around.pop()
        symbol = f"{around[-1][1]}.{name}" if around else name
        inside = around[-1][2] if around else ""
        if kind == "scope":
            around.append((end, symbol, "class"))
            continue
        if kind == "function" and (inside == "class" or "." in name):
            kind = "method"
        if kind != "variable" or inside not in ("function", "method"):
            bare = name.rpartition(".")[2]
            result.append(Definition(bare, symbol, kind, node.start_point[0], _last_line(node)))
        if kind != "variable":
            around.append((end, symbol, kind))
    return result


def _last_line(node: Node) -> int:
    row, column = node.end_point
    return row - 1 if column == 0 and row > node.start_point[0] else row


def _references(found: _Found, definitions: Sequence[Definition]) -> list[Reference]:
    known = {definition.name for definition in definitions}
    for item in found.imports:
        known.add(item.alias.partition(".")[0])
    kept = {
        Reference(name, line, kind): None
        for start, (name, line, kind) in sorted(found.references.items())
        if start not in found.own_names and (kind != "name" or name in known)
    }
    return list(kept)
