"""Stop strings, sampling, drafts and the scheduler: the parts of a generation that need no model."""

from __future__ import annotations

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from miton_engine.errors import EngineClosed, InvalidRequest
from miton_engine.runtime.requests import Sampling
from miton_engine.runtime.sampling import Sampler, top_logprobs
from miton_engine.runtime.scheduler import Priority, Scheduler, Task
from miton_engine.runtime.speculation import NgramIndex
from miton_engine.runtime.stopping import StopMatcher


@given(st.text("ab\n", max_size=40), st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3), st.data())
def test_a_stream_is_cut_where_the_whole_text_would_be(
    text: str, stop: list[str], data: st.DataObject
) -> None:
    matcher, shown, rest = StopMatcher(stop), "", text
    while rest and matcher.matched is None:
        size = data.draw(st.integers(1, len(rest)))
        shown += matcher.push(rest[:size])
        rest = rest[size:]
    if matcher.matched is None:
        shown += matcher.flush()
    # The oracle: a stop string ends the stream at the first moment the text so far contains it.
    ends = [(text.find(string) + len(string), text.find(string)) for string in stop if string in text]
    if not ends:
        assert shown == text
    else:
        assert not any(string in shown for string in stop)
        assert text.startswith(shown)
        assert len(shown) <= min(ends)[1] or len(shown) in {start for _, start in ends}


def test_greedy_takes_the_largest_logit_and_penalties_move_it() -> None:
    logits = torch.tensor([0.0, 3.0, 2.9])
    assert Sampler(Sampling(), []).choose(logits) == 1
    penalised = Sampler(Sampling(frequency_penalty=1.0), [])
    assert [penalised.choose(logits) for _ in range(3)] == [1, 2, 1]
    assert Sampler(Sampling(repetition_penalty=2.0), [1]).choose(logits) == 2
    assert Sampler(Sampling(logit_bias={0: 10.0}), []).choose(logits) == 0


def test_a_seed_repeats_itself_and_top_k_and_top_p_confine_the_choice() -> None:
    logits = torch.randn(100, generator=torch.Generator().manual_seed(0))
    hot = Sampling(temperature=1.5, seed=7)
    first, second = Sampler(hot, []), Sampler(hot, [])
    assert [first.choose(logits) for _ in range(20)] == [second.choose(logits) for _ in range(20)]
    top3 = set(logits.topk(3).indices.tolist())
    confined = Sampler(Sampling(temperature=2.0, top_k=3, seed=1), [])
    assert {confined.choose(logits) for _ in range(200)} == top3
    nucleus = Sampler(Sampling(temperature=1.0, top_p=1e-6, seed=1), [])
    assert {nucleus.choose(logits) for _ in range(50)} == {int(logits.argmax())}


def test_sampled_frequencies_follow_the_softmax() -> None:
    logits = torch.tensor([1.0, 0.0, -1.0])
    sampler = Sampler(Sampling(temperature=1.0, seed=3), [])
    draws = torch.tensor([sampler.choose(logits) for _ in range(4000)]).bincount(minlength=3) / 4000
    assert torch.allclose(draws, logits.softmax(0), atol=0.03)


def test_logprobs_are_the_log_softmax() -> None:
    logits = torch.randn(50)
    logprob, top = top_logprobs(logits, 7, 3)
    expected = torch.nn.functional.log_softmax(logits, 0)
    assert logprob == pytest.approx(float(expected[7]))
    assert [token for token, _ in top] == expected.topk(3).indices.tolist()


@pytest.mark.parametrize(
    "field", [{"max_tokens": 0}, {"temperature": -1.0}, {"top_p": 0.0}, {"top_k": -1}, {"logprobs": 99}]
)
def test_a_wrong_field_is_named_with_its_rule(field: dict[str, float]) -> None:
    with pytest.raises(InvalidRequest, match=f"{next(iter(field))} is .* must be"):
        Sampling(**field)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 8))
def test_a_draft_is_what_followed_the_longest_earlier_match(tokens: list[int], length: int) -> None:
    draft = NgramIndex(tokens).draft(length)
    for order in (4, 3, 2):
        ends = [i for i in range(order, len(tokens)) if tokens[i - order : i] == tokens[-order:]]
        if len(tokens) >= order and ends:
            assert draft == tokens[ends[-1] : ends[-1] + length]
            return
    assert draft == []


def test_interactive_work_goes_before_background_work_and_takes_turns() -> None:
    scheduler, order, done, gate = Scheduler(), [], threading.Event(), threading.Event()

    def task(name: str, steps: int) -> Task:
        for _ in range(steps):
            order.append(name)
            yield
        if name == "background":
            done.set()

    def hold() -> Task:
        gate.wait()
        yield

    scheduler.submit(hold(), Priority.COMPLETION)
    scheduler.submit(task("background", 2), Priority.BACKGROUND)
    scheduler.submit(task("one", 3), Priority.COMPLETION)
    scheduler.submit(task("two", 3), Priority.COMPLETION)
    gate.set()
    assert done.wait(5)
    scheduler.close()
    assert order == ["one", "two", "one", "two", "one", "two", "background", "background"]


def test_a_failing_task_does_not_stop_the_others_and_close_ends_what_waits() -> None:
    scheduler, closed, ran = Scheduler(), threading.Event(), threading.Event()

    def failing() -> Task:
        raise ValueError("on purpose")
        yield

    def endless() -> Task:
        try:
            while True:
                ran.set()
                yield
        finally:
            closed.set()

    scheduler.submit(failing(), Priority.COMPLETION)
    scheduler.submit(endless(), Priority.BACKGROUND)
    assert ran.wait(5)
    scheduler.close()
    assert closed.is_set()
    with pytest.raises(EngineClosed, match="closed"):
        scheduler.submit(endless(), Priority.CHAT)
