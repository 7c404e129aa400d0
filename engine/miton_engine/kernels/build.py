"""Compiles the C++ kernels in `cpp/` with the system's compiler on first use, and loads them.

The library lies in the cache directory under a name made of the sources, the compiler and the CPU's features,
so a changed source, an upgraded compiler or another machine on a shared disk each get their own. It is
written under a temporary name and renamed: processes that build at once never see half a file.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

log = logging.getLogger(__name__)

SOURCES = Path(__file__).parent / "cpp"
BASE_FLAGS = ("-std=c++20", "-O3", "-fno-math-errno", "-shared", "-fPIC", "-pthread", "-w")
TUNING = (("-march=native",), ("-mcpu=native",), ())  # the first that the compiler takes


class BuildError(Exception):
    """No compiler, or it failed; the message says what to install or holds the compiler's own words."""


def find_compiler() -> str:
    """Path of the C++ compiler: $CXX, else c++, g++ or clang++. Raises BuildError."""
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise BuildError(
        "no C++ compiler found: install one (Debian, Ubuntu: apt install g++; macOS: xcode-select --install) "
        "or point the environment variable CXX at it"
    )


def build(cache: Path, extra_flags: tuple[str, ...] = ()) -> Path:
    """Path of the compiled library under `cache`, compiling it if it is not there yet. Raises BuildError."""
    compiler = find_compiler()
    target = cache / f"kernels-{_key(compiler, extra_flags)}.so"
    if target.exists():
        return target
    try:
        cache.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=cache, prefix=target.stem, suffix=".tmp")
        os.close(handle)
    except OSError as error:
        raise BuildError(f"cannot write the compiled kernels to {cache}: {error}") from error
    try:
        _compile(compiler, extra_flags, temporary)
        os.chmod(temporary, 0o755)
        os.replace(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return target


def _compile(compiler: str, extra_flags: tuple[str, ...], output: str) -> None:
    sources = [str(path) for path in sorted(SOURCES.glob("*.cpp"))]
    message = ""
    for tuning in TUNING:
        command = [compiler, *BASE_FLAGS, *tuning, *extra_flags, *sources, "-o", output]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"{compiler} did not run: {error}") from error
        if result.returncode == 0:
            return
        message = result.stderr.strip()
        if not any(flag in message for flag in tuning):  # it is not the flag that it minds
            break
    raise BuildError(f"{compiler} failed on the kernels:\n{message[:2000]}")


def _key(compiler: str, extra_flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    try:
        version = subprocess.run([compiler, "--version"], capture_output=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{compiler} did not run: {error}") from error
    digest.update(repr((version, BASE_FLAGS, TUNING, extra_flags, _cpu())).encode())
    return digest.hexdigest()[:24]


def _cpu() -> str:
    """What -march=native depends on: model and feature flags where the system tells, else the processor's
    name.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
        wanted = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU implementer", "CPU part")
        return "\n".join(
            line for line in lines if line.partition("\t")[0].partition(":")[0].strip() in wanted
        )
    except OSError:
        return f"{platform.machine()} {platform.processor()}"


@functools.cache
def load_library(cache: Path, extra_flags: tuple[str, ...] = ()) -> ctypes.CDLL | None:
    """The loaded kernels, or None (logged once, with the reason) where they cannot be built."""
    try:
        return declare(ctypes.CDLL(str(build(cache, extra_flags))))
    except (BuildError, OSError) as error:
        log.warning("native kernels are off, torch does their work (slower): %s", error)
        return None


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Give the C functions their types, so that pointers pass whole."""
    pointer, integer, long = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    signatures: dict[str, tuple[type | None, list[type]]] = {
        "miton_instruction_set": (integer, []),
        "miton_pool_create": (pointer, [integer]),
        "miton_pool_destroy": (None, [pointer]),
        "miton_matrix_create": (pointer, [pointer, integer, integer, integer, pointer]),
        "miton_matrix_destroy": (None, [pointer]),
        "miton_matrix_bytes": (long, [pointer]),
        "miton_matrix_row": (None, [pointer, integer, pointer]),
        "miton_matrix_multiply": (None, [pointer, pointer, pointer, integer, pointer]),
        "miton_decoder_create": (pointer, [pointer, pointer, pointer, pointer]),
        "miton_decoder_destroy": (None, [pointer]),
        "miton_decoder_set_weight": (None, [pointer, integer, integer, pointer]),
        "miton_decoder_set_vector": (None, [pointer, integer, integer, pointer, integer]),
        "miton_decoder_set_ends": (None, [pointer] * 5),
        "miton_planes_create": (pointer, [pointer] * 3),
        "miton_planes_destroy": (None, [pointer]),
        "miton_decoder_step": (integer, [pointer, pointer]),
        "miton_attach": (None, [pointer] * 8),
        "miton_dequantise": (None, [pointer, integer, long, long, long, long, pointer, pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
