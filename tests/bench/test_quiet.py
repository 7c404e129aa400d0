"""Benchmarks take turns on a machine, among each other and with commands run under `flock`."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest
from rich.console import Console

from miton_service.bench import quiet


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(quiet, "default_cache_dir", lambda: tmp_path)
    return tmp_path / "bench" / "measuring"


def test_a_second_benchmark_waits_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    entered = threading.Event()

    def second() -> None:
        with quiet.one_at_a_time(Console()):
            entered.set()

    thread = threading.Thread(target=second)
    with quiet.one_at_a_time(Console()):
        thread.start()
        assert not entered.wait(0.5)
    thread.join(timeout=10)
    assert entered.is_set()
    assert "waiting for its turn" in capsys.readouterr().out


def test_a_command_under_flock_does_not_run_in_a_sample(own_lock: Path) -> None:
    command = ["flock", "--nonblock", "--conflict-exit-code", "7", str(own_lock), "true"]
    with quiet.quiet_moment(Console(), patience_s=0):
        assert subprocess.run(command, check=False).returncode == 7
    assert subprocess.run(command, check=False).returncode == 0


def test_a_sample_on_a_machine_that_stays_busy_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "LOOK_S", 0.05)
    monkeypatch.setattr(quiet, "IDLE_SHARE", -1.0)  # no machine is this idle
    with quiet.quiet_moment(Console(), patience_s=0.2) as idle:
        assert not idle
    monkeypatch.setattr(quiet, "IDLE_SHARE", 1.0)
    with quiet.quiet_moment(Console(), patience_s=5) as idle:
        assert idle
