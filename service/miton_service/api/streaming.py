"""Server-sent events that end when the client leaves, and answers that stop when nobody waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from miton_service.errors import ApiError

log = logging.getLogger(__name__)

HEADERS_AFTER_S = 2.0  # a failure before the first token is still a proper HTTP error this long
KEEP_ALIVE_S = 5.0
Events = AsyncGenerator[dict[str, Any], None]
T = TypeVar("T")


class ClientGone(Exception):
    """The client closed the connection before its answer was ready."""


def event(data: dict[str, Any]) -> bytes:
    """One event, all ASCII: no proxy can split a character, no client a line at U+0085."""
    return b"data: " + json.dumps(data).encode("ascii") + b"\n\n"


async def disconnected(receive: Receive) -> None:
    """Returns once the client has left (the request's body must have been read)."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Run `work`; cancel it and raise `ClientGone` when the client leaves first."""
    running = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(disconnected(request.receive))
    try:
        await asyncio.wait({running, gone}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        raise ClientGone
    finally:
        await _end(gone)
        await _end(running)


class EventStream(Response):
    """Sends the events of a generator; closing the connection cancels the generator at once."""

    media_type = "text/event-stream"

    def __init__(self, events: Events, *, done: bytes = b"data: [DONE]\n\n") -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        self._events, self._done = events, done
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_events(scope, receive, send))
        gone = asyncio.ensure_future(disconnected(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            await _end(gone)
            await _end(sending)

    async def _send_events(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def body(data: bytes, *, more: bool = True) -> None:
            nonlocal started
            if not started:
                started = True
                await send(
                    {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
                )
            await send({"type": "http.response.body", "body": data, "more_body": more})

        pending = asyncio.ensure_future(anext(self._events))
        try:
            while True:
                done, _ = await asyncio.wait({pending}, timeout=KEEP_ALIVE_S if started else HEADERS_AFTER_S)
                if not done:
                    await body(b": still working\n\n")
                    continue
                try:
                    await body(event(pending.result()))
                except StopAsyncIteration:
                    break
                except ApiError as error:
                    if not started:
                        await error_response(error)(scope, receive, send)
                        return
                    await body(event(error.body()))
                    break
                pending = asyncio.ensure_future(anext(self._events))
            await body(self._done, more=False)
        finally:
            await _end(pending)
            await self._events.aclose()


def error_response(error: ApiError) -> Response:
    """An error as OpenAI's JSON."""
    headers = {"retry-after": "2"} if error.status == 503 else None
    return Response(
        json.dumps(error.body()).encode("ascii"),
        error.status,
        headers,
        "application/json",
    )


async def _end(task: asyncio.Future[Any]) -> None:
    if not task.done():
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
