"""A developer's session replayed: a release of flask becomes the next, hunk by hunk, a completion at each.

Miton is asked over HTTP. What it attached, and what it took live, then goes to llama.cpp as one prompt,
in the same order, before the next request is made. Between requests there is time to think: Miton's background work
ends there (llama.cpp has none). The measure is wall-clock time to the first event at the client.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miton_engine.runtime.requests import ChunkSource, FimPrompt
from miton_service.bench import packages
from miton_service.bench.benchmark import Run
from miton_service.bench.hunks import Hunk, Typing, hunks_between, split_lines, typing
from miton_service.bench.journal import Journal
from miton_service.bench.peers.llamacpp import Answer, LlamaCpp, LlamaCppSettings
from miton_service.bench.prompts import PromptWriter, open_model
from miton_service.bench.quiet import quiet_moment
from miton_service.bench.result import Bar, Result
from miton_service.bench.running_service import Completion, RunningService
from miton_service.bench.statistics import median, percentile
from miton_service.context.window import Cursor, window_at

CONTEXT_TOKENS = 8192
CONTEXT_SHARE = 0.9  # recall fills the budget with whole chunks; less than this would be another benchmark
MAX_TOKENS = 16
WINDOW_TOKENS = 3072  # room for the live window, anchors and the answer
CACHE_REUSE = 256  # what llama.vim and llama.vscode recommend
TTFT_BAR = 20.0
MIN_REQUESTS = 60
OURS = "Miton"


@dataclass(frozen=True)
class Asked:
    """One request as it was: what Miton answered, and the same as a prompt for a peer."""

    completion: Completion
    prompt: list[int]

    def sample(self, idle: bool, answers: Mapping[str, Answer]) -> dict[str, Any]:
        """What is kept of it and of the peers' answers; `prefilled` counts prompt tokens not found in a cache."""
        prefilled = {name: float(a.prompt_tokens - a.cached_tokens) for name, a in answers.items()}
        return {
            "idle": idle,
            "ttft_ms": {OURS: self.completion.ttft_ms, **{name: a.ttft_ms for name, a in answers.items()}},
            "prefilled": {OURS: self.completion.timings["prefill_tokens"], **prefilled},
            "recalled": float(self.completion.context_tokens),
            "prompt": float(len(self.prompt)),
            "recall_ms": self.completion.timings["recall_ms"],
        }


def run(how: Run) -> Result:
    """Replay with Miton and with llama.cpp, without and with its cache reuse, in turn at each request."""
    budget = how.pick(CONTEXT_TOKENS, 1024)
    requests = how.pick(MIN_REQUESTS, 5)
    journal = Journal(
        how.journal,
        {"benchmark": "session", "model": how.model, "budget": budget, "quick": how.quick,
         "packages": [str(packages.SESSION_BEFORE), str(packages.SESSION_AFTER)]},
    )  # fmt: skip
    if len(journal.samples) >= requests:
        return _result(how, budget, journal.samples)
    with ExitStack() as running:
        peers = {
            label: running.enter_context(
                LlamaCpp.start(
                    LlamaCppSettings(how.model_file(), budget + WINDOW_TOKENS, how.threads, cache_reuse=reuse)
                )
            )
            for label, reuse in (("llama.cpp", 0), (f"llama.cpp n_cache_reuse={CACHE_REUSE}", CACHE_REUSE))
        }
        for peer in peers.values():
            peer.complete("def main():", max_tokens=4)  # warm-up
        try:
            _replay(how, budget, requests, peers, journal)
        except KeyboardInterrupt:  # hours of samples are not thrown away; the bar on their number tells
            if not journal.samples:
                raise
            how.console.print(f"interrupted after {len(journal.samples)} of {requests} requests")
    return _result(how, budget, journal.samples)


def _replay(how: Run, budget: int, requests: int, peers: Mapping[str, LlamaCpp], journal: Journal) -> None:
    """Go through the hunks. What a journal brought along is not asked again, but for its last request: asked
    once more and not counted, it leaves every system's cache as it was."""
    before, after = (_texts(package) for package in (packages.SESSION_BEFORE, packages.SESSION_AFTER))
    writer = PromptWriter(open_model(how.model))
    hunks = list(hunks_between(before, after))
    texts = dict(before)
    with tempfile.TemporaryDirectory(prefix="miton-session-") as scratch:
        root = packages.copy(packages.SESSION_BEFORE, Path(scratch) / "flask")
        with RunningService.start(how.model, how.threads) as service:
            if how.quick:
                _shrink(root, hunks, requests)
            with how.steps.stage("session: Miton memorises the repository", 100) as report:
                service.open(root, lambda done, total: report(100 * done // max(total, 1)))
            with how.steps.stage("session", requests) as report:
                known, number = len(journal.samples), 0
                for version, hunk in enumerate(hunks):
                    if number == requests:
                        break
                    if not (root / hunk.path).exists() and how.quick:
                        continue
                    moment = typing(hunk, texts.get(hunk.path, ""))
                    applied = hunk.applied_to(texts.get(hunk.path, ""))
                    if moment is not None and number >= known - 1:
                        with quiet_moment(how.console) as idle:
                            one = _ask(service, writer, root, hunk.path, moment, texts, 2 * version, budget)
                            service.put_document(root, hunk.path, applied, 2 * version + 1)
                            service.settle(root)
                            answers = {
                                name: peer.complete(one.prompt, max_tokens=MAX_TOKENS)
                                for name, peer in peers.items()
                            }
                        if number >= known:
                            journal.add(one.sample(idle, answers))
                            report(number + 1)
                    else:
                        service.put_document(root, hunk.path, applied, 2 * version + 1)
                    texts[hunk.path] = applied
                    number += moment is not None


def _ask(
    service: RunningService, writer: PromptWriter, root: Path, path: str, moment: Typing, texts: dict[str, str],
    version: int, budget: int,
) -> Asked:  # fmt: skip
    service.put_document(root, path, moment.buffer, version)
    completion = service.complete_at(
        root, path, moment.buffer, moment.cursor, max_tokens=MAX_TOKENS, context_tokens=budget
    )
    current = {**texts, path: moment.buffer}
    for item in completion.context:  # files that no hunk touches and that are no Python, such as a README
        if item["path"] not in current:
            current[item["path"]] = (root / item["path"]).read_text(encoding="utf-8")
    chunks = [
        ChunkSource(item["path"], "", _lines(current[item["path"]], item["start_line"], item["end_line"]))
        for item in reversed(completion.context)  # best first there, most relevant last in a prompt
    ]
    window = window_at(moment.buffer, Cursor(*moment.cursor), kept_start=completion.live_from)
    return Asked(completion, writer.write(chunks, FimPrompt(path, window.prefix, window.suffix)))


def _result(how: Run, budget: int, samples: Sequence[dict[str, Any]]) -> Result:
    names: list[str] = list(samples[0]["ttft_ms"])
    ttft = {name: [float(one["ttft_ms"][name]) for one in samples] for name in names}
    prefilled = {name: [float(one["prefilled"][name]) for one in samples] for name in names}
    columns: dict[str, dict[str, float | str]] = {
        name: {
            "TTFT p50 ms": median(ttft[name]),
            "TTFT p95 ms": percentile(ttft[name], 0.95),
            "prefilled tokens p50": median(prefilled[name]),
        }
        for name in names
    }
    peers = [name for name in names if name != OURS]
    context = median([one["recalled"] for one in samples])
    columns[OURS] |= {
        "requests": len(samples),
        "requests begun on a busy machine": sum(not one["idle"] for one in samples),
        "recalled tokens p50": context,
        "prompt tokens p50": median([one["prompt"] for one in samples]),
        "recall p50 ms": median([one["recall_ms"] for one in samples]),
    }
    bars = [
        Bar(f"TTFT {which}, times faster than the best peer",
            min(percentile(ttft[name], share) for name in peers) / percentile(ttft[OURS], share),
            TTFT_BAR, "at least")
        for which, share in (("p50", 0.5), ("p95", 0.95))
    ]  # fmt: skip
    bars.append(Bar("recalled tokens p50", context, CONTEXT_SHARE * budget, "at least"))
    if not how.quick:
        bars.append(Bar("requests", len(samples), MIN_REQUESTS, "at least"))
    ours = columns.pop(OURS)
    raw = {"TTFT ms": ttft, "prefilled tokens": prefilled}
    return Result("session", how.machine, ours, columns, tuple(bars), raw)


def _texts(package: packages.Package) -> dict[str, str]:
    root = packages.fetch(package)
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8").replace("\r\n", "\n")
        for path in sorted(root.rglob("*.py"))
    }


def _shrink(root: Path, hunks: list[Hunk], requests: int) -> None:
    """Keep the files of the first hunks and a few neighbours, so that a quick run need not memorise the rest."""
    kept: set[str] = set()
    for hunk in hunks[: 2 * requests]:
        kept.add(hunk.path)
    kept |= {"flask/globals.py", "flask/helpers.py", "flask/config.py"}
    for path in root.rglob("*.py"):
        if path.relative_to(root).as_posix() not in kept:
            path.unlink()


def _lines(text: str, first: int, last: int) -> str:
    return "".join(split_lines(text)[first : last + 1])
