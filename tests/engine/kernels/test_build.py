"""Compiling on first use: once, by whoever comes first, and with a clear word where it cannot be done."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from miton_engine.kernels import build as build_module
from miton_engine.kernels.build import BuildError, build, load_library

SMALL = 'extern "C" int answer() { return 42; }\n'


@pytest.fixture
def small_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    sources = tmp_path / "cpp"
    sources.mkdir()
    (sources / "answer.cpp").write_text(SMALL)
    monkeypatch.setattr(build_module, "SOURCES", sources)
    return sources


def test_a_second_build_reuses_the_first(small_sources: Path, tmp_path: Path) -> None:
    first = build(tmp_path / "cache")
    stamp = first.stat().st_mtime_ns
    assert build(tmp_path / "cache") == first
    assert first.stat().st_mtime_ns == stamp


def test_changed_sources_and_flags_get_their_own_library(small_sources: Path, tmp_path: Path) -> None:
    paths = {build(tmp_path), build(tmp_path, ("-DOTHER",))}
    (small_sources / "answer.cpp").write_text(SMALL + "// changed\n")
    assert len(paths | {build(tmp_path)}) == 3


def test_processes_that_build_at_once_all_get_a_whole_library(small_sources: Path, tmp_path: Path) -> None:
    code = (
        "import ctypes, sys; from pathlib import Path; from miton_engine.kernels import build as b\n"
        "b.SOURCES = Path(sys.argv[1]); print(ctypes.CDLL(str(b.build(Path(sys.argv[2])))).answer())"
    )
    command = [sys.executable, "-c", code, str(small_sources), str(tmp_path / "cache")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=120)[0].strip() for process in processes] == ["42"] * 3
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_no_compiler_says_what_to_install_and_turns_the_kernels_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with caplog.at_level(logging.WARNING):
        assert load_library(tmp_path / "none") is None
        assert load_library(tmp_path / "none") is None
    assert caplog.text.count("apt install g++") == 1


def test_a_failing_compiler_is_quoted(small_sources: Path, tmp_path: Path) -> None:
    (small_sources / "answer.cpp").write_text("int broken(\n")
    with pytest.raises(BuildError, match=r"answer\.cpp"):
        build(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(small_sources: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match="file"):
        build(tmp_path / "file" / "cache")
