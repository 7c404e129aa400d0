"""The last requests with their context and timings, as GET /v1/requests and the status page show them.

Names, positions, counts and times only: never a line of a file, a prompt or an answer.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from miton_engine.runtime.requests import Timings

Outcome = Literal["running", "stop", "length", "tool_calls", "aborted", "error"]
KEPT = 200


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One attached chunk and why; lines are zero-based, both inclusive."""

    path: str
    symbol: str
    start_line: int
    end_line: int
    tokens: int
    score: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiveLines:
    """The lines of the file that were sent as text, not from memory; zero-based, both inclusive."""

    start_line: int
    end_line: int


@dataclass(slots=True)
class RequestRecord:
    """One request, from its arrival to its end."""

    id: str
    kind: str  # completion | chat | infill
    workspace: str = ""
    path: str = ""
    stream: bool = False
    time: float = field(default_factory=time.time)
    context: Sequence[ContextItem] = ()
    window: LiveLines | None = None
    recall_ms: float = 0.0
    timings: Timings = field(default_factory=Timings)
    outcome: Outcome = "running"
    total_ms: float = 0.0
    error: str = ""

    def timings_json(self) -> dict[str, float | int]:
        """The `timings` object of an answer: milliseconds with one decimal, and token counts."""
        values = {"recall_ms": self.recall_ms, **asdict(self.timings)}
        return {
            name: round(value, 1) if isinstance(value, float) else value for name, value in values.items()
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "time": round(self.time, 3),
            "kind": self.kind,
            "workspace": self.workspace,
            "path": self.path,
            "stream": self.stream,
            "outcome": self.outcome,
            "error": self.error,
            "total_ms": round(self.total_ms, 1),
            "context": [asdict(item) for item in self.context],
            "window": None if self.window is None else asdict(self.window),
            "timings": self.timings_json(),
        }


class RequestLog:
    """A ring of the last requests; safe to read from any thread."""

    def __init__(self, kept: int = KEPT) -> None:
        self._records: deque[RequestRecord] = deque(maxlen=kept)
        self._lock = threading.Lock()

    def add(self, record: RequestRecord) -> None:
        with self._lock:
            self._records.append(record)

    def last(self, count: int = KEPT) -> list[RequestRecord]:
        """Newest first."""
        with self._lock:
            return list(self._records)[::-1][:count]
