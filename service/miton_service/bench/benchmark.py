"""What a benchmark is: a name, a line for --help, and a function from a `Run` to a `Result`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from miton_engine.models.sources import default_cache_dir, locate
from miton_service.bench.errors import BenchmarkError
from miton_service.bench.machine import describe, physical_cores
from miton_service.bench.progress import Steps
from miton_service.bench.result import Result


@dataclass(frozen=True)
class Run:
    """How a benchmark is to run. `threads` is what each system gets; quick runs take about three minutes."""

    quick: bool
    console: Console
    model: str
    threads: int = field(default_factory=physical_cores)
    machine: dict[str, Any] = field(default_factory=describe)
    journal: Path | None = None  # of a benchmark that keeps one

    @property
    def steps(self) -> Steps:
        return Steps(self.console)

    def model_file(self) -> Path:
        """The weights file that peers read. Raises `BenchmarkError` for a model that is not one GGUF file."""
        path = locate(self.model, cache=default_cache_dir() / "models").path
        if path.suffix != ".gguf":
            raise BenchmarkError(
                f"{self.model} is no single GGUF file; peers need one. Choose another --model."
            )
        return path

    def pick(self, full: int, quick: int) -> int:
        """A count for this kind of run."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Benchmark:
    """An entry of the registry; its module is imported when it runs.

    One that is not `timed` as a whole lets others measure beside it: it says how good or how safe, not how fast,
    or it asks for the machine for a sample at a time (`quiet.quiet_moment`).
    """

    name: str
    summary: str
    module: str
    timed: bool = True
    keeps_journal: bool = False

    def run(self, how: Run) -> Result:
        function: Callable[[Run], Result] = import_module(f"miton_service.bench.{self.module}").run
        return function(how)


BENCHMARKS = {
    entry.name: entry
    for entry in (
        Benchmark("speed", "prefill and decode tokens/s against llama.cpp", "speed"),
        Benchmark(
            "session",
            "time to first token at each hunk of a release",
            "session",
            timed=False,
            keeps_journal=True,
        ),
        Benchmark("edit-ttft", "time to first token after a function in an early file changed", "edit_ttft"),
        Benchmark("growth", "time to first token as the repository grows", "growth"),
        Benchmark("keystroke", "time to first token at each typed character", "keystroke"),
        Benchmark("two-clients", "two clients at once: the same answers, what it costs", "two_clients"),
        Benchmark("kills", "kill -9 at random moments: no chunk lost, none wrong", "kills", timed=False),
        Benchmark("accuracy", "the model's paths against transformers in fp32", "accuracy", timed=False),
        Benchmark("cross-file", "quality: arguments of calls defined elsewhere", "cross_file", timed=False),
        Benchmark("infilling", "quality: HumanEval single-line infilling, pass@1", "infilling", timed=False),
    )
}
