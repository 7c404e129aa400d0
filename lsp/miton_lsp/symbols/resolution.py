"""Import resolution by language: one resolver per family of module systems, found by the importing file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from ..chunking import language_of
from . import javascript_modules, path_modules, python_modules
from .model import Import
from .paths import PathIndex


class Resolver(Protocol):
    """Workspace files an import may mean, best first; none for the standard library and what is missing."""

    def __call__(self, index: PathIndex, path: str, item: Import, /) -> list[str]: ...


_INCLUDE: Final = path_modules.resolve_relative("")

RESOLVERS: Final[Mapping[str, Resolver]] = MappingProxyType(
    {
        "python": python_modules.resolve,
        **dict.fromkeys(
            ("javascript", "typescript", "tsx", "vue", "svelte", "html"), javascript_modules.resolve
        ),
        "go": path_modules.resolve_go,
        "rust": path_modules.resolve_rust,
        "java": path_modules.resolve_dotted(".java", ".kt", ".scala"),
        "kotlin": path_modules.resolve_dotted(".kt", ".java"),
        "php": path_modules.resolve_dotted(".php"),
        "c": _INCLUDE,
        "cpp": _INCLUDE,
        "ruby": path_modules.resolve_relative(".rb", ""),
        "lua": path_modules.resolve_relative(".lua", "/init.lua"),
    }
)

CONFIGS: Final[Mapping[str, Callable[[PathIndex, str, str], None]]] = MappingProxyType(
    {
        "tsconfig.json": javascript_modules.read_config,
        "jsconfig.json": javascript_modules.read_config,
        "go.mod": path_modules.read_go_mod,
    }
)
"""Project files that say what imports mean, by name."""


def resolve_import(index: PathIndex, path: str, item: Import) -> list[str]:
    """Files that `item`, written in the file `path`, may mean; best first, `path` itself excluded."""
    resolver = RESOLVERS.get(language_of(path))
    return [found for found in resolver(index, path, item) if found != path] if resolver else []
