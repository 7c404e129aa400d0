"""The handle of one running generation: events cross from the engine's worker to threads or an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator

from miton_engine.errors import EngineError
from miton_engine.runtime.requests import (
    GenerationRequest,
    GenerationResult,
    Timings,
    TokenEvent,
    TokenLogprob,
)


class Generation:
    """A stream of `TokenEvent`s that any number of readers can follow from its beginning.

    Iterate it from a thread, or with `async for` on an event loop; `cancel()` stops the model within one
    decode step. A failure inside the engine arrives as an event whose finish reason is "error".
    """

    def __init__(self, request: GenerationRequest) -> None:
        self.request = request
        self.timings = Timings()
        self._events: list[TokenEvent] = []
        self._changed = threading.Condition()
        self._listeners: list[Callable[[], None]] = []
        self._cancelled = threading.Event()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    @property
    def finished(self) -> bool:
        with self._changed:
            return bool(self._events) and self._events[-1].finish_reason is not None

    def cancel(self) -> None:
        """Ask the worker to stop; the stream then ends with finish reason "cancelled"."""
        self._cancelled.set()

    def cancelled_at_close(self) -> None:
        """End the stream of a generation that the closed engine will never run."""
        if not self.finished:
            self.publish(TokenEvent("", finish_reason="cancelled"))

    def publish(self, event: TokenEvent) -> None:
        """Append an event (the engine's worker calls this)."""
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()
            listeners = tuple(self._listeners)
        for wake in listeners:
            wake()

    def __iter__(self) -> Iterator[TokenEvent]:
        index = 0
        while True:
            with self._changed:
                while index >= len(self._events):
                    self._changed.wait()
                event = self._events[index]
            index += 1
            yield event
            if event.finish_reason is not None:
                return

    async def __aiter__(self) -> AsyncIterator[TokenEvent]:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed while the worker went on
                loop.call_soon_threadsafe(ready.set)

        with self._changed:
            self._listeners.append(wake)
        try:
            index = 0
            while True:
                ready.clear()
                with self._changed:
                    pending = self._events[index:]
                for event in pending:
                    index += 1
                    yield event
                    if event.finish_reason is not None:
                        return
                if not pending:
                    await ready.wait()
        finally:
            with self._changed:
                self._listeners.remove(wake)

    def result(self) -> GenerationResult:
        """Wait for the end. Raises `EngineError` if the generation failed."""
        text: list[str] = []
        token_ids: list[int] = []
        logprobs: list[TokenLogprob] = []
        for event in self:
            text.append(event.text)
            token_ids.extend(event.token_ids)
            logprobs.extend(event.logprobs or ())
        if event.finish_reason is None or event.finish_reason == "error":
            raise EngineError(event.error or "The generation ended without a reason.")
        wanted = self.request.sampling.logprobs is not None
        return GenerationResult(
            text="".join(text),
            token_ids=tuple(token_ids),
            finish_reason=event.finish_reason,
            timings=self.timings,
            logprobs=tuple(logprobs) if wanted else None,
        )
