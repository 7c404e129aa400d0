"""A developer's session replayed: a release of flask becomes the next, hunk by hunk, a completion at each.

Miton is asked over HTTP. What it attached, and what it took live, then goes to llama.cpp as one prompt,
in the same order, before the next request is made. Between requests there is time to think: Miton's background work
ends there (llama.cpp has none). The measure is wall-clock time to the first event at the client.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from miton_engine.runtime.requests import ChunkSource, FimPrompt
from miton_service.bench import packages
from miton_service.bench.benchmark import Run
from miton_service.bench.hunks import Hunk, hunks_between, split_lines, typing
from miton_service.bench.peers.llamacpp import Answer, LlamaCpp, LlamaCppSettings
from miton_service.bench.prompts import PromptWriter, open_model
from miton_service.bench.quiet import quiet_moment
from miton_service.bench.result import Bar, Figures, Result
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


@dataclass(frozen=True)
class Asked:
    """One request as it was: what Miton answered, and the same as a prompt for a peer."""

    completion: Completion
    prompt: list[int]


@dataclass
class Replay:
    """What was asked and answered so far; per system one figure a request."""

    asked: list[Asked] = field(default_factory=list)
    ttft_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    recomputed: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    begun_busy: int = 0

    def add(self, asked: Asked, idle: bool, answers: dict[str, Answer]) -> None:
        """One request, with the peers' answers to it."""
        self.asked.append(asked)
        self.begun_busy += not idle
        self.ttft_ms["Miton"].append(asked.completion.ttft_ms)
        for name, answer in answers.items():
            self.ttft_ms[name].append(answer.ttft_ms)
            self.recomputed[name].append(float(answer.prompt_tokens - answer.cached_tokens))


def run(how: Run) -> Result:
    """Replay with Miton and with llama.cpp, without and with its cache reuse, in turn at each request."""
    budget = how.pick(CONTEXT_TOKENS, 1024)
    requests = how.pick(MIN_REQUESTS, 5)
    replay = Replay()
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
            _replay(how, budget, requests, peers, replay)
        except KeyboardInterrupt:  # hours of samples are not thrown away; the bar on their number tells
            if not replay.asked:
                raise
            how.console.print(f"interrupted after {len(replay.asked)} of {requests} requests")
    return _result(how, budget, replay)


def _replay(how: Run, budget: int, requests: int, peers: dict[str, LlamaCpp], replay: Replay) -> None:
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
                for version, hunk in enumerate(hunks):
                    if len(replay.asked) == requests:
                        break
                    if not (root / hunk.path).exists() and how.quick:
                        continue
                    with quiet_moment(how.console) as idle:
                        one = _ask(service, writer, root, hunk, texts, 2 * version, budget)
                        texts[hunk.path] = hunk.applied_to(texts.get(hunk.path, ""))
                        service.put_document(root, hunk.path, texts[hunk.path], 2 * version + 1)
                        service.settle(root)
                        if one is not None:
                            replay.add(one, idle, {name: peer.complete(one.prompt, max_tokens=MAX_TOKENS)
                                                   for name, peer in peers.items()})  # fmt: skip
                            report(len(replay.asked))


def _ask(
    service: RunningService, writer: PromptWriter, root: Path, hunk: Hunk, texts: dict[str, str],
    version: int, budget: int,
) -> Asked | None:  # fmt: skip
    moment = typing(hunk, texts.get(hunk.path, ""))
    if moment is None:
        return None
    service.put_document(root, hunk.path, moment.buffer, version)
    completion = service.complete_at(
        root, hunk.path, moment.buffer, moment.cursor, max_tokens=MAX_TOKENS, context_tokens=budget
    )
    current = {**texts, hunk.path: moment.buffer}
    for item in completion.context:  # files that no hunk touches and that are no Python, such as a README
        if item["path"] not in current:
            current[item["path"]] = (root / item["path"]).read_text(encoding="utf-8")
    chunks = [
        ChunkSource(item["path"], "", _lines(current[item["path"]], item["start_line"], item["end_line"]))
        for item in reversed(completion.context)  # best first there, most relevant last in a prompt
    ]
    window = window_at(moment.buffer, Cursor(*moment.cursor), kept_start=completion.live_from)
    return Asked(completion, writer.write(chunks, FimPrompt(hunk.path, window.prefix, window.suffix)))


def _result(how: Run, budget: int, replay: Replay) -> Result:
    asked, ttft = replay.asked, replay.ttft_ms
    columns: dict[str, Figures] = {
        name: {"TTFT p50 ms": median(values), "TTFT p95 ms": percentile(values, 0.95)}
        for name, values in ttft.items()
    }
    peers = [name for name in ttft if name != "Miton"]
    context = median([float(one.completion.context_tokens) for one in asked])
    columns["Miton"] = {
        **columns["Miton"],
        "requests": len(asked),
        "requests begun on a busy machine": replay.begun_busy,
        "recalled tokens p50": context,
        "prompt tokens p50": median([float(len(one.prompt)) for one in asked]),
        "prefilled tokens p50": median([one.completion.timings["prefill_tokens"] for one in asked]),
        "recall p50 ms": median([one.completion.timings["recall_ms"] for one in asked]),
    }
    for name in peers:
        columns[name] = {**columns[name], "prefilled tokens p50": median(replay.recomputed[name])}
    bars = [
        Bar(f"TTFT {which}, times faster than the best peer",
            min(percentile(ttft[name], share) for name in peers) / percentile(ttft["Miton"], share),
            TTFT_BAR, "at least")
        for which, share in (("p50", 0.5), ("p95", 0.95))
    ]  # fmt: skip
    bars.append(Bar("recalled tokens p50", context, CONTEXT_SHARE * budget, "at least"))
    if not how.quick:
        bars.append(Bar("requests", len(asked), MIN_REQUESTS, "at least"))
    ours = columns.pop("Miton")
    samples = {"TTFT ms": dict(ttft), "prefilled tokens": dict(replay.recomputed)}
    return Result("session", how.machine, ours, columns, tuple(bars), samples)


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
