"""Time to first token after one function in an early file was edited, with a whole repository as context.

Every system reads all chunks: Miton has them attached, llama.cpp gets them as one prompt, in the same order. A
request follows each edit at once. The negative log-likelihood (NLL) of what the file really says there tells what
reuse cost in quality. The prompt is 32K tokens, the most that the model's context holds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from miton_engine.runtime.requests import ChunkSource, FimPrompt, GenerationRequest, Sampling
from miton_lsp.chunking import ChunkOptions, chunk_text
from miton_service.bench import packages, repositories
from miton_service.bench.benchmark import Run
from miton_service.bench.fresh_process import in_fresh_process
from miton_service.bench.peers.llamacpp import LlamaCpp, LlamaCppSettings
from miton_service.bench.prompts import PromptWriter, open_model
from miton_service.bench.result import Bar, Result
from miton_service.bench.statistics import mean, median
from miton_service.context.window import Cursor, window_at
from miton_service.workspace import chunk_source

CONTEXT_LENGTH = 32_768
WINDOW_TOKENS = 1_800  # room for the live window, its anchor and the answer
QUICK_TOKENS = 2_560
SOURCES = (packages.HTTPX, packages.CLICK)
LIVE = "httpx/_transports/default.py"
MAX_TOKENS = 8
CACHE_REUSE = 256
FASTER_BAR = 20.0
PLAIN, REUSING = "llama.cpp", f"llama.cpp n_cache_reuse={CACHE_REUSE}"


@dataclass(frozen=True)
class Step:
    """One request: all chunks as they are now (the edited one among the first), the hole, and its true content."""

    chunks: tuple[ChunkSource, ...]
    prompt: FimPrompt
    expected: str


@dataclass(frozen=True)
class Measured:
    """Milliseconds to the first token, and mean NLL per token of the expected text (nats), one per step."""

    ttft_ms: list[float]
    nll: list[float]


def run(how: Run) -> Result:
    """Edit, ask, and score, in Miton and in llama.cpp without and with its cache reuse."""
    writer = PromptWriter(open_model(how.model))
    tokens = how.pick(CONTEXT_LENGTH - WINDOW_TOKENS, QUICK_TOKENS)
    steps = _steps(writer, tokens, how.pick(5, 2))
    prompts = [writer.write(step.chunks, step.prompt) for step in steps]
    targets = [writer.encode(step.expected) for step in steps]
    with how.steps.stage("edit-ttft: Miton", 1):
        ours = in_fresh_process(measure_engine, how.model, how.threads, steps, targets)
    measured = {"Miton": ours}
    n_ctx = max(map(len, prompts)) + max(map(len, targets)) + MAX_TOKENS + 64
    for label, reuse in ((PLAIN, 0), (REUSING, CACHE_REUSE)):
        settings = LlamaCppSettings(how.model_file(), n_ctx, how.threads, cache_reuse=reuse)
        with LlamaCpp.start(settings) as peer:
            measured[label] = _measure_peer(
                peer, how.steps.over(list(zip(prompts, targets, strict=True)), f"edit-ttft: {label}")
            )
    columns = {
        name: {
            "TTFT p50 ms": median(one.ttft_ms),
            "TTFT largest ms": max(one.ttft_ms),
            "NLL of the true text": mean(one.nll),
        }
        for name, one in measured.items()
    }
    figures = {
        **columns.pop("Miton"),
        "edits": len(steps) - 1,
        "prompt tokens": float(max(map(len, prompts))),
    }
    ttft = {name: median(one.ttft_ms) for name, one in measured.items()}
    bars = (
        Bar("TTFT p50, times faster than llama.cpp", ttft[PLAIN] / ttft["Miton"], FASTER_BAR, "at least"),
        Bar(f"TTFT p50, times faster than {REUSING}", ttft[REUSING] / ttft["Miton"], 1.0, "at least"),
    )
    samples = {
        "TTFT ms": {name: one.ttft_ms for name, one in measured.items()},
        "NLL": {name: one.nll for name, one in measured.items()},
    }
    return Result("edit-ttft", how.machine, figures, columns, bars, samples)


def measure_engine(model: str, threads: int, steps: list[Step], targets: list[list[int]]) -> Measured:
    """Our engine, in the process that calls this; the first step is the state before the edits."""
    from miton_engine.runtime.engine import Engine, EngineSettings

    with tempfile.TemporaryDirectory(prefix="miton-edit-") as scratch:
        cache = Path(scratch)
        from miton_engine.models.sources import default_cache_dir

        for name in ("models", "kernels"):
            (cache / name).symlink_to(default_cache_dir() / name)
        engine = Engine.open(model, settings=EngineSettings(cache_dir=cache, threads=threads))
        measured = Measured([], [])
        try:
            for future in [engine.memorise(chunk) for chunk in steps[0].chunks]:
                future.result()
            for index, (step, target) in enumerate(zip(steps, targets, strict=True)):
                request = GenerationRequest(
                    step.prompt, step.chunks, Sampling(max_tokens=MAX_TOKENS), document="live"
                )
                started = time.perf_counter()
                generation = engine.generate(request)
                first = next(
                    time.perf_counter() for event in generation if event.token_ids or event.finish_reason
                )
                generation.result()
                if index:
                    measured.ttft_ms.append((first - started) * 1e3)
                    measured.nll.append(-mean(engine.score(request, target).result()))
        finally:
            engine.close()
    return measured


def _measure_peer(peer: LlamaCpp, steps: Iterator[tuple[list[int], list[int]]]) -> Measured:
    measured = Measured([], [])
    for index, (prompt, target) in enumerate(steps):
        answer = peer.complete(prompt, max_tokens=MAX_TOKENS)
        if index:
            measured.ttft_ms.append(answer.ttft_ms)
            measured.nll.append(-mean(peer.score(prompt, target)))
    return measured


def _steps(writer: PromptWriter, tokens: int, edits: int) -> list[Step]:
    """The state before, then one step per edit; edits stay, as they do in a file."""
    with tempfile.TemporaryDirectory(prefix="miton-edit-") as scratch:
        root = Path(scratch)
        paths = repositories.build(root, SOURCES, tokens + 3000, writer.count)
        live_text_places = _places(root, edits + 1)
        options = ChunkOptions(count_tokens=writer.count)
        chunks = [
            chunk_source(chunk)
            for path in paths
            if path != LIVE
            for chunk in chunk_text((root / path).read_text(encoding="utf-8"), path, options=options)
        ]
    chunks = _within(writer, chunks, tokens)
    early = [index for index, chunk in enumerate(chunks) if "\n    " in chunk.text][:edits]
    steps = []
    for number, place in enumerate(live_text_places):
        if number:
            index = early[(number - 1) % len(early)]
            chunks[index] = _edited(chunks[index], number)
        starts = [chunk.start_line for chunk in chunk_text(place.buffer, place.path, options=options)]
        window = window_at(place.buffer, Cursor(*place.cursor), starts)
        steps.append(Step(tuple(chunks), FimPrompt(place.path, window.prefix, window.suffix), place.expected))
    return steps


def _places(root: Path, number: int) -> list[repositories.Place]:
    source = packages.fetch(packages.HTTPX)
    (root / LIVE).parent.mkdir(parents=True, exist_ok=True)
    (root / LIVE).write_text((source / LIVE).read_text(encoding="utf-8"), encoding="utf-8")
    return repositories.places(root, [LIVE], number)


def _within(writer: PromptWriter, chunks: list[ChunkSource], tokens: int) -> list[ChunkSource]:
    kept, used = [], 0
    for chunk in chunks:
        used += writer.count(chunk.header + chunk.text) + 12  # its anchor
        if used > tokens:
            break
        kept.append(chunk)
    return kept


def _edited(chunk: ChunkSource, number: int) -> ChunkSource:
    """The chunk with one more statement in its first indented block."""
    head, line, rest = chunk.text.partition("\n    ")
    return replace(chunk, text=f"{head}\n    revision = {number}{line}{rest}")
