"""A developer's session replayed: a release of flask becomes the next, hunk by hunk, a completion at each.

Miton is asked over HTTP. What it attached, and the window around the cursor, then goes to llama.cpp as one prompt,
in the same order, request by request. Between requests there is time to think: Miton's background work ends there
(llama.cpp has none). The measure is wall-clock time to the first event at the client.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from miton_engine.runtime.requests import ChunkSource, FimPrompt
from miton_service.bench import packages
from miton_service.bench.benchmark import Run
from miton_service.bench.hunks import Hunk, hunks_between, split_lines, typing
from miton_service.bench.peers.llamacpp import LlamaCpp, LlamaCppSettings
from miton_service.bench.prompts import PromptWriter, open_model
from miton_service.bench.result import Bar, Figures, Result
from miton_service.bench.running_service import Completion, RunningService
from miton_service.bench.statistics import median, percentile
from miton_service.context.window import Cursor, window_at

CONTEXT_TOKENS = 8192
CONTEXT_SHARE = 0.9  # recall fills the budget with whole chunks; less than this would be another benchmark
MAX_TOKENS = 16
CACHE_REUSE = 256  # what llama.vim and llama.vscode recommend
TTFT_BAR = 20.0
MIN_REQUESTS = 60


@dataclass(frozen=True)
class Asked:
    """One request as it was: what Miton answered, and the same as a prompt for a peer."""

    completion: Completion
    prompt: list[int]


def run(how: Run) -> Result:
    """Replay with Miton, then with llama.cpp without and with its cache reuse."""
    budget = how.pick(CONTEXT_TOKENS, 1024)
    requests = how.pick(MIN_REQUESTS, 5)
    asked = _replay(how, budget, requests)
    n_ctx = max(len(one.prompt) for one in asked) + MAX_TOKENS + 64
    ttft = {"Miton": [one.completion.ttft_ms for one in asked]}
    recomputed: dict[str, list[float]] = {}
    for label, reuse in (("llama.cpp", 0), (f"llama.cpp n_cache_reuse={CACHE_REUSE}", CACHE_REUSE)):
        settings = LlamaCppSettings(how.model_file(), n_ctx, how.threads, cache_reuse=reuse)
        with LlamaCpp.start(settings) as peer:
            peer.complete(asked[0].prompt[:256], max_tokens=4)
            answers = [
                peer.complete(one.prompt, max_tokens=MAX_TOKENS)
                for one in how.steps.over(asked, f"session: {label}")
            ]
        ttft[label] = [answer.ttft_ms for answer in answers]
        recomputed[label] = [float(answer.prompt_tokens - answer.cached_tokens) for answer in answers]
    return _result(how, budget, asked, ttft, recomputed)


def _replay(how: Run, budget: int, requests: int) -> list[Asked]:
    before, after = (_texts(package) for package in (packages.SESSION_BEFORE, packages.SESSION_AFTER))
    writer = PromptWriter(open_model(how.model))
    hunks = list(hunks_between(before, after))
    texts = dict(before)
    asked: list[Asked] = []
    with tempfile.TemporaryDirectory(prefix="miton-session-") as scratch:
        root = packages.copy(packages.SESSION_BEFORE, Path(scratch) / "flask")
        with RunningService.start(how.model, how.threads) as service:
            if how.quick:
                _shrink(root, hunks, requests)
            with how.steps.stage("session: Miton memorises the repository", 100) as report:
                service.open(root, lambda done, total: report(100 * done // max(total, 1)))
            with how.steps.stage("session: Miton", requests) as report:
                for version, hunk in enumerate(hunks):
                    if len(asked) == requests:
                        break
                    if not (root / hunk.path).exists() and how.quick:
                        continue
                    one = _ask(service, writer, root, hunk, texts, 2 * version, budget)
                    asked += [one] if one is not None else []
                    texts[hunk.path] = hunk.applied_to(texts.get(hunk.path, ""))
                    service.put_document(root, hunk.path, texts[hunk.path], 2 * version + 1)
                    service.settle(root)
                    report(len(asked))
    return asked


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
    window = window_at(moment.buffer, Cursor(*moment.cursor))
    return Asked(completion, writer.write(chunks, FimPrompt(hunk.path, window.prefix, window.suffix)))


def _result(
    how: Run,
    budget: int,
    asked: list[Asked],
    ttft: dict[str, list[float]],
    recomputed: dict[str, list[float]],
) -> Result:
    columns: dict[str, Figures] = {
        name: {"TTFT p50 ms": median(values), "TTFT p95 ms": percentile(values, 0.95)}
        for name, values in ttft.items()
    }
    peers = [name for name in ttft if name != "Miton"]
    context = median([float(one.completion.context_tokens) for one in asked])
    columns["Miton"] = {
        **columns["Miton"],
        "requests": len(asked),
        "recalled tokens p50": context,
        "prompt tokens p50": median([float(len(one.prompt)) for one in asked]),
        "prefilled tokens p50": median([one.completion.timings["prefill_tokens"] for one in asked]),
        "recall p50 ms": median([one.completion.timings["recall_ms"] for one in asked]),
    }
    for name in peers:
        columns[name] = {**columns[name], "prefilled tokens p50": median(recomputed[name])}
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
    return Result("session", how.machine, ours, columns, tuple(bars), {"TTFT ms": ttft})


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
