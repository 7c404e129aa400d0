"""A journal keeps samples through kills, and never mixes those of two benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from miton_service.bench.__main__ import main
from miton_service.bench.errors import BenchmarkError
from miton_service.bench.journal import Journal

MEASURED = {"benchmark": "session", "budget": 8192}
ONE, TWO = {"ttft_ms": {"Miton": 1.5}}, {"ttft_ms": {"Miton": 2.5}}


def test_samples_are_there_again_and_others_follow(tmp_path: Path) -> None:
    path = tmp_path / "new" / "session.jsonl"
    Journal(path, MEASURED).add(ONE)
    again = Journal(path, MEASURED)
    assert again.samples == [ONE]
    again.add(TWO)
    assert Journal(path, MEASURED).samples == [ONE, TWO]


@pytest.mark.parametrize("cut", range(1, 24))
def test_a_line_cut_off_by_a_kill_is_dropped_and_the_next_is_whole(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "session.jsonl"
    journal = Journal(path, MEASURED)
    journal.add(ONE)
    journal.add(TWO)
    path.write_bytes(path.read_bytes()[:-cut])
    again = Journal(path, MEASURED)
    assert again.samples == [ONE]
    again.add(TWO)
    assert Journal(path, MEASURED).samples == [ONE, TWO]


@pytest.mark.parametrize("content", ['{"benchmark": "session", "budget": 1024}\n', "notes of mine\n", "{"])
def test_a_file_that_holds_something_else_is_refused_and_stays(tmp_path: Path, content: str) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(content)
    with pytest.raises(BenchmarkError, match=r"session\.jsonl"):
        Journal(path, MEASURED)
    assert path.read_text() == content


def test_without_a_path_nothing_is_written() -> None:
    journal = Journal(None, MEASURED)
    journal.add(ONE)
    assert journal.samples == [ONE]


def test_a_benchmark_without_a_journal_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["speed", "--journal", "x"])
    assert "keeps no journal" in capsys.readouterr().err
