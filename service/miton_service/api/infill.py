"""POST /infill as llama.cpp's server has it, so that llama.vscode and llama.vim work against Miton unchanged.

Fields and answers: llama.cpp, tools/server/README.md. `input_extra` becomes chunk memory: its pieces are
memorised once and attached from then on, in whatever order they come.
"""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from miton_engine.runtime.requests import ChunkSource, FimPrompt, GenerationRequest, Sampling
from miton_service.api.answers import new_id, stops
from miton_service.api.completions import LineEnds
from miton_service.api.running import Running, TextFilter
from miton_service.api.schemas import InfillRequest
from miton_service.api.streaming import Events, EventStream, unless_gone
from miton_service.completion_text import CompletionFilter, indentation, uses_crlf, wants_multi_line
from miton_service.request_log import RequestRecord
from miton_service.service import Service

UNLIMITED = 256  # what n_predict -1 means here: an inline completion, not a file


class LlamaLimits:
    """llama.cpp's limits: `t_max_predict_ms` of writing once a line end was written, and `n_indent`."""

    def __init__(self, inner: TextFilter, limit_ms: float, n_indent: int) -> None:
        self._inner, self._limit_ms, self._n_indent = inner, limit_ms, n_indent
        self._started: float | None = None
        self._text = ""
        self.done = False

    def push(self, text: str) -> str:
        now = time.perf_counter()
        self._started = now if self._started is None else self._started
        room = self._end_by_indentation(self._text + text) - len(self._text)
        shown = self._inner.push(text[: max(0, room)])
        self._text += text
        late = self._limit_ms > 0 and (now - self._started) * 1e3 > self._limit_ms and "\n" in self._text
        if late or room < len(text) or self._inner.done:
            self.done = True
            shown += self._inner.flush()
        return shown

    def flush(self) -> str:
        return self._inner.flush()

    def _end_by_indentation(self, text: str) -> int:
        """Where the first line with too little indentation begins (the cursor's own line is not one)."""
        end = text.find("\n") + 1
        while end:
            line = text[end:].partition("\n")[0]
            if line.strip() and indentation(line) < self._n_indent:
                return end
            end = text.find("\n", end) + 1
        return len(text)


def router(service: Service) -> APIRouter:
    """The route."""
    routes = APIRouter()

    @routes.post("/infill")
    async def infill(body: InfillRequest, request: Request) -> Response:
        engine = service.engine
        extra = tuple(
            ChunkSource(item.filename or "extra", "", item.text) for item in body.input_extra if item.text
        )
        if body.n_predict == 0:  # the editor prepares: compute what it will need, answer at once
            for source in extra:
                engine.memorise(source)
            return JSONResponse(_select({**_final("", "limit", body), "timings": _timings(None)}, body))
        record = RequestRecord(id=new_id("infill"), kind="infill", stream=body.stream)
        running = Running(service, record, [_request(body, extra)], lambda: _filter(body))
        if body.stream:
            return EventStream(_events(running, body), done=b"")
        return await unless_gone(request, _answer(running, body))

    return routes


def _texts(body: InfillRequest) -> tuple[str, str, bool]:
    prefix, suffix = body.input_prefix + body.prompt, body.input_suffix
    return prefix.replace("\r\n", "\n"), suffix.replace("\r\n", "\n"), uses_crlf(prefix + suffix)


def _request(body: InfillRequest, extra: tuple[ChunkSource, ...]) -> GenerationRequest:
    prefix, suffix, _ = _texts(body)
    sampling = Sampling(
        max_tokens=UNLIMITED if body.n_predict < 0 else body.n_predict,
        temperature=body.temperature,
        top_k=body.top_k if body.temperature else 0,
        top_p=body.top_p if body.temperature else 1.0,
        seed=body.seed,
        stop=stops(body.stop),
    )
    return GenerationRequest(FimPrompt("untitled", prefix, suffix), extra, sampling)


def _filter(body: InfillRequest) -> TextFilter:
    prefix, suffix, crlf = _texts(body)
    completion = CompletionFilter(prefix, suffix, wants_multi_line(prefix, suffix))
    return LineEnds(LlamaLimits(completion, body.t_max_predict_ms, body.n_indent), crlf)


async def _answer(running: Running, body: InfillRequest) -> Response:
    text, reason = "", "stop"
    async for piece in running.pieces():
        text += piece.text
        reason = piece.finish_reason or reason
    return JSONResponse(_select(_whole(running, text, reason, body), body))


async def _events(running: Running, body: InfillRequest) -> Events:
    pieces = running.pieces()
    try:
        async for piece in pieces:
            if piece.text:
                yield {"index": 0, "content": piece.text, "stop": False}
            if piece.finish_reason is not None:
                yield _select(_whole(running, "", piece.finish_reason, body), body)
    finally:
        await pieces.aclose()


def _whole(running: Running, text: str, reason: str, body: InfillRequest) -> dict[str, Any]:
    timings = running.record.timings
    answer = _final(text, "limit" if reason == "length" else "eos", body)
    answer.update(
        model=running.service.engine.model_name,
        tokens_predicted=timings.decode_tokens,
        tokens_evaluated=timings.prefill_tokens + timings.cached_tokens,
        tokens_cached=timings.cached_tokens,
        timings=_timings(running),
    )
    return answer


def _final(text: str, stop_type: str, body: InfillRequest) -> dict[str, Any]:
    return {
        "index": 0,
        "content": text,
        "stop": True,
        "stop_type": stop_type,
        "stopping_word": "",
        "id_slot": 0,
        "truncated": False,
        "tokens_predicted": 0,
        "tokens_evaluated": 0,
        "tokens_cached": 0,
        "generation_settings": {"n_predict": body.n_predict, "temperature": body.temperature},
    }


def _timings(running: Running | None) -> dict[str, float]:
    """llama.cpp's timings; what came from memory is `cache_n`."""
    if running is None:
        prompt_n, prompt_ms, predicted_n, predicted_ms, cached = 0, 0.0, 0, 0.0, 0
    else:
        t = running.record.timings
        prompt_n, prompt_ms, predicted_n, predicted_ms = (
            t.prefill_tokens,
            t.prefill_ms,
            t.decode_tokens,
            t.decode_ms,
        )
        cached = t.cached_tokens
    return {
        "cache_n": cached,
        "prompt_n": prompt_n,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / max(1, prompt_n),
        "prompt_per_second": 1e3 * prompt_n / prompt_ms if prompt_ms else 0.0,
        "predicted_n": predicted_n,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / max(1, predicted_n),
        "predicted_per_second": 1e3 * predicted_n / predicted_ms if predicted_ms else 0.0,
    }


def _select(answer: dict[str, Any], body: InfillRequest) -> dict[str, Any]:
    """`response_fields`: only these; "timings/prompt_n" reaches into an object and stays the key."""
    if not body.response_fields:
        return answer
    chosen: dict[str, Any] = {}
    for path in body.response_fields:
        value: Any = answer
        for key in path.split("/"):
            if not isinstance(value, dict) or key not in value:
                break
            value = value[key]
        else:
            chosen[path] = value
    return chosen
