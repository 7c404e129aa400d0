"""Import resolution by language: one resolver per family of module systems, found by the importing file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from ..chunking import language_of
from . import python_modules
from .model import Import
from .paths import PathIndex


class Resolver(Protocol):
    """Workspace files an import may mean, best first; none for the standard library and what is missing."""

    def __call__(self, index: PathIndex, path: str, item: Import) -> list[str]: ...


RESOLVERS: Final[Mapping[str, Resolver]] = {"python": python_modules.resolve}


def resolve_import(index: PathIndex, path: str, item: Import) -> list[str]:
    """Files that `item`, written in the file `path`, may mean; best first, `path` itself excluded."""
    resolver = RESOLVERS.get(language_of(path))
    return [found for found in resolver(index, path, item) if found != path] if resolver else []
