"""FileSymbols of a text, by its language's tree-sitter query."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tree_sitter import Node, Query, QueryCursor

from ..chunking import language_of
from ..chunking.grammars import language as compiled
from ..chunking.grammars import parse
from ..chunking.naming import node_text
from ..chunking.syntax_tables import SYNTAX
from .model import Definition, FileSymbols, Import, Reference
from .queries import QUERIES

_STRENGTH = {"base": 0, "call": 1, "type": 2, "attribute": 3, "name": 4}
_queries: dict[str, Query] = {}
_lock = threading.Lock()


def file_symbols(text: str, path: str) -> FileSymbols:
    """Definitions, imports and references of the file `path`; empty where its language has no query.

    Any text is accepted. Local names that neither the file nor its imports define are left out of references.
    """
    language = language_of(path, text)
    if language not in QUERIES:
        return FileSymbols()
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return FileSymbols()
    tree = parse(source, SYNTAX[language].grammar)
    if tree is None:
        return FileSymbols()
    return symbols_of(source, tree.root_node, language)


def symbols_of(source: bytes, root: Node, language: str) -> FileSymbols:
    definitions: list[tuple[Node, str, str]] = []
    imports: dict[Import, None] = {}
    references: dict[int, tuple[str, int, str]] = {}
    own_names: set[int] = set()
    for _, captures in QueryCursor(_query(language)).matches(root):
        kind = ""
        for label, nodes in captures.items():
            group, _, kind = label.partition(".")
            if group == "reference":
                for node in nodes:
                    _keep_strongest(references, source, node, kind)
            elif group == "definition":
                name = captures["name"][0]
                own_names.add(name.start_byte)
                owner = captures.get("owner")
                text = node_text(source, name)
                definitions.append(
                    (nodes[0], f"{node_text(source, owner[0])}.{text}" if owner else text, kind)
                )
        if "import" in captures:
            imports[_import(source, captures)] = None
    return FileSymbols(
        tuple(_qualified(definitions)),
        tuple(imports),
        tuple(_filtered(references, own_names, definitions, imports)),
    )


def _query(language: str) -> Query:
    query = _queries.get(language)
    if query is None:
        with _lock:
            query = _queries[language] = Query(compiled(SYNTAX[language].grammar), QUERIES[language])
    return query


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


def _import(source: bytes, captures: dict[str, list[Node]]) -> Import:
    def part(label: str) -> str:
        nodes = captures.get(label)
        return node_text(source, nodes[0]).strip("\"'`<>") if nodes else ""

    name = part("import.name")
    module = part("import.module")
    alias = part("import.alias") or name or module
    return Import(module, name, alias, captures["import"][0].start_point[0])


def _qualified(found: Sequence[tuple[Node, str, str]]) -> list[Definition]:
    """Qualify names by the definitions around them; functions inside classes are methods."""
    result: list[Definition] = []
    around: list[tuple[int, str, str]] = []  # end byte, symbol, kind
    seen: set[tuple[int, str]] = set()
    for node, name, kind in sorted(found, key=lambda item: (item[0].start_byte, -item[0].end_byte)):
        start, end = node.start_byte, node.end_byte
        if (start, name) in seen:
            continue
        seen.add((start, name))
        while around and around[-1][0] <= start:
            around.pop()
        symbol = f"{around[-1][1]}.{name}" if around else name
        inside = around[-1][2] if around else ""
        if kind == "function" and (inside == "class" or "." in name):
            kind = "method"
        if kind != "variable" or inside != "function":
            result.append(
                Definition(name.rpartition(".")[2], symbol, kind, node.start_point[0], _last_line(node))
            )
        around.append((end, symbol, kind))
    return result


def _last_line(node: Node) -> int:
    row, column = node.end_point
    return row - 1 if column == 0 and row > node.start_point[0] else row


def _filtered(
    references: dict[int, tuple[str, int, str]],
    own_names: set[int],
    definitions: Sequence[tuple[Node, str, str]],
    imports: dict[Import, None],
) -> list[Reference]:
    known = {name for _, name, _ in definitions} | {item.alias.partition(".")[0] for item in imports}
    kept = {
        Reference(name, line, kind): None
        for start, (name, line, kind) in sorted(references.items())
        if start not in own_names and (kind != "name" or name in known)
    }
    return list(kept)
