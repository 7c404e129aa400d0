"""How a language's syntax tree is read: which nodes are functions, classes, comments, wrappers.

One `LanguageSyntax` per language, data only (`syntax_tables.py`); the reader of trees is `outline.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class LanguageSyntax:
    """Node types of one tree-sitter grammar, by the part they play.

    functions: definitions that are not cut while they fit. classes: opened always, a chunk that opens
    them and one for each member. containers: opened only when too large. wrappers: nodes around a
    definition that belong to it (decorators, `export`, `template<...>`, assignments). function_values:
    what makes a function of the wrapper it is assigned in. comments, attributes: lead the definition
    that follows. transparent: their children stand in their place. starters: loose nodes that begin a
    new chunk. bodies, body_types: fields or types of the child that holds members. names, name_types:
    fields or types followed down to a name, name_stops: where to stop. owners: node type -> field whose
    last name qualifies the symbol (receivers). kinds: node type -> chunk kind. loose: chunk kind of
    top-level code. embedded: node type -> language of its raw text. comment_prefix: leads a definition
    also where the tree puts the comment elsewhere.
    """

    grammar: str
    functions: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    containers: frozenset[str] = frozenset()
    wrappers: frozenset[str] = frozenset()
    function_values: frozenset[str] = frozenset()
    comments: frozenset[str] = frozenset({"comment"})
    attributes: frozenset[str] = frozenset()
    transparent: frozenset[str] = frozenset()
    starters: frozenset[str] = frozenset()
    bodies: tuple[str, ...] = ("body",)
    body_types: frozenset[str] = frozenset()
    names: tuple[str, ...] = ("name",)
    name_types: frozenset[str] = frozenset()
    name_stops: frozenset[str] = frozenset()
    owners: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    loose: str = "module"
    embedded: Mapping[str, str] = field(default_factory=dict)
    comment_prefix: bytes = b""
    definitions: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "definitions", self.functions | self.classes | self.containers)


def types(names: str) -> frozenset[str]:
    """Set of the blank-separated node types in `names`."""
    return frozenset(names.split())


def kinds(**by_kind: str) -> Mapping[str, str]:
    """Node type -> chunk kind, given as kind -> blank-separated node types."""
    return MappingProxyType({node: kind for kind, nodes in by_kind.items() for node in nodes.split()})
