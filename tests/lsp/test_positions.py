"""Positions of editors and bytes agree in every encoding, also around emoji, CJK, combining marks and CRLF."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miton_lsp.chunking import LineIndex, PositionError
from miton_lsp.chunking.positions import PositionEncoding, length_in

ENCODINGS: tuple[PositionEncoding, ...] = ("utf-8", "utf-16", "utf-32")
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
TEXT = "a🙂b\r\n日本語\r\ne\u0301x\n\n👨‍👩‍👧end"


@pytest.mark.parametrize(
    ("line", "character", "encoding", "prefix"),
    [
        (0, 1, "utf-16", "a"),
        (0, 3, "utf-16", "a🙂"),
        (0, 2, "utf-16", "a"),  # inside the surrogate pair
        (0, 5, "utf-8", "a🙂"),
        (0, 3, "utf-8", "a"),  # inside the character
        (0, 2, "utf-32", "a🙂"),
        (0, 99, "utf-16", "a🙂b"),  # beyond the end of the line, before its \r\n
        (1, 2, "utf-16", "a🙂b\r\n日本"),
        (1, 6, "utf-8", "a🙂b\r\n日本"),
        (2, 2, "utf-16", "a🙂b\r\n日本語\r\ne\u0301"),
        (3, 0, "utf-16", "a🙂b\r\n日本語\r\ne\u0301x\n"),
        (4, 8, "utf-16", "a🙂b\r\n日本語\r\ne\u0301x\n\n👨‍👩‍👧"),
        (5, 0, "utf-16", TEXT),  # the line after the last is the end
    ],
)
def test_positions_mean_bytes(line: int, character: int, encoding: PositionEncoding, prefix: str) -> None:
    assert LineIndex(TEXT).offset(line, character, encoding) == len(prefix.encode())


@settings(max_examples=300)
@given(
    st.text(
        alphabet=st.one_of(st.sampled_from("ab\n\r🙂日é\u0301\u2028\x85\x0c\0"), st.characters()), max_size=40
    ),
    st.sampled_from(ENCODINGS),
)
def test_every_character_boundary_goes_there_and_back(text: str, encoding: PositionEncoding) -> None:
    index = LineIndex(text)
    codec, width = CODECS[encoding]
    for cut in range(len(text) + 1):
        if text[cut - 1 : cut + 1] == "\r\n" and cut:
            continue  # inside a line end there is no position
        before = text[:cut]
        offset = len(before.encode("utf-8", "surrogatepass"))
        line, character = index.position(offset, encoding)
        last_line = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")[-1]
        assert line == before.replace("\r\n", "\n").replace("\r", "\n").count("\n")
        assert character == len(last_line.encode(codec, "surrogatepass")) // width
        assert index.offset(line, character, encoding) == offset
        assert length_in(last_line, encoding) == character


@pytest.mark.parametrize(("line", "character"), [(-1, 0), (0, -1), (6, 0), (1000, 1000)])
def test_positions_outside_the_text_are_an_error(line: int, character: int) -> None:
    with pytest.raises(PositionError, match="5 lines"):
        LineIndex(TEXT).offset(line, character)


def test_offsets_outside_the_text_are_an_error() -> None:
    with pytest.raises(PositionError):
        LineIndex("abc").position(4)


def test_an_offset_inside_a_character_means_its_start() -> None:
    assert LineIndex("a🙂").position(3, "utf-16") == (0, 1)
