"""Samples on disk as they are taken, so that a benchmark of hours goes on where it was interrupted. JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from miton_service.bench.errors import BenchmarkError


class Journal:
    """The first line says what is measured, each other line is a sample; without a path it is kept in memory."""

    def __init__(self, path: Path | None, measured: Mapping[str, Any]) -> None:
        """Raises `BenchmarkError` for a file that holds something else, which is left as it is."""
        self._path = path
        self.samples: list[dict[str, Any]] = []
        if path is None:
            return
        if path.exists() and path.stat().st_size:
            first, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
            if _decoded(first) != measured:
                raise BenchmarkError(
                    f"{path} holds other samples than {json.dumps(measured)}; name another journal, or remove it."
                )
            whole = [line for line in rest if _decoded(line) is not None]  # the last may be cut off by a kill
            self.samples = [json.loads(line) for line in whole]
            _write(path, first + "".join(whole))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, json.dumps(measured) + "\n")

    def add(self, sample: dict[str, Any]) -> None:
        self.samples.append(sample)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(sample) + "\n")


def _decoded(line: str) -> Any:
    try:
        return json.loads(line) if line.endswith("\n") else None
    except ValueError:
        return None


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
