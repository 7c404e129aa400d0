"""Prefill and decode speed against llama.cpp: same weights, same tokens, same number of threads.

Each system runs in a process of its own and is the only one at work; rounds alternate which goes first. Rates are
each system's own (tokens over time in prefill and in decode), so HTTP costs neither anything.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from miton_engine.models.checkpoint import open_checkpoint
from miton_engine.models.sources import default_cache_dir
from miton_service.bench import packages
from miton_service.bench.benchmark import Run
from miton_service.bench.fresh_process import in_fresh_process
from miton_service.bench.peers.llamacpp import LlamaCpp, LlamaCppSettings
from miton_service.bench.result import Bar, Result
from miton_service.bench.statistics import median

PREFILL_TOKENS = 2048
CONTEXTS = (100, 2048)
DECODE_TOKENS = 64
MIN_DECODED = 32  # a sample in which the model ended earlier says little about decoding
PREFILL_BAR, DECODE_BAR = 2.5, 1.0
LLAMA = "llama.cpp"

Rates = dict[str, list[float]]


@dataclass(frozen=True)
class Prompts:
    """Token ids of real code; `warm_up` is none of the measured ones."""

    warm_up: tuple[int, ...]
    by_context: dict[int, list[tuple[int, ...]]]


def run(how: Run) -> Result:
    """Measure and compare."""
    prompts = _prompts(how, how.pick(4, 2))
    rates: dict[str, Rates] = {"Miton": defaultdict(list), LLAMA: defaultdict(list)}
    system = ""

    def miton() -> None:
        _extend(rates["Miton"], in_fresh_process(measure_engine, how.model, how.threads, prompts))

    def llamacpp() -> None:
        nonlocal system
        settings = LlamaCppSettings(how.model_file(), PREFILL_TOKENS + 2 * DECODE_TOKENS + 64, how.threads)
        with LlamaCpp.start(settings) as peer:
            system = peer.system
            _extend(rates[LLAMA], _measure_peer(peer, prompts))

    turns: list[Callable[[], None]] = []
    for number in range(how.pick(3, 1)):
        turns += (miton, llamacpp) if number % 2 == 0 else (llamacpp, miton)
    for turn in how.steps.over(turns, "speed: turns of Miton and llama.cpp"):
        turn()
    figures = {
        name: {what: median(values) for what, values in by.items() if values} for name, by in rates.items()
    }
    for what, theirs in figures[LLAMA].items():
        if what in figures["Miton"]:
            figures["Miton"][f"{what}, ratio"] = figures["Miton"][what] / theirs
    bars = [Bar("prefill of 2,048 tokens, times llama.cpp", figures["Miton"].get("prefill 2048 tokens/s, ratio"),
                PREFILL_BAR, "at least")]  # fmt: skip
    bars += [
        Bar(f"decode at {context} tokens, times llama.cpp, without speculation",
            figures["Miton"].get(f"decode at {context} tokens/s, ratio"), DECODE_BAR, "at least")
        for context in CONTEXTS
    ]  # fmt: skip
    samples = {what: {name: by.get(what, []) for name, by in rates.items()} for what in rates["Miton"]}
    notes = (f"llama.cpp was built with: {system}",)
    return Result(
        "speed", how.machine, figures["Miton"], {LLAMA: figures[LLAMA]}, tuple(bars), samples, notes
    )


def measure_engine(model: str, threads: int, prompts: Prompts) -> Rates:
    """Rates of our engine, in the process that calls this."""
    from miton_engine.runtime.engine import Engine, EngineSettings
    from miton_engine.runtime.requests import GenerationRequest, Sampling, TokenPrompt

    engine = Engine.open(model, settings=EngineSettings(threads=threads))
    rates: Rates = defaultdict(list)
    try:
        engine.generate(
            GenerationRequest(TokenPrompt(prompts.warm_up), sampling=Sampling(max_tokens=8))
        ).result()
        for context, ids, speculation in (
            (context, ids, speculation)
            for context, several in prompts.by_context.items()
            for ids in several
            for speculation in (False, True)
        ):
            sampling = Sampling(max_tokens=DECODE_TOKENS, speculation=speculation)
            # Another document each time: nothing of an earlier prompt may be reused.
            name = f"{context} {hash(ids)} {speculation}"
            timings = (
                engine.generate(GenerationRequest(TokenPrompt(ids), sampling=sampling, document=name))
                .result()
                .timings
            )
            if context == PREFILL_TOKENS and timings.prefill_tokens >= PREFILL_TOKENS - 1:
                rates[f"prefill {context} tokens/s"].append(timings.prefill_tokens / timings.prefill_ms * 1e3)
            if timings.decode_tokens >= MIN_DECODED:
                label = f"decode at {context} tokens/s" + (" with speculation" if speculation else "")
                rates[label].append(timings.decode_tokens / timings.decode_ms * 1e3)
    finally:
        engine.close()
    return dict(rates)


def _measure_peer(peer: LlamaCpp, prompts: Prompts) -> Rates:
    rates: Rates = defaultdict(list)
    peer.complete(prompts.warm_up, max_tokens=8, ignore_eos=True)
    for context, several in prompts.by_context.items():
        for ids in several:
            answer = peer.complete(ids, max_tokens=DECODE_TOKENS, ignore_eos=True)
            if context == PREFILL_TOKENS and answer.cached_tokens == 0:
                rates[f"prefill {context} tokens/s"].append(answer.prefill_rate)
            rates[f"decode at {context} tokens/s"].append(answer.decode_rate)
    return dict(rates)


def _prompts(how: Run, count: int) -> Prompts:
    checkpoint = open_checkpoint(how.model, cache=default_cache_dir() / "models")
    root = packages.fetch(packages.RICH)
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((root / "rich").glob("*.py"))[:40])
    ids = checkpoint.tokenizer.encode(text)
    generator = random.Random(0)
    used = iter(generator.sample(range(len(ids) // PREFILL_TOKENS - 1), len(CONTEXTS) * count + 1))

    def window(tokens: int) -> tuple[int, ...]:
        start = next(used) * PREFILL_TOKENS
        return tuple(ids[start : start + tokens])

    return Prompts(window(512), {context: [window(context) for _ in range(count)] for context in CONTEXTS})


def _extend(rates: Rates, more: Rates) -> None:
    for name, values in more.items():
        rates[name].extend(values)
