"""A bounded cache."""

from __future__ import annotations

import functools
from collections import OrderedDict

DEFAULT_SIZE = 128


def logged(function):
    """Decorate `function` with a line per call."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        print(function.__name__, args, kwargs)
        return function(*args, **kwargs)

    return wrapper


class Cache(OrderedDict):
    """Least recently used entries leave first."""

    size: int = DEFAULT_SIZE
    hits = 0

    def __init__(self, size: int = DEFAULT_SIZE) -> None:
        super().__init__()
        self.size = size

    # Looked up by every request, so it stays short.
    @logged
    def lookup(self, key: str) -> object | None:
        if key not in self:
            return None
        self.hits += 1
        self.move_to_end(key)
        return self[key]

    @property
    def full(self) -> bool:
        return len(self) >= self.size

    class Error(Exception):
        """Raised for keys that may not be kept."""

        def describe(self) -> str:
            return "not kept: " + ", ".join(str(argument) for argument in self.args)


@functools.cache
async def fetch(cache: Cache, key: str) -> object:
    """What `cache` holds for `key`, or the key, naïve: “日本語” 🙂."""
    found = cache.lookup(key)
    return found if found is not None else key


if __name__ == "__main__":
    print(Cache(3).full)
