"""An edit changes the chunks it touches and no others; the result equals chunking from nothing."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miton_lsp.chunking import ChunkOptions, chunk_file, chunk_text, rechunk
from miton_lsp.chunking.incremental import changed_span

SAMPLES = sorted((Path(__file__).parent / "samples").iterdir())
TEXTS = {path.name: path.read_text("utf-8") for path in SAMPLES}
INSERTS = [
    "x",
    "\n",
    "    ",
    "# note\n",
    "日本",
    "🙂",
    '"',
    "(",
    ")",
    "}",
    "{",
    "def f():\n    pass\n\n\n",
    "return 1\n",
]


def real_file(package: str, name: str) -> str:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / name).read_text("utf-8")


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(TEXTS)),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(INSERTS)), max_size=6),
)
def test_edits_give_what_cold_chunking_gives(name: str, edits: list[tuple[float, int, str]]) -> None:
    """Where the text has syntax errors, an exact cover is asked for instead."""
    text = TEXTS[name]
    state = chunk_file(text, name)
    for place, removed, inserted in edits:
        at = int(place * len(text))
        text = text[:at] + inserted + text[at + removed :]
        state = rechunk(state, text)
        assert "".join(chunk.text for chunk in state.chunks) == text
        tree = state.document.tree
        if tree is None or not tree.root_node.has_error:
            assert state.chunks == chunk_text(text, name)
    state = rechunk(state, TEXTS[name])
    assert state.chunks == chunk_text(TEXTS[name], name)


@settings(max_examples=300)
@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_the_changed_span_makes_the_new_text_of_the_old(a: str, b: str, c: str, d: str) -> None:
    old, new = (a + b + d).encode(), (a + c + d).encode()
    start, old_end, new_end = changed_span(old, new)
    assert old[:start] + new[start:new_end] + old[old_end:] == new
    for data, cut in ((old, start), (old, old_end), (new, new_end)):
        data[:cut].decode()
        data[cut:].decode()


def test_lines_that_shift_keep_the_hashes_of_all_functions_below() -> None:
    text = real_file("httpx", "_client.py")
    before = chunk_file(text, "c.py")
    after = rechunk(before, "# a new first line\n" + text)
    old = {chunk.content_hash for chunk in before.chunks}
    changed = [chunk for chunk in after.chunks if chunk.content_hash not in old]
    assert len(changed) == 1
    assert changed[0].start_line == 0
    assert after.chunks[-1].start_line == before.chunks[-1].start_line + 1


def test_a_thousand_real_edits_change_hashes_only_where_the_text_changed() -> None:
    """Duplicated, deleted and altered statement lines: on average hardly more than one chunk is new."""
    generator = random.Random(5)
    text = real_file("rich", "console.py")
    state = chunk_file(text, "console.py")
    new = 0
    for _ in range(1000):
        lines = text.split("\n")
        places = [
            i for i, line in enumerate(lines) if line.startswith("        ") and line.rstrip().endswith(")")
        ]
        at = generator.choice(places)
        kind = generator.randrange(3)
        if kind == 0:
            lines.insert(at, lines[at])
        elif kind == 1:
            lines[at] = lines[at] + "  # noted"
        else:
            lines[at] = lines[at].replace("(", "(x_", 1)
        text = "\n".join(lines)
        old = {chunk.content_hash for chunk in state.chunks}
        state = rechunk(state, text)
        new += sum(chunk.content_hash not in old for chunk in state.chunks)
        if generator.random() < 0.05:  # as an editor's undo of everything
            text = real_file("rich", "console.py")
            state = rechunk(state, text)
    assert new / 1000 < 2.0


def test_functions_outside_a_syntax_error_keep_their_hash_while_typing() -> None:
    text = real_file("click", "utils.py")
    before = chunk_file(text, "u.py")
    at = text.index("def make_str")
    kept = {chunk.content_hash for chunk in before.chunks}
    state = before
    for end in range(1, len("result = call(value, [1, {")):
        typed = text[:at] + "result = call(value, [1, {"[:end] + "\n\n\n" + text[at:]
        state = rechunk(state, typed)
        new = [chunk for chunk in state.chunks if chunk.content_hash not in kept]
        assert sum(len(chunk.text) for chunk in new) < 0.35 * len(text)
    assert rechunk(state, text).chunks == before.chunks


@pytest.mark.parametrize("text", ["", "\n", "x = '\ud800'\n", "x" * 60_000, "/*" * 2000])
def test_a_file_may_become_anything_and_back(text: str) -> None:
    original = TEXTS["sample.js"]
    state = chunk_file(original, "a.js")
    state = rechunk(state, text)
    assert "".join(chunk.text for chunk in state.chunks) == text
    assert rechunk(state, original).chunks == chunk_text(original, "a.js")


def test_the_previous_state_stays_usable() -> None:
    text = TEXTS["sample.py"]
    first = chunk_file(text, "a.py")
    one = rechunk(first, text.replace("hits", "count"))
    other = rechunk(first, text.replace("size", "limit"))
    assert first.chunks == chunk_text(text, "a.py")
    assert one.chunks == chunk_text(text.replace("hits", "count"), "a.py")
    assert other.chunks == chunk_text(text.replace("size", "limit"), "a.py")


def test_bounds_and_chunker_stay_those_of_the_first_chunking() -> None:
    options = ChunkOptions(max_tokens=40, min_tokens=5)
    text = TEXTS["sample.ts"]
    for chunker in ("function", "fixed", "semantic-boundary", "length-adaptive"):
        state = rechunk(chunk_file(text, "a.ts", options=options, chunker=chunker), text + "let x = 1;\n")
        assert state.chunks == chunk_text(text + "let x = 1;\n", "a.ts", options=options, chunker=chunker)
