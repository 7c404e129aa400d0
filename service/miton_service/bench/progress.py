"""How far a benchmark is, with seconds left: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Item = TypeVar("Item")
LINE_EVERY_S = 15.0


class Steps:
    """Shows progress of named stages on `console`."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def over(self, items: Sequence[Item], title: str) -> Iterator[Item]:
        """Iterate with progress, one step per item."""
        with self.stage(title, len(items)) as report:
            for done, item in enumerate(items):
                report(done)
                yield item

    @contextmanager
    def stage(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """A stage of `total` steps; call what it yields with the steps done."""
        if self.console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            with Progress(*columns, console=self.console, transient=True) as bars:
                task = bars.add_task(title, total=total)
                yield lambda done: bars.update(task, completed=min(done, total))
            return
        started = last = time.monotonic()
        self.console.print(f"{title} ...", highlight=False)

        def line(done: int) -> None:
            nonlocal last
            now = time.monotonic()
            if done and now - last >= LINE_EVERY_S:
                last = now
                left = (now - started) / done * max(0, total - done)
                self.console.print(
                    f"{title}: {min(done, total)} of {total}, {left:.0f} s left", highlight=False
                )

        yield line
