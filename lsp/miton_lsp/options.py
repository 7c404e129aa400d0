"""What an editor may set at the start of the language server."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Options:
    """`initializationOptions` of the editor."""

    url: str = field(default_factory=lambda: os.environ.get("MITON_URL", "http://127.0.0.1:8377"))
    token: str = field(default_factory=lambda: os.environ.get("MITON_TOKEN", ""))
    start: bool = False  # start the service when none answers
    model: str = ""  # of a service that is started
    max_tokens: int = 128

    @classmethod
    def read(cls, given: Any) -> tuple[Options, list[str]]:
        """Options from what an editor sent, and what was wrong with it in words."""
        wrong: list[str] = []
        values: dict[str, Any] = {}
        names = {"maxTokens" if f.name == "max_tokens" else f.name: f.name for f in fields(cls)}
        defaults = cls()
        items = given.items() if isinstance(given, dict) else []
        if given is not None and not isinstance(given, dict):
            wrong.append(f"the initializationOptions are {given!r}; they must be an object")
        for key, value in items:
            name = names.get(key)
            if name is None:
                wrong.append(f"{key} is no option; there are {', '.join(names)}")
            elif type(value) is not type(getattr(defaults, name)):
                wrong.append(f"{key} is {value!r}; it must be like {getattr(defaults, name)!r}")
            elif fault := _fault(name, value):
                wrong.append(f"{key} is {value!r}; {fault}")
            else:
                values[name] = value
        return cls(**values), wrong


def _fault(name: str, value: Any) -> str:
    """What is wrong with a value of the right type; "" for nothing."""
    if name == "url":
        try:
            parts = urlsplit(value)
            whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            whole = False
        return "" if whole else "it must be like http://127.0.0.1:8377"
    if name == "token":
        return "" if value.isascii() and value.isprintable() else "it must be one line of ASCII"
    if name == "max_tokens":
        return "" if value >= 1 else "it must be at least 1"
    return "it must not begin with -" if name == "model" and value.startswith("-") else ""
