"""/infill answers as llama.cpp's server does: the requests here are those llama.vim and llama.vscode send."""

from __future__ import annotations

from typing import Any

import pytest

from miton_engine.runtime.requests import ChunkSource
from miton_service.api.infill import LlamaLimits
from miton_service.api.running import Unfiltered

from .conftest import RunningService, events_of

EXTRA = [
    {"filename": "a.py", "text": "def helper(x):\n    return x\n", "time": 1},
    {"filename": "b.py", "text": "Y = 2\n"},
]
LLAMA_VIM_FIELDS = [
    "content", "timings/prompt_n", "timings/prompt_ms", "timings/prompt_per_token_ms",
    "timings/prompt_per_second",
    "timings/predicted_n", "timings/predicted_ms", "timings/predicted_per_token_ms",
    "timings/predicted_per_second", "truncated", "tokens_cached",
]  # fmt: skip


def infill(running_service: RunningService, **fields: Any) -> Any:
    body = {
        "input_prefix": "import a\n",
        "input_suffix": "\nprint(y)\n",
        "prompt": "y = ",
        "n_predict": 12,
        **fields,
    }
    answer = running_service.client.post("/infill", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_fields_of_llama_cpp_are_there(running_service: RunningService) -> None:
    answer = infill(
        running_service, input_extra=EXTRA, samplers=["top_k", "top_p", "infill"], cache_prompt=True,
        top_k=40, top_p=0.99, stream=False, t_max_prompt_ms=500, t_max_predict_ms=2500,
    )  # fmt: skip
    assert isinstance(answer["content"], str)
    assert answer["stop"] is True
    assert answer["stop_type"] in ("eos", "limit")
    assert answer["tokens_predicted"] == answer["timings"]["predicted_n"] > 0
    assert answer["tokens_evaluated"] > answer["tokens_cached"] > 0
    assert answer["timings"]["prompt_per_second"] > 0


def test_llama_vim_gets_the_flat_fields_it_asks_for(running_service: RunningService) -> None:
    answer = infill(running_service, input_extra=EXTRA, n_indent=0, response_fields=LLAMA_VIM_FIELDS)
    assert set(answer) == set(LLAMA_VIM_FIELDS)
    assert set(infill(running_service, response_fields=["content", "nothing/there"])) == {"content"}


def test_a_preparing_request_memorises_and_writes_nothing(running_service: RunningService) -> None:
    source = ChunkSource("ring.py", "", "def prepared():\n    return 'only once'\n")
    extra = [{"filename": source.path, "text": source.text}]
    engine = running_service.service.engine
    nothing = {"input_prefix": "", "input_suffix": "", "prompt": "", "n_predict": 0}
    assert infill(running_service, **nothing, input_extra=extra)["content"] == ""
    assert running_service.settled(lambda: engine.is_memorised(source))
    before = engine.status()["memorised_tokens"]
    answer = infill(running_service, input_extra=extra)
    assert engine.status()["memorised_tokens"] == before
    assert answer["tokens_cached"] >= len(source.text)


def test_a_stream_ends_with_the_figures_and_gives_the_same_text(running_service: RunningService) -> None:
    body = {"input_prefix": "x = 1\n", "input_suffix": "", "n_predict": 20, "stream": True}
    with running_service.client.stream("POST", "/infill", json=body) as answer:
        events = events_of(b"".join(answer.iter_raw()).split(b"\n"))
    assert [event["stop"] for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1]["timings"]["predicted_n"] > 0
    whole = running_service.client.post("/infill", json={**body, "stream": False}).json()
    assert "".join(event["content"] for event in events) == whole["content"]


def test_crlf_comes_back_as_crlf(running_service: RunningService) -> None:
    lf = infill(
        running_service, input_prefix="def f():\n    a\n", prompt="", n_predict=60, temperature=1, seed=2
    )
    crlf = infill(
        running_service, input_prefix="def f():\r\n    a\r\n", input_suffix="\r\nprint(y)\r\n", prompt="",
        n_predict=60, temperature=1, seed=2,
    )  # fmt: skip
    assert crlf["content"] == lf["content"].replace("\n", "\r\n")


def test_an_empty_request_is_a_clear_error_not_a_crash(running_service: RunningService) -> None:
    answer = running_service.client.post("/infill", json={"input_prefix": 3})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "input_prefix"


@pytest.mark.parametrize(("n_indent", "done"), [(0, False), (4, True)])
def test_a_line_with_less_indentation_ends_it(n_indent: int, done: bool) -> None:
    limits = LlamaLimits(Unfiltered(), 0, n_indent)
    shown = limits.push("x\n  ") + limits.push("y")
    assert limits.done is done
    assert ("y" in shown) is not done


def test_the_time_limit_waits_for_a_line_end() -> None:
    limits = LlamaLimits(Unfiltered(), 1e-6, 0)
    for text, done in (("x", False), (" = 1", False), ("\n", True)):
        limits.push(text)
        assert limits.done is done
