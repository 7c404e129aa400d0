"""One worker thread that runs tasks in turns: interactive work pre-empts background work between pieces.

A task is a generator that yields after each bounded piece of work (a prefill piece of at most 256 tokens, one
decode step). Interactive tasks take turns, so a long answer never blocks a completion; a background task only
moves while no interactive one waits, and what is worth doing in a pause waits until there is one: a piece that
began between two keys would hold up the second.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Generator
from enum import IntEnum

from miton_engine.errors import EngineClosed

log = logging.getLogger(__name__)

Task = Generator[None, None, None]

PAUSE_S = 1.0  # without interactive work; longer than between two keys of a person who types


class Priority(IntEnum):
    """Smaller runs first."""

    COMPLETION = 0
    CHAT = 1
    PAUSE = 2  # once no interactive task has come or run for PAUSE_S
    BACKGROUND = 3


INTERACTIVE = (Priority.COMPLETION, Priority.CHAT)


class Scheduler:
    """Runs submitted tasks on one thread until closed; a closed scheduler closes the tasks it still holds."""

    def __init__(self, name: str = "miton-engine") -> None:
        self._queues: dict[Priority, deque[Task]] = {priority: deque() for priority in Priority}
        self._wake = threading.Condition()
        self._last_interactive = 0.0  # time.monotonic()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, task: Task, priority: Priority) -> None:
        """Queue a task. Raises `EngineClosed` once closed."""
        with self._wake:
            if self._closed:
                raise EngineClosed("The engine is closed; open a new one.")
            self._queues[priority].append(task)
            if priority in INTERACTIVE:
                self._last_interactive = time.monotonic()
            self._wake.notify()

    def waiting(self) -> dict[str, int]:
        """How many tasks are queued, by priority name."""
        with self._wake:
            return {priority.name.lower(): len(queue) for priority, queue in self._queues.items()}

    def close(self) -> None:
        """Stop after the piece in progress; tasks that have begun are closed (their `finally` blocks run)."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()

    def _next(self) -> tuple[Task, Priority] | None:
        with self._wake:
            while True:
                if self._closed:
                    return None
                pause = self._last_interactive + PAUSE_S - time.monotonic()  # seconds until it is one
                for priority, queue in self._queues.items():
                    if queue and (priority is not Priority.PAUSE or pause <= 0):
                        return queue.popleft(), priority
                self._wake.wait(pause if self._queues[Priority.PAUSE] else None)

    def _run(self) -> None:
        while (picked := self._next()) is not None:
            task, priority = picked
            try:
                next(task)
            except StopIteration:
                continue
            except Exception:
                log.exception("An engine task failed outside of its own error handling")
                continue
            with self._wake:
                # Interactive tasks take turns; others go on where they stopped.
                if priority in INTERACTIVE:
                    self._last_interactive = time.monotonic()
                    self._queues[priority].append(task)
                else:
                    self._queues[priority].appendleft(task)
        with self._wake:
            remaining = [task for queue in self._queues.values() for task in queue]
        for task in remaining:
            task.close()
