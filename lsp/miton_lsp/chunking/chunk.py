"""What a chunk is: a contiguous, function-aligned piece of one file, with the header that places it.

Pure data. Positions are bytes of the UTF-8 text, never `str` indices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_DIGITS: Final = b"0123456789"
_NOT_LETTERS: Final = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \n\t\r\f" + _DIGITS
_WIDE: Final = bytes(range(128, 256))


def estimate_tokens(text: str) -> int:
    """Tokens of `text` without a tokenizer, from counts of letters, digits, marks and lines.

    Fitted to Qwen2.5-Coder's tokenizer on 2,600 chunks of 20 languages: median error 5%, at most 1.22 times
    too few in 99% of them. Pass the model's own counter as `ChunkOptions.count_tokens` for exact bounds.
    """
    data = text.encode("utf-8", "surrogatepass")
    size = len(data)
    digits = size - len(data.translate(None, _DIGITS))
    lines = data.count(b"\n")
    letters = len(data.translate(None, _NOT_LETTERS))
    wide = 0 if text.isascii() else size - len(data.translate(None, _WIDE))
    marks = size - data.count(b" ") - data.count(b"\t") - letters - digits - lines
    return max(
        1, round(0.227 * (letters - wide) + 0.45 * wide + 1.368 * digits + 0.452 * marks + 1.12 * lines)
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a file. The chunks of a file, in order, concatenate to exactly the file.

    `start_byte` and `end_byte` count bytes of the LF-normalised UTF-8 text; `start_line` and `end_line` are
    zero-based and both inclusive (lines end at `\\n` alone). `header` is what is shown before `text` when the
    chunk is memorised on its own (enclosing class lines, signature of a split function); it ends with `\\n`
    or is empty. `content_hash` covers path, header and text: equal names in different files never share it.
    """

    path: str
    language: str
    kind: str
    symbol: str
    header: str
    start_byte: int
    end_byte: int
    start_line: int
    end_line: int
    text: str
    content_hash: str


@dataclass(frozen=True)
class ChunkOptions:
    """Bounds in tokens of `text` (headers not counted), by `count_tokens`.

    Pieces smaller than `min_tokens` join a neighbour where one fits; nothing that can be cut exceeds
    `max_tokens`.
    """

    max_tokens: int = 400
    min_tokens: int = 24
    count_tokens: Callable[[str], int] = field(default=estimate_tokens)

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or not 0 <= self.min_tokens <= self.max_tokens:
            raise ValueError(
                f"chunk bounds need 1 <= max_tokens and 0 <= min_tokens <= max_tokens, "
                f"got max_tokens={self.max_tokens}, min_tokens={self.min_tokens}"
            )


def content_hash(path: bytes, header: bytes, text: bytes) -> str:
    """First 32 hex digits of sha256 over path, header and text (UTF-8), with their lengths ahead."""
    return hashlib.sha256(b"%d:%d:%b%b%b" % (len(path), len(header), path, header, text)).hexdigest()[:32]
