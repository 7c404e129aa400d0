"""POST /v1/completions: OpenAI's text completions, fill in the middle, and completions at a cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from miton_engine.runtime.requests import FimPrompt, GenerationRequest, Prompt, TextPrompt, TokenPrompt
from miton_service.api.answers import (
    check_token_ids,
    created,
    last_event,
    miton,
    new_id,
    refuse,
    sampling_of,
    token_name,
)
from miton_service.api.recall import Recalled, recall_at_cursor
from miton_service.api.running import Piece, Running, TextFilter, Unfiltered
from miton_service.api.schemas import CompletionRequest
from miton_service.api.streaming import Events, EventStream, unless_gone
from miton_service.completion_text import (
    PROSE,
    CompletionFilter,
    restore_line_ends,
    uses_crlf,
    wants_multi_line,
)
from miton_service.errors import ApiError
from miton_service.request_log import RequestRecord
from miton_service.service import Service

if TYPE_CHECKING:
    from miton_engine.models.tokenizer import Tokenizer

MAX_TOKENS_AT_CURSOR = 128
MAX_TOKENS = 16  # OpenAI's default
MAX_PROMPTS = 16


@dataclass
class LineEnds:
    """Filter that gives a CRLF file its line ends back, around another filter."""

    inner: TextFilter
    crlf: bool

    @property
    def done(self) -> bool:
        return self.inner.done

    def push(self, text: str) -> str:
        return restore_line_ends(self.inner.push(text), self.crlf)

    def flush(self) -> str:
        return restore_line_ends(self.inner.flush(), self.crlf)


@dataclass
class Plan:
    """What a request comes to: engine prompts, one per choice, and what its text passes through."""

    prompts: list[Prompt]
    recalled: Recalled = field(default_factory=Recalled)
    new_filter: Callable[[], TextFilter] = Unfiltered
    at_cursor: bool = False


def router(service: Service) -> APIRouter:
    """The route."""
    routes = APIRouter()

    @routes.post("/v1/completions")
    async def completions(body: CompletionRequest, request: Request) -> Response:
        _refuse_unsupported(body)
        engine = service.engine
        plan = await _plan(service, body)
        record = RequestRecord(
            id=new_id("cmpl"), kind="completion", stream=bool(body.stream),
            workspace=plan.recalled.workspace, path=plan.recalled.path or body.path or "",
            context=plan.recalled.items, window=plan.recalled.window, recall_ms=plan.recalled.recall_ms,
        )  # fmt: skip
        requests = _requests(body, plan)
        check_token_ids(engine, requests[0].sampling.logit_bias, "logit_bias")
        running = Running(service, record, requests, plan.new_filter)
        head = {
            "id": record.id,
            "object": "text_completion",
            "created": created(),
            "model": engine.model_name,
        }
        echoes = [_echo(body, prompt) for prompt in plan.prompts]
        if body.stream:
            return EventStream(_events(running, head, echoes, body, engine.encoder.tokenizer))
        return await unless_gone(request, _answer(running, head, echoes, engine.encoder.tokenizer))

    return routes


def _refuse_unsupported(body: CompletionRequest) -> None:
    if body.best_of not in (None, body.n or 1):
        raise refuse("best_of", "`best_of` beyond `n` is not supported; ask for `n` choices and pick one.")
    if body.echo and body.logprobs is not None:
        raise refuse("echo", "`echo` with `logprobs` is not supported; ask for one of them.")
    if body.cursor is not None and body.prompt is not None:
        raise ApiError(
            400, "Give either `prompt` or `workspace`, `path` and `cursor`, not both.", param="prompt"
        )


async def _plan(service: Service, body: CompletionRequest) -> Plan:
    if body.prompt is None:
        if body.cursor is None and body.path is None and body.workspace is None:
            raise ApiError(
                400, "`prompt` is missing; or give `workspace`, `path` and `cursor`.", param="prompt"
            )
        recalled = await recall_at_cursor(service, body)
        prefix, suffix = recalled.prefix, recalled.suffix
        new_filter = _at_cursor_filter(recalled.path, prefix, suffix, recalled.crlf, body.multi_line)
        return Plan([FimPrompt(recalled.path, prefix, suffix)] * (body.n or 1), recalled, new_filter, True)
    texts = _prompts(body.prompt)
    for ids in texts:
        if not isinstance(ids, str):
            check_token_ids(service.engine, ids, "prompt")
    if body.suffix is None:
        prompts: list[Prompt] = [
            TextPrompt(text) if isinstance(text, str) else TokenPrompt(text) for text in texts
        ]
        return Plan([prompt for prompt in prompts for _ in range(body.n or 1)])
    (text,) = texts if len(texts) == 1 else (None,)
    if not isinstance(text, str):
        raise refuse("suffix", "`suffix` needs exactly one `prompt`, as text; send one request per prompt.")
    path = body.path or "untitled"
    crlf = uses_crlf(text + body.suffix)
    prefix, suffix = text.replace("\r\n", "\n"), body.suffix.replace("\r\n", "\n")
    prompt = FimPrompt(path, prefix, suffix)
    return Plan([prompt] * (body.n or 1), new_filter=lambda: LineEnds(Unfiltered(), crlf))


def _prompts(prompt: str | Sequence[Any]) -> list[str | tuple[int, ...]]:
    if isinstance(prompt, str):
        return [prompt]
    items: list[Any] = list(prompt)
    if not items:
        raise ApiError(400, "`prompt` is an empty list; give text or token ids.", param="prompt")
    if isinstance(items[0], int):
        return [tuple(items)]
    if len(items) > MAX_PROMPTS:
        raise ApiError(
            400, f"`prompt` has {len(items)} items; at most {MAX_PROMPTS} are taken.", param="prompt"
        )
    return [item if isinstance(item, str) else tuple(item) for item in items]


def _at_cursor_filter(
    path: str, prefix: str, suffix: str, crlf: bool, multi_line: bool | None
) -> Callable[[], TextFilter]:
    several = wants_multi_line(prefix, suffix) if multi_line is None else multi_line
    prose = PurePosixPath(path).suffix.lstrip(".").lower() in PROSE
    return lambda: LineEnds(CompletionFilter(prefix, suffix, several, prose), crlf)


def _requests(body: CompletionRequest, plan: Plan) -> list[GenerationRequest]:
    return [
        GenerationRequest(
            prompt=prompt,
            attached=plan.recalled.sources,
            sampling=sampling_of(
                body,
                max_tokens=body.max_tokens or (MAX_TOKENS_AT_CURSOR if plan.at_cursor else MAX_TOKENS),
                temperature=0.0 if plan.at_cursor or body.suffix is not None else 1.0,
                logprobs=body.logprobs,
                choice=choice,
            ),
            document=plan.recalled.document,
        )
        for choice, prompt in enumerate(plan.prompts)
    ]


def _echo(body: CompletionRequest, prompt: Prompt) -> str:
    if not body.echo:
        return ""
    if not isinstance(prompt, TextPrompt):
        raise refuse("echo", "`echo` needs a `prompt` as text, without `suffix`.")
    return prompt.text


async def _answer(
    running: Running, head: dict[str, Any], echoes: Sequence[str], tokenizer: Tokenizer
) -> Response:
    texts = list(echoes)
    logprobs = [_Logprobs(tokenizer, len(echo)) for echo in echoes]
    reasons: list[str | None] = [None] * len(texts)
    async for piece in running.pieces():
        texts[piece.index] += piece.text
        logprobs[piece.index].add(piece)
        reasons[piece.index] = piece.finish_reason
    choices = [
        {"index": index, "text": text, "logprobs": logprobs[index].to_json(), "finish_reason": reasons[index]}
        for index, text in enumerate(texts)
    ]
    usage = running.usage.to_json()
    return JSONResponse({**head, "choices": choices, "usage": usage, "miton": miton(running.record)})


async def _events(
    running: Running,
    head: dict[str, Any],
    echoes: Sequence[str],
    body: CompletionRequest,
    tokenizer: Tokenizer,
) -> Events:
    include_usage = body.stream_options is not None and body.stream_options.include_usage
    usage: dict[str, Any] = {"usage": None} if include_usage else {}
    offsets = [len(echo) for echo in echoes]
    pieces = running.pieces()
    try:
        for index, echo in enumerate(echoes):
            if echo:
                choice = {"index": index, "text": echo, "logprobs": None, "finish_reason": None}
                yield {**head, "choices": [choice], **usage}
        async for piece in pieces:
            if not piece.text and piece.finish_reason is None and not piece.logprobs:
                continue
            logprobs = _Logprobs(tokenizer, offsets[piece.index])
            logprobs.add(piece)
            offsets[piece.index] = logprobs.offset
            choice = {
                "index": piece.index,
                "text": piece.text,
                "logprobs": logprobs.to_json(),
                "finish_reason": piece.finish_reason,
            }
            is_last = piece.finish_reason is not None and piece.index == len(echoes) - 1
            extra = last_event(running.usage, running.record, include_usage=False) if is_last else {}
            yield {**head, "choices": [choice], **usage, **({} if include_usage else extra)}
        if include_usage:
            yield {**head, "choices": [], **last_event(running.usage, running.record, include_usage=True)}
    finally:
        await pieces.aclose()


class _Logprobs:
    """OpenAI's four parallel lists of a completion's log-probabilities."""

    def __init__(self, tokenizer: Tokenizer, offset: int) -> None:
        self._tokenizer, self.offset = tokenizer, offset
        self._tokens: list[str] = []
        self._values: list[float] = []
        self._top: list[dict[str, float]] = []
        self._offsets: list[int] = []

    def add(self, piece: Piece) -> None:
        for item in piece.logprobs:
            self._tokens.append(token_name(self._tokenizer, item.token_id, item.text))
            self._values.append(item.logprob)
            self._top.append({token_name(self._tokenizer, id, text): value for id, text, value in item.top})
            self._offsets.append(self.offset)
            self.offset += len(item.text)

    def to_json(self) -> dict[str, Any] | None:
        if not self._tokens:
            return None
        return {
            "tokens": self._tokens,
            "token_logprobs": self._values,
            "top_logprobs": self._top,
            "text_offset": self._offsets,
        }
