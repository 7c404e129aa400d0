"""Teacher-forced log-probabilities of a continuation: how chunk memory is compared with dense attention."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from miton_engine.memory.chunk_prefill import ChunkPrefill
from miton_engine.runtime.live_document import TAIL, LiveContext, PromptTokens
from miton_engine.runtime.memoriser import Memoriser
from miton_engine.runtime.model_runner import ModelRunner
from miton_engine.runtime.prompts import PromptEncoder
from miton_engine.runtime.requests import GenerationRequest


def score(
    request: GenerationRequest,
    target: str | Sequence[int],
    *,
    dense: bool,
    runner: ModelRunner,
    memoriser: Memoriser,
    encoder: PromptEncoder,
    chunk_prefill: ChunkPrefill,
) -> Generator[None, None, list[float]]:
    """Natural log-probability of each target token after the request's prompt, in a context of its own.

    With `dense` the attached chunks are prompt text and one causal sequence with the rest: the reference
    that chunk memory is measured against.
    """
    target_ids = encoder.tokenizer.encode(target) if isinstance(target, str) else list(target)
    prompt = encoder.prompt(request.prompt)
    context = LiveContext(runner, chunk_prefill)
    if dense:
        before = [token for source in request.attached for token in encoder.chunk(source)]
        prompt = PromptTokens((*before, *prompt.prefix), prompt.suffix, prompt.tail)
        context.attach([])
    else:
        for step in memoriser.require(request.attached):
            if step is None:
                yield
            else:
                context.attach(step)
    for _ in context.prefill(prompt, len(target_ids)):
        yield
    inputs = [*prompt.tail, *target_ids[:-1]]
    logits = runner.step(context.cache, TAIL, inputs, context.next_position, context.visible)
    logprobs = logits[len(prompt.tail) - 1 :].log_softmax(-1)
    return [float(row[token]) for row, token in zip(logprobs, target_ids, strict=True)]
