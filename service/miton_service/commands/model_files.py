"""`miton models`: which models there are, fetching one, comparing its file with its hash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from miton_engine.models.registry import MODELS
from miton_engine.models.sources import default_cache_dir, locate
from miton_service.commands.output import print_json
from miton_service.settings import ServiceSettings


def models_dir(settings: ServiceSettings) -> Path:
    """Where model files lie."""
    return (settings.cache_dir if settings.cache_dir != Path() else default_cache_dir()) / "models"


def list_models(settings: ServiceSettings, *, as_json: bool, console: Console) -> None:
    """Print the registry, and which of its files are here."""
    directory = models_dir(settings)
    rows = [
        {
            "name": model.name, "title": model.title, "licence": model.licence, "bytes": model.size,
            "here": (directory / model.file).is_file(), "path": str(directory / model.file),
            "default": model.name == settings.model,
        }
        for model in MODELS.values()
    ]  # fmt: skip
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False)
    for name in ("name", "model", "size", "licence", "here"):
        table.add_column(name, justify="right" if name == "size" else "left")
    for row in rows:
        name = f"{row['name']} (default)" if row["default"] else str(row["name"])
        size = f"{int(str(row['bytes'])) / 1e6:.0f} MB"
        table.add_row(name, str(row["title"]), size, str(row["licence"]), "yes" if row["here"] else "no")
    console.print(table)
    console.print(
        "A path of a GGUF file or of a directory, and org/name of the model hub, work with --model, too."
    )


def pull(settings: ServiceSettings, *, quiet_if_present: bool, as_json: bool, notes: Console) -> None:
    """Fetch the model that the settings name."""
    directory = models_dir(settings)
    known = MODELS.get(settings.model)
    if quiet_if_present and known is not None and (directory / known.file).is_file():
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True),
        TransferSpeedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as bars:
        bar = bars.add_task(f"fetching {settings.model}", total=None)
        tenth = -1

        def show(done: int, total: int, left: float | None) -> None:
            nonlocal tenth
            bars.update(bar, completed=done, total=total)
            if not notes.is_terminal and total and done * 10 // total > tenth:
                tenth = done * 10 // total
                notes.print(
                    f"fetching {settings.model} {tenth * 10}% of {total / 1e6:.0f} MB", highlight=False
                )

        found = locate(settings.model, cache=directory, progress=show)
    _report(found.name, found.path, found.fingerprint, as_json)


def verify(settings: ServiceSettings, *, as_json: bool, notes: Console) -> None:
    """Read the model's file and compare its hash. Raises the engine's `ModelError` when it differs."""
    directory = models_dir(settings)
    known = MODELS.get(settings.model)
    if known is not None and not (directory / known.file).is_file():
        notes.print(f"{settings.model} is not here yet; fetching it", highlight=False)
    found = locate(settings.model, cache=directory, verify=True)
    _report(found.name, found.path, found.fingerprint, as_json)


def _report(name: str, path: Path, fingerprint: str, as_json: bool) -> None:
    data: dict[str, Any] = {"name": name, "path": str(path), "sha256": fingerprint}
    if as_json:
        print_json(data)
    else:
        print(f"{name} is complete: {path}\nsha256 {fingerprint}")
