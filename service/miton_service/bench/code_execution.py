"""Whether generated code passes its tests, found out in a process that cannot do harm by mistake."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROCESS = Path(__file__).with_name("candidate_process.py")


@dataclass(frozen=True)
class ExecutionLimits:
    """What a candidate may use: processor seconds, seconds of wall-clock time, bytes of address space."""

    cpu_seconds: int = 5
    wall_seconds: float = 20.0
    memory_bytes: int = 1 << 30


def passes(program: str, limits: ExecutionLimits = ExecutionLimits()) -> bool:
    """Run `program` (the code and its assertions) and tell whether it came to its end without an error."""
    secret = secrets.token_hex(16)
    command = [
        sys.executable, "-I", "-S", str(PROCESS), secret, str(limits.cpu_seconds), str(limits.memory_bytes),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="miton-candidate-") as directory:
        process = subprocess.Popen(
            command, cwd=directory, env={"PYTHONHASHSEED": "0"}, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            output, _ = process.communicate(program.encode(), timeout=limits.wall_seconds)
            return output.decode("utf-8", "replace") == secret
        except subprocess.TimeoutExpired:
            return False
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and whatever it started
            process.kill()
            process.wait()
