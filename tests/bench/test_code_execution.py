"""Generated code runs contained: what loops, floods, forks, writes or lies about its end does no harm and fails."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from miton_service.bench.code_execution import ExecutionLimits, passes
from miton_service.bench.infilling_tasks import sample_tasks

LIMITS = ExecutionLimits(cpu_seconds=2, wall_seconds=6.0, memory_bytes=512 << 20)


def test_canonical_solutions_pass_and_empty_ones_do_not() -> None:
    tasks = sample_tasks(25)
    assert all(passes(task.program(task.canonical_solution)) for task in tasks)
    assert sum(passes(task.program("    raise ValueError\n")) for task in tasks) == 0


@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "import time\ntime.sleep(600)",
        "x = 9 ** 9 ** 9 ** 9",
        "x = [0] * 10**10",
        "x = []\nwhile True: x.append('a' * 10**6)",
        "while True: print('x' * 10**6)",
        "def f(): return f()\nf()",
        "import os\nwhile True: os.fork()",
        "import os\nwhile True:\n    try: os.fork()\n    except Exception: pass",
        "import threading\nwhile True: threading.Thread(target=print).start()",
        "import subprocess\nsubprocess.run(['ls'])",
        "import os\nos.system('ls')",
        "import socket\nsocket.socket().connect(('127.0.0.1', 1))",
        "import os\nos.kill(os.getppid(), 15)",
        "import os\nos._exit(0)",
        "raise SystemExit(0)",
        "import sys\nsys.exit(0)",
        "syntax error here",
        "assert False",
        "x = '\\ud800'\nraise ValueError(x)",
    ],
)  # fmt: skip
def test_a_program_that_does_harm_or_ends_early_fails_in_time(program: str) -> None:
    started = time.monotonic()
    assert not passes(program, LIMITS)
    assert time.monotonic() - started < LIMITS.wall_seconds + 5


@pytest.mark.parametrize(
    "attempt",
    [
        "open({path!r}, 'w').write('x')",
        "open({path!r}, 'a').close()",
        "import os\nos.open({path!r}, os.O_CREAT)",
        "import os\nos.mkdir({path!r})",
        "import pathlib\npathlib.Path({path!r}).touch()",
        "import os\nos.symlink('/', {path!r})",
    ],
)
def test_files_are_not_made(attempt: str, tmp_path: Path) -> None:
    assert not passes(attempt.format(path=str(tmp_path / "made")), LIMITS)
    assert list(tmp_path.iterdir()) == []


def test_files_are_not_removed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("x")
    assert not passes(f"import os\nos.remove({str(kept)!r})", LIMITS)
    assert kept.read_text() == "x"


def test_nothing_is_left_running() -> None:
    before = {process.pid for process in psutil.Process(os.getpid()).children(recursive=True)}
    passes("import os\nwhile True:\n    try: os.fork()\n    except BaseException: pass", LIMITS)
    passes("import time\ntime.sleep(600)", ExecutionLimits(2, 1.0, 512 << 20))
    assert {process.pid for process in psutil.Process(os.getpid()).children(recursive=True)} == before


def test_a_program_sees_none_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MITON_TOKEN", "secret")
    assert passes("import os\nassert 'MITON_TOKEN' not in os.environ", LIMITS)


def test_the_secret_that_means_success_is_out_of_reach() -> None:
    program = "import sys\nassert len(sys.argv) == 1\nprint('passed')\nraise ValueError"
    assert not passes(program, LIMITS)
