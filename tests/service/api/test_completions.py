"""OpenAI's Python client against the service, unmodified; validation, streaming, cancellation."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx
import openai
import pytest

from .conftest import ENDLESS, RunningService, events_of


@pytest.fixture(scope="module")
def client(running_service: RunningService) -> openai.OpenAI:
    return openai.OpenAI(base_url=running_service.url + "/v1", api_key="unused", max_retries=0)


def test_the_openai_client_lists_the_model(client: openai.OpenAI) -> None:
    (model,) = client.models.list().data
    assert model.id == "tiny-model"
    assert client.models.retrieve("tiny-model").id == "tiny-model"
    with pytest.raises(openai.NotFoundError, match="miton serve --model gpt-4"):
        client.models.retrieve("gpt-4")


def test_the_openai_client_completes(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="any", prompt="def add(a, b):", max_tokens=12, temperature=0, seed=1
    )
    (choice,) = answer.choices
    assert choice.finish_reason in ("stop", "length")
    assert answer.model == "tiny-model"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 12 or choice.finish_reason == "stop"
    assert answer.usage.prompt_tokens == len("def add(a, b):")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_stream_gives_the_same_text_as_one_answer(client: openai.OpenAI) -> None:
    fields: dict[str, Any] = {"model": "any", "prompt": "x = [", "max_tokens": 30, "temperature": 0}
    whole = client.completions.create(**fields)
    chunks = list(client.completions.create(**fields, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == whole.choices[0].text
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert [reason for reason in reasons if reason] == [whole.choices[0].finish_reason]


def test_a_seed_repeats_a_sampled_answer_and_choices_differ(client: openai.OpenAI) -> None:
    def sampled(seed: int) -> list[str]:
        answer = client.completions.create(
            model="any", prompt="import ", max_tokens=24, temperature=1.2, seed=seed, n=3
        )
        assert [choice.index for choice in answer.choices] == [0, 1, 2]
        return [choice.text for choice in answer.choices]

    assert sampled(7) == sampled(7)
    assert len(set(sampled(7))) == 3


def test_a_stop_string_ends_the_text_and_is_not_part_of_it(client: openai.OpenAI) -> None:
    text = client.completions.create(model="any", prompt="abc", max_tokens=40, temperature=0).choices[0].text
    stop = text[5:7]
    answer = client.completions.create(model="any", prompt="abc", max_tokens=40, temperature=0, stop=[stop])
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].text == text[: text.index(stop)]


def test_logprobs_come_in_openais_shapes(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="any", prompt="abc", max_tokens=6, temperature=0, logprobs=3)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.tokens is not None
    assert logprobs.token_logprobs is not None
    assert logprobs.top_logprobs is not None
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == 6
    for value, top in zip(logprobs.token_logprobs, logprobs.top_logprobs, strict=True):
        assert value == pytest.approx(max(top.values()))  # greedy takes the likeliest
        assert value <= 0
    chat = client.chat.completions.create(
        model="any", messages=[{"role": "user", "content": "hi"}], max_tokens=5, temperature=0, logprobs=True,
        top_logprobs=2,
    )  # fmt: skip
    content = chat.choices[0].logprobs.content if chat.choices[0].logprobs else None
    assert content is not None
    assert len(content) == 5
    assert all(len(item.top_logprobs) == 2 and item.bytes for item in content)


def test_several_prompts_and_token_ids_are_completed(client: openai.OpenAI) -> None:
    by_text = client.completions.create(model="any", prompt=["abc", "xyz"], max_tokens=8, temperature=0)
    assert [choice.index for choice in by_text.choices] == [0, 1]
    single = client.completions.create(model="any", prompt="xyz", max_tokens=8, temperature=0)
    assert by_text.choices[1].text == single.choices[0].text
    by_ids = client.completions.create(
        model="any", prompt=[[87, 88, 89], [1, 2]], max_tokens=4, temperature=0
    )
    assert len(by_ids.choices) == 2


def test_echo_gives_the_prompt_back(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="any", prompt="abc", max_tokens=4, temperature=0, echo=True)
    assert answer.choices[0].text.startswith("abc")


def test_chat_answers_streams_and_reports_usage(client: openai.OpenAI) -> None:
    messages: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "say "}, {"type": "text", "text": "hi"}]},
    ]
    whole = client.chat.completions.create(model="any", messages=messages, max_tokens=20, temperature=0)
    assert whole.choices[0].message.role == "assistant"
    chunks = list(
        client.chat.completions.create(
            model="any", messages=messages, max_tokens=20, temperature=0, stream=True,
            stream_options={"include_usage": True},
        )
    )  # fmt: skip
    assert chunks[0].choices[0].delta.role == "assistant"
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert streamed == whole.choices[0].message.content
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens if whole.usage else False


def test_the_async_client_works_with_two_requests_at_once(running_service: RunningService) -> None:
    import asyncio

    async def both() -> list[str]:
        async with openai.AsyncOpenAI(base_url=running_service.url + "/v1", api_key="unused") as client:
            answers = await asyncio.gather(
                *(
                    client.completions.create(model="any", prompt=p, max_tokens=20, temperature=0)
                    for p in ("a", "b")
                )
            )
            return [answer.choices[0].text for answer in answers]

    first = asyncio.run(both())
    assert first == asyncio.run(both())


HI = {"messages": [{"role": "user", "content": "x"}]}
IMAGE = {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}
WRONG_COMPLETIONS: list[tuple[dict[str, Any], str | None, str]] = [
    ({}, "prompt", "`prompt` is missing"),
    ({"prompt": ""}, None, "empty"),
    ({"prompt": []}, "prompt", "empty list"),
    ({"prompt": 7}, "prompt", "`prompt` must be text."),
    ({"prompt": "a", "max_tokens": 0}, "max_tokens", "must be at least 1"),
    ({"prompt": "a", "max_tokens": "many"}, "max_tokens", "must be a whole number"),
    ({"prompt": "a", "temperature": -1}, "temperature", "must be at least 0"),
    ({"prompt": "a", "temperature": "hot"}, "temperature", "must be a number"),
    ({"prompt": "a", "top_p": 0}, "top_p", "must be more than 0"),
    ({"prompt": "a", "n": 100}, "n", "must be at most 8"),
    ({"prompt": "a", "best_of": 5}, "best_of", "not supported"),
    ({"prompt": "a", "echo": True, "logprobs": 1}, "echo", "not supported"),
    ({"prompt": "a", "stop": ["a"] * 99}, "stop", "at most 16"),
    ({"prompt": "a", "stop": ""}, "stop", "empty string"),
    ({"prompt": "a", "logit_bias": {"x": 1}}, "logit_bias", "token ids"),
    ({"prompt": "a", "logit_bias": {"999999": 1}}, "logit_bias", "token id 999999"),
    ({"prompt": [1, 999_999]}, "prompt", "token id 999999"),
    ({"prompt": "a" * 9000}, "prompt", "Shorten"),
    ({"prompt": ["a", "b"], "suffix": "c"}, "suffix", "exactly one"),
    ({"workspace": "/nowhere"}, "path", "`path` is missing"),
    ({"path": "a.py", "cursor": {"line": 0, "character": 0}}, "workspace", "missing"),
    ({"workspace": "/w", "path": "a", "cursor": {"line": -1, "character": 0}}, "cursor.line", "at least 0"),
    ({"workspace": "/w", "path": "a", "cursor": {"line": 0}}, "cursor.character", "missing"),
]
WRONG_CHATS: list[tuple[dict[str, Any], str | None, str]] = [
    ({"messages": []}, "messages", "at least 1 item"),
    ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role", "one of"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "no content"),
    (IMAGE, "messages[0].content", "only text"),
    ({**HI, "top_logprobs": 2}, "top_logprobs", "needs `logprobs`"),
    ({**HI, "response_format": {"type": "json"}}, "response_format", "supported"),
]


@pytest.mark.parametrize(
    ("path", "body", "param", "words"),
    [
        *(("completions", *case) for case in WRONG_COMPLETIONS),
        *(("chat/completions", *case) for case in WRONG_CHATS),
    ],
)
def test_a_wrong_field_is_named_with_what_to_do(
    running_service: RunningService, path: str, body: dict[str, Any], param: str | None, words: str
) -> None:
    for stream in (False, True):
        answer = running_service.client.post(f"/v1/{path}", json={**body, "stream": stream})
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "code", "param"}
        assert error["type"] == "invalid_request_error"
        assert words in error["message"]
        assert error["param"] == param
        assert "pydantic" not in answer.text


MALFORMED = [
    b"", b"{", b"[1]", b'"text"', b"null", b"\xff\xfe", b'{"prompt": NaN}', b"[" * 100_000,
    b'{"prompt": "a",}',
    b'{"prompt": "a", "temperature": NaN}', b'{"prompt": "a", "temperature": 1e999}',
]  # fmt: skip


@pytest.mark.parametrize("content", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_body_is_a_clear_400(running_service: RunningService, content: bytes) -> None:
    answer = running_service.client.post("/v1/completions", content=content)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].endswith(".")


def test_half_a_surrogate_pair_is_an_unknown_character(running_service: RunningService) -> None:
    def text(prompt: bytes) -> str:
        content = b'{"temperature": 0, "prompt": "%s"}' % prompt
        answer = running_service.client.post("/v1/completions", content=content)
        assert answer.status_code == 200
        return str(answer.json()["choices"][0]["text"])

    assert text(b"a\\ud800b") == text("a\N{REPLACEMENT CHARACTER}b".encode())


def test_curls_own_content_type_is_taken_for_json(running_service: RunningService) -> None:
    answer = running_service.client.post(
        "/v1/completions",
        content=json.dumps({"prompt": "a", "max_tokens": 1}),
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code == 200


def test_a_wrong_address_names_the_near_ones(running_service: RunningService) -> None:
    answer = running_service.client.post("/v1/completion", json={})
    assert answer.status_code == 404
    assert "POST /v1/completions" in answer.json()["error"]["message"]
    answer = running_service.client.get("/v1/completions")
    assert answer.status_code == 405
    assert "it takes POST" in answer.json()["error"]["message"]


def test_characters_of_several_bytes_are_never_split(running_service: RunningService) -> None:
    body = {"prompt": "日本語😀", "max_tokens": 300, "temperature": 1.5, "seed": 3, "stream": True}
    with running_service.client.stream("POST", "/v1/completions", json=body) as answer:
        raw = b"".join(answer.iter_raw())
    assert raw.isascii()
    assert raw.endswith(b"data: [DONE]\n\n")
    events = events_of(raw.split(b"\n"))
    body["stream"] = False
    whole = running_service.client.post("/v1/completions", json=body).json()["choices"][0]["text"]
    assert "".join(event["choices"][0]["text"] for event in events) == whole
    assert events[-1]["miton"]["timings"]["decode_tokens"] > 0


def test_an_unclear_prompt_in_a_stream_is_still_an_http_error(running_service: RunningService) -> None:
    answer = running_service.client.post("/v1/completions", json={"prompt": "a" * 9000, "stream": True})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"


def test_only_max_tokens_ends_what_the_tests_call_endless(running_service: RunningService) -> None:
    body = {"prompt": "x", "max_tokens": 2000, **ENDLESS, "seed": 7}
    assert (
        running_service.client.post("/v1/completions", json=body).json()["choices"][0]["finish_reason"]
        == "length"
    )


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_stops_the_model(running_service: RunningService, stream: bool) -> None:
    """The generation is cancelled within one decode step, and shows as aborted in the metrics."""
    aborted = 'miton_requests_total{kind="completion",outcome="aborted"}'
    before, service = running_service.metric(aborted), running_service.service
    body = json.dumps({"prompt": "x" * 50, "max_tokens": 4000, **ENDLESS, "stream": stream}).encode()
    port = int(running_service.url.rpartition(":")[2])
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(
        b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    assert running_service.settled(lambda: any(g.timings.ttft_ms for g in list(service._running)))
    (generation,) = list(service._running)
    connection.close()
    assert running_service.settled(lambda: generation.finished)
    assert generation.cancelled
    written_at_end = generation.timings.decode_tokens
    assert written_at_end < 4000
    assert running_service.settled(lambda: running_service.metric(aborted) == before + 1)
    assert service.requests.last(1)[0].outcome == "aborted"
    assert service.running == 0


def test_a_client_that_leaves_while_its_prompt_is_read_stops_that_too(
    running_service: RunningService,
) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            running_service.url + "/v1/completions",
            json={"prompt": "y" * 8000, "max_tokens": 100, "stream": True},
            timeout=0.05,
        )
    service = running_service.service
    assert running_service.settled(lambda: service.running == 0)
    assert running_service.settled(lambda: service.requests.last(1)[0].outcome == "aborted")


def test_a_stop_of_the_service_ends_a_stream_with_an_error_event(running_service: RunningService) -> None:
    body = {"prompt": "z", "max_tokens": 4000, **ENDLESS, "stream": True}
    with running_service.client.stream("POST", "/v1/completions", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        for generation in list(running_service.service._running):
            generation.cancel()
        rest = [line.encode() for line in lines]
    assert "shutting down" in events_of(rest)[-1]["error"]["message"]
    assert rest[-2] == b"data: [DONE]"


def test_no_text_of_a_prompt_is_logged(
    running_service: RunningService, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        body = {"prompt": "the-secret-prompt", "max_tokens": 2}
        running_service.client.post("/v1/completions", json=body)
        running_service.client.post(
            "/v1/completions", json={"prompt": "the-secret-prompt", "temperature": "x"}
        )
    assert "completion" in caplog.text
    assert "secret-prompt" not in caplog.text
    assert "secret-prompt" not in running_service.client.get("/v1/requests").text
