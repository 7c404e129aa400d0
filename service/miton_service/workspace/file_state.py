"""What is known of one file, and of one open buffer."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from miton_lsp.chunking import Chunk


@dataclass(frozen=True, slots=True)
class FileState:
    """A file's text as recall sees it. `ticket` grows with every look at file or buffer: the later look wins."""

    path: str
    text: str
    chunks: tuple[Chunk, ...]
    tokens: tuple[int, ...]  # per chunk, anchor included
    stamp: tuple[int, ...]  # of the file on disk; () for a buffer
    ticket: int
    crlf: bool = False

    def chunk_at_line(self, line: int) -> Chunk | None:
        """The chunk that holds a zero-based line."""
        index = bisect_right(self.chunks, line, key=lambda chunk: chunk.start_line) - 1
        return self.chunks[index] if index >= 0 and self.chunks[index].end_line >= line else None

    def tokens_of(self, chunk: Chunk) -> int:
        """Tokens of one of `chunks`."""
        return self.tokens[bisect_right(self.chunks, chunk.start_byte, key=lambda c: c.start_byte) - 1]


@dataclass(frozen=True, slots=True)
class Document:
    """An open buffer; it wins over the disk until it is dropped, one that a request lent until it `expires`."""

    text: str
    version: int
    edited: float = 0.0  # time.monotonic(); 0: as it was opened
    expires: float | None = None
    crlf: bool = False
