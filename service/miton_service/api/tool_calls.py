"""Tool calls in a chat's text, as Qwen's and Hermes' templates ask models to write them.

<tool_call>
{"name": "read_file", "arguments": {"path": "a.py"}}
</tool_call>
"""

from __future__ import annotations

import json
import secrets
from typing import Any

START, END = "<tool_call>", "</tool_call>"


class ToolCallText:
    """Splits a stream of text into what is said and the tools that are called, however it was cut."""

    def __init__(self) -> None:
        self._held = ""
        self.calls: list[dict[str, Any]] = []

    def push(self, text: str) -> str:
        """Take text, return what of it is said; a call is taken out when it is complete."""
        self._held += text
        said = ""
        while (start := self._held.find(START)) >= 0:
            end = self._held.find(END, start)
            if end < 0:
                return said + self._say(start)
            whole = self._held[start : end + len(END)]
            call = _parse(whole[len(START) : -len(END)])
            said += self._say(start)
            self._held = self._held[len(whole) :]
            if call is None:
                said += whole
            else:
                self.calls.append(call)
        partial = next(n for n in range(len(START) - 1, -1, -1) if self._held.endswith(START[:n]))
        return said + self._say(len(self._held) - partial)

    def flush(self) -> str:
        """The end: a call that was cut off is said as text, for nothing may be lost."""
        return self._say(len(self._held))

    def _say(self, length: int) -> str:
        said, self._held = self._held[:length], self._held[length:]
        return said


def _parse(text: str) -> dict[str, Any] | None:
    try:
        call = json.loads(text)
    except ValueError:
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments", {})
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {
        "id": f"call_{secrets.token_hex(12)}",
        "type": "function",
        "function": {"name": call["name"], "arguments": written},
    }
