"""One worker thread that runs tasks in turns: interactive work pre-empts background work between pieces.

A task is a generator that yields after each bounded piece of work (a prefill piece of at most 256 tokens, one
decode step). Interactive tasks take turns, so a long answer never blocks a completion; a background task only
moves while no interactive one waits.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Generator
from enum import IntEnum

from miton_engine.errors import EngineClosed

log = logging.getLogger(__name__)

Task = Generator[None, None, None]


class Priority(IntEnum):
    """Smaller runs first."""

    COMPLETION = 0
    CHAT = 1
    BACKGROUND = 2


class Scheduler:
    """Runs submitted tasks on one thread until closed; a closed scheduler closes the tasks it still holds."""

    def __init__(self, name: str = "miton-engine") -> None:
        self._queues: dict[Priority, deque[Task]] = {priority: deque() for priority in Priority}
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, task: Task, priority: Priority) -> None:
        """Queue a task. Raises `EngineClosed` once closed."""
        with self._wake:
            if self._closed:
                raise EngineClosed("The engine is closed; open a new one.")
            self._queues[priority].append(task)
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
                for priority, queue in self._queues.items():
                    if queue:
                        return queue.popleft(), priority
                self._wake.wait()

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
                # Background tasks go on where they stopped; interactive ones take turns.
                if priority is Priority.BACKGROUND:
                    self._queues[priority].appendleft(task)
                else:
                    self._queues[priority].append(task)
        with self._wake:
            remaining = [task for queue in self._queues.values() for task in queue]
        for task in remaining:
            task.close()
