"""Garbage that makes a parser look to the end of the text at every character is given up; no parse keeps memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from miton_lsp.chunking import chunk_text, grammars

GARBAGE = {
    "a.lua": "<div>\n" * 15_000,
    "a.py": "\\\n" * 50_000,
    "a.sh": "<<A\n" * 20_000,
    "a.html": "<<A\n" * 30_000,
    "a.kt": "/*" * 25_000,
}


@pytest.mark.parametrize("path", GARBAGE)
def test_garbage_is_given_up_after_a_bounded_time(path: str) -> None:
    text = GARBAGE[path]
    before = time.thread_time()
    chunks = chunk_text(text, path)
    assert "".join(chunk.text for chunk in chunks) == text
    # A hang of minutes is what this is about (31 s and 6 GB for the first of these), not a figure of speed.
    assert time.thread_time() - before < 20


def test_a_parser_that_gave_up_parses_the_next_text_as_ever() -> None:
    sample = (Path(__file__).parent / "samples" / "sample.lua").read_text("utf-8")
    before = chunk_text(sample, "b.lua")
    chunk_text(GARBAGE["a.lua"], "a.lua")
    assert chunk_text(sample, "b.lua") == before


def test_parsing_many_texts_keeps_none_of_them() -> None:
    def resident() -> int:
        return int(psutil.Process().memory_info().rss)

    text = b"def f(x):\n    return x\n" * 20_000
    for number in range(20):
        grammars.parse(text + b"# %d\n" % number, "python")
    before = resident()
    for number in range(150):
        grammars.parse(text + b"# %d\n" % number, "python")
    assert resident() - before < 0.3 * 150 * len(text)


DEEP = {
    "quotes": ("a.md", "> " * 3_000 + "a\n"),
    "list items": ("a.md", "- " * 3_000 + "a\n"),
    "lists by indentation": ("a.md", "".join("  " * i + "- a\n" for i in range(600))),
    "lists by tabs": ("a.md", "".join("\t" * i + "- a\n" + "\t" * i + "  - a\n" for i in range(600))),
    "quotes and lists": ("a.md", ">- " * 2_000 + "a\n"),
    "mappings": ("a.yaml", "".join(" " * i + "a:\n" for i in range(900))),
    "sequences": ("a.yaml", "- " * 3_000 + "a\n"),
    "interpolated strings": ("a.kt", '"${' * 3_000),
    "closed interpolated strings": ("a.kt", '"${' * 3_000 + '}"' * 3_000),
}


def test_nesting_that_ends_a_scanner_s_process_never_reaches_it() -> None:
    """In a process of its own: without the limits this is a segmentation fault, which no test could report."""
    code = (
        "import sys, json\n"
        "from miton_lsp.chunking import chunk_text\n"
        "for path, text in json.load(sys.stdin):\n"
        "    assert ''.join(c.text for c in chunk_text(text, path)) == text\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(list(DEEP.values())),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-500:]
