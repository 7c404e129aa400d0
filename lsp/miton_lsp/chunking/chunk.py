"""What a chunk is: a contiguous, function-aligned piece of one file, with the header that places it.

Pure data. Positions are bytes of the UTF-8 text, never `str` indices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field


def estimate_tokens(text: str) -> int:
    """Tokens of `text` without a tokenizer: words plus a share of the remaining bytes.

    Within a tenth of Qwen2.5-Coder's tokenizer on source files as a whole, see tests/lsp/test_estimate.py;
    pass the model's own counter as `ChunkOptions.count_tokens` where exact bounds matter.
    """
    words = text.split()
    solid = sum(map(len, words))
    wide = 0 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) - len(text)
    return max(1, round(0.28 * solid + 0.1 * len(words) + 0.25 * wide + text.count("\n") * 0.9))


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a file. The chunks of a file, in order, concatenate to exactly the file.

    `start_byte` and `end_byte` count bytes of the LF-normalised UTF-8 text; `start_line` and `end_line` are
    zero-based and both inclusive (lines end at `\\n` alone). `header` is what is shown before `text` when the
    chunk is memorised on its own (enclosing class lines, signature of a split function), ends with `\\n` or is
    empty. `content_hash` covers path, header and text: equal names in different files never share it.
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


def content_hash(path: str, header: str, text: bytes) -> str:
    """First 32 hex digits of sha256 over path, header and text, each closed by its length."""
    digest = hashlib.sha256()
    for part in (path.encode("utf-8", "surrogatepass"), header.encode("utf-8", "surrogatepass"), text):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()[:32]
