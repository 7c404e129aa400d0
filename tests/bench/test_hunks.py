"""A release's diff as edits: applying all hunks gives the next release, whatever the texts are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from miton_service.bench.hunks import Hunk, hunks_between, split_lines, typing

lines = st.lists(
    st.sampled_from(["a = 1\n", "    b = call(a, 2)\n", "\n", "\fc = 3\n", "x = '\u2028'\n"]), max_size=12
)
texts = st.builds(lambda rows, rest: "".join(rows) + rest, lines, st.sampled_from(["", "end", "😀 = 1"]))


@given(texts, texts)
def test_applying_every_hunk_gives_the_next_release(before: str, after: str) -> None:
    text = before
    for hunk in hunks_between({"a.py": before}, {"a.py": after}):
        text = hunk.applied_to(text)
    assert text == after


@given(texts)
def test_equal_files_have_no_hunks(text: str) -> None:
    assert list(hunks_between({"a.py": text}, {"a.py": text})) == []


@given(st.text())
def test_lines_join_to_the_text_and_end_at_line_feeds_only(text: str) -> None:
    assert "".join(split_lines(text)) == text
    assert all("\n" not in line[:-1] for line in split_lines(text))


def test_new_files_are_one_hunk() -> None:
    assert list(hunks_between({}, {"new.py": "a\nb\n"})) == [Hunk("new.py", 0, 0, ("a\n", "b\n"))]


def test_a_moment_of_typing_has_the_old_lines_gone_and_half_of_the_first_new_one() -> None:
    hunk = Hunk("a.py", 1, 3, ("    total = first + second\n", "    return total\n"))
    moment = typing(hunk, "def add():\n    old = 1\n    return old\nx = 1\n")
    assert moment is not None
    assert moment.buffer == "def add():\n    total = fir\nx = 1\n"
    assert moment.cursor == (1, 15)
    assert moment.expected == "st + second"


@given(texts, texts)
def test_the_cursor_is_where_the_expected_text_belongs(before: str, after: str) -> None:
    text = before
    for hunk in hunks_between({"a.py": before}, {"a.py": after}):
        moment = typing(hunk, text)
        if moment is not None:
            rows = moment.buffer.split("\n")
            row = rows[moment.cursor[0]]
            assert len(row.encode("utf-16-le")) // 2 == moment.cursor[1]
            assert row + moment.expected + "\n" in hunk.lines or row + moment.expected in hunk.lines
        text = hunk.applied_to(text)


def test_deletions_and_blank_lines_ask_for_nothing() -> None:
    assert typing(Hunk("a.py", 0, 1, ()), "a = 1\n") is None
    assert typing(Hunk("a.py", 0, 0, ("\n", ")\n")), "a = 1\n") is None
