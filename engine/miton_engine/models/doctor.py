"""What a machine needs to run a model, checked one by one, each with the fix where something is wrong."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from miton_engine.errors import ModelError
from miton_engine.kernels.build import BuildError, find_compiler
from miton_engine.models.gguf import GGUFFile, config_from_gguf
from miton_engine.models.hashes import HashMemory
from miton_engine.models.registry import DEFAULT_MODEL, MODELS, RegisteredModel
from miton_engine.models.safetensors import SafetensorsCheckpoint
from miton_engine.models.sources import default_cache_dir

X86_FEATURES = {  # flag of /proc/cpuinfo -> what people call it
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_vnni": "AVX-512 VNNI",
    "avx_vnni": "AVX VNNI",
    "avx512_bf16": "AVX-512 BF16",
    "amx_tile": "AMX",
    "amx_int8": "AMX INT8",
    "amx_bf16": "AMX BF16",
}
ARM_FEATURES = {
    "asimd": "NEON",
    "neon": "NEON",
    "asimddp": "dot product",
    "i8mm": "I8MM",
    "bf16": "BF16",
    "sve": "SVE",
}
MIN_CAPABILITY = (7, 5)  # Turing: what current builds of torch and Triton still compile for
GIB = 1 << 30
KV_BYTES = 2 * GIB  # the engine's default memory for chunks and live contexts


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `ok` is None where there is nothing to judge; `fix` says what to do, "" if nothing."""

    name: str
    ok: bool | None
    detail: str
    fix: str = ""


def checks(model: str = DEFAULT_MODEL, *, cache: Path | None = None) -> list[Check]:
    """All checks of this machine for `model`, in the order a person would read them.

    `cache` is Miton's cache directory (models lie in `models` below it). Nothing is fetched or changed; the
    model file is read through to compare its hash, which takes about a second.
    """
    cache = (cache or default_cache_dir()).expanduser()
    models_dir = cache / "models"
    return [
        system_check(cache),
        cpu_check(),
        compiler_check(),
        *gpu_checks(),
        model_check(model, models_dir),
        cache_check(cache),
        memory_check(model, models_dir),
        disk_check(model, cache),
    ]


def system_check(cache: Path) -> Check:
    """Operating system; under WSL, whether the cache lies on the slow Windows side."""
    detail = (
        f"{platform.system()} {platform.release()}, {platform.machine()}, Python {platform.python_version()}"
    )
    if not is_wsl():
        return Check("system", True, detail)
    if (
        cache.resolve().is_relative_to("/mnt")
        and cache.resolve().parts[2:3]
        and len(cache.resolve().parts[2]) == 1
    ):
        return Check(
            "system",
            False,
            f"{detail}, WSL; the cache {cache} lies on a Windows drive, which is slow from here",
            "Set MITON_CACHE to a folder inside WSL, and keep the workspace there too.",
        )
    return Check("system", True, f"{detail}, WSL")


def is_wsl() -> bool:
    """Whether this is Linux under Windows (its kernel says so in its release)."""
    return "microsoft" in platform.release().lower()


def cpu_features() -> list[str]:
    """Vector features of the CPU that the kernels can use, by the names people know."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux: torch knows the level at least
        neon = platform.machine().lower() in ("arm64", "aarch64")
        return ["NEON"] if neon else [torch.backends.cpu.get_cpu_capability()]
    flags: set[str] = set()
    for line in lines:
        if line.startswith(("flags", "Features")):
            flags.update(line.partition(":")[2].split())
            break
    known = {**X86_FEATURES, **ARM_FEATURES} if "asimd" in flags or "neon" in flags else X86_FEATURES
    return list(dict.fromkeys(name for flag, name in known.items() if flag in flags))


def cpu_check() -> Check:
    """Cores and vector features."""
    features = cpu_features()
    cores, threads = psutil.cpu_count(logical=False) or 0, os.cpu_count() or 1
    detail = f"{cores or threads} cores, {threads} threads; {', '.join(features) or 'no vector features'}"
    if any(feature in ("NEON", "AVX2") or feature.startswith("AVX") for feature in features):
        return Check("cpu", True, detail)
    return Check(
        "cpu",
        False,
        detail,
        "Without AVX2 or NEON a completion takes seconds; use a machine from 2013 or later, or a GPU.",
    )


def compiler_check() -> Check:
    """The C++ compiler that builds the CPU kernels at the first start."""
    try:
        return Check("compiler", True, find_compiler())
    except BuildError as error:
        return Check("compiler", False, "no C++ compiler; decoding runs through torch, slower", f"{error}.")


def gpu_checks() -> Iterator[Check]:
    """torch, CUDA and, on a GPU, Triton in a kernel that runs."""
    threads = torch.get_num_threads()
    yield Check("torch", True, f"torch {torch.__version__}, {threads} threads")
    if not torch.cuda.is_available():
        yield _missing_gpu()
        return
    capability = torch.cuda.get_device_capability()
    free, total = torch.cuda.mem_get_info()
    detail = (
        f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, "
        f"capability {capability[0]}.{capability[1]}, {free / GIB:.1f} of {total / GIB:.1f} GiB free"
    )
    if capability < MIN_CAPABILITY:
        least = ".".join(map(str, MIN_CAPABILITY))
        yield Check("gpu", False, detail, f"Capability {least} or later is needed; the CPU is used instead.")
        return
    yield Check("gpu", True, detail)
    yield triton_check()


def _missing_gpu() -> Check:
    if shutil.which("nvidia-smi") is None:
        return Check("gpu", None, "no NVIDIA GPU found; the CPU is used")
    if torch.version.cuda is None:
        return Check(
            "gpu",
            False,
            "there is an NVIDIA driver, but torch is a build without CUDA",
            "Install torch with CUDA: see https://pytorch.org/get-started/locally/.",
        )
    return Check(
        "gpu",
        False,
        f"torch is built for CUDA {torch.version.cuda}, but no GPU answers",
        "Run nvidia-smi: its driver must support that CUDA version; update the driver or free the GPU.",
    )


def triton_check() -> Check:
    """Compile and run a Triton kernel on the GPU and compare its result."""
    try:
        import triton

        from miton_engine.models.triton_probe import add_on_gpu

        left = torch.arange(1000, device="cuda", dtype=torch.float32)
        if not torch.equal(add_on_gpu(left, left), left + left):
            raise ModelError("the kernel's result is wrong")
    except ImportError as error:
        return Check("triton", False, f"not installed ({error})", "Install it: pip install triton.")
    except Exception as error:  # whatever the driver, the compiler behind Triton or the GPU has to say
        return Check(
            "triton",
            False,
            f"a kernel failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
            "Install a C compiler and Python's headers (Debian, Ubuntu: apt install gcc python3-dev), and "
            "check that the versions of torch and triton belong together: pip check.",
        )
    return Check("triton", True, f"triton {triton.__version__}, a kernel ran")


def model_check(model: str, models_dir: Path) -> Check:
    """Whether the model's file is there, whole and the right one."""
    known = MODELS.get(model)
    path = models_dir / known.file if known else Path(model).expanduser()
    if known and not path.exists():
        return Check(
            "model",
            None,
            f"{model} is not fetched yet ({known.size / 1e6:,.0f} MB); the first start fetches it",
        )
    if not known and not path.exists():
        return Check("model", None, f"{model} is not on this machine")
    fix = f"Delete {path}; the next start fetches it again." if known else "Fetch or convert the model again."
    try:
        if path.is_dir():
            config = SafetensorsCheckpoint(path, name=model, fingerprint="").config
            return Check("model", True, f"{model}: {config.architecture}, {path}")
        digest = HashMemory(models_dir / "hashes").sha256(path, again=True)
        if known and digest != known.sha256:
            detail = f"{path} has SHA-256 {digest}, expected {known.sha256}"
            return Check("model", False, detail, fix)
        config = config_from_gguf(GGUFFile(path))
    except ModelError as error:
        return Check("model", False, str(error), fix)
    return Check("model", True, f"{model}: {config.architecture}, {path}, SHA-256 {digest[:12]} verified")


def cache_check(cache: Path) -> Check:
    """Whether the cache directory (or the nearest folder above it that exists) can be written."""
    existing = _existing(cache)
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(b"x")
    except OSError as error:
        return Check(
            "cache",
            False,
            f"{cache} cannot be written: {error.strerror or error}",
            "Make it yours (chown), or set MITON_CACHE to a folder you may write to.",
        )
    return Check("cache", True, str(cache))


def memory_check(model: str, models_dir: Path) -> Check:
    """Whether the free memory holds the model and the default amount of KV."""
    available = available_memory()
    size = _model_bytes(model, models_dir)
    # Beside the mapped file: bf16 weights for prefill (3.4 times a Q4_K_M file) and packed ones for decode.
    needed = 5 * size + KV_BYTES
    detail = f"{available / GIB:.1f} GiB free, about {needed / GIB:.1f} GiB used at most"
    if available >= needed:
        return Check("memory", True, detail)
    return Check("memory", False, detail, "Close other programs, or choose a smaller model with --model.")


def available_memory() -> int:
    """Free memory in bytes; inside a container, what its limit leaves."""
    available = int(psutil.virtual_memory().available)
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())  # "max" where there is none
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return available
    return min(available, max(limit - used, 0))


def disk_check(model: str, cache: Path) -> Check:
    """Whether the disk has room for what is still to be fetched, and for some chunk KV."""
    free = shutil.disk_usage(_existing(cache)).free
    known = MODELS.get(model)
    missing = known.size if known and not (cache / "models" / known.file).exists() else 0
    detail = f"{free / GIB:.1f} GiB free at {_existing(cache)}"
    if free >= missing + GIB:
        return Check("disk", True, detail)
    return Check("disk", False, detail, "Free some space, or set MITON_CACHE to a folder on another disk.")


def _model_bytes(model: str, models_dir: Path) -> int:
    known: RegisteredModel | None = MODELS.get(model)
    path = Path(model).expanduser()
    if known:
        return known.size
    if path.is_dir():
        return sum(file.stat().st_size for file in path.glob("*.safetensors")) // 3
    return path.stat().st_size if path.is_file() else 0


def _existing(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
