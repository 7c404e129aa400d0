"""Identifiers of a text, and the words inside them."""

from __future__ import annotations

import re
from collections.abc import Iterator

IDENTIFIER = re.compile(r"[^\W\d]\w*")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def identifiers(text: str) -> list[str]:
    """Identifiers in the order they stand."""
    return IDENTIFIER.findall(text)


def terms(identifier: str) -> Iterator[str]:
    """The identifier in lower case, and each word of a camelCase or snake_case one (three letters or more)."""
    lowered = identifier.lower()
    yield lowered
    words = {word.lower() for word in _WORDS.findall(identifier)}
    for word in words:
        if len(word) > 2 and word != lowered:
            yield word
