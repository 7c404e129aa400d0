"""Parsing with the bundled tree-sitter grammars, within limits that no text can break.

The 0.x wheels of tree-sitter-language-pack carry every grammar; the 1.x ones fetch them on first use, which
an offline service cannot. The limits are counts, not clocks: the same text gives the same tree everywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, cast

from tree_sitter import Language, Parser, Point, Tree
from tree_sitter_language_pack import SupportedLanguage, get_language

MAX_PARSE_BYTES: Final = 1_500_000
"""Larger files are cut by lines: hand-written source never gets there, and a tree costs some 50x its text."""

MAX_LINE_BYTES: Final = 50_000
"""A longer line is data or minified code; cut it by size."""

_SLICE: Final = 4096
_local = threading.local()


def parser_for(grammar: str) -> Parser:
    """This thread's parser for `grammar` (parsers keep state and may not be shared by threads)."""
    parsers: dict[str, Parser] | None = getattr(_local, "parsers", None)
    if parsers is None:
        parsers = _local.parsers = {}
    parser = parsers.get(grammar)
    if parser is None:
        parser = parsers[grammar] = Parser(language(grammar))
    return parser


def language(grammar: str) -> Language:
    """The compiled grammar. Raises LookupError for one the pack does not carry."""
    return get_language(cast(SupportedLanguage, grammar))


def parse(source: bytes, grammar: str, old_tree: Tree | None = None) -> Tree | None:
    """Syntax tree of `source`, or None where the text is beyond the limits.

    `old_tree` must have been edited (`Tree.edit`) to match `source`.
    """
    if len(source) > MAX_PARSE_BYTES or longest_line(source) > MAX_LINE_BYTES or _unclosed(source):
        return None
    parser = parser_for(grammar)
    budget = 2_000 + len(source) // 40  # code takes one call in 185 bytes, brackets without end one in 10
    try:
        if old_tree is None:
            return parser.parse(_reader(source), progress_callback=_counter(budget))
        return parser.parse(_reader(source), old_tree, progress_callback=_counter(budget))
    except ValueError:  # the budget ran out: hopeless text, not source code
        parser.reset()
        return None


def longest_line(source: bytes) -> int:
    """Bytes of the longest line."""
    return max(map(len, source.split(b"\n")))


def _unclosed(source: bytes) -> bool:
    """Comment openers without end: some scanners search to the end of the file at each (200 kB: 237 s)."""
    return source.count(b"/*") > 500 + 2 * source.count(b"*/")


def _reader(source: bytes) -> Callable[[int, Point], bytes]:
    def read(offset: int, _point: Point) -> bytes:
        return source[offset : offset + _SLICE]

    return read


def _counter(budget: int) -> Callable[[int, bool], bool]:
    calls = 0

    def give_up(_offset: int, _has_error: bool) -> bool:
        nonlocal calls
        calls += 1
        return calls >= budget

    return give_up
