"""A text ready for chunking: its bytes, its tree where it has one, and what was worked out of it before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tree_sitter import Tree

from .chunk import ChunkOptions
from .grammars import parse
from .outline import OutlineMemo
from .syntax import LanguageSyntax
from .syntax_tables import SYNTAX


@dataclass(frozen=True)
class Document:
    """`tree` is None for plain text and for text beyond the parser's limits.

    `count(start, end)` gives the tokens of source[start:end]; equal texts are counted once. `memo` holds the
    outline of definitions from one text to the next; None where only one text is read.
    """

    source: bytes
    language: str
    syntax: LanguageSyntax | None
    tree: Tree | None
    count: Callable[[int, int], int]
    memo: OutlineMemo | None = None

    @classmethod
    def of(
        cls,
        text: str,
        language: str,
        options: ChunkOptions,
        *,
        reparse: Callable[[bytes], Tree | None] | None = None,
        memo: OutlineMemo | None = None,
        counts: dict[bytes, int] | None = None,
    ) -> Document:
        """Read `text`. `reparse` replaces parsing from nothing; `memo` and `counts` are used and kept up."""
        syntax = SYNTAX.get(language)
        tree = None
        try:
            source = text.encode()
        except UnicodeEncodeError:  # lone surrogates: the parser could place a node's end inside one
            source = text.encode("utf-8", "surrogatepass")
        else:
            if syntax is not None:
                tree = reparse(source) if reparse is not None else parse(source, syntax.grammar)
        known = {} if counts is None else counts
        return cls(source, language, syntax, tree, _counter(source, options.count_tokens, known), memo)


def _counter(
    source: bytes, count_tokens: Callable[[str], int], known: dict[bytes, int]
) -> Callable[[int, int], int]:
    """Token counts of spans of `source`, remembered by text in `known`."""

    def count(start: int, end: int) -> int:
        data = source[start:end]
        tokens = known.get(data)
        if tokens is None:
            tokens = known[data] = count_tokens(data.decode("utf-8", "surrogatepass"))
        return tokens

    return count
