"""Chunks of a file that is being edited: an edit costs what it touches, untouched chunks keep their hash.

Only the edited part is parsed again (tree-sitter), only definitions whose text changed are outlined again.
For text without syntax errors the result equals a cold `chunk_text`. While a bracket is open, the parser may
see one large error in the rest of the file; then the chunks before and after the edit stay as they were, and
only the touched one is new, until the syntax is whole again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tree_sitter import Tree

from .chunk import Chunk, ChunkOptions
from .document import Document
from .grammars import parse
from .languages import language_of
from .outline import OutlineMemo
from .registry import build_chunks, chunker_named
from .text_splitting import split_text
from .unit import Unit

_WORTH_KEEPING: Final = 4_000
"""Bytes of chunks that a syntax error may renew before the old ones are kept instead."""


@dataclass(frozen=True)
class ChunkedFile:
    """A file's chunks with what makes the next chunking cheap. Holds the syntax tree: keep it for open files.

    Any number of files may follow from one; use one of them at a time, they share their memory.
    """

    path: str
    chunks: list[Chunk]
    options: ChunkOptions
    chunker: str
    document: Document
    units: list[Unit] = field(repr=False)
    memo: OutlineMemo = field(repr=False)
    counts: dict[bytes, int] = field(repr=False)


def chunk_file(
    text: str, path: str, *, options: ChunkOptions | None = None, chunker: str = "function"
) -> ChunkedFile:
    """Chunk from nothing, ready for `rechunk`. Raises ValueError for an unknown `chunker`."""
    return _chunked(text, path, options or ChunkOptions(), chunker, None)


def rechunk(previous: ChunkedFile, new_text: str) -> ChunkedFile:
    """Chunks of the same file with new content; `previous` stays as it was."""
    return _chunked(new_text, previous.path, previous.options, previous.chunker, previous)


def _chunked(
    text: str, path: str, options: ChunkOptions, chunker: str, previous: ChunkedFile | None
) -> ChunkedFile:
    choose = chunker_named(chunker)
    language = language_of(path, text)
    if previous is not None and previous.document.language != language:
        previous = None
    memo = {} if previous is None else previous.memo
    counts = {} if previous is None else previous.counts

    def reparse(source: bytes) -> Tree | None:
        assert document_before is not None
        assert document_before.syntax is not None
        return _reparse(document_before, source)

    document_before = previous.document if previous is not None else None
    has_tree = document_before is not None and document_before.tree is not None
    document = Document.of(
        text, language, options, reparse=reparse if has_tree else None, memo=memo, counts=counts
    )
    units = choose(document, options) if document.source else []
    chunks = build_chunks(document, path, units) if units else []
    if has_tree and previous is not None and previous.chunks and _is_broken(document):
        carried = _carried(previous, document, options)
        kept = build_chunks(document, path, carried) if carried else []
        if kept and _new_bytes(previous, chunks) > 2 * _new_bytes(previous, kept) + _WORTH_KEEPING:
            units, chunks = carried, kept
    if len(counts) > 64 + 16 * len(chunks):
        counts.clear()  # counts of texts that are gone; what is needed is counted again
    return ChunkedFile(path, chunks, options, chunker, document, units, memo, counts)


def _is_broken(document: Document) -> bool:
    return document.tree is None or document.tree.root_node.has_error


def _new_bytes(previous: ChunkedFile, chunks: list[Chunk]) -> int:
    known = {chunk.content_hash for chunk in previous.chunks}
    return sum(c.end_byte - c.start_byte for c in chunks if c.content_hash not in known)


def _carried(previous: ChunkedFile, document: Document, options: ChunkOptions) -> list[Unit]:
    """The units of before, moved; those the edit touched become one, cut as text if too large."""
    source = document.source
    start, old_end, new_end = changed_span(previous.document.source, source)
    units = previous.units
    first = max(sum(unit.start < start for unit in units) - 1, 0)
    after = next((i for i in range(first + 1, len(units)) if units[i].start >= old_end), len(units))
    offset = new_end - old_end
    rest = [unit.moved(offset) for unit in units[after:]]
    begin = units[first].start
    end = rest[0].start if rest else len(source)
    touched = []
    if end > begin:
        cuts = split_text(source, begin, end, options.max_tokens, document.count)
        head = units[first]
        touched = [Unit(cut, head.kind, head.symbol, head.header, head.opens, whole=False) for cut in cuts]
    carried = units[:first] + touched + rest
    return carried if carried and carried[0].start == 0 else []


def _reparse(before: Document, source: bytes) -> Tree | None:
    """Parse `source` again from the tree of a similar text."""
    assert before.tree is not None
    assert before.syntax is not None
    old = before.source
    if old == source:
        return before.tree
    start, old_end, new_end = changed_span(old, source)
    tree = before.tree.copy()
    tree.edit(
        start_byte=start,
        old_end_byte=old_end,
        new_end_byte=new_end,
        start_point=_point(old, start),
        old_end_point=_point(old, old_end),
        new_end_point=_point(source, new_end),
    )
    return parse(source, before.syntax.grammar, tree)


def changed_span(old: bytes, new: bytes) -> tuple[int, int, int]:
    """The one edit that makes `new` of `old`: start, end in `old`, end in `new`; whole UTF-8 characters."""
    limit = min(len(old), len(new))
    start = _common(limit, lambda n: old[:n] == new[:n])
    while start > 0 and (_inside(old, start) or _inside(new, start)):
        start -= 1
    tail = _common(limit - start, lambda n: old[len(old) - n :] == new[len(new) - n :])
    while tail > 0 and (_inside(old, len(old) - tail) or _inside(new, len(new) - tail)):
        tail -= 1
    return start, len(old) - tail, len(new) - tail


def _common(limit: int, equal: Callable[[int], bool]) -> int:
    """The largest n up to `limit` with equal(n), by bisection (equal is monotone)."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if equal(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _inside(data: bytes, position: int) -> bool:
    return position < len(data) and data[position] & 0xC0 == 0x80


def _point(source: bytes, position: int) -> tuple[int, int]:
    """Row and column in bytes."""
    return source.count(b"\n", 0, position), position - (source.rfind(b"\n", 0, position) + 1)
