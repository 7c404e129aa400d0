"""What a benchmark gives: our figures, the peers' under the same names, and the bars they are held to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

Figures = Mapping[str, float | str]


@dataclass(frozen=True)
class Bar:
    """A figure and the limit it must keep. `value` None means it could not be measured: that is a miss."""

    name: str
    value: float | None
    limit: float
    direction: Literal["at least", "at most"]

    @property
    def ok(self) -> bool:
        if self.value is None:
            return False
        return self.value >= self.limit if self.direction == "at least" else self.value <= self.limit

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "bar": f"{self.direction} {self.limit:g}",
            "ok": self.ok,
        }


@dataclass(frozen=True)
class Result:
    """One benchmark's outcome. `samples` are the raw values behind the figures: measure -> system -> values."""

    name: str
    machine: Mapping[str, Any]
    figures: Figures
    peers: Mapping[str, Figures]
    bars: tuple[Bar, ...]
    samples: Mapping[str, Mapping[str, list[float]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return all(bar.ok for bar in self.bars)

    def to_json(self) -> dict[str, Any]:
        """The result as JSON; `bars` in the shape {name, value, bar, ok}."""
        return {**asdict(self), "bars": [bar.to_json() for bar in self.bars], "ok": self.ok}


def print_result(result: Result, console: Console) -> None:
    """The same as a table."""
    table = Table(title=f"{result.name}", title_justify="left")
    table.add_column("figure")
    table.add_column("Miton", justify="right")
    for peer in result.peers:
        table.add_column(peer, justify="right")
    columns = [result.figures, *result.peers.values()]
    for name in _names(columns):
        table.add_row(name, *(_show(column.get(name)) for column in columns))
    console.print(table)
    if result.bars:
        bars = Table(title="bars", title_justify="left")
        for column in ("", "value", "bar"):
            bars.add_column(column, justify="left" if not column else "right")
        for bar in result.bars:
            mark = "[green]kept  [/green]" if bar.ok else "[red]missed[/red]"
            bars.add_row(f"{mark} {bar.name}", _show(bar.value), f"{bar.direction} {bar.limit:g}")
        console.print(bars)
    for note in result.notes:
        console.print(note, highlight=False)


def _names(columns: Iterable[Figures]) -> list[str]:
    return list(dict.fromkeys(name for column in columns for name in column))


def _show(value: float | str | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
