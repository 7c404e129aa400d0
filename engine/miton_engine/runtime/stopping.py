"""Where a generation ends: end tokens, stop strings that may span tokens, the end of a line."""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """Cuts a stream of text at the first stop string; text that may still become one is held back."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(string for string in stop if string)
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> str:
        """Take new text, return what is safe to show; after a match `matched` is set and nothing follows."""
        if self.matched is not None:
            return ""
        if not self._stop:
            return text
        self._held += text
        found = [(index, string) for string in self._stop if (index := self._held.find(string)) >= 0]
        if found:
            index, self.matched = min(found)
            shown, self._held = self._held[:index], ""
            return shown
        keep = max(
            length
            for string in self._stop
            for length in range(min(len(string) - 1, len(self._held)) + 1)
            if length == 0 or self._held.endswith(string[:length])
        )
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown

    def flush(self) -> str:
        """The text still held back, at the end of the stream."""
        shown, self._held = self._held, ""
        return shown
