"""POST /v1/chat/completions: OpenAI's chat; a named workspace is attached as repository context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from miton_engine.runtime.requests import ChatPrompt, GenerationRequest, TokenLogprob
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
from miton_service.api.recall import Recalled, recall_for_question
from miton_service.api.running import Running
from miton_service.api.schemas import ChatMessage, ChatRequest
from miton_service.api.streaming import Events, EventStream, unless_gone
from miton_service.api.tool_calls import ToolCallText
from miton_service.errors import ApiError
from miton_service.request_log import RequestRecord
from miton_service.service import Service

if TYPE_CHECKING:
    from miton_engine.models.tokenizer import Tokenizer

MAX_TOKENS = 1024


def router(service: Service) -> APIRouter:
    """The route."""
    routes = APIRouter()

    @routes.post("/v1/chat/completions")
    async def chat_completions(body: ChatRequest, request: Request) -> Response:
        _refuse_unsupported(body)
        engine = service.engine
        messages = [_message(message, index) for index, message in enumerate(body.messages)]
        recalled = Recalled()
        if body.workspace is not None:
            question = _question(messages)
            recalled = await recall_for_question(service, body.workspace, question, body.context_tokens)
        record = RequestRecord(
            id=new_id("chatcmpl"), kind="chat", stream=bool(body.stream), workspace=recalled.workspace,
            context=recalled.items, recall_ms=recalled.recall_ms,
        )  # fmt: skip
        tools = body.tools if body.tools and body.tool_choice != "none" else []
        prompt = ChatPrompt(tuple(messages), tuple(tools))
        limit = body.max_completion_tokens or body.max_tokens or MAX_TOKENS
        logprobs = (body.top_logprobs or 0) if body.logprobs else None
        requests = [
            GenerationRequest(
                prompt, recalled.sources,
                sampling_of(body, max_tokens=limit, temperature=1.0, logprobs=logprobs, choice=choice),
            )
            for choice in range(body.n or 1)
        ]  # fmt: skip
        check_token_ids(engine, requests[0].sampling.logit_bias, "logit_bias")
        running = Running(service, record, requests)
        head = {"id": record.id, "created": created(), "model": engine.model_name}
        if body.stream:
            return EventStream(_events(running, head, body, engine.encoder.tokenizer))
        return await unless_gone(
            request, _answer(running, head, len(requests), engine.encoder.tokenizer, bool(tools))
        )

    return routes


def _refuse_unsupported(body: ChatRequest) -> None:
    if body.response_format is not None and body.response_format.get("type") != "text":
        raise refuse("response_format", 'Only `response_format` {"type": "text"} is supported.')
    if body.tool_choice not in (None, "auto", "none"):
        raise refuse("tool_choice", '`tool_choice` may be "auto" or "none"; a tool cannot be forced.')
    if body.top_logprobs is not None and not body.logprobs:
        raise ApiError(400, "`top_logprobs` needs `logprobs`: true.", param="top_logprobs")


def _message(message: ChatMessage, index: int) -> dict[str, Any]:
    """A message as chat templates take it: plain text content, roles they know."""
    content = message.content
    if isinstance(content, list):
        for part in content:
            if part.get("type") != "text" or not isinstance(part.get("text"), str):
                raise refuse(
                    f"messages[{index}].content",
                    f"Message {index} has a part of type {part.get('type')!r}; only text is supported.",
                )
        content = "".join(part["text"] for part in content)
    role = "system" if message.role == "developer" else message.role
    if content is None and not message.tool_calls:
        raise ApiError(400, f"Message {index} has no content.", param=f"messages[{index}].content")
    fields: dict[str, Any] = {"role": role, "content": content or ""}
    if message.tool_calls:
        fields["tool_calls"] = message.tool_calls
    return fields


def _question(messages: Sequence[dict[str, Any]]) -> str:
    return next((str(m["content"]) for m in reversed(messages) if m["role"] == "user"), "")


async def _answer(
    running: Running, head: dict[str, Any], choices: int, tokenizer: Tokenizer, has_tools: bool
) -> Response:
    texts, reasons = [""] * choices, [""] * choices
    parsed = [ToolCallText() for _ in range(choices)]
    logprobs: list[list[TokenLogprob]] = [[] for _ in range(choices)]
    async for piece in running.pieces():
        calls = parsed[piece.index]
        texts[piece.index] += calls.push(piece.text) if has_tools else piece.text
        logprobs[piece.index].extend(piece.logprobs)
        if piece.finish_reason is not None:
            texts[piece.index] += calls.flush()
            reasons[piece.index] = "tool_calls" if calls.calls else piece.finish_reason
    answer = {
        **head,
        "object": "chat.completion",
        "choices": [
            {
                "index": index,
                "message": _answered(texts[index], parsed[index].calls),
                "logprobs": _logprobs(logprobs[index], tokenizer),
                "finish_reason": reasons[index],
            }
            for index in range(choices)
        ],
        "usage": running.usage.to_json(),
        "miton": miton(running.record),
    }
    return JSONResponse(answer)


async def _events(running: Running, head: dict[str, Any], body: ChatRequest, tokenizer: Tokenizer) -> Events:
    head = {**head, "object": "chat.completion.chunk"}
    include_usage = body.stream_options is not None and body.stream_options.include_usage
    usage: dict[str, Any] = {"usage": None} if include_usage else {}
    pieces, begun, calls = running.pieces(), -1, ToolCallText()
    try:
        async for piece in pieces:
            if piece.index != begun:
                begun, calls = piece.index, ToolCallText()
                role = {"role": "assistant", "content": ""}
                yield {**head, "choices": [_choice(piece.index, role, None, None)], **usage}
            text = calls.push(piece.text) if body.tools else piece.text
            if piece.finish_reason is not None:
                text += calls.flush()
            if text or piece.logprobs:
                delta = {"content": text}
                logprobs = _logprobs(piece.logprobs, tokenizer)
                yield {**head, "choices": [_choice(piece.index, delta, logprobs, None)], **usage}
            if piece.finish_reason is not None:
                if calls.calls:
                    called = [{"index": number, **call} for number, call in enumerate(calls.calls)]
                    yield {
                        **head,
                        "choices": [_choice(piece.index, {"tool_calls": called}, None, None)],
                        **usage,
                    }
                reason = "tool_calls" if calls.calls else piece.finish_reason
                is_last = piece.index == (body.n or 1) - 1 and not include_usage
                extra = last_event(running.usage, running.record, include_usage=False) if is_last else {}
                yield {
                    **head,
                    "choices": [_choice(piece.index, {}, None, reason)],
                    **usage,
                    **extra,
                }
        if include_usage:
            yield {**head, "choices": [], **last_event(running.usage, running.record, include_usage=True)}
    finally:
        await pieces.aclose()


def _answered(text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    if not calls:
        return {"role": "assistant", "content": text, "refusal": None}
    return {"role": "assistant", "content": text.strip() or None, "refusal": None, "tool_calls": calls}


def _choice(index: int, delta: dict[str, Any], logprobs: Any, reason: str | None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}


def _logprobs(items: Sequence[TokenLogprob], tokenizer: Tokenizer) -> dict[str, Any] | None:
    if not items:
        return None

    def entry(token_id: int, text: str, value: float) -> dict[str, Any]:
        return {
            "token": token_name(tokenizer, token_id, text),
            "logprob": value,
            "bytes": list(tokenizer.token_bytes(token_id)),
        }

    content = [
        {
            **entry(item.token_id, item.text, item.logprob),
            "top_logprobs": [entry(*alternative) for alternative in item.top],
        }
        for item in items
    ]
    return {"content": content, "refusal": None}
