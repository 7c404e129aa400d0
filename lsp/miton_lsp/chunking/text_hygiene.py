"""Bytes of a file to text and back: encodings, byte order marks, line ends. Pure.

Decoded text has LF line ends; what was taken away is kept, so that encoding an unchanged text gives the very
same bytes, and an edited one the file's own encoding and line ends.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field
from typing import Final

_BOMS: Final = (  # UTF-32 first: its little-endian mark starts with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_CODING: Final = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.MULTILINE)  # PEP 263
_SNIFF_BYTES: Final = 8000  # as git does
_CONTROL: Final = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27})


class TextEncodingError(ValueError):
    """A text that its file's encoding cannot hold; the message names the character and the remedy."""


@dataclass(frozen=True)
class DecodedText:
    """`text` with LF line ends and without the mark; `newline` is "\\n", "\\r\\n", "\\r" or "mixed"."""

    text: str
    encoding: str
    newline: str
    bom: bool = False
    line_ends: tuple[str, ...] = field(default=(), repr=False)  # each line's, where mixed

    def encode(self, text: str | None = None) -> bytes:
        """Bytes of `text` (unchanged text by default) in this file's encoding and line ends.

        Of mixed line ends, unchanged first and last lines keep theirs; new lines get the most frequent.
        Raises TextEncodingError for a character that the encoding does not have.
        """
        new = self.text if text is None else text
        if self.newline == "mixed":
            new = self._restore_mixed(new)
        elif self.newline != "\n":
            new = new.replace("\n", self.newline)
        mark = next((mark for mark, name in _BOMS if name == self.encoding), b"") if self.bom else b""
        try:
            return mark + new.encode(self.encoding, _errors(self.encoding))
        except UnicodeEncodeError as error:
            raise TextEncodingError(
                f"{new[error.start]!r} at character {error.start} has no place in {self.encoding}; "
                "save the file as UTF-8 to keep it"
            ) from None

    def _restore_mixed(self, new: str) -> str:
        old_lines, lines, ends = self.text.split("\n"), new.split("\n"), self.line_ends
        common = min(len(old_lines), len(lines))
        head = next((i for i in range(common) if old_lines[i] != lines[i]), common)
        tail = next((i for i in range(common - head) if old_lines[-1 - i] != lines[-1 - i]), common - head)
        usual = max(("\n", "\r\n", "\r"), key=ends.count)
        breaks = len(lines) - 1
        first = min(head, len(ends), breaks)
        last = min(max(tail - 1, 0), len(ends) - first, breaks - first)
        restored = [*ends[:first], *[usual] * (breaks - first - last), *ends[len(ends) - last :]]
        return "".join(line + end for line, end in zip(lines, [*restored, ""], strict=True))


def decode_text(data: bytes) -> DecodedText:
    """Text of any bytes: by mark, as UTF-16 without one, as UTF-8, as declared (PEP 263), else as Latin-1.

    Never fails, and `decode_text(data).encode() == data` always. Ask `binary_reason` first whether the bytes
    are text at all.
    """
    for mark, marked in _BOMS:
        if data.startswith(mark):
            decoded = _decode(data[len(mark) :], marked)
            if decoded is not None:
                return _normalised(decoded, marked, bom=True)
    for name in (_unmarked_wide(data), "utf-8", _declared(data)):
        if name is not None:
            decoded = _decode(data, name)
            if decoded is not None:
                return _normalised(decoded, name, bom=False)
    return _normalised(data.decode("latin-1"), "latin-1", bom=False)


def binary_reason(data: bytes) -> str | None:
    """Why the bytes (the first 8,000 are enough) are no text; None for text."""
    head = data[:_SNIFF_BYTES]
    if any(head.startswith(mark) for mark, _ in _BOMS) or _unmarked_wide(head) is not None:
        return None
    if b"\0" in head:
        return f"binary: NUL byte at offset {head.index(0)}"
    controls = len(head) - len(head.translate(None, _CONTROL))
    if controls * 20 > len(head):
        return f"binary: {controls} control characters in the first {len(head)} bytes"
    return None


def _decode(data: bytes, encoding: str) -> str | None:
    """Strict both ways: only what encodes to the same bytes again."""
    try:
        text = data.decode(encoding, _errors(encoding))
        return text if text.encode(encoding, _errors(encoding)) == data else None
    except (UnicodeError, LookupError):
        return None


def _errors(encoding: str) -> str:
    return "surrogatepass" if encoding.startswith(("utf-16", "utf-32")) else "strict"


def _unmarked_wide(data: bytes) -> str | None:
    """UTF-16 without a mark: NULs in every other byte of a mostly ASCII text."""
    head = data[:_SNIFF_BYTES]
    if len(data) % 2 and len(data) < _SNIFF_BYTES:
        return None
    even, odd = head[::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    if half < 2:
        return None
    if odd * 10 > half * 7 and even == 0:
        return "utf-16-le"
    if even * 10 > half * 7 and odd == 0:
        return "utf-16-be"
    return None


def _declared(data: bytes) -> str | None:
    """Encoding that one of the first two lines declares, if it is one of Python's text codecs."""
    found = _CODING.search(b"\n".join(data.split(b"\n", 2)[:2]))
    if found is None:
        return None
    try:
        info = codecs.lookup(found[1].decode("ascii"))
    except (LookupError, UnicodeDecodeError):
        return None
    return info.name if getattr(info, "_is_text_encoding", True) else None


def _normalised(raw: str, encoding: str, *, bom: bool) -> DecodedText:
    windows = raw.count("\r\n")
    mac = raw.count("\r") - windows
    unix = raw.count("\n") - windows
    styles = [style for style, n in (("\n", unix), ("\r\n", windows), ("\r", mac)) if n]
    if not windows and not mac:
        return DecodedText(raw, encoding, "\n", bom)
    text = _LINE_END.sub("\n", raw)
    if len(styles) == 1:
        return DecodedText(text, encoding, styles[0], bom)
    return DecodedText(text, encoding, "mixed", bom, tuple(_LINE_END.findall(raw)))
