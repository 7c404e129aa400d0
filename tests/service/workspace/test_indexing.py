"""Opening, watching, priority, failures and closing, with a small real memory in the engine's place."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from miton_service.workspace import WorkspaceError, Workspaces

from .memory_of_tokens import MemoryOfTokens


def function(name: str, lines: int = 6) -> str:
    return (
        f"def {name}(value):\n"
        + "".join(f"    value = {name}_{i}(value)\n" for i in range(lines))
        + "    return value\n"
    )


def eventually(condition: Callable[[], bool], seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


@pytest.fixture
def memory() -> MemoryOfTokens:
    return MemoryOfTokens()


@pytest.fixture
def workspaces(memory: MemoryOfTokens) -> Iterator[Workspaces]:
    opened = Workspaces(memory)
    yield opened
    memory.gate.set()
    opened.shutdown()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = (tmp_path / "repository").resolve()
    (root / "package").mkdir(parents=True)
    for name in ("alpha", "beta", "gamma"):
        (root / f"package/{name}.py").write_text(function(name))
    return root


def ready(workspaces: Workspaces, root: Path) -> bool:
    workspace = workspaces.get(root)
    return workspace is not None and workspace.snapshot()["state"] == "ready"


def defined(workspaces: Workspaces, root: Path, name: str) -> set[str]:
    workspace = workspaces.get(root)
    assert workspace is not None
    with workspace.lock:
        return {path for path, _ in workspace.graph.definitions_of(name)}


def test_all_files_are_memorised_and_the_progress_says_so(
    workspaces: Workspaces, memory: MemoryOfTokens, root: Path
) -> None:
    memory.gate.clear()
    workspace = workspaces.open(root)
    assert eventually(lambda: workspace.snapshot()["files"] == 3)
    before = workspace.snapshot()
    assert before["state"] == "indexing"
    assert before["indexed_tokens"] == 0 < before["tokens"]
    memory.gate.set()
    assert eventually(lambda: ready(workspaces, root))
    after = workspace.snapshot()
    assert after["indexed_tokens"] == after["tokens"] == before["tokens"]
    assert after["seconds_left"] == 0
    assert {source.path for source in memory.computed} == {
        f"package/{n}.py" for n in ("alpha", "beta", "gamma")
    }


def test_an_edit_memorises_only_the_chunks_that_changed(
    workspaces: Workspaces, memory: MemoryOfTokens, root: Path
) -> None:
    names = [f"part{i}" for i in range(12)]
    path = root / "package/many.py"
    path.write_text("\n\n".join(function(name, 20) for name in names))
    workspaces.open(root)
    assert eventually(lambda: ready(workspaces, root))
    count = len(memory.computed)
    assert sum(source.path == "package/many.py" for source in memory.computed) > 6
    path.write_text(path.read_text().replace("part5_7(value)", "edited_here(value)"))
    assert eventually(lambda: len(memory.computed) > count and ready(workspaces, root))
    (changed,) = memory.computed[count:]
    assert "edited_here" in changed.text


def test_new_changed_renamed_and_deleted_files_are_seen(workspaces: Workspaces, root: Path) -> None:
    workspaces.open(root)
    assert eventually(lambda: ready(workspaces, root))
    (root / "package/delta.py").write_text(function("delta"))
    assert eventually(lambda: defined(workspaces, root, "delta") == {"package/delta.py"})
    (root / "package/delta.py").write_text(function("changed"))
    assert eventually(lambda: defined(workspaces, root, "changed") == {"package/delta.py"})
    assert defined(workspaces, root, "delta") == set()
    (root / "package/delta.py").rename(root / "package/moved.py")
    assert eventually(lambda: defined(workspaces, root, "changed") == {"package/moved.py"})
    (root / "package").rename(root / "library")
    assert eventually(lambda: defined(workspaces, root, "changed") == {"library/moved.py"})
    assert eventually(lambda: defined(workspaces, root, "alpha") == {"library/alpha.py"})
    shutil.rmtree(root / "library")
    assert eventually(lambda: defined(workspaces, root, "alpha") == set())
    workspace = workspaces.get(root)
    assert workspace is not None
    assert len(workspace.bm25) == 0
    assert ready(workspaces, root)


def test_files_deleted_while_they_are_indexed_are_gone_and_the_rest_is_ready(
    workspaces: Workspaces, memory: MemoryOfTokens, root: Path
) -> None:
    for index in range(40):
        (root / f"package/part{index}.py").write_text(function(f"part{index}"))
    memory.gate.clear()
    workspace = workspaces.open(root)
    assert eventually(lambda: workspace.snapshot()["files"] > 3)
    for index in range(0, 40, 2):
        (root / f"package/part{index}.py").unlink()
    memory.gate.set()
    assert eventually(lambda: ready(workspaces, root) and workspace.snapshot()["files"] == 23)
    for index in range(40):
        kept = {f"package/part{index}.py"} if index % 2 else set()
        assert defined(workspaces, root, f"part{index}") == kept
    after = workspace.snapshot()
    assert after["indexed_tokens"] == after["tokens"]
    assert after["skipped"] == []


def test_new_ignore_rules_apply_at_once_and_are_lifted_again(workspaces: Workspaces, root: Path) -> None:
    workspaces.open(root)
    assert eventually(lambda: ready(workspaces, root))
    (root / "package/.gitignore").write_text("beta.py\n")
    assert eventually(lambda: defined(workspaces, root, "beta") == set())
    (root / "package/beta.py").write_text(function("beta", 9))
    time.sleep(1.0)
    assert defined(workspaces, root, "beta") == set()
    (root / "package/.gitignore").unlink()
    assert eventually(lambda: defined(workspaces, root, "beta") == {"package/beta.py"})


def test_a_branch_switch_of_thousands_of_files_ends_with_the_new_branch(
    workspaces: Workspaces, root: Path
) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
            check=True, capture_output=True,
        )  # fmt: skip

    git("init", "-q", "-b", "main")
    for index in range(1200):
        (root / f"package/file{index}.py").write_text(f"def on_main_{index}():\n    return {index}\n")
    git("add", ".")
    git("commit", "-qm", "main")
    git("checkout", "-qb", "other")
    for index in range(1200):
        (root / f"package/file{index}.py").write_text(f"def on_other_{index}():\n    return -{index}\n")
    (root / "package/file0.py").unlink()
    git("commit", "-qam", "other")
    workspace = workspaces.open(root)
    assert eventually(lambda: ready(workspaces, root), 60)
    assert defined(workspaces, root, "on_other_7")
    git("checkout", "-q", "main")
    assert eventually(lambda: ready(workspaces, root) and bool(defined(workspaces, root, "on_main_1199")), 60)
    assert eventually(lambda: all(defined(workspaces, root, f"on_main_{i}") for i in range(1200)), 60)
    assert not any(defined(workspaces, root, f"on_other_{i}") for i in range(1200))
    assert workspace.snapshot()["files"] == 1203


def test_open_documents_come_first_then_what_they_import(
    workspaces: Workspaces, memory: MemoryOfTokens, root: Path
) -> None:
    for index in range(150):
        (root / f"package/aa{index}.py").write_text(function(f"filler{index}"))
    (root / "zz").mkdir()
    (root / "zz/open.py").write_text("from zz.needed import needed\n\n\n" + function("opened"))
    (root / "zz/needed.py").write_text(function("needed"))
    memory.gate.clear()
    workspace = workspaces.open(root)
    assert eventually(lambda: workspace.scanned)
    workspaces.put_document(root, "zz/open.py", (root / "zz/open.py").read_text(), 1)
    time.sleep(1.5)
    memory.gate.set()
    assert eventually(lambda: ready(workspaces, root), 60)
    order = [source.path for source in memory.computed]
    assert order.index("zz/open.py") < 70  # two batches of work were under way at most, of 155 files
    assert order.index("zz/open.py") < order.index("zz/needed.py") < 75


def test_what_is_typed_is_known_while_the_memory_is_busy(
    workspaces: Workspaces, memory: MemoryOfTokens, root: Path
) -> None:
    memory.gate.clear()
    workspace = workspaces.open(root)
    assert eventually(lambda: workspace.scanned)
    time.sleep(1.0)  # the first batch is under way and does not end
    workspaces.put_document(root, "package/alpha.py", function("pushed"), 1)
    assert eventually(lambda: defined(workspaces, root, "pushed") == {"package/alpha.py"}, 5)
    workspace.lend_buffer("package/beta.py", function("lent"))
    assert eventually(lambda: defined(workspaces, root, "lent") == {"package/beta.py"}, 5)


def test_a_chunk_that_cannot_be_memorised_is_named_and_holds_nothing_up(
    workspaces: Workspaces, memory: MemoryOfTokens, root: Path
) -> None:
    memory.refuse = "beta_"
    workspace = workspaces.open(root)
    assert eventually(lambda: ready(workspaces, root))
    (failed,) = workspace.snapshot()["failed"]
    assert failed["path"] == "package/beta.py"
    assert "disk is full" in failed["reason"]
    memory.refuse = ""
    (root / "package/beta.py").write_text(function("beta", 9))
    assert eventually(lambda: any("beta_8" in source.text for source in memory.computed))
    assert workspace.snapshot()["failed"] == []


def test_closing_is_quick_while_the_memory_is_busy(
    workspaces: Workspaces, memory: MemoryOfTokens, root: Path
) -> None:
    memory.gate.clear()
    before = threading.active_count()
    workspaces.open(root)
    time.sleep(0.5)
    started = time.monotonic()
    workspaces.close(root)
    assert time.monotonic() - started < 4  # not the memory's pace, which stands still
    assert workspaces.get(root) is None
    assert eventually(lambda: threading.active_count() <= before)
    workspaces.close(root)  # unknown: nothing happens
    memory.gate.set()
    workspaces.open(root)
    assert eventually(lambda: ready(workspaces, root))


def test_a_closed_engine_ends_the_indexer_without_an_error(
    workspaces: Workspaces, memory: MemoryOfTokens, root: Path
) -> None:
    memory.closed = True
    workspace = workspaces.open(root)
    assert eventually(lambda: workspace.scanned)
    time.sleep(0.3)
    assert workspace.snapshot()["error"] is None


def test_roots_that_cannot_be_a_workspace_are_refused(
    workspaces: Workspaces, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "people/me"))
    (tmp_path / "people/me").mkdir(parents=True)
    for bad in (
        tmp_path / "missing",
        root / "package/alpha.py",
        Path("/"),
        tmp_path / "people/me",
        tmp_path / "people",
    ):
        with pytest.raises(WorkspaceError):
            workspaces.open(bad)
    assert workspaces.list() == []


def test_one_root_by_several_names_is_one_workspace(
    workspaces: Workspaces, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(root)
    first = workspaces.open(root)
    assert workspaces.open(tmp_path / "link") is first
    assert workspaces.open(root / "package/..") is first
    assert workspaces.get(tmp_path / "link") is first
    assert workspaces.list() == [first]


def test_a_nested_root_is_a_workspace_of_its_own(workspaces: Workspaces, root: Path) -> None:
    outer, inner = workspaces.open(root), workspaces.open(root / "package")
    assert eventually(lambda: ready(workspaces, root) and ready(workspaces, root / "package"))
    assert set(outer.files) == {f"package/{path}" for path in inner.files} != set()
    workspaces.put_document(root / "package", "alpha.py", function("inner_only"), 1)
    assert eventually(lambda: defined(workspaces, root / "package", "inner_only") == {"alpha.py"})
    assert defined(workspaces, root, "inner_only") == set()
    workspaces.close(root / "package")
    assert ready(workspaces, root)


def test_a_root_below_a_directory_of_installed_code_is_watched(
    workspaces: Workspaces, tmp_path: Path
) -> None:
    root = (tmp_path / "node_modules/site-packages/mine").resolve()
    root.mkdir(parents=True)
    (root / "a.py").write_text(function("first"))
    workspaces.open(root)
    assert eventually(lambda: ready(workspaces, root))
    (root / "a.py").write_text(function("second"))
    assert eventually(lambda: defined(workspaces, root, "second") == {"a.py"})


def test_a_root_that_disappears_is_an_error_that_says_so(workspaces: Workspaces, root: Path) -> None:
    workspace = workspaces.open(root)
    assert eventually(lambda: ready(workspaces, root))
    shutil.rmtree(root)
    assert eventually(lambda: workspace.snapshot()["state"] == "error")
    assert str(root) in str(workspace.snapshot()["error"])


def test_documents_of_a_workspace_that_is_not_open_say_how_to_open_it(
    workspaces: Workspaces, root: Path
) -> None:
    with pytest.raises(WorkspaceError, match="POST /v1/workspaces"):
        workspaces.put_document(root, "a.py", "x = 1\n", 1)
