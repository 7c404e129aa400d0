"""The machine a benchmark ran on, as far as it explains a figure."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "asimddp", "sve")


def physical_cores() -> int:
    """Cores that a benchmark gives to each system, one thread each."""
    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def describe() -> dict[str, Any]:
    """Processor, memory, versions, and how busy the machine was when the benchmark began."""
    model, flags = _processor()
    return {
        "processor": model,
        "flags": [flag for flag in FLAGS if flag in flags],
        "cores": physical_cores(),
        "memory_gib": round(psutil.virtual_memory().total / (1 << 30), 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("miton", "torch", "xllamacpp", "transformers")},
        "load_at_start": round(psutil.getloadavg()[0], 2),
    }


def is_busy(machine: dict[str, Any]) -> bool:
    """Whether other work was running, so that times mean little."""
    return bool(machine["load_at_start"] > 0.5 * machine["cores"])


def _processor() -> tuple[str, set[str]]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine(), set()
    values = {}
    for line in text.split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        values[name.strip()] = value.strip()
    flags = values.get("flags") or values.get("Features") or ""
    return values.get("model name") or platform.machine(), set(flags.split())


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
