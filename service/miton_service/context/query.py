"""What a request asks of recall: the names near the cursor with weights, and what must not come back."""

from __future__ import annotations

import keyword
from dataclasses import dataclass, field
from functools import cached_property

from miton_service.context.window import Window
from miton_service.workspace.identifiers import identifiers, terms

NEAR_LINES = 40  # names further above the cursor are not looked at
HALF_LIFE_LINES = 8.0

_COMMON = """
self cls this true false null none undefined const let var function public private protected static void int str
string bool float double char new return import from export default type interface struct impl fn pub func package
use mut ref async await args kwargs print len range list dict set tuple object super
"""
STOP_NAMES = frozenset(keyword.kwlist) | frozenset(_COMMON.split())
"""Names that say nothing about a repository."""


@dataclass(frozen=True)
class Query:
    """`names` maps identifiers to weights; `path` and lines name the live window, which is never recalled."""

    names: dict[str, float]
    path: str = ""
    first_line: int = 0
    last_line: int = -1
    current_name: str = ""
    paths_mentioned: frozenset[str] = field(default=frozenset())

    @cached_property
    def terms(self) -> dict[str, float]:
        """Weights of BM25 terms: each name's own and, at half weight, its words'."""
        weights: dict[str, float] = {}
        for name, weight in self.names.items():
            for index, term in enumerate(terms(name)):
                share = weight if index == 0 else weight / 2
                weights[term] = max(weights.get(term, 0.0), share)
        return weights


def query_at(path: str, window: Window) -> Query:
    """Names around the cursor: the nearer the heavier, the call being written heaviest."""
    names: dict[str, float] = {}
    before = window.prefix.split("\n")
    for distance, line in enumerate(reversed(before[-NEAR_LINES:])):
        _add(names, line, 0.5 ** (distance / HALF_LIFE_LINES))
    for distance, line in enumerate(window.suffix.split("\n")[:15]):
        _add(names, line, 0.6 * 0.5 ** (distance / HALF_LIFE_LINES))
    current = open_call(window.prefix)
    if current:
        names[current] = 4.0
    return Query(names, path, window.first_line, window.last_line, current)


def open_call(prefix: str) -> str:
    """The name of the innermost call whose argument list is open at the end of `prefix`, or ""."""
    depth = 0
    tail = prefix[-2000:]
    for index in range(len(tail) - 1, -1, -1):
        letter = tail[index]
        if letter in ")]}":
            depth += 1
        elif letter in "([{":
            if depth == 0:
                found = identifiers(tail[:index][-80:]) if letter == "(" else []
                return found[-1] if found and tail[:index].rstrip().endswith(found[-1]) else ""
            depth -= 1
    return ""


def _add(names: dict[str, float], line: str, weight: float) -> None:
    for name in identifiers(line):
        if len(name) > 1 and name.lower() not in STOP_NAMES:
            names[name] = max(names.get(name, 0.0), weight)
