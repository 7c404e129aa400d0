"""Tree-sitter queries that find definitions, imports and references: one .scm file per language.

Captures: `@definition.KIND` around `@name` (and `@owner`, the type that qualifies it); `@definition.scope` around
`@scope`, which only qualifies what is inside; `@reference.KIND`; `@import` around `@import.module`, `.name`,
`.alias`, or one of `.dotted` (name after the last separator), `.tree` (Rust), `.submodule` (Rust);
`@import.default` for a default import; `@import.function` for a call that may be one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

_OWN: Final = "python javascript typescript go rust java c cpp ruby php csharp kotlin swift scala lua bash"

QUERY_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {**{name: name for name in _OWN.split()}, "tsx": "typescript"}
)
"""Language -> name of its query file."""


@cache
def query_text(language: str) -> str:
    """The query for `language`. Raises KeyError for a language without one."""
    return files(__name__).joinpath(f"{QUERY_FILES[language]}.scm").read_text("utf-8")
