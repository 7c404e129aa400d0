"""Completions end where a person would want and repeat nothing; however the stream was cut."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from miton_service.completion_text import (
    CompletionFilter,
    finish,
    overlap,
    restore_line_ends,
    uses_crlf,
    wants_multi_line,
)

CASES = {
    "a space before the cursor is not doubled": ("def f(a, b):\n    return ", "\n", " a + b", "a + b"),
    "indentation after the cursor's stays": ("def f(a, b):\n    ", "\n", "    return a", "    return a"),
    "a function's body ends at the next function": (
        "def add(a, b):",
        "\n",
        "\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n",
        "\n    return a + b",
    ),
    "a statement is finished, the next one is not begun": (
        "def f():\n    x = ",
        "\n",
        "compute(1)\n    y = 2\n",
        "compute(1)",
    ),
    "a body with blank lines and nested blocks is one block": (
        "def f(rows):\n    ",
        "",
        "for row in rows:\n        go(row)\n\n    return rows\n\nprint(1)\n",
        "for row in rows:\n        go(row)\n\n    return rows",
    ),
    "else belongs to its if": (
        "def f(x):\n    if x:",
        "",
        "\n        return 1\n    else:\n        return 2\n    return 3\n",
        "\n        return 1\n    else:\n        return 2",
    ),
    "a brace that closes the block is its last line": (
        "function add(a, b) {",
        "",
        "\n  return a + b;\n}\n\nfunction sub() {}\n",
        "\n  return a + b;\n}",
    ),
    "a brace that stands there already is not repeated": (
        "function add(a, b) {",
        "\n}\n",
        "\n  return a + b;\n}\n\nfoo();\n",
        "\n  return a + b;",
    ),
    "an auto-closed bracket is not doubled": ("foo(", ")", "a, b)", "a, b"),
    "a bracket the completion needs itself stays": ("foo(", ")", "bar()", "bar()"),
    "an auto-closed quote is not doubled": ('x = "', '"', 'abc"', "abc"),
    "the rest of the line is not repeated": ("x = ", " + offset", "base + offset", "base"),
    "a bracket and colon that follow are not repeated": ("def f(self", "):", ", name):", ", name"),
    "the next line is not repeated": (
        "def f():\n    x = 1\n    ",
        "\n    return x\n",
        "y = 2\n    return x\n",
        "y = 2",
    ),
    "a completion that is only the next line is empty": (
        "x = 1\n",
        "\nreturn_value = x\n",
        "return_value = x\n",
        "",
    ),
    "the middle of an argument list goes on to its bracket": (
        "call(\n    1,",
        "",
        "\n    2,\n    3,\n)\nother()\n",
        "\n    2,\n    3,\n)",
    ),
    "an open dictionary is finished": (
        "OPTIONS = {",
        "",
        '\n    "a": 1,\n    "b": [\n        2,\n    ],\n}\nprint(OPTIONS)\n',
        '\n    "a": 1,\n    "b": [\n        2,\n    ],\n}',
    ),
    "top-level statements end at a blank line": (
        "import os\n",
        "",
        "import re\nimport sys\n\nX = 1\n",
        "import re\nimport sys",
    ),
    "letters in common by chance stay": ("a", "x = 1", "x", "x"),
    "a word that goes on after the cursor is not a repetition": ("self.", "value", "my_val", "my_val"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_completion_is_what_a_person_would_want(case: tuple[str, str, str, str]) -> None:
    prefix, suffix, generated, wanted = case
    assert finish(prefix, suffix, generated) == wanted


def test_a_single_line_is_one_line_even_when_it_begins_on_the_next() -> None:
    assert finish("x = ", "", "1\ny = 2\n", multi_line=False) == "1"
    assert finish("def f():", "", "\n    return 1\n    # done\n", multi_line=False) == "\n    return 1"


def test_prose_ends_at_its_paragraph() -> None:
    assert (
        finish("Miton is", "", " a service.\nIt is local.\n\nNext.\n", prose=True)
        == " a service.\nIt is local."
    )


CODE = st.text("ab1 \n\t(){}[]:;,\"'=+.éñ😀", max_size=60)


@given(CODE, CODE, CODE, st.booleans(), st.booleans(), st.data())
@example("1\t", "", " 1111111111", False, False, None)
@settings(max_examples=600)
def test_the_cut_of_the_stream_changes_nothing(
    prefix: str, suffix: str, text: str, multi_line: bool, prose: bool, data: st.DataObject | None
) -> None:
    whole = finish(prefix, suffix, text, multi_line=multi_line, prose=prose)
    stream, shown, rest = CompletionFilter(prefix, suffix, multi_line, prose), "", text
    while rest and not stream.done:
        size = data.draw(st.integers(1, len(rest))) if data else 1
        shown += stream.push(rest[:size])
        rest = rest[size:]
    assert shown + stream.flush() == whole
    # White space that stands there already after other text of the line is not doubled.
    doubled = prefix.rpartition("\n")[2].strip() and prefix.endswith((" ", "\t"))
    assert (text.lstrip(" ") if doubled else text).startswith(whole)
    if not multi_line:
        assert whole.strip().count("\n") == 0


@given(CODE, CODE)
def test_what_is_trimmed_stands_after_the_cursor(text: str, suffix: str) -> None:
    length = overlap(text, suffix)
    assert length == 0 or text.endswith(suffix[:length])


@given(st.text("abc é\n", min_size=1, max_size=30), st.text("abc é()\n", max_size=30))
def test_a_whole_suffix_line_is_never_shown_twice_at_the_end(line: str, after: str) -> None:
    line = " ".join(line.split())
    if len(line) < 3:
        return
    assert not finish("x = 1\n", "\n" + line + "\n" + after, line + "\n").strip()


@given(st.text("ab\n", max_size=30))
def test_line_ends_come_back_as_they_were(text: str) -> None:
    crlf = text.replace("\n", "\r\n")
    assert restore_line_ends(crlf.replace("\r\n", "\n"), uses_crlf(crlf)) == crlf


def test_several_lines_only_where_nothing_but_brackets_follows() -> None:
    assert wants_multi_line("x = ", "")
    assert wants_multi_line("foo(", ")\nmore")
    assert not wants_multi_line("x = ", " + 1")
