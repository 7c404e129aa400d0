"""Results as JSON and as a table; the command line's exit status; no process is left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from miton_service.bench import __main__ as command
from miton_service.bench import benchmark as registry
from miton_service.bench.benchmark import BENCHMARKS, Benchmark, Run
from miton_service.bench.errors import PeerError
from miton_service.bench.result import Bar, Result


def _result(value: float | None) -> Result:
    bars = (Bar("speed, times", value, 2.5, "at least"),)
    return Result(
        "speed", {"cores": 2, "processor": "p"}, {"prefill": 400.0}, {"llama.cpp": {"prefill": 160.0}}, bars
    )


class _Fixed(Benchmark):
    """A benchmark whose outcome is known; it stands for the measuring, not for the command."""

    outcome: Result | BaseException

    def run(self, how: Run) -> Result:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    monkeypatch.setattr(registry, "default_cache_dir", lambda: tmp_path)

    def set_outcome(value: Result | BaseException) -> None:
        fixed = _Fixed("speed", "", "speed")
        object.__setattr__(fixed, "outcome", value)
        monkeypatch.setitem(BENCHMARKS, "speed", fixed)

    return set_outcome


@pytest.mark.parametrize(("value", "ok"), [(2.5, True), (2.4, False), (None, False)])
def test_a_bar_that_was_not_measured_is_missed(value: float | None, ok: bool) -> None:
    assert _result(value).to_json()["bars"] == [
        {"name": "speed, times", "value": value, "bar": "at least 2.5", "ok": ok}
    ]


def test_at_most_is_the_other_way_round() -> None:
    assert Bar("ms", 299.0, 300.0, "at most").ok
    assert not Bar("ms", 301.0, 300.0, "at most").ok


@pytest.mark.parametrize(("value", "status"), [(3.0, 0), (2.0, 1)])
def test_the_status_is_one_if_a_bar_is_missed_and_the_json_is_written(
    outcome: object, value: float, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome(_result(value))  # type: ignore[operator]
    file = tmp_path / "new" / "speed.json"
    assert command.main(["speed", "--json", str(file)]) == status
    written = json.loads(file.read_text())
    assert {"name", "machine", "figures", "peers", "bars"} <= written.keys()
    shown = capsys.readouterr().out
    assert "llama.cpp" in shown
    assert ("missed" in shown) == (status == 1)


def test_an_error_is_a_sentence_and_an_interruption_has_its_own_status(
    outcome: object, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome(PeerError("llama.cpp is missing; install it with: pip install xllamacpp"))  # type: ignore[operator]
    assert command.main(["speed"]) == 1
    assert "pip install xllamacpp" in capsys.readouterr().err
    outcome(KeyboardInterrupt())  # type: ignore[operator]
    assert command.main(["speed"]) == 130


def test_an_unknown_name_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        command.main(["nothing"])
    assert stopped.value.code == 2
    shown = capsys.readouterr().err
    assert all(name in shown for name in BENCHMARKS)


def test_every_benchmark_of_the_registry_can_be_imported() -> None:
    from importlib import import_module

    for entry in BENCHMARKS.values():
        assert callable(import_module(f"miton_service.bench.{entry.module}").run)
