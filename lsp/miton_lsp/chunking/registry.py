"""The chunkers by name. A chunker chooses where chunks start; what a chunk is stays the same for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .chunk import Chunk, ChunkOptions, content_hash
from .document import Document
from .languages import language_of
from .unit import Unit


class Chunker(Protocol):
    """Chooses the units that begin chunks: ascending starts, the first 0, for a text that is not empty."""

    def __call__(self, document: Document, options: ChunkOptions) -> list[Unit]: ...


_chunkers: dict[str, Chunker] = {}


def register(name: str) -> Callable[[Chunker], Chunker]:
    """Make a chunker known as `name`."""

    def add(chunker: Chunker) -> Chunker:
        _chunkers[name] = chunker
        return chunker

    return add


def chunker_names() -> tuple[str, ...]:
    return tuple(sorted(_chunkers))


def chunker_named(name: str) -> Chunker:
    """Raises ValueError, with the names there are, for an unknown one."""
    try:
        return _chunkers[name]
    except KeyError:
        raise ValueError(
            f"no chunker is called {name!r}; choose one of: {', '.join(chunker_names())}"
        ) from None


def chunk_text(
    text: str, path: str, *, options: ChunkOptions | None = None, chunker: str = "function"
) -> list[Chunk]:
    """Chunks of the file `path` whose LF-normalised content is `text`; they concatenate to exactly `text`.

    Any text is accepted: broken syntax, huge or binary-like text falls back to cuts at lines and characters.
    Raises ValueError only for an unknown `chunker`.
    """
    choose = chunker_named(chunker)
    options = options or ChunkOptions()
    document = Document.of(text, language_of(path, text), options)
    if not document.source:
        return []
    return build_chunks(document, path, choose(document, options))


def build_chunks(document: Document, path: str, units: list[Unit]) -> list[Chunk]:
    """Chunks that begin at `units`."""
    source, language = document.source, document.language
    path_bytes = path.encode("utf-8", "surrogatepass")
    ends = [unit.start for unit in units[1:]]
    ends.append(len(source))
    chunks = []
    line = 0
    for unit, end in zip(units, ends, strict=True):
        data = source[unit.start : end]
        breaks = data.count(b"\n")
        last_line = line + breaks - data.endswith(b"\n")
        text = data.decode("utf-8", "surrogatepass")
        hashed = content_hash(path_bytes, unit.header.encode(), data)
        chunks.append(
            Chunk(
                path,
                language,
                unit.kind,
                unit.symbol,
                unit.header,
                unit.start,
                end,
                line,
                last_line,
                text,
                hashed,
            )
        )
        line += breaks
    return chunks
