"""Repositories of a wanted size, made of whole files of pinned packages, and places in them to complete at."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from miton_service.bench import packages
from miton_service.bench.errors import BenchmarkError
from miton_service.bench.hunks import split_lines
from miton_service.bench.packages import Package


@dataclass(frozen=True)
class Place:
    """A cursor behind the indentation of a line whose rest was taken out; `expected` is that rest."""

    path: str
    buffer: str
    cursor: tuple[int, int]
    expected: str


def build(
    destination: Path,
    sources: Sequence[Package],
    tokens: int,
    count: Callable[[str], int],
    first: Sequence[str] = (),
) -> list[str]:
    """Copy files of `sources`, those named in `first` before the others, until they hold about `tokens` tokens.

    Returns the paths in the order copied. A file that would pass the limit is left out; raises `BenchmarkError` if
    it is one of `first`.
    """
    found = [
        (path.relative_to(root).as_posix(), path)
        for root in map(packages.fetch, sources)
        for path in sorted(root.rglob("*.py"))
    ]
    rank = {name: index for index, name in enumerate(first)}
    found.sort(key=lambda item: rank.get(item[0], len(rank)))  # stable: the rest keep their order
    copied, used = [], 0
    for name, path in found:
        size = count(path.read_text(encoding="utf-8"))
        if size == 0 or used + size > tokens:
            continue
        target = destination / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        copied.append(name)
        used += size
    if missing := [name for name in first if name not in copied]:
        raise BenchmarkError(
            f"{', '.join(missing)} did not fit into {tokens:,} tokens; ask for a larger size."
        )
    return copied


def places(root: Path, paths: Sequence[str], number: int, seed: int = 0) -> list[Place]:
    """The same `number` places in every run: indented lines of code, the second half of which is missing."""
    candidates = [
        (path, index)
        for path in paths
        for index, line in enumerate(split_lines((root / path).read_text(encoding="utf-8")))
        if line.startswith("    ")
        and len(line.strip()) >= 16
        and not line.strip().startswith(("#", '"', "'"))
    ]
    chosen = random.Random(seed).sample(candidates, min(number, len(candidates)))
    return [_place(root, path, index) for path, index in chosen]


def _place(root: Path, path: str, index: int) -> Place:
    lines = split_lines((root / path).read_text(encoding="utf-8"))
    whole = lines[index].rstrip("\n")
    indent = len(whole) - len(whole.lstrip())
    half = indent + (len(whole) - indent) // 2
    lines[index] = whole[:half] + "\n"
    character = len(whole[:half].encode("utf-16-le")) // 2
    return Place(path, "".join(lines), (index, character), whole[half:])
