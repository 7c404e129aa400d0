"""Parsing with the bundled tree-sitter grammars, within limits that no text can break.

The 0.x wheels of tree-sitter-language-pack carry every grammar; the 1.x ones fetch them on first use, which
an offline service cannot.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from typing import Final, cast

from tree_sitter import Language, Parser, Point, Tree
from tree_sitter_language_pack import SupportedLanguage, get_language

MAX_PARSE_BYTES: Final = 1_500_000
"""Larger files are cut by lines: hand-written source never gets there, and a tree costs some 50x its text."""

MAX_LINE_BYTES: Final = 50_000
"""A longer line is data or minified code; cut it by size."""

MIN_PARSE_SECONDS: Final = 1.0
PARSE_SECONDS_PER_BYTE: Final = 3e-6
"""The thread's processor time for a parse: source takes 0.1 to 0.3 s per MB, so only garbage gets there."""

_UNSAFE: Final[Mapping[str, re.Pattern[bytes]]] = {
    "markdown": re.compile(rb"^(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t]){110}", re.MULTILINE),
    "yaml": re.compile(rb"^(?: |[-?:] ){150}", re.MULTILINE),
    "kotlin": re.compile(rb'(?:"[^"{}\n]{0,40}\$\{[^"{}\n]{0,40}){100}'),
}
"""Nesting that a grammar's scanner does not survive: its state (256 blocks of Markdown, 256 levels of YAML, 1,024
strings of Kotlin) overflows and ends the process. Far beyond what people write."""

_SLICE: Final = 1 << 16
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

    `old_tree` must have been edited (`Tree.edit`) to match `source`. The tree has positions only: slice
    `source` by them, for `Node.text` and query predicates would ask the reader, which is closed by then.
    """
    if len(source) > MAX_PARSE_BYTES or longest_line(source) > MAX_LINE_BYTES:
        return None
    unsafe = _UNSAFE.get(grammar)
    if unsafe is not None and unsafe.search(source):
        return None
    parser = parser_for(grammar)
    feed = _Feed(source)
    try:
        if old_tree is None:
            return parser.parse(feed.read, progress_callback=feed.is_spent)
        return parser.parse(feed.read, old_tree, progress_callback=feed.is_spent)
    except ValueError:  # the time ran out: hopeless text, not source code
        parser.reset()
        return None
    finally:
        feed.release()


def longest_line(source: bytes) -> int:
    """Bytes of the longest line."""
    return max(map(len, source.split(b"\n")))


class _Feed:
    """Feeds a text to the parser and stops it when it has had ten times what source code takes.

    Garbage can cost a look to the end of the text at every character. py-tree-sitter (to 0.26) never frees what
    a reader returned: slices are views, released here, so that the text is not kept with them.
    """

    def __init__(self, source: bytes) -> None:
        self._view = memoryview(source)
        self._slices: list[memoryview] = []
        self._deadline = time.thread_time() + MIN_PARSE_SECONDS + len(source) * PARSE_SECONDS_PER_BYTE

    def read(self, offset: int, _point: Point) -> memoryview:
        piece = self._view[offset : offset + _SLICE]
        self._slices.append(piece)
        return piece

    def is_spent(self, _offset: int, _has_error: bool) -> bool:
        return time.thread_time() > self._deadline

    def release(self) -> None:
        for piece in self._slices:
            piece.release()
        self._view.release()
