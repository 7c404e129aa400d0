"""Bytes of a file to LF-normalised text."""

from __future__ import annotations


def decode(data: bytes) -> str:
    """UTF-8 (with or without BOM), UTF-16 with BOM, else Latin-1; CRLF and CR become LF."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", "replace")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")
