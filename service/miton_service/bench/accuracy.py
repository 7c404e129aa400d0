"""The weights as Miton computes them against transformers' own classes in fp32, teacher-forced on real code.

The reference reads the same GGUF file by itself (transformers' `gguf_file`, the gguf package's dequantisation), so
neither the reader, the tokens' positions nor the decoder are ours. Each system runs in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from miton_engine.kernels.packed import MAX_TOKENS, Quantization
from miton_engine.models.sources import default_cache_dir
from miton_service.bench import packages
from miton_service.bench.benchmark import Run
from miton_service.bench.errors import BenchmarkError
from miton_service.bench.fresh_process import in_fresh_process
from miton_service.bench.packages import Package
from miton_service.bench.prompts import open_model
from miton_service.bench.result import Bar, Result
from miton_service.bench.statistics import mean, paired_difference

TEXTS: tuple[tuple[Package, str], ...] = ((packages.HTTPX, "httpx/_client.py"),)
TOKENS, QUICK_TOKENS = 2000, 500  # scored, of each text
REFERENCE = "transformers fp32"
FP32, BF16 = "fp32 prefill", "bf16 prefill"
BARS = {FP32: 0.01, BF16: 0.01, "native decode": 0.02, "int8 decode": 0.02, "int4 decode": 0.05}
"""Nats. Native decode keeps the file's own blocks and rounds activations as int8 does, hence int8's bar."""


@dataclass(frozen=True)
class Scores:
    """What a system says of each next token, over all texts: -log p (natural) and its own first choice."""

    nll: list[float]
    best: list[int]


def run(how: Run) -> Result:
    """Score with the reference, then with each of our paths."""
    if importlib.util.find_spec("transformers") is None:
        raise BenchmarkError(
            'transformers is missing; install it with: pip install "transformers>=4.56" accelerate'
        )
    texts = _texts(how.model, how.pick(TOKENS, QUICK_TOKENS))
    scores: dict[str, Scores] = {}
    for name in how.steps.over([REFERENCE, *BARS], "accuracy: systems"):
        if name == REFERENCE:
            scores[name] = in_fresh_process(score_reference, how.model_file(), how.threads, texts)
        else:
            scores[name] = in_fresh_process(score_ours, how.model, how.threads, texts, name)
    reference = scores[REFERENCE]
    figures: dict[str, float | str] = {"tokens scored": len(reference.nll)}
    bars = []
    for name in BARS:
        difference = paired_difference(scores[name].nll, reference.nll)
        agreed = mean([float(a == b) for a, b in zip(scores[name].best, reference.best, strict=True)])
        figures[f"NLL, {name}"] = round(mean(scores[name].nll), 4)
        figures[f"NLL difference [95%], {name}"] = (
            f"{difference.estimate:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"
        )
        figures[f"same first choice, {name}"] = round(agreed, 4)
        bars.append(
            Bar(f"NLL of {name}, absolute difference", abs(difference.estimate), BARS[name], "at most")
        )
    peers = {REFERENCE: {"tokens scored": len(reference.nll), "NLL": round(mean(reference.nll), 4)}}
    samples = {"NLL": {name: one.nll for name, one in scores.items()}}
    notes = (
        "native decode is what is shipped: the file's own blocks, repacked without loss.",
        f"texts: {', '.join(f'{path} of {package}' for package, path in TEXTS)}, from the start",
    )
    return Result("accuracy", how.machine, figures, peers, tuple(bars), samples, notes)


def score_reference(model_file: Path, threads: int, texts: Sequence[Sequence[int]]) -> Scores:
    """transformers' scores, in the process that calls this."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    model: torch.nn.Module = AutoModelForCausalLM.from_pretrained(
        model_file.parent, gguf_file=model_file.name, dtype=torch.float32
    )
    model.eval()
    scores = Scores([], [])
    with torch.inference_mode():
        for ids in texts:
            add(scores, model(torch.tensor([ids[:-1]])).logits[0], ids[1:])
    return scores


def score_ours(model: str, threads: int, texts: Sequence[Sequence[int]], path: str) -> Scores:
    """Our scores by one of the paths in `BARS`, in the process that calls this.

    Decode takes as many tokens a step as the verification of a draft does; its KV is its own from the first token.
    Raises `ModelError` where the native kernels are not available.
    """
    from miton_engine.kernels.native import NativeDecoder
    from miton_engine.memory.kv_cache import KVCache
    from miton_engine.models.decoder import Decoder
    from miton_engine.runtime.model_runner import PREFILL_PIECE, ModelRunner

    torch.set_num_threads(threads)
    checkpoint = open_model(model)
    kind = path.split()[0]
    dtype = torch.float32 if path == FP32 else torch.bfloat16
    decoder = Decoder(checkpoint, dtype)
    native = None
    if path not in (FP32, BF16):
        native = NativeDecoder(
            checkpoint, decoder.rotary.cos, decoder.rotary.sin, cache=default_cache_dir() / "kernels",
            threads=threads, quantization=cast(Quantization, kind),
        )  # fmt: skip
    runner = ModelRunner(decoder, native)
    piece = PREFILL_PIECE if native is None else MAX_TOKENS
    scores = Scores([], [])
    with torch.inference_mode():
        for ids in texts:
            cache = KVCache(checkpoint.config, regions=1, dtype=dtype)
            cache.reserve(0, len(ids))
            for start in range(0, len(ids) - 1, piece):
                inputs = ids[start : min(start + piece, len(ids) - 1)]
                logits = runner.step(cache, 0, inputs, start, [])
                add(scores, logits, ids[start + 1 : start + 1 + len(inputs)])
    return scores


def add(scores: Scores, logits: Tensor, next_ids: Sequence[int]) -> None:
    """Score logits [tokens, vocab] against the token that follows each."""
    logprobs = logits.float().log_softmax(-1)
    scores.nll.extend((-logprobs[torch.arange(len(next_ids)), torch.tensor(next_ids)]).tolist())
    scores.best.extend(logprobs.argmax(-1).tolist())


def _texts(model: str, tokens: int) -> list[list[int]]:
    """The first `tokens` + 1 token ids of each text, so that `tokens` are scored."""
    tokenizer = open_model(model).tokenizer
    found = [
        tokenizer.encode((packages.fetch(package) / path).read_text(encoding="utf-8"))[: tokens + 1]
        for package, path in TEXTS
    ]
    if short := [path for (_, path), ids in zip(TEXTS, found, strict=True) if len(ids) <= tokens]:
        raise BenchmarkError(f"{', '.join(short)} has fewer than {tokens + 1} tokens under this model.")
    return found
