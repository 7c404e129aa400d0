"""The server's text stays the editor's through any edits, in every position encoding."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miton_lsp.chunking.positions import PositionEncoding
from miton_lsp.documents import Documents

ENCODINGS: tuple[PositionEncoding, ...] = ("utf-8", "utf-16", "utf-32")
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
# What splits lines for str.splitlines and not for the LSP is among it: \\x0b, \\x0c, \\x1c, \\x85, \\u2028.
TEXT = st.text(st.sampled_from("ab \n\r\t\x0b\x0c\x1c\x85\u2028🙂日é\u0301"), max_size=30)


def _position(text: str, at: int, encoding: PositionEncoding) -> tuple[int, int] | None:
    """LSP position of a character index, counted letter by letter; None inside \\r\\n, where no editor has one."""
    if text[at - 1 : at + 1] == "\r\n":
        return None
    line, start, index = 0, 0, 0
    while index < at:
        end = 2 if text.startswith("\r\n", index) else 1
        if text[index] in "\r\n":
            line, start = line + 1, index + end
        index += end
    codec, unit = CODECS[encoding]
    return line, len(text[start:at].encode(codec)) // unit


@settings(max_examples=300)
@given(
    TEXT,
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), TEXT), max_size=6),
    st.sampled_from(ENCODINGS),
)
def test_edits_arrive_where_the_editor_made_them(
    text: str, edits: list[tuple[int, int, str]], encoding: PositionEncoding
) -> None:
    document = Documents().open("file:///a.py", "python", 1, text)
    for one, other, new in edits:
        start, end = sorted((one % (len(text) + 1), other % (len(text) + 1)))
        first, last = _position(text, start, encoding), _position(text, end, encoding)
        if first is None or last is None:
            continue
        document.replace(document.offset(*first, encoding), document.offset(*last, encoding), new)
        text = text[:start] + new + text[end:]
        assert document.text == text


def test_positions_beyond_the_text_mean_its_nearest_end() -> None:
    document = Documents().open("file:///a.py", "python", 1, "ab\ncd")
    assert document.offset(0, 99, "utf-16") == 2
    assert (
        document.offset(1, 99, "utf-16")
        == document.offset(7, 0, "utf-16")
        == document.offset(2, 9, "utf-16")
        == 5
    )


@pytest.mark.parametrize("uri", ["file:///c%3A/a%20b.py", "file:///c:/a b.py"])
def test_an_escaped_uri_is_the_same_document(uri: str) -> None:
    documents = Documents()
    opened = documents.open("file:///c%3A/a%20b.py", "python", 1, "")
    assert documents.get(uri) is opened
    assert documents.close(uri) is opened
    assert list(documents) == []
