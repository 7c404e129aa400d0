"""The doctor's findings on this machine, and with something broken on purpose."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from miton_engine.models import doctor
from miton_engine.models.doctor import Check
from miton_engine.models.registry import MODELS


def by_name(found: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in found}


def test_every_check_runs_and_whatever_fails_has_a_fix(tmp_path: Path) -> None:
    found = doctor.checks(cache=tmp_path)
    names = [check.name for check in found]
    assert names[:4] == ["system", "cpu", "compiler", "torch"]
    assert {"gpu", "model", "cache", "memory", "disk"} <= set(names)
    for check in found:
        assert check.detail
        assert check.ok is not False or check.fix
    assert list(tmp_path.iterdir()) == []  # looking changes nothing


@pytest.mark.skipif(platform.system() != "Linux", reason="reads /proc/cpuinfo")
def test_cpu_features_agree_with_torch() -> None:
    features = doctor.cpu_features()
    capability = torch.backends.cpu.get_cpu_capability()
    if capability.startswith("AVX512"):
        assert "AVX-512" in features
    if capability.startswith("AVX"):
        assert "AVX2" in features


def test_a_missing_compiler_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    check = doctor.compiler_check()
    assert check.ok is False
    assert "apt install g++" in check.fix


def test_a_model_that_is_not_fetched_is_no_fault(tmp_path: Path) -> None:
    check = doctor.model_check("smollm2-135m", tmp_path)
    assert check.ok is None
    assert "not fetched yet (98 MB)" in check.detail


def test_a_wrong_or_damaged_file_is_a_fault_and_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / MODELS["smollm2-135m"].file
    path.write_bytes(b"GGUF something else")
    check = doctor.model_check("smollm2-135m", tmp_path)
    assert check.ok is False
    assert MODELS["smollm2-135m"].sha256 in check.detail
    assert str(path) in check.fix
    assert path.exists()
    assert doctor.model_check(str(path), tmp_path).ok is False


def test_a_sound_file_is_sound(
    tiny_checkpoint: Callable[..., tuple[Path, torch.nn.Module]],
    write_gguf: Callable[..., Path],
    tmp_path: Path,
) -> None:
    directory, reference = tiny_checkpoint("llama")
    assert doctor.model_check(str(write_gguf(reference)), tmp_path).ok
    assert doctor.model_check(str(directory), tmp_path).ok
    (directory / "model.safetensors").unlink()
    assert doctor.model_check(str(directory), tmp_path).ok is False


def test_a_cache_that_cannot_be_written_is_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check = doctor.cache_check(tmp_path / "file" / "cache")
    assert check.ok is False
    assert "MITON_CACHE" in check.fix


def test_too_little_memory_and_disk_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "available_memory", lambda: 1 << 20)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: doctor.shutil._ntuple_diskusage(1, 1, 1))
    assert doctor.memory_check("qwen2.5-coder-0.5b", tmp_path).ok is False
    assert doctor.disk_check("qwen2.5-coder-0.5b", tmp_path).ok is False


def test_wsl_is_recognised_and_its_windows_drives_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not doctor.is_wsl() or "microsoft" in platform.release().lower()
    monkeypatch.setattr(doctor.platform, "release", lambda: "5.15.153.1-microsoft-standard-WSL2")
    assert doctor.system_check(Path("/home/me/.cache/miton")).ok
    check = doctor.system_check(Path("/mnt/c/Users/me/miton"))
    assert check.ok is False
    assert "inside WSL" in check.fix


def test_a_driver_without_a_cuda_build_of_torch_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if torch.version.cuda is not None:
        pytest.skip("torch is a CUDA build here")
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\n")
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    gpu = by_name(list(doctor.gpu_checks()))["gpu"]
    assert gpu.ok is False
    assert "pytorch.org" in gpu.fix


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_triton_runs_a_kernel() -> None:
    assert doctor.triton_check().ok
