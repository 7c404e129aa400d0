"""Run a function in a process of its own, which ends with the call, however that ends, and with its parent."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

from miton_service.bench.errors import BenchmarkError

Arguments = ParamSpec("Arguments")
Outcome = TypeVar("Outcome")


def in_fresh_process(
    function: Callable[Arguments, Outcome], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Outcome:
    """What `function(*arguments, **named)` returns there. Raises `BenchmarkError` with its traceback if it fails."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(sender, function, arguments, named), daemon=True)
    process.start()
    sender.close()
    try:
        outcome, failure = receiver.recv()
    except EOFError:
        process.join()
        raise BenchmarkError(f"A measuring process died (exit status {process.exitcode}).") from None
    finally:
        process.kill()
        process.join()
    if failure:
        raise BenchmarkError(f"A measuring process failed:\n{failure}")
    result: Outcome = outcome
    return result


def _call(sender: Connection, function: Callable[..., Any], arguments: Any, named: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent; it ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        sender.send((function(*arguments, **named), ""))
    except Exception:
        sender.send((None, traceback.format_exc()))


def _end_with_parent() -> None:
    """A parent that was killed could not end us."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
