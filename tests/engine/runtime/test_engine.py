"""The whole engine on a tiny random checkpoint, in fp32, with transformers' own generation as the oracle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from miton_engine.errors import EngineClosed, EngineError
from miton_engine.runtime.engine import Engine, EngineSettings
from miton_engine.runtime.requests import (
    ChatPrompt,
    ChunkSource,
    FimPrompt,
    GenerationRequest,
    Sampling,
    TextPrompt,
    TokenPrompt,
)

MakeTiny = Callable[..., tuple[Path, torch.nn.Module]]
CHUNKS = tuple(
    ChunkSource(f"src/file{i}.py", "", f"def function_{i}(x):\n    return x + {i}\n") for i in range(5)
)


class Tiny:
    def __init__(self, directory: Path, reference: torch.nn.Module, cache: Path) -> None:
        self.directory, self.reference = directory, reference
        self.settings = EngineSettings(cache_dir=cache, threads=1, dtype="fp32")
        self.engine = self.open()

    def open(self) -> Engine:
        return Engine.open(str(self.directory), settings=self.settings)

    def expected(self, prompt: list[int], count: int) -> list[int]:
        sink = self.engine.checkpoint.prompt_format.sink()
        ids = torch.tensor([[*sink, *prompt]])
        with torch.no_grad():
            for _ in range(count):
                ids = torch.cat([ids, self.reference(ids).logits[:, -1:].argmax(-1)], dim=1)
        return ids[0, -count:].tolist()


@pytest.fixture
def tiny(tiny_checkpoint: MakeTiny, tmp_path: Path) -> Iterator[Tiny]:
    made = Tiny(*tiny_checkpoint("qwen2", max_position_embeddings=1024), tmp_path / "cache")
    yield made
    made.engine.close()


def test_greedy_tokens_are_those_of_transformers(tiny: Tiny) -> None:
    prompt = list(range(10, 90))
    request = GenerationRequest(TokenPrompt(tuple(prompt)), sampling=Sampling(max_tokens=24))
    got = list(tiny.engine.generate(request).result().token_ids)
    expected = tiny.expected(prompt, len(got))
    assert got == expected
    assert len(got) == 24 or got[-1] in tiny.engine.tokenizer.eos_ids


def test_speculation_changes_no_token_and_sometimes_helps(tiny: Tiny) -> None:
    accepted = 0
    for seed in range(6):
        prompt = (
            tuple(torch.randint(2, 250, (30,), generator=torch.Generator().manual_seed(seed)).tolist()) * 3
        )
        results = [
            tiny.engine.generate(
                GenerationRequest(
                    TokenPrompt(prompt), sampling=Sampling(max_tokens=40, speculation=speculation)
                )
            ).result()
            for speculation in (False, True)
        ]
        assert results[0].token_ids == results[1].token_ids
        assert results[0].text == results[1].text
        accepted += results[1].timings.accepted_tokens
    assert accepted > 0


def test_reported_logprobs_are_the_model_s(tiny: Tiny) -> None:
    prompt = list(range(20, 60))
    sampling = Sampling(max_tokens=5, logprobs=3)
    result = tiny.engine.generate(GenerationRequest(TokenPrompt(tuple(prompt)), sampling=sampling)).result()
    sink = tiny.engine.checkpoint.prompt_format.sink()
    ids = torch.tensor([[*sink, *prompt, *result.token_ids]])
    with torch.no_grad():
        logprobs = tiny.reference(ids).logits[0].log_softmax(-1)
    assert result.logprobs is not None
    for index, entry in enumerate(result.logprobs):
        row = logprobs[len(sink) + len(prompt) - 1 + index]
        assert entry.logprob == pytest.approx(float(row[entry.token_id]), abs=1e-4)
        assert [token for token, _, _ in entry.top] == row.topk(3).indices.tolist()


def test_scores_of_a_dense_prompt_are_transformers(tiny: Tiny) -> None:
    request = GenerationRequest(FimPrompt("a.py", "x = function_1(", ")\n"), attached=CHUNKS[:3])
    got = tiny.engine.score(request, "12345", dense=True).result()
    encoder = tiny.engine.encoder
    prompt = encoder.prompt(request.prompt)
    before = [token for chunk in CHUNKS[:3] for token in encoder.chunk(chunk)]
    sink = tiny.engine.checkpoint.prompt_format.sink()
    target = encoder.tokenizer.encode("12345")
    ids = [*sink, *before, *prompt.prefix, *prompt.suffix, *prompt.tail, *target]
    with torch.no_grad():
        logprobs = tiny.reference(torch.tensor([ids])).logits[0].log_softmax(-1)
    rows = logprobs[len(ids) - len(target) - 1 : -1]
    expected = rows[torch.arange(len(target)), torch.tensor(target)]
    assert torch.allclose(torch.tensor(got), expected, atol=1e-4)


def test_a_chunk_is_computed_once_and_found_again_after_a_restart(tiny: Tiny) -> None:
    first = tiny.engine.memorise(CHUNKS[0]).result()
    again = tiny.engine.memorise(CHUNKS[0]).result()
    assert not first.reused
    assert again.reused
    assert first.key == again.key
    assert tiny.engine.is_memorised(CHUNKS[0])
    assert not tiny.engine.is_memorised(CHUNKS[1])
    moved = ChunkSource("other.py", CHUNKS[0].header, CHUNKS[0].text)
    assert tiny.engine.memorise(moved).result().key != first.key
    tiny.engine.close()
    tiny.engine = tiny.open()
    assert tiny.engine.memorise(CHUNKS[0]).result().reused


def test_chunks_that_were_memorised_and_chunks_computed_on_demand_give_the_same_answer(tiny: Tiny) -> None:
    request = GenerationRequest(TextPrompt("function_2("), CHUNKS, Sampling(max_tokens=12))
    on_demand = tiny.engine.generate(request).result()
    stored = tiny.engine.generate(request).result()
    assert on_demand.token_ids == stored.token_ids
    assert stored.timings.cached_tokens > on_demand.timings.prefill_tokens


def test_requests_on_several_documents_at_once_do_not_disturb_each_other(tiny: Tiny) -> None:
    requests = [
        GenerationRequest(
            FimPrompt(f"{i}.py", f"a{i} = function_{i}(" * 8, ")\n"),
            CHUNKS[: i + 1],
            Sampling(max_tokens=16),
            f"{i}.py",
        )
        for i in range(4)
    ]
    alone = [tiny.engine.generate(request).result().token_ids for request in requests]
    together = [tiny.engine.generate(request) for request in requests for _ in range(2)]
    results = [generation.result().token_ids for generation in together]
    assert results == [tokens for tokens in alone for _ in range(2)]


def test_a_cancelled_generation_stops_and_leaves_its_document_usable(tiny: Tiny) -> None:
    request = GenerationRequest(TokenPrompt(tuple(range(10, 60))), (), Sampling(max_tokens=900), "doc")
    generation = tiny.engine.generate(request)
    events = iter(generation)
    next(events)
    generation.cancel()
    result = generation.result()
    assert result.finish_reason == "cancelled"
    assert len(result.token_ids) < 900
    short = GenerationRequest(request.prompt, (), Sampling(max_tokens=5), "doc")
    assert list(tiny.engine.generate(short).result().token_ids) == tiny.expected(list(range(10, 60)), 5)


def test_a_prompt_past_the_context_is_an_error_with_the_limit_in_it(tiny: Tiny) -> None:
    request = GenerationRequest(TokenPrompt(tuple([9] * 2000)))
    with pytest.raises(EngineError, match="context of 1024"):
        tiny.engine.generate(request).result()
    fine = GenerationRequest(TokenPrompt((9, 10)), sampling=Sampling(max_tokens=1))
    assert tiny.engine.generate(fine).result().finish_reason in ("length", "stop")


def test_a_model_without_a_chat_template_says_so(tiny: Tiny) -> None:
    with pytest.raises(EngineError, match="chat"):
        tiny.engine.generate(GenerationRequest(ChatPrompt(({"role": "user", "content": "hi"},)))).result()


def test_events_reach_an_event_loop_as_they_happen(tiny: Tiny) -> None:
    async def collect() -> list[str]:
        generation = tiny.engine.generate(
            GenerationRequest(TextPrompt("abc"), sampling=Sampling(max_tokens=8, stop=("\x00",)))
        )
        return [event.text async for event in generation]

    texts = asyncio.run(collect())
    assert len(texts) >= 2


def test_background_memorising_goes_on_after_interactive_work(tiny: Tiny) -> None:
    futures = [tiny.engine.memorise(ChunkSource(f"many{i}.py", "", "x = 1\n" * 40)) for i in range(30)]
    tiny.engine.generate(GenerationRequest(TextPrompt("x"), sampling=Sampling(max_tokens=3))).result()
    assert not all(future.done() for future in futures)
    assert all(not future.result(timeout=60).reused for future in futures)


def test_a_closed_engine_ends_what_waits_and_refuses_new_work(tiny: Tiny) -> None:
    generation = tiny.engine.generate(GenerationRequest(TextPrompt("abc"), sampling=Sampling(max_tokens=800)))
    future = tiny.engine.memorise(ChunkSource("late.py", "", "x = 1\n" * 60))
    tiny.engine.close()
    assert generation.result().finish_reason in ("cancelled", "stop", "length")
    with pytest.raises(EngineClosed):
        future.result(timeout=5)
    with pytest.raises(EngineClosed):
        tiny.engine.generate(GenerationRequest(TextPrompt("abc")))
