"""From a syntax tree to the units of a file: functions, classes and their members, module-level code.

Visits siblings and class bodies, never the inside of a function that fits: that keeps it cheaper than parsing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tree_sitter import Node

from .syntax import LanguageSyntax
from .unit import Unit, line_start, merge

MAX_SCOPE_DEPTH: Final = 12
MAX_SPLIT_DEPTH: Final = 200
MAX_HEADER_BYTES: Final = 400

_BLANK_LINE: Final = re.compile(rb"\n[ \t\r\f]*\n")
_LAST_NAME: Final = re.compile(r"[A-Za-z_]\w*(?=\W*$|\[|<)")
_SPACES: Final = re.compile(r"\s+")


@dataclass(frozen=True)
class _Scope:
    symbol: str
    header: str
    kind: str
    depth: int


class Outline:
    """Reads one tree. `units` is what came of it, in order; the first starts where the text starts."""

    def __init__(
        self, source: bytes, syntax: LanguageSyntax, maximum: int, count: Callable[[int, int], int]
    ) -> None:
        self.source = source
        self.syntax = syntax
        self.maximum = maximum
        self.count = count
        self.units: list[Unit] = []

    def read(self, root: Node) -> list[Unit]:
        self._siblings(root, _Scope("", "", "module", 0), 0, len(self.source))
        if not self.units or self.units[0].start > 0:
            if self.units and not self.source[: self.units[0].start].strip():
                self.units[0].start = 0
            else:
                self.units.insert(0, Unit(0, "module", "", ""))
        return self.units

    # siblings

    def _siblings(self, parent: Node, scope: _Scope, start: int, end: int) -> None:
        """Units of the children of `parent`; loose code between definitions forms runs."""
        syntax = self.syntax
        source = self.source
        run: list[Node] = []
        lead: list[Node] = []  # comments and attributes waiting for the definition they lead
        previous_end = start
        nodes = list(_flat(parent, syntax.transparent))
        for index, node in enumerate(nodes):
            kind = node.type
            begin = node.start_byte
            if kind in syntax.comments or kind in syntax.attributes:
                if lead and kind in syntax.comments and _blank_between(source, lead[-1].end_byte, begin):
                    run += lead
                    lead = []
                if lead or index == 0 or source.find(b"\n", previous_end, begin) >= 0:
                    lead.append(node)
                previous_end = node.end_byte
                continue
            definition = self._definition(node, kind)
            if definition is None:
                run += lead
                lead = []
                run.append(node)
                previous_end = node.end_byte
                continue
            if lead and _blank_between(source, lead[-1].end_byte, begin):
                run += lead
                lead = []
            first = lead[0].start_byte if lead else begin
            self._run(run, scope, first)
            run = []
            lead = []
            stop = nodes[index + 1].start_byte if index + 1 < len(nodes) else end
            self._define(node, definition, scope, line_start(source, first), stop)
            previous_end = node.end_byte
        self._run(run + lead, scope, end)

    def _run(self, nodes: Sequence[Node], scope: _Scope, end: int) -> None:
        """Loose code of one scope: imports, constants, attributes of a class."""
        if not nodes:
            return
        start = line_start(self.source, nodes[0].start_byte)
        if self.units and start <= self.units[-1].start:
            start = nodes[0].start_byte
            if start <= self.units[-1].start:
                return
        kind = "module" if scope.kind == "module" else "class"
        if self._fits(start, end):
            self.units.append(Unit(start, kind, scope.symbol, scope.header))
            return
        starts = [start]
        for node in nodes:
            self._statement_starts(node, starts)
        cuts = merge(self.source, starts, end, self.maximum, self.count)
        self.units += [Unit(cut, kind, scope.symbol, scope.header, whole=False) for cut in cuts]

    # definitions

    def _definition(self, node: Node, kind: str) -> Node | None:
        """The function or class that `node` is, wraps or assigns; None for loose code."""
        syntax = self.syntax
        if kind in syntax.functions or kind in syntax.classes:
            return node
        if kind in syntax.wrappers or kind in syntax.values:
            for _ in range(8):
                found = None
                for child in node.named_children:
                    inner = child.type
                    if inner in syntax.functions or inner in syntax.classes:
                        return child
                    if inner in syntax.wrappers or inner in syntax.values:
                        found = child
                    elif inner in syntax.function_values and kind in syntax.values:
                        return node
                if found is None:
                    return None
                node = found
                kind = node.type
        return None

    def _define(self, outer: Node, node: Node, scope: _Scope, start: int, end: int) -> None:
        if self.units and start <= self.units[-1].start:
            start = outer.start_byte
            if start <= self.units[-1].start:
                return
        syntax = self.syntax
        symbol = self._symbol(node, scope)
        body = self._body(node)
        if node.type in syntax.classes and body is not None and scope.depth < MAX_SCOPE_DEPTH:
            header = scope.header + self._header(outer, body)
            kind = syntax.kinds.get(node.type, "class")
            self.units.append(Unit(start, kind, symbol, scope.header, opens=header))
            before = len(self.units)
            self._siblings(body, _Scope(symbol, header, "class", scope.depth + 1), body.start_byte, end)
            if (
                len(self.units) > before
                and self.units[before].kind == "class"
                and not self.units[before].opens
            ):
                self._absorb(before)
            return
        kind = "method" if scope.kind == "class" else syntax.kinds.get(node.type, "function")
        if self._fits(start, end):
            self.units.append(Unit(start, kind, symbol, scope.header))
            return
        starts = [start]
        self._statement_starts(node, starts)
        cuts = merge(self.source, starts, end, self.maximum, self.count)
        header = scope.header + (self._header(outer, body) if body is not None else "")
        for cut in cuts:
            self.units.append(Unit(cut, kind, symbol, scope.header if cut == start else header, whole=False))

    def _absorb(self, index: int) -> None:
        """The first attributes of a class belong to the chunk that opens it, where they fit."""
        opening = self.units[index - 1]
        end = self.units[index + 1].start if index + 1 < len(self.units) else len(self.source)
        if self.units[index].whole and self._fits(opening.start, end):
            del self.units[index]

    def _body(self, node: Node) -> Node | None:
        for name in self.syntax.bodies:
            body = node.child_by_field_name(name)
            if body is not None:
                return body
        if self.syntax.body_types:
            for child in node.named_children:
                if child.type in self.syntax.body_types:
                    return child
        return None

    def _header(self, node: Node, body: Node) -> str:
        """Lines that open a definition: from its first line to its body, an opening brace included."""
        begin = line_start(self.source, node.start_byte)
        end = body.start_byte
        if self.source[end : end + 1] == b"{":
            end += 1
        text = self.source[begin:end]
        if len(text) > MAX_HEADER_BYTES:
            text = text[: max(text.find(b"\n", 0, MAX_HEADER_BYTES), 0)] or text[:MAX_HEADER_BYTES]
        return text.decode("utf-8", "ignore").rstrip() + "\n"

    def _symbol(self, node: Node, scope: _Scope) -> str:
        name = self._name(node)
        owner_field = self.syntax.owners.get(node.type)
        if owner_field is not None:
            owner = node.child_by_field_name(owner_field)
            if owner is not None:
                found = _LAST_NAME.search(_text(owner))
                if found:
                    name = f"{found[0]}.{name}"
        if not name:
            return scope.symbol
        return f"{scope.symbol}.{name}" if scope.symbol else name

    def _name(self, node: Node) -> str:
        for _ in range(12):
            following = None
            for field_name in self.syntax.names:
                following = node.child_by_field_name(field_name)
                if following is not None:
                    break
            if following is None and self.syntax.name_types:
                following = next((c for c in node.named_children if c.type in self.syntax.name_types), None)
            if following is None:
                break
            node = following
        else:
            return ""
        text = _SPACES.sub("", _text(node).replace("::", ".").replace(":", "."))
        return text if len(text) <= 120 and "\n" not in text else ""

    # large code

    def _fits(self, start: int, end: int) -> bool:
        return end - start <= 2 * self.maximum or self.count(start, end) <= self.maximum

    def _statement_starts(self, node: Node, starts: list[int], glued: bool = False, depth: int = 0) -> None:
        """Append the line starts inside `node` where it may be cut, finer only where a part is too large.

        `glued`: a comment right above belongs to the node.
        """
        begin = line_start(self.source, node.start_byte)
        if not glued and begin > starts[-1] and self.source[begin - 1 : begin] == b"\n":
            starts.append(begin)
        if depth >= MAX_SPLIT_DEPTH or self._fits(node.start_byte, node.end_byte):
            return
        comment_end = -1
        for child in node.named_children:
            glued = comment_end >= 0 and not _blank_between(self.source, comment_end, child.start_byte)
            self._statement_starts(child, starts, glued, depth + 1)
            comment_end = child.end_byte if child.type in self.syntax.comments else -1


def _flat(parent: Node, transparent: frozenset[str]) -> Iterator[Node]:
    """Children of `parent`, those of transparent and broken nodes in their place. Iterative: nesting is free."""
    stack = list(reversed(parent.children))
    while stack:
        node = stack.pop()
        kind = node.type
        if (kind == "ERROR" or kind in transparent) and node.child_count:
            stack.extend(reversed(node.children))
        else:
            yield node


def _blank_between(source: bytes, start: int, end: int) -> bool:
    return _BLANK_LINE.search(source, start, end) is not None


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "ignore")
