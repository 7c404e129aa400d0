"""What holds for the chunks of every text: they cover it exactly, none is empty, bounds hold, nothing raises."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miton_lsp.chunking import ChunkOptions, chunk_text, chunker_names, estimate_tokens, language_of

SAMPLES = sorted((Path(__file__).parent / "samples").iterdir())
SAMPLE_TEXTS = {path.name: path.read_text("utf-8") for path in SAMPLES}
PIECES = [
    *"{}()[]<>\"'`#;:,\\\t\n ",
    "\0",
    "\f",
    "\r\n",
    "\r",
    "\x85",
    "\u2028",
    "é",
    "日本語",
    "🙂",
    "e\u0301",
    "\ud800",
    '"""',
    "/*",
    "*/",
    "//",
    "def f(x):\n    return x\n",
    "class A:\n    def g(self):\n        pass\n",
    "function f() { return 1 }\n",
    "<script>",
    "</script>",
    "@decorator\n",
    "#ifdef X\n",
    "#endif\n",
    "---\n",
    "- a: b\n",
]


def check_cover(text: str, path: str, options: ChunkOptions, chunker: str = "function") -> None:
    chunks = chunk_text(text, path, options=options, chunker=chunker)
    assert "".join(chunk.text for chunk in chunks) == text
    source = text.encode("utf-8", "surrogatepass")
    position = 0
    for chunk in chunks:
        assert chunk.text
        assert chunk.start_byte == position
        position = chunk.end_byte
        assert source[chunk.start_byte : chunk.end_byte].decode("utf-8", "surrogatepass") == chunk.text
        assert chunk.start_line == source.count(b"\n", 0, chunk.start_byte)
        assert chunk.end_line == source.count(b"\n", 0, chunk.end_byte - 1)
        assert chunk.header == "" or chunk.header.endswith("\n")
        if len(chunk.text) > 1:
            assert options.count_tokens(chunk.text) <= options.max_tokens * 1.2 + 2
    assert position == len(source)


@st.composite
def broken_sources(draw: st.DrawFn) -> tuple[str, str]:
    """A sample with cuts, insertions and doublings, as while typing, or worse."""
    name = draw(st.sampled_from(sorted(SAMPLE_TEXTS)))
    text = SAMPLE_TEXTS[name]
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 60)))
        text = text[:at] + draw(st.sampled_from(PIECES)) * draw(st.integers(0, 3)) + text[end:]
    return name, text


@settings(max_examples=300, deadline=None)
@given(broken_sources(), st.sampled_from([4, 30, 400]), st.sampled_from(chunker_names()))
def test_chunks_of_broken_source_cover_it_exactly(
    named: tuple[str, str], max_tokens: int, chunker: str
) -> None:
    name, text = named
    check_cover(text, name, ChunkOptions(max_tokens=max_tokens, min_tokens=2), chunker)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=30).map("".join),
    st.sampled_from(sorted(SAMPLE_TEXTS)),
)
def test_chunks_of_any_text_cover_it_exactly(text: str, name: str) -> None:
    check_cover(text, name, ChunkOptions(max_tokens=20, min_tokens=3))


@settings(max_examples=60, deadline=None)
@given(broken_sources())
def test_any_token_counter_bounds_the_chunks(named: tuple[str, str]) -> None:
    name, text = named
    options = ChunkOptions(
        max_tokens=50, min_tokens=5, count_tokens=lambda part: len(part.encode("utf-8", "replace"))
    )
    for chunk in chunk_text(text, name, options=options):
        assert len(chunk.text.encode("utf-8", "replace")) <= 50


@pytest.mark.parametrize("chunker", chunker_names())
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_chunker_covers_every_sample(path: Path, chunker: str) -> None:
    for maximum in (1, 12, 60, 400):
        check_cover(
            path.read_text("utf-8"), path.name, ChunkOptions(max_tokens=maximum, min_tokens=1), chunker
        )


HARD = {
    "one line of 5 MB": ("bundle.js", "var a=function(){return 1};" * 190_000),
    "5 MB without a break": ("data.json", '"' + "x" * 5_000_000 + '"'),
    "brackets 100k deep": ("deep.py", "(" * 100_000),
    "closed brackets 100k deep": ("deep.json", "[" * 100_000 + "]" * 100_000),
    "blocks 3k deep": ("deep.js", "{\n" * 3_000 + "}\n" * 3_000),
    "ifs 900 deep": ("deep.py", "".join(" " * i + "if x:\n" for i in range(900)) + " " * 900 + "pass\n"),
    "comments that never end": ("star.kt", "/*" * 100_000),
    "elements 20k deep": ("deep.html", "<a>\n" * 20_000),
    "sections and lists": (
        "deep.md",
        "".join("#" * (i % 6 + 1) + " h\n\n" + "> " * 50 + "x\n\n" for i in range(800)),
    ),
    "only NUL": ("nul.py", "\0" * 100_000),
    "form feeds": ("ff.py", "\f\n" * 50_000),
    "32 KiB and more": ("long.py", "x = 1\n" * 6_000),
    "65,536 bytes": ("edge.py", "#" * 65_535 + "\n"),
    "multi-byte at 4096": ("edge.py", "x = '" + "a" * 4_090 + "日本語" * 3_000 + "'\n"),
    "line separators in strings": ("sep.py", "x = '\u2028\x85'\n" * 2_000),
    "carriage returns": ("crlf.py", "def f():\r\n    return 1\r\n\r\n" * 2_000),
    "lone carriage returns": ("mac.py", "def f():\r    return 1\r\r" * 2_000),
    "lone surrogates": ("bad.py", "x = '\ud800'\n" * 3_000),
    "blank": ("blank.py", "\n" * 100_000),
    "spaces": ("spaces.md", " " * 100_000),
}


@pytest.mark.parametrize("case", HARD)
def test_hard_texts_neither_crash_nor_hang(case: str) -> None:
    path, text = HARD[case]
    check_cover(text, path, ChunkOptions())


def test_an_empty_text_has_no_chunks() -> None:
    assert chunk_text("", "a.py") == []


def test_chunking_is_the_same_every_time_and_everywhere() -> None:
    for name, text in SAMPLE_TEXTS.items():
        assert chunk_text(text, name) == chunk_text(text, name)


def test_same_text_in_two_files_never_shares_a_hash() -> None:
    for name, text in SAMPLE_TEXTS.items():
        here = {chunk.content_hash for chunk in chunk_text(text, f"a/{name}")}
        there = {chunk.content_hash for chunk in chunk_text(text, f"b/{name}")}
        assert here
        assert not here & there


def test_an_unknown_chunker_is_an_error_that_names_the_known() -> None:
    with pytest.raises(ValueError, match="function"):
        chunk_text("x", "a.py", chunker="magic")


def test_impossible_bounds_are_an_error() -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        ChunkOptions(max_tokens=10, min_tokens=11)


def test_tokens_are_estimated_above_zero_and_grow_with_text() -> None:
    assert estimate_tokens("") == 1
    text = SAMPLE_TEXTS["sample.py"]
    assert estimate_tokens(text * 4) == pytest.approx(4 * estimate_tokens(text), rel=0.01)


@pytest.mark.parametrize(
    ("path", "text", "language"),
    [
        ("a/b.PY", "", "python"),
        ("Gemfile", "", "ruby"),
        ("tool", "#!/usr/bin/env -S python3 -u\n", "python"),
        ("tool", "#!/bin/sh\n", "bash"),
        ("tool", "plain words", "text"),
        ("x.h", "int f(void);\n", "c"),
        ("x.h", "namespace a {\nclass B {};\n}\n", "cpp"),
        ("x.unknown", "", "text"),
        (".py", "", "text"),
        ("n.ipynb", '{"cells": []}', "json"),
        ("n.ipynb", "# %%\nx = 1\n", "python"),
        ("dir.py/file", "", "text"),
    ],
)
def test_language_by_name_extension_and_first_line(path: str, text: str, language: str) -> None:
    assert language_of(path, text) == language
