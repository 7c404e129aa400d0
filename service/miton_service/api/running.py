"""The generations of one HTTP request: run, filtered, recorded, and cancelled as soon as nobody listens."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from miton_engine import errors
from miton_engine.errors import EngineError
from miton_engine.runtime.requests import GenerationRequest, TokenLogprob
from miton_service.api.error_handling import as_api_error, internal_error
from miton_service.errors import ApiError
from miton_service.request_log import Outcome, RequestRecord
from miton_service.service import Service

log = logging.getLogger(__name__)


class TextFilter(Protocol):
    """What stands between the model's text and the client; `done` says that no more is wanted."""

    @property
    def done(self) -> bool: ...

    def push(self, text: str) -> str: ...

    def flush(self) -> str: ...


class Unfiltered:
    """Passes everything."""

    done = False

    def push(self, text: str) -> str:
        return text

    def flush(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A step of choice number `index`; `finish_reason` ("stop" or "length") marks its last piece."""

    index: int
    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: str | None = None


@dataclass
class Usage:
    """Token counts over all choices; attached chunks count as prompt, and as cached."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def to_json(self) -> dict[str, object]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


class Running:
    """Runs `requests` one after the other (choices share their prompt's KV) and keeps the record."""

    def __init__(
        self,
        service: Service,
        record: RequestRecord,
        requests: Sequence[GenerationRequest],
        new_filter: Callable[[], TextFilter] = Unfiltered,
    ) -> None:
        self.service, self.record, self.usage = service, record, Usage()
        self._requests, self._new_filter = requests, new_filter

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """All pieces of all choices. Raises `ApiError`; closing it early cancels the generation."""
        started, outcome = time.perf_counter(), "aborted"
        self.service.requests.add(self.record)
        try:
            for index, request in enumerate(self._requests):
                async for piece in self._choice(index, request):
                    if piece.finish_reason is not None:
                        outcome = piece.finish_reason
                    yield piece
                if index + 1 < len(self._requests):
                    outcome = "aborted"
        except Exception as error:
            outcome = "error"
            failure = _as_failure(error)
            self.record.error = failure.message
            raise failure from error
        finally:
            self.record.outcome = _outcome(outcome)
            self.record.total_ms = self.record.recall_ms + (time.perf_counter() - started) * 1e3
            self.service.finish(self.record)

    async def _choice(self, index: int, request: GenerationRequest) -> AsyncGenerator[Piece, None]:
        generation = self.service.engine.generate(request)
        self.record.timings = generation.timings
        self.service.track(generation)
        text_filter, last = self._new_filter(), None
        try:
            async for event in generation:
                if last is not None:  # the filter has seen enough; the worker notices within one step
                    continue
                text, reason = text_filter.push(event.text), event.finish_reason
                if reason == "error":
                    kind = getattr(errors, event.error_type, EngineError)
                    raise kind(event.error or "The generation failed without a reason.")
                if reason == "cancelled":
                    raise ApiError(503, "The service is shutting down; the generation was stopped.",
                                   type="server_error", code="stopping")  # fmt: skip
                if reason is not None:
                    last = Piece(
                        index, text + text_filter.flush(), event.token_ids, event.logprobs or (), reason
                    )
                elif text_filter.done:
                    last = Piece(index, text, event.token_ids, event.logprobs or (), "stop")
                    generation.cancel()
                else:
                    yield Piece(index, text, event.token_ids, event.logprobs or ())
            if last is not None:
                timings = generation.timings
                self.usage.prompt_tokens += timings.prefill_tokens + timings.cached_tokens
                self.usage.cached_tokens += timings.cached_tokens
                self.usage.completion_tokens += timings.decode_tokens
                yield last
        finally:
            generation.cancel()
            self.service.untrack(generation)


def _as_failure(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, EngineError):
        return as_api_error(error)
    log.exception("A request failed")
    return internal_error(error)


def _outcome(reason: str) -> Outcome:
    outcomes: dict[str, Outcome] = {
        "stop": "stop", "length": "length", "tool_calls": "tool_calls", "error": "error",
    }  # fmt: skip
    return outcomes.get(reason, "aborted")
