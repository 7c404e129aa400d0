"""The text of open documents, kept as the Language Server Protocol counts it.

Lines end at \\n, \\r\\n or \\r and at nothing else, and characters are counted in the negotiated encoding; a form feed
or a line separator inside a line must not move what follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from miton_lsp.chunking.positions import LineIndex, PositionEncoding


@dataclass
class Document:
    """One open document; `index` holds its text."""

    uri: str
    language_id: str
    version: int
    index: LineIndex

    @property
    def text(self) -> str:
        return self.slice(0, None)

    def offset(self, line: int, character: int, encoding: PositionEncoding) -> int:
        """Byte offset of a position; what lies outside the text means its nearest end."""
        return self.index.offset(min(line, len(self.index.starts)), character, encoding)

    def slice(self, start: int, end: int | None) -> str:
        """Text between two byte offsets; to the end for None."""
        return self.index.source[start:end].decode("utf-8", "surrogatepass")

    def replace(self, start: int, end: int, text: str) -> None:
        """Put `text` in the place of the bytes between two offsets."""
        source = self.index.source
        new = text.encode("utf-8", "surrogatepass")
        self.index = LineIndex(source[:start] + new + source[max(start, end) :])


class Documents:
    """All open documents by URI. Editors write the same URI in different ways (`file:///c%3A/`, `file:///c:/`)."""

    def __init__(self) -> None:
        self._open: dict[str, Document] = {}

    def __iter__(self) -> Iterator[Document]:
        return iter(list(self._open.values()))

    def get(self, uri: str) -> Document | None:
        return self._open.get(unquote(uri))

    def open(self, uri: str, language_id: str, version: int, text: str) -> Document:
        document = Document(uri, language_id, version, LineIndex(text))
        self._open[unquote(uri)] = document
        return document

    def close(self, uri: str) -> Document | None:
        return self._open.pop(unquote(uri), None)
