"""Tasks are the same in every run and solvable; repositories have the size and the places asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from miton_service.bench import packages, repositories
from miton_service.bench.cross_file import arguments_in
from miton_service.bench.errors import BenchmarkError, PackageError
from miton_service.bench.infilling_tasks import all_tasks, first_line, sample_tasks
from miton_service.bench.packages import Package


def test_the_data_set_is_whole() -> None:
    tasks = all_tasks()
    assert len(tasks) == 1033
    assert len({task.task_id for task in tasks}) == 1033
    assert all(task.canonical_solution.endswith("\n") for task in tasks)


def test_a_sample_is_the_same_each_time_and_starts_a_larger_one() -> None:
    assert sample_tasks(300) == sample_tasks(300)
    assert sample_tasks(300)[:40] == sample_tasks(40)


def test_a_completion_is_its_first_line() -> None:
    assert first_line("    return 1\n    more") == "    return 1\n"
    assert first_line("") == "\n"


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("a, b)\n    c", "a, b)"),
        ("f(x), [1, (2)], {3: 4})more", "f(x), [1, (2)], {3: 4})"),
        ("')', \")\", '''a)'b''')\n", "')', \")\", '''a)'b''')"),
        (r"'\')' , 1) x", r"'\')' , 1)"),
        ("a, b", "a, b"),
        ("", ""),
        (")", ")"),
    ],
)
def test_arguments_end_at_the_parenthesis_that_closes_the_call(text: str, arguments: str) -> None:
    assert arguments_in(text) == arguments


@pytest.fixture
def package_cache(tmp_path: Path) -> Path:
    """A cache with one small unpacked package, so that nothing is fetched."""
    root = tmp_path / "cache" / "click-8.3.0"
    (root / "click").mkdir(parents=True)
    (root / "click-8.3.0.dist-info").mkdir()
    (root / "click" / "core.py").write_text("def run():\n    return compute_everything(1, 2)\n")
    return tmp_path / "cache"


def test_what_was_fetched_is_used_offline(package_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_download", lambda *_: pytest.fail("it was fetched again"))
    assert packages.fetch(packages.CLICK, package_cache) == package_cache / "click-8.3.0"


def test_a_copy_leaves_the_wheels_metadata_out(package_cache: Path, tmp_path: Path) -> None:
    copied = packages.copy(packages.CLICK, tmp_path / "copy", package_cache)
    assert sorted(path.name for path in copied.iterdir()) == ["click"]


def test_a_package_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    wrong = Package("click", "8.3.0", "0" * 64)
    with pytest.raises(PackageError, match=r"click 8\.3\.0"):
        packages.fetch(wrong, tmp_path)
    assert not (tmp_path / "click-8.3.0").exists()


def test_places_cut_the_second_half_of_a_line(package_cache: Path) -> None:
    root = package_cache / "click-8.3.0"
    (place,) = repositories.places(root, ["click/core.py"], 5)
    assert place.buffer == "def run():\n    return compute_\n"
    assert place.cursor == (1, 19)
    assert place.expected == "everything(1, 2)"


@pytest.fixture
def package_of_three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every package is one with three files of 10, 20 and 30 characters."""
    for name, size in (("a.py", 10), ("b.py", 20), ("c.py", 30)):
        (tmp_path / "package").mkdir(exist_ok=True)
        (tmp_path / "package" / name).write_text("x" * size)
    monkeypatch.setattr(packages, "fetch", lambda package: tmp_path / "package")


@pytest.mark.usefixtures("package_of_three")
def test_a_repository_keeps_its_size_and_has_the_wanted_files_first(tmp_path: Path) -> None:
    copied = repositories.build(tmp_path / "made", [packages.CLICK], 45, len, ("c.py",))
    assert copied == ["c.py", "a.py"]
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["a.py", "c.py"]


@pytest.mark.usefixtures("package_of_three")
def test_a_wanted_file_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"c\.py did not fit into 25 tokens"):
        repositories.build(tmp_path / "made", [packages.CLICK], 25, len, ("c.py",))
