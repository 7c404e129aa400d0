"""The scheduler: who goes first, and what waits for a pause. Tasks here only write down that they ran."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from miton_engine.runtime import scheduler as module
from miton_engine.runtime.scheduler import Priority, Scheduler, Task


class Log:
    """Tasks that note each of their pieces."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.ended = threading.Semaphore(0)

    def task(self, name: str, pieces: int, gate: threading.Event | None = None) -> Task:
        if gate is not None:
            gate.wait()
        for _ in range(pieces):
            self.pieces.append(name)
            yield
        self.ended.release()

    def wait(self, tasks: int) -> None:
        for _ in range(tasks):
            assert self.ended.acquire(timeout=20)


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    running = Scheduler()
    yield running
    running.close()


def test_interactive_tasks_take_turns_and_background_ones_wait(scheduler: Scheduler) -> None:
    log, gate = Log(), threading.Event()
    scheduler.submit(log.task("first", 1, gate), Priority.COMPLETION)
    scheduler.submit(log.task("background", 2), Priority.BACKGROUND)
    scheduler.submit(log.task("chat", 2), Priority.CHAT)
    scheduler.submit(log.task("a", 2), Priority.COMPLETION)
    scheduler.submit(log.task("b", 2), Priority.COMPLETION)
    gate.set()
    log.wait(5)
    assert log.pieces == ["first", "a", "b", "a", "b", "chat", "chat", "background", "background"]


def test_what_waits_for_a_pause_runs_in_one_and_before_the_background(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.4)
    log, ran = Log(), threading.Event()

    def refresh() -> Task:
        ran.set()
        yield from log.task("refresh", 1)

    scheduler.submit(log.task("key", 1), Priority.COMPLETION)
    scheduler.submit(refresh(), Priority.PAUSE)
    last_key = 0.0
    for _ in range(8):  # someone types for longer than a pause
        time.sleep(0.1)
        last_key = time.monotonic()
        scheduler.submit(log.task("key", 1), Priority.COMPLETION)
    assert ran.wait(20)
    assert time.monotonic() - last_key >= 0.4
    log.wait(10)
    assert log.pieces == ["key"] * 9 + ["refresh"]


def test_closing_ends_what_waits_for_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 60.0)
    log, running = Log(), Scheduler()
    running.submit(log.task("key", 1), Priority.COMPLETION)
    running.submit(log.task("refresh", 1), Priority.PAUSE)
    log.wait(1)
    running.close()
    assert log.pieces == ["key"]
