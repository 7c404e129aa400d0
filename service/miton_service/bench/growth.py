"""Time to first token as the repository grows: the same places, in repositories of 8K, 32K and 128K tokens."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from miton_service.bench import packages, repositories
from miton_service.bench.benchmark import Run
from miton_service.bench.prompts import PromptWriter, open_model
from miton_service.bench.result import Bar, Result
from miton_service.bench.running_service import RunningService
from miton_service.bench.statistics import median, percentile

SIZES, QUICK_SIZES = (8_192, 32_768, 131_072), (5_120, 10_240, 20_480)
SOURCES = (packages.HTTPX, packages.RICH, packages.FLASK, packages.CLICK)
FIRST = ("httpx/_auth.py", "httpx/_status_codes.py")  # the places are in these: they fit the smallest size
WARM_UP = 3
MAX_TOKENS = 8
GROWTH_BAR = 1.2


def run(how: Run) -> Result:
    """Build, memorise and ask at each size; one service per size, so that no size sees another's memory."""
    count = PromptWriter(open_model(how.model)).count
    sizes = QUICK_SIZES if how.quick else SIZES
    ttft: dict[str, list[float]] = {}
    figures: dict[str, float | str] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="miton-growth-") as scratch:
            root = Path(scratch) / "repository"
            repositories.build(root, SOURCES, size, count, FIRST)
            places = repositories.places(root, FIRST, WARM_UP + how.pick(40, 12))
            with RunningService.start(how.model, how.threads) as service:
                with how.steps.stage(f"growth: memorising {size:,} tokens", size) as report:
                    state = service.open(root, partial(_report_done, report))
                answers = [
                    service.complete_at(root, place.path, place.buffer, place.cursor, max_tokens=MAX_TOKENS)
                    for place in how.steps.over(places, f"growth: asking at {size:,} tokens")
                ][WARM_UP:]
        label = f"{size:,} tokens"
        ttft[label] = [answer.ttft_ms for answer in answers]
        figures[f"tokens memorised, {label}"] = state["tokens"]
        figures[f"TTFT p50 ms, {label}"] = median(ttft[label])
        figures[f"TTFT p95 ms, {label}"] = percentile(ttft[label], 0.95)
        figures[f"recall p50 ms, {label}"] = median([answer.timings["recall_ms"] for answer in answers])
        figures[f"recalled tokens p50, {label}"] = median(
            [float(answer.context_tokens) for answer in answers]
        )
    medians = [median(values) for values in ttft.values()]
    bar = Bar("TTFT p50, largest over smallest", max(medians) / min(medians), GROWTH_BAR, "at most")
    return Result("growth", how.machine, figures, {}, (bar,), {"TTFT ms": ttft})


def _report_done(report: Callable[[int], None], done: int, total: int) -> None:
    report(done)
