"""A text ready for chunking: its bytes, its tree where it has one, and token counts that are made once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tree_sitter import Tree

from .chunk import ChunkOptions
from .grammars import parse
from .syntax import LanguageSyntax
from .syntax_tables import SYNTAX


@dataclass(frozen=True)
class Document:
    """`tree` is None for plain text and for text beyond the parser's limits.

    `count(start, end)` gives the tokens of source[start:end]; equal texts are counted once.
    """

    source: bytes
    language: str
    syntax: LanguageSyntax | None
    tree: Tree | None
    count: Callable[[int, int], int]

    @classmethod
    def of(cls, text: str, language: str, options: ChunkOptions) -> Document:
        syntax = SYNTAX.get(language)
        try:
            source = text.encode()
            tree = parse(source, syntax.grammar) if syntax is not None else None
        except UnicodeEncodeError:  # lone surrogates: the parser could place a node's end inside one
            source = text.encode("utf-8", "surrogatepass")
            tree = None
        return cls(source, language, syntax, tree, counter(source, options.count_tokens, {}))


def counter(
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
