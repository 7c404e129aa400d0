"""From a syntax tree to the units of a file: functions, classes and their members, module-level code.

Visits siblings and class bodies, never the inside of a function that fits: cheaper than parsing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tree_sitter import Node

from .naming import definition_header, definition_symbol
from .syntax import LanguageSyntax
from .unit import Unit, line_start, merge

MAX_SCOPE_DEPTH: Final = 12
MAX_SPLIT_DEPTH: Final = 100
MAX_WRAPPER_DEPTH: Final = 5

_BLANK_LINE: Final = re.compile(rb"\n[ \t\r\f]*\n")

_PUNCTUATION: Final = frozenset("{}()[]:;,")

Embedded = Callable[[Node, int, int], list[Unit]]
"""Units of the text in another language inside a node, between two bytes; empty where it cannot be read."""


@dataclass(frozen=True)
class _Scope:
    symbol: str
    header: str
    kind: str
    depth: int


OutlineMemo = dict[tuple[str, int, bytes], list[Unit]]
"""Units of top-level definitions by node type, length of what leads them and text; starts relative to it."""


class Outline:
    """Reads one tree. `count(start, end)` gives the tokens of a span; what exceeds `maximum` is cut finer.

    With a `memo`, definitions whose text was read before (in the same language, with the same bounds) are not
    visited again; `used` then holds the entries that this text needs.
    """

    def __init__(
        self,
        source: bytes,
        syntax: LanguageSyntax,
        maximum: int,
        count: Callable[[int, int], int],
        embedded: Embedded,
        memo: OutlineMemo | None = None,
    ) -> None:
        self.source = source
        self.syntax = syntax
        self.maximum = maximum
        self.count = count
        self.embedded = embedded
        self.memo = memo
        self.used: OutlineMemo = {}
        self.units: list[Unit] = []

    def read(self, root: Node) -> list[Unit]:
        """Units in order; the first starts where the text starts."""
        self.units = []
        self._siblings(root, _Scope("", "", self.syntax.loose, 0), len(self.source))
        units = self.units
        if units and not self.source[: units[0].start].strip():
            units[0].start = 0
        elif not units or units[0].start > 0:
            units.insert(0, Unit(0, self.syntax.loose, "", ""))
        return units

    def _siblings(self, parent: Node, scope: _Scope, end: int) -> None:
        """Units of the children of `parent`; loose code between definitions forms runs."""
        source, syntax = self.source, self.syntax
        definitions, wrappers, starters = syntax.definitions, syntax.wrappers, syntax.starters
        leaders = syntax.comments | syntax.attributes
        run: list[Node] = []
        lead: list[Node] = []  # comments and attributes waiting for the definition they lead
        previous_end = -1
        nodes = list(_flat(parent, syntax.transparent))
        if not nodes:
            return
        following = [*(node.start_byte for node in nodes[1:]), end]
        for node, stop in zip(nodes, following, strict=True):
            kind = node.type
            begin = node.start_byte
            definition: tuple[Node, Node] | None = None
            if kind in leaders:
                if kind in syntax.comments and lead and self._blank_between(lead[-1], begin):
                    run += lead
                    lead = []
                if lead or previous_end < 0 or source.find(b"\n", previous_end, begin) >= 0:
                    lead.append(node)
                previous_end = node.end_byte
                continue
            if kind in definitions:
                definition = (node, node) if self._defines(node, kind) else None
            elif kind in wrappers:
                definition = self._wrapped(node, node, 0)
            elif kind in _PUNCTUATION:
                continue  # belongs to what stands before it
            previous_end = node.end_byte
            if definition is None:
                if kind in starters:
                    self._run(run + lead, scope, begin)
                    run, lead = [], []
                run += lead
                run.append(node)
                lead = []
                continue
            if lead and self._blank_between(lead[-1], begin):
                run += lead
                lead = []
            first = lead[0].start_byte if lead else begin
            if syntax.comment_prefix and not lead:
                first = self._above(first)
            self._run(run, scope, first)
            run, lead = [], []
            stop = line_start(source, stop)
            if self.memo is None or scope.depth or node.has_error:
                self._define(node, *definition, scope, first, stop)
            else:
                self._recall(node, definition, scope, first, stop)
        self._run(run + lead, scope, end)

    def _recall(
        self, node: Node, definition: tuple[Node, Node], scope: _Scope, first: int, stop: int
    ) -> None:
        """Define by memory: without syntax errors, equal text of one node type has equal units."""
        assert self.memo is not None
        start = self._place(first)
        if start is None:
            return
        key = (node.type, node.start_byte - start, self.source[start:stop])
        known = self.memo.get(key)
        before = len(self.units)
        if known is None:
            self._define(node, *definition, scope, first, stop)
            known = [unit.moved(-start) for unit in self.units[before:]]
        else:
            self.units += [unit.moved(start) for unit in known]
        self.used[key] = known

    def _place(self, position: int) -> int | None:
        """Where a unit that begins at `position` starts; None if that place is taken."""
        start = line_start(self.source, position)
        if self.units and start <= self.units[-1].start:
            start = position
            if start <= self.units[-1].start:
                return None
        return start

    def _run(self, nodes: Sequence[Node], scope: _Scope, end: int) -> None:
        """Loose code of one scope: imports, constants, attributes of a class."""
        if not nodes:
            return
        start = self._place(nodes[0].start_byte)
        if start is None:
            return
        if self._fits(start, end):
            self.units.append(Unit(start, scope.kind, scope.symbol, scope.header))
            return
        starts = [start]
        for node in nodes:
            self._statement_starts(node, starts)
        self._pieces(starts, end, scope.kind, scope.symbol, scope.header, scope.header)

    def _defines(self, node: Node, kind: str) -> bool:
        """A namespace without a body (PHP, a forward declaration) is loose code."""
        return self.syntax.kinds.get(kind) != "module" or self._body(node) is not None

    def _holds_code(self, node: Node) -> bool:
        """Whether a container has code of another language in it, which deserves chunks of its own."""
        embedded = self.syntax.embedded
        if not embedded or node.type in embedded:
            return bool(embedded)
        return self.source.find(b"<script", node.start_byte, node.end_byte) >= 0

    def _wrapped(self, node: Node, named: Node, depth: int) -> tuple[Node, Node] | None:
        """The definition inside the wrapper `node`, and the node that names it."""
        syntax = self.syntax
        for child in node.named_children:
            kind = child.type
            if kind in syntax.definitions:
                return (child, child) if self._defines(child, kind) else None
            if kind in syntax.function_values:
                return child, named
            if kind in syntax.wrappers and depth < MAX_WRAPPER_DEPTH:
                found = self._wrapped(child, child if child.type != "expression_list" else named, depth + 1)
                if found is not None:
                    return found
        return None

    def _define(self, outer: Node, node: Node, named: Node, scope: _Scope, first: int, end: int) -> None:
        start = self._place(first)
        if start is None:
            return
        syntax = self.syntax
        kind = syntax.kinds.get(node.type) or (
            "class" if node.type in syntax.classes else "method" if scope.kind == "class" else "function"
        )
        symbol = definition_symbol(self.source, named, node, syntax, scope.symbol)
        is_container = node.type in syntax.containers
        if is_container and not self._holds_code(node) and self._fits(start, end):
            self.units.append(Unit(start, kind, symbol, scope.header))
            return
        body = self._body(node)
        if is_container or kind == "section":
            body = body or node
        opened = node.type in syntax.classes or is_container
        if opened and body is not None and scope.depth < MAX_SCOPE_DEPTH:
            self._open(outer, node, body, _Scope(symbol, scope.header, kind, scope.depth + 1), start, end)
            return
        if opened or self._fits(start, end):
            self.units.append(Unit(start, kind, symbol, scope.header))
            return
        begin = line_start(self.source, outer.start_byte)
        if start < begin and self._fits(begin, end):  # only a long comment above makes it too large
            self.units.append(Unit(start, kind, symbol, scope.header, whole=False))
            self.units.append(Unit(begin, kind, symbol, scope.header))
            return
        starts = [start]
        self._statement_starts(node, starts)
        header = scope.header + (definition_header(self.source, outer, body) if body is not None else "")
        self._pieces(starts, end, kind, symbol, scope.header, header)

    def _open(self, outer: Node, node: Node, body: Node, inner: _Scope, start: int, end: int) -> None:
        """A unit that opens a class, then its members."""
        opening = inner.header + definition_header(self.source, outer, body)
        self.units.append(Unit(start, inner.kind, inner.symbol, inner.header, opens=opening))
        before = len(self.units)
        if node.type in self.syntax.embedded:
            self.units += self.embedded(node, start, end)
            return
        self._siblings(body, _Scope(inner.symbol, opening, inner.kind, inner.depth), end)
        members = self.units[before:]
        if not members or members[0].kind != inner.kind or members[0].opens or not members[0].whole:
            return
        # The first attributes belong to the chunk that opens the class, where they fit.
        if self._fits(start, members[1].start if len(members) > 1 else end):
            del self.units[before]

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

    # large code

    def _fits(self, start: int, end: int) -> bool:
        return end - start <= 2 * self.maximum or self.count(start, end) <= self.maximum

    def _pieces(
        self, starts: list[int], end: int, kind: str, symbol: str, header: str, later_header: str
    ) -> None:
        for cut in merge(self.source, starts, end, self.maximum, self.count):
            shown = header if cut == starts[0] else later_header
            self.units.append(Unit(cut, kind, symbol, shown, whole=False))

    def _statement_starts(self, node: Node, starts: list[int], glued: bool = False, depth: int = 0) -> None:
        """Append the line starts inside `node` where it may be cut, finer only where a part is too large.

        `glued`: a comment right above belongs to the node.
        """
        begin = line_start(self.source, node.start_byte)
        if not glued and begin > starts[-1] and self.source[begin - 1 : begin] == b"\n":
            starts.append(begin)
        if depth >= MAX_SPLIT_DEPTH or self._fits(node.start_byte, node.end_byte):
            return
        comment: Node | None = None
        for child in node.named_children:
            glued = comment is not None and not self._blank_between(comment, child.start_byte)
            self._statement_starts(child, starts, glued, depth + 1)
            comment = child if child.type in self.syntax.comments else None

    def _above(self, position: int) -> int:
        """Start of the comment lines right above `position`, which the tree put elsewhere."""
        start = line_start(self.source, position)
        while start > 0:
            line = self.source.rfind(b"\n", 0, start - 1) + 1
            if not self.source[line:start].lstrip().startswith(self.syntax.comment_prefix):
                break
            if self.units and line <= self.units[-1].start:
                break
            start = line
        return start

    def _blank_between(self, node: Node, begin: int) -> bool:
        return _BLANK_LINE.search(self.source, max(node.end_byte - 1, 0), begin) is not None


def _flat(parent: Node, transparent: frozenset[str]) -> Iterator[Node]:
    """Children of `parent`, those of transparent and broken nodes in their place. Uses no recursion."""
    stack = parent.children[::-1]
    while stack:
        node = stack.pop()
        kind = node.type
        if (kind == "ERROR" or kind in transparent) and node.child_count:
            stack.extend(node.children[::-1])
        else:
            yield node
