"""How a language's syntax tree is read: which nodes are functions, classes, comments, wrappers.

One `LanguageSyntax` per language, data only (`syntax_tables.py`); the reader of trees is `outline.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class LanguageSyntax:
    """Node types of one tree-sitter grammar, by the part they play.

    functions: never cut when they fit. classes: become a header chunk plus members. containers: like classes,
    but only opened when too large for a chunk (objects, impl-less blocks, sections). wrappers: nodes around a
    definition that belong to it (decorators, `export`, `template<...>`). values: declarations that define a
    function when one of their values is a node of `function_values`. comments and attributes: lead the
    definition that follows. embedded: node type -> language of the text in it.
    """

    grammar: str
    functions: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    containers: frozenset[str] = frozenset()
    wrappers: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    function_values: frozenset[str] = frozenset()
    comments: frozenset[str] = frozenset({"comment", "line_comment", "block_comment"})
    attributes: frozenset[str] = frozenset()
    transparent: frozenset[str] = frozenset()
    bodies: tuple[str, ...] = ("body",)
    body_types: frozenset[str] = frozenset()
    names: tuple[str, ...] = ("name",)
    name_types: frozenset[str] = frozenset()
    owners: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    embedded: dict[str, str] = field(default_factory=dict)
    separator: str = "."


def types(names: str) -> frozenset[str]:
    """Set of the blank-separated node types in `names`."""
    return frozenset(names.split())


PYTHON: Final = LanguageSyntax(
    grammar="python",
    functions=types("function_definition"),
    classes=types("class_definition"),
    wrappers=types("decorated_definition"),
    comments=types("comment"),
)
