"""`python -m miton_service.bench NAME`: run one benchmark, print it as a table, write it as JSON.

Exit status: 0 all bars kept, 1 a bar was missed or it could not run, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from miton_engine.errors import EngineError
from miton_engine.models.registry import DEFAULT_MODEL
from miton_service.bench.benchmark import BENCHMARKS, Run
from miton_service.bench.machine import is_busy
from miton_service.bench.quiet import one_at_a_time
from miton_service.bench.result import Result, print_result
from miton_service.errors import ServiceError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.journal is not None and not BENCHMARKS[options.name].keeps_journal:
        parser.error(f"{options.name} keeps no journal; it runs in one go")
    notes, out = Console(stderr=True), Console()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with one_at_a_time(notes) if BENCHMARKS[options.name].timed else nullcontext():
            how = Run(options.quick, notes, options.model, journal=options.journal)
            if BENCHMARKS[options.name].timed and is_busy(how.machine):
                notes.print(
                    f"[yellow]The machine is busy (load {how.machine['load_at_start']}); "
                    "times will say little.[/yellow]"
                )
            result = BENCHMARKS[options.name].run(how)
    except KeyboardInterrupt:
        notes.print("interrupted; nothing was written")
        return 130
    except (ServiceError, EngineError) as error:
        notes.print(f"[red]error[/red] {error}", highlight=False, soft_wrap=True)
        return 1
    print_result(result, out)
    _write(result, options.json, options.plot, notes)
    return 0 if result.ok else 1


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {entry.name:<12} {entry.summary}" for entry in BENCHMARKS.values())
    parser = argparse.ArgumentParser(
        prog="./scripts/bench",
        description="Run a benchmark with its peers beside it, on the same weights and inputs.",
        epilog=f"benchmarks:\n{listed}\n\nexit status: 0 all bars kept, 1 a bar missed, 130 interrupted",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name", choices=tuple(BENCHMARKS), metavar="NAME", help="which benchmark; listed below"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there, too")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="write plots of the samples there (SVG)")
    parser.add_argument(
        "--journal", type=Path, metavar="FILE",
        help="session: keep each sample there, and go on from those that are there already",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a small version of about three minutes")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="short name or path of a GGUF file")
    return parser


def _write(result: Result, json_file: Path | None, plots: Path | None, notes: Console) -> None:
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(result.to_json(), indent=1) + "\n")
        notes.print(f"wrote {json_file}")
    if plots is not None:
        from miton_service.bench.plots import write_plots

        for path in write_plots(result, plots):
            notes.print(f"wrote {path}")


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
