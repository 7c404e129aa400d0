"""Processes that benchmarks start end with them: after success, failure, Ctrl-C, and kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from miton_service.bench.errors import BenchmarkError
from miton_service.bench.fresh_process import in_fresh_process
from miton_service.bench.peers import llamacpp


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True) if "tracker" not in child.name()}


def test_a_fresh_process_returns_its_result_and_is_another_one() -> None:
    assert in_fresh_process(pow, 2, 10) == 1024
    assert in_fresh_process(os.getpid) != os.getpid()


def test_a_failure_there_is_told_here() -> None:
    with pytest.raises(BenchmarkError, match="ZeroDivisionError"):
        in_fresh_process(divmod, 1, 0)


def test_a_death_there_is_told_here() -> None:
    with pytest.raises(BenchmarkError, match="exit status 3"):
        in_fresh_process(os._exit, 3)


def test_a_peer_that_cannot_start_says_why_and_is_gone(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    before = _children()
    settings = llamacpp.LlamaCppSettings(tmp_path / "missing.gguf", 512, 1)
    with pytest.raises(llamacpp.PeerError, match="did not start"), llamacpp.LlamaCpp.start(settings):
        pass
    assert _children() == before


SERVICE = """
from pathlib import Path
from miton_service.bench.running_service import RunningService
with RunningService.start({model!r}, 1, Path({cache!r})) as service:
    input()
"""
FUNCTION = """
import time
from miton_service.bench.fresh_process import in_fresh_process
in_fresh_process(time.sleep, 600)
"""


@pytest.mark.parametrize("program", [SERVICE, FUNCTION], ids=["service", "function"])
def test_a_killed_benchmark_leaves_no_process_behind(program: str, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    text = program.format(model=str(tiny_model), cache=str(tmp_path / "cache"))
    process = subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    started = _wait_for_children(psutil.Process(process.pid))
    assert all(child.is_running() for child in started)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(started, timeout=30)
    for left in alive:
        left.kill()
    assert alive == []


@pytest.mark.parametrize("name", ["infilling", "speed"])
@pytest.mark.real_model
@pytest.mark.slow
def test_an_interrupted_benchmark_leaves_no_process_behind(name: str) -> None:
    command = [sys.executable, "-m", "miton_service.bench", name, "--quick"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        # A shell's background jobs, and what they start, ignore Ctrl-C: the tests may run as one.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    started = _wait_for_children(psutil.Process(process.pid))
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130, messages.decode()
    assert b"interrupted" in messages
    _, alive = psutil.wait_procs(started, timeout=10)
    assert alive == []


def _wait_for_children(process: psutil.Process) -> list[psutil.Process]:
    end = time.monotonic() + 300  # another benchmark may hold the lock
    while time.monotonic() < end:
        children = process.children(recursive=True)
        if any("serve" in child.cmdline() or "spawn_main" in " ".join(child.cmdline()) for child in children):
            time.sleep(2)  # so that it is at work, not just born
            return process.children(recursive=True)
        assert process.status() != psutil.STATUS_ZOMBIE, "the benchmark ended"
        time.sleep(0.1)
    raise AssertionError("the benchmark started no process")
