"""Whatever is reused between the requests of a document, the result is the one of a context made from nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from miton_engine.errors import PromptTooLong
from miton_engine.memory.chunk_kv import ChunkKV
from miton_engine.memory.chunk_prefill import ChunkPrefill
from miton_engine.models.checkpoint import open_checkpoint
from miton_engine.models.decoder import Decoder
from miton_engine.runtime import live_document
from miton_engine.runtime.live_document import TAIL, LiveContext, PromptTokens
from miton_engine.runtime.model_runner import ModelRunner

SINK = (5, 6, 7)
MakeTiny = Callable[..., tuple[Path, torch.nn.Module]]


class Model:
    def __init__(self, make_tiny: MakeTiny) -> None:
        directory, self.reference = make_tiny("qwen2", max_position_embeddings=512)
        decoder = Decoder(open_checkpoint(str(directory)), torch.float32)
        self.runner, self.prefill = ModelRunner(decoder), ChunkPrefill(decoder, SINK)

    def context(self) -> LiveContext:
        return LiveContext(self.runner, self.prefill)

    def chunk(self, token_ids: list[int]) -> ChunkKV:
        ((k, v),) = self.prefill([token_ids])
        return ChunkKV(key=str(token_ids), tokens=torch.tensor(token_ids, dtype=torch.int32), k=k, v=v)

    def logits(self, context: LiveContext, chunks: list[ChunkKV], prompt: PromptTokens) -> torch.Tensor:
        context.attach(chunks)
        for _ in context.prefill(prompt, room=4):
            pass
        tail = list(prompt.tail)
        return self.runner.step(context.cache, TAIL, tail, context.next_position, context.visible)[-1]


@pytest.fixture
def model(tiny_checkpoint: MakeTiny) -> Model:
    return Model(tiny_checkpoint)


token_lists = st.lists(st.integers(2, 250), max_size=40).map(tuple)


def test_without_chunks_the_logits_are_those_of_plain_causal_attention(model: Model) -> None:
    prompt = PromptTokens(tuple(range(20, 60)), tuple(range(70, 90)), (3,))
    got = model.logits(model.context(), [], prompt)
    ids = torch.tensor([*SINK, *prompt.prefix, *prompt.suffix, *prompt.tail])
    with torch.no_grad():
        expected = model.reference(ids[None]).logits[0, -1]
    assert (got - expected).abs().max() < 1e-4


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(
    requests=st.lists(st.tuples(st.sets(st.integers(0, 3)), token_lists, token_lists), min_size=2, max_size=5)
)
def test_a_reused_context_equals_a_cold_one_when_no_drift_is_allowed(
    model: Model, requests: list[tuple[set[int], tuple[int, ...], tuple[int, ...]]]
) -> None:
    chunks = [model.chunk([100 + i] * (3 + 5 * i) + [7, 8, 9]) for i in range(4)]
    warm = model.context()
    for attached, prefix, suffix in requests:
        warm._drift = live_document.SUFFIX_DRIFT_LIMIT + 1  # a suffix from before is never good enough
        prompt = PromptTokens(prefix, suffix, (4,))
        selected = [chunks[i] for i in sorted(attached)]
        got = model.logits(warm, selected, prompt)
        expected = model.logits(model.context(), selected, prompt)
        assert (got - expected).abs().max() < 1e-4


def test_typing_costs_the_typed_tokens_and_keeps_the_suffix(model: Model) -> None:
    context = model.context()
    prefix, suffix = tuple(range(20, 120)), tuple(range(130, 190))
    model.logits(context, [], PromptTokens(prefix, suffix, (3,)))
    typed = PromptTokens((*prefix, 9, 10), suffix, (3,))
    got = model.logits(context, [], typed)
    assert context.prefilled == 2
    assert context.suffix_is_stale
    for _ in context.refresh_suffix():
        pass
    assert not context.suffix_is_stale
    fresh = model.logits(context, [], typed)
    expected = model.logits(model.context(), [], typed)
    assert (fresh - expected).abs().max() < 1e-4
    # The stale suffix is an approximation: near the exact answer, and not equal to it by accident.
    assert 0 < (got - expected).abs().max() < (expected.max() - expected.min()) / 2


def test_moving_the_cursor_down_reuses_both_sides(model: Model) -> None:
    context, text = model.context(), tuple(range(20, 180))
    model.logits(context, [], PromptTokens(text[:80], text[80:], (3,)))
    model.logits(context, [], PromptTokens(text[:90], text[90:], (3,)))
    assert context.prefilled == 10
    model.logits(context, [], PromptTokens(text[:85], text[85:], (3,)))
    assert context.prefilled == 5


def test_a_prefill_that_stops_midway_loses_and_corrupts_nothing(model: Model) -> None:
    context = model.context()
    prompt = PromptTokens(tuple([11, 12, 13] * 110), tuple([21, 22] * 20), (3,))
    context.attach([])
    next(iter(context.prefill(prompt, room=4)))  # one piece, then the client leaves
    got = model.logits(context, [], prompt)
    assert context.prefilled == len(prompt.prefix) + len(prompt.suffix) - 256
    assert (got - model.logits(model.context(), [], prompt)).abs().max() < 1e-4


def test_a_chat_finds_its_own_answer_computed(model: Model) -> None:
    context = model.context()
    prompt = PromptTokens(tuple(range(20, 60)), (), (3,))
    model.logits(context, [], prompt)
    model.runner.step(context.cache, TAIL, [40, 41], context.next_position, context.visible)
    context.adopt_tail(prompt, [40, 41])
    follow_up = PromptTokens((*prompt.prefix, 3, 40, 41, 50), (), (4,))
    got = model.logits(context, [], follow_up)
    assert context.prefilled == 1
    assert (got - model.logits(model.context(), [], follow_up)).abs().max() < 1e-4


def test_only_what_changed_in_the_memory_is_placed_again(model: Model) -> None:
    context = model.context()
    a, b, c = (model.chunk([token] * 10) for token in (30, 40, 50))
    assert context.attach([a, b]) == 20
    assert context.attach([a, b]) == 0
    assert context.attach([a, c]) == 10
    assert context.attach([]) == 0


def test_a_prompt_past_the_context_says_what_to_do(model: Model) -> None:
    context = model.context()
    context.attach([])
    with pytest.raises(PromptTooLong, match=r"context of 512.*Shorten the prompt"):
        next(iter(context.prefill(PromptTokens(tuple([9] * 600), (), (3,)), room=4)))
