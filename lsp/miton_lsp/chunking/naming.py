"""Names and headers of definitions, read from the syntax tree."""

from __future__ import annotations

import re
from typing import Final

from tree_sitter import Node

from .syntax import LanguageSyntax
from .unit import line_start

MAX_HEADER_BYTES: Final = 400
MAX_NAME: Final = 120

_LAST_NAME: Final = re.compile(r"[A-Za-z_]\w*(?=\W*$|\[)")
_SPACES: Final = re.compile(r"\s+")


def definition_symbol(source: bytes, named: Node, node: Node, syntax: LanguageSyntax, scope: str) -> str:
    """Qualified name inside the file; the scope's own where the definition has no name."""
    name = definition_name(source, named, syntax)
    owner_field = syntax.owners.get(node.type)
    owner = node.child_by_field_name(owner_field) if owner_field is not None else None
    if owner is not None:
        found = _LAST_NAME.search(node_text(source, owner))
        name = f"{found[0]}.{name}" if found else name
    if not name:
        return scope
    return f"{scope}.{name}" if scope else name


def definition_name(source: bytes, node: Node, syntax: LanguageSyntax) -> str:
    """Follow name fields down to the name; "" for a definition without one."""
    top = node
    for _ in range(12):
        if node.type in syntax.name_stops:
            break
        following = None
        for field in syntax.names:
            following = node.child_by_field_name(field)
            if following is not None:
                break
        if following is None and syntax.name_types:
            following = next((c for c in node.named_children if c.type in syntax.name_types), None)
        if following is None:
            break
        node = following
    if node is top:
        return ""
    text = _SPACES.sub(" ", node_text(source, node)).strip(" \"'`")
    text = text.replace("::", ".").replace(":", ".") if syntax.loose == "module" else text
    return text if len(text) <= MAX_NAME else ""


def definition_header(source: bytes, node: Node, body: Node) -> str:
    """Lines that open a definition: from its first line to its body, an opening brace included.

    Ends with a newline; "" where the definition is its own body. Cut to whole lines beyond MAX_HEADER_BYTES.
    """
    begin = line_start(source, node.start_byte)
    end = body.start_byte
    if node.start_byte == end:
        # A body of its own (a section) is opened by its first line.
        if body.type != "section":
            return ""
        end = source.find(b"\n", begin)
        end = len(source) if end < 0 else end
    elif source[end : end + 1] == b"{":
        end += 1
    text = source[begin:end]
    if len(text) > MAX_HEADER_BYTES:
        cut = text.rfind(b"\n", 0, MAX_HEADER_BYTES)
        text = text[: cut if cut > 0 else MAX_HEADER_BYTES]
    return text.decode("utf-8", "ignore").rstrip() + "\n"


def node_text(source: bytes, node: Node) -> str:
    """Text of a node. Sliced here: `Node.text` asks the parser's reader again, 30 times slower."""
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")
