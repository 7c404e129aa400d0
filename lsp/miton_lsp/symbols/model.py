"""What a file defines, imports and refers to. Lines are zero-based and inclusive."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Definition:
    """`symbol` is the qualified name inside the file: "Class.method"."""

    name: str
    symbol: str
    kind: str  # function | method | class | variable | module
    start_line: int
    end_line: int


@dataclass(frozen=True)
class Import:
    """`from module import name as alias`; `name` is "" where a whole module is imported."""

    module: str
    name: str
    alias: str
    start_line: int


@dataclass(frozen=True)
class Reference:
    """A use of a name. `kind`: call | attribute | type | base | name."""

    name: str
    start_line: int
    kind: str


@dataclass(frozen=True)
class FileSymbols:
    definitions: tuple[Definition, ...] = field(default=())
    imports: tuple[Import, ...] = field(default=())
    references: tuple[Reference, ...] = field(default=())
