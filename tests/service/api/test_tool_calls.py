"""Tool calls are found in a chat's text however the stream was cut, and nothing of it is lost."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from miton_service.api.tool_calls import ToolCallText

CALL = '<tool_call>\n{"name": "read_file", "arguments": {"path": "é.py"}}\n</tool_call>'
PIECES = st.lists(
    st.sampled_from([CALL, "text", "<tool_call>", "</tool_call>", "<tool", "<", "{}", "\n"]), max_size=8
)


@given(PIECES, st.data())
def test_the_cut_of_the_stream_changes_nothing(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    whole = ToolCallText()
    said = whole.push(text) + whole.flush()
    cut, shown, rest = ToolCallText(), "", text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        shown += cut.push(rest[:size])
        rest = rest[size:]
    assert shown + cut.flush() == said
    assert [call["function"] for call in cut.calls] == [call["function"] for call in whole.calls]
    assert len(said) + len(CALL) * len(whole.calls) == len(text)


def test_a_call_has_openais_shape() -> None:
    text = ToolCallText()
    assert text.push("I look. " + CALL + " done") == "I look.  done"
    (call,) = text.calls
    assert call["type"] == "function"
    assert call["function"]["name"] == "read_file"
    assert json.loads(call["function"]["arguments"]) == {"path": "é.py"}


def test_what_is_not_a_call_is_said() -> None:
    for broken in (
        "<tool_call>not json</tool_call>",
        "<tool_call>[1]</tool_call>",
        '<tool_call>{"name": "x"',
    ):
        text = ToolCallText()
        assert text.push(broken) + text.flush() == broken
        assert text.calls == []
