"""Two clients in two workspaces at once: the same answers as each alone, the same memory used, and what it costs.

Each of the three parts (the first client alone, the second alone, both) runs on a fresh service with both workspaces
open, asks the same requests in the same order without a pause, and finds all chunks on disk: what differs between
alone and at once is only the other client.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miton_service.bench import packages, repositories
from miton_service.bench.benchmark import Run
from miton_service.bench.prompts import PromptWriter, open_model
from miton_service.bench.repositories import Place
from miton_service.bench.result import Bar, Result
from miton_service.bench.running_service import Completion, RunningService
from miton_service.bench.statistics import mean, median, percentile

CLIENTS = {
    "httpx": (packages.HTTPX, ("httpx/_auth.py", "httpx/_status_codes.py")),
    "flask": (packages.FLASK, ("flask/blueprints.py", "flask/helpers.py")),
}
"""Name of each client's workspace: what it is made of, and the files that are asked in."""
TOKENS, QUICK_TOKENS = 16_384, 10_240  # of each workspace
REQUESTS, QUICK_REQUESTS = 40, 10  # of each client
MAX_TOKENS = 16
PREFILL_BAR = 1.05  # a little more where the other client's turn let a suffix grow stale
TTFT_BAR = 2.5  # two share one processor: 2, and what a turn lasts


@dataclass(frozen=True)
class Part:
    """What one part saw: completions by client, and the store's counters while they ran."""

    answers: Mapping[str, Sequence[Completion]]
    store: Mapping[str, float]


def run(how: Run) -> Result:
    """Memorise both workspaces, then the three parts."""
    count = PromptWriter(open_model(how.model)).count
    tokens, number = how.pick(TOKENS, QUICK_TOKENS), how.pick(REQUESTS, QUICK_REQUESTS)
    with tempfile.TemporaryDirectory(prefix="miton-two-clients-") as scratch:
        roots, places = {}, {}
        for name, (package, files) in CLIENTS.items():
            roots[name] = Path(scratch) / name
            repositories.build(roots[name], (package,), tokens, count, files)
            places[name] = repositories.places(roots[name], files, number)
        cache = Path(scratch) / "cache"
        cache.mkdir()
        with RunningService.start(how.model, how.threads, cache) as service:
            for name, root in roots.items():
                with how.steps.stage(f"two-clients: memorising {name}", tokens) as report:
                    service.open(root, lambda done, total, report=report: report(done))  # type: ignore[misc]
        alone = {}
        for name in how.steps.over(list(roots), "two-clients: each alone"):
            alone[name] = _part(how, cache, roots, {name: places[name]})
        with how.steps.stage("two-clients: both at once", 1):
            both = _part(how, cache, roots, places)
    return result(how.machine, alone, both)


def result(machine: Mapping[str, Any], alone: Mapping[str, Part], both: Part) -> Result:
    """Compare each client's answers alone with those at once, request by request."""
    figures: dict[str, float | str] = {}
    bars: list[Bar] = []
    samples: dict[str, dict[str, list[float]]] = {"TTFT ms": {}}
    for name, part in alone.items():
        before, after = part.answers[name], both.answers[name]
        pairs = list(zip(before, after, strict=True))
        prefill = [mean([answer.timings["prefill_tokens"] for answer in side]) for side in (before, after)]
        ttft = [[answer.ttft_ms for answer in side] for side in (before, after)]
        figures[f"requests, {name}"] = len(pairs)
        figures[f"prefill tokens a request, {name}: alone / at once"] = f"{prefill[0]:.1f} / {prefill[1]:.1f}"
        for share, word in ((0.5, "p50"), (0.95, "p95")):
            values = [percentile(side, share) for side in ttft]
            figures[f"TTFT {word} ms, {name}: alone / at once"] = f"{values[0]:.0f} / {values[1]:.0f}"
        samples["TTFT ms"] |= {f"{name}, alone": ttft[0], f"{name}, at once": ttft[1]}
        bars += [
            Bar(f"share of same answers, {name}", mean([float(a.text == b.text) for a, b in pairs]), 1.0,
                "at least"),
            Bar(f"share of same attached chunks, {name}",
                mean([float(_chunks(a) == _chunks(b)) for a, b in pairs]), 1.0, "at least"),
            Bar(f"prefill tokens, {name}, at once over alone", prefill[1] / max(prefill[0], 1e-9), PREFILL_BAR,
                "at most"),
            Bar(f"TTFT p50, {name}, at once over alone", median(ttft[1]) / median(ttft[0]), TTFT_BAR, "at most"),
        ]  # fmt: skip
    for label, part in {**{f"{name} alone": part for name, part in alone.items()}, "at once": both}.items():
        for counter, value in part.store.items():
            figures[f"store {counter}, {label}"] = value
    bars += [
        Bar("chunks evicted from memory, at once", both.store["evictions"], 0, "at most"),
        Bar("chunks computed again, at once", both.store["misses"], 0, "at most"),
    ]
    return Result("two-clients", machine, figures, {}, tuple(bars), samples)


def _part(how: Run, cache: Path, roots: Mapping[str, Path], asked: Mapping[str, Sequence[Place]]) -> Part:
    """The clients named in `asked`, each a thread with a connection of its own."""
    with RunningService.start(how.model, how.threads, cache) as service:
        for root in roots.values():
            service.open(root)
        before = _store(service)

        def ask(name: str) -> list[Completion]:
            client = RunningService(service.url)
            with client.client:
                return [
                    client.complete_at(
                        roots[name], place.path, place.buffer, place.cursor, max_tokens=MAX_TOKENS
                    )
                    for place in asked[name]
                ]

        with ThreadPoolExecutor(len(asked)) as threads:
            answers = dict(zip(asked, threads.map(ask, asked), strict=True))
        after = _store(service)
    return Part(answers, {name: after[name] - value for name, value in before.items()})


def _store(service: RunningService) -> dict[str, float]:
    store = service.status()["engine"]["store"]
    return {
        "hits in memory": store["memory"]["hits"],
        "hits on disk": store["disk"]["hits"],
        "misses": store["misses"],
        "evictions": store["memory"]["evictions"],
    }


def _chunks(answer: Completion) -> list[tuple[str, int, int]]:
    return [(item["path"], item["start_line"], item["end_line"]) for item in answer.context]
