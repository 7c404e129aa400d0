"""What an editor may set is read; what it may not is told in words and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from miton_lsp.options import Options


def test_options_are_read() -> None:
    given = {"url": "http://localhost:9000", "token": "t", "start": True, "model": "m", "maxTokens": 7}
    assert Options.read(given) == (Options("http://localhost:9000", "t", True, "m", 7), [])
    assert Options.read(None) == (Options(), [])


@pytest.mark.parametrize(
    "given",
    [
        *({"url": url} for url in ("", "nonsense", "ftp://x", "http://", 1)),
        *({"url": url} for url in ("http://[::1", "http://h:99999", "http://h:0")),
        *({"token": token} for token in ("a\nb", "\u00e9", None)),
        *({"maxTokens": count} for count in (0, -1, True, 1.5, "9")),
        *({"start": start} for start in (1, "yes")),
        *({"model": "--host"}, {"unknown": 1}, {"max_tokens": 3}, [1], "x"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_and_left_out(given: Any) -> None:
    options, wrong = Options.read(given)
    assert options == Options()
    assert len(wrong) == 1
