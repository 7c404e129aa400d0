"""Open buffers: they win over the disk, versions do not go backwards, nothing is lost between threads."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from miton_lsp.chunking import ChunkOptions
from miton_service.workspace import Workspace, WorkspaceError
from miton_service.workspace import workspace as module
from miton_service.workspace.workspace import LENT_S


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr(module, "SETTLE_S", 0.0)
    (tmp_path / "a.py").write_text("def on_disk():\n    return 1\n")
    opened = Workspace(tmp_path.resolve(), ChunkOptions())
    opened.read("a.py")
    return opened


def names(workspace: Workspace) -> set[str]:
    workspace.refresh_symbols()
    return {name for name in ("on_disk", "pushed", "lent", "later") if workspace.graph.definitions_of(name)}


def test_a_pushed_buffer_wins_until_it_is_dropped(workspace: Workspace) -> None:
    workspace.put_document("a.py", "def pushed():\n    return 2\n", 1)
    assert names(workspace) == {"pushed"}
    (workspace.root / "a.py").write_text("def later():\n    return 3\n")
    workspace.read("a.py")
    assert names(workspace) == {"pushed"}
    workspace.drop_document("a.py")
    assert names(workspace) == {"later"}


def test_a_version_does_not_go_backwards_and_the_newer_text_stays(workspace: Workspace) -> None:
    workspace.put_document("a.py", "def pushed():\n    return 2\n", 5)
    with pytest.raises(WorkspaceError, match="version 4 is older"):
        workspace.put_document("a.py", "def later():\n    return 3\n", 4)
    assert names(workspace) == {"pushed"}
    workspace.put_document("a.py", "def later():\n    return 3\n", 5)
    assert names(workspace) == {"later"}
    workspace.drop_document("a.py")
    workspace.put_document("a.py", "def pushed():\n    return 2\n", 1)  # opened anew: versions start again
    assert names(workspace) == {"pushed"}


def test_a_buffer_of_a_file_not_on_disk_lives_while_it_is_open(workspace: Workspace) -> None:
    workspace.put_document("new/b.py", "def pushed():\n    return 2\n", 1)
    assert names(workspace) == {"on_disk", "pushed"}
    workspace.drop_document("new/b.py")
    assert names(workspace) == {"on_disk"}
    workspace.drop_document("never/opened.py")


def test_the_file_may_be_deleted_under_an_open_buffer(workspace: Workspace) -> None:
    workspace.put_document("a.py", "def pushed():\n    return 2\n", 1)
    (workspace.root / "a.py").unlink()
    workspace.read("a.py")
    assert names(workspace) == {"pushed"}
    workspace.drop_document("a.py")
    assert not workspace.files


def test_a_request_s_buffer_counts_for_a_while(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.lend_buffer("a.py", "def lent():\n    return 2\n")
    workspace.expire_buffers()
    assert names(workspace) == {"lent"}
    assert workspace.snapshot()["open_documents"] == 0
    import time

    now = time.monotonic()
    monkeypatch.setattr("miton_service.workspace.workspace.time.monotonic", lambda: now + LENT_S + 1)
    workspace.expire_buffers()
    assert names(workspace) == {"on_disk"}


def test_a_request_s_buffer_is_newer_than_the_pushed_one_and_does_not_expire_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.put_document("a.py", "def pushed():\n    return 2\n", 7)
    workspace.lend_buffer("a.py", "def lent():\n    return 2\n")
    assert names(workspace) == {"lent"}
    import time

    now = time.monotonic()
    monkeypatch.setattr("miton_service.workspace.workspace.time.monotonic", lambda: now + LENT_S + 1)
    workspace.expire_buffers()
    assert names(workspace) == {"lent"}
    with pytest.raises(WorkspaceError, match="older"):
        workspace.put_document("a.py", "def later():\n    return 2\n", 6)


def test_what_a_request_lent_can_be_dropped_and_what_an_editor_pushed_cannot_be_so(
    workspace: Workspace,
) -> None:
    workspace.lend_buffer("a.py", "def lent():\n    return 2\n")
    workspace.drop_lent_buffer("a.py")
    assert names(workspace) == {"on_disk"}
    workspace.put_document("a.py", "def pushed():\n    return 2\n", 1)
    workspace.drop_lent_buffer("a.py")
    assert names(workspace) == {"pushed"}


@pytest.mark.parametrize("ends", ["\r\n", "\r"])
def test_line_ends_of_a_buffer_are_normalised(workspace: Workspace, ends: str) -> None:
    workspace.put_document("a.py", f"x = 1{ends}y = 2{ends}", 1)
    assert workspace.text_of("a.py") == ("x = 1\ny = 2\n", ends == "\r\n")


def test_many_threads_leave_the_last_version(workspace: Workspace) -> None:
    barrier = threading.Barrier(8)

    def push(first: int) -> None:
        barrier.wait()
        for version in range(first, 160, 8):
            text = f"def f{version}():\n    return {version}\n\n\n" * (1 + version % 5)
            try:
                workspace.put_document("a.py", text, version)
            except WorkspaceError:
                continue
            workspace.snapshot()
            workspace.next_chunks(4)

    threads = [threading.Thread(target=push, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert workspace.documents["a.py"].version == 159
    assert workspace.files["a.py"].text == workspace.documents["a.py"].text
    assert "".join(chunk.text for chunk in workspace.files["a.py"].chunks) == workspace.files["a.py"].text
    assert len(workspace.bm25) == len(workspace.files["a.py"].chunks)


def test_symbols_of_a_buffer_are_read_again_when_it_rests(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def on_disk():\n    return 1\n")
    typed_in = Workspace(tmp_path.resolve(), ChunkOptions())
    typed_in.read("a.py")
    typed_in.put_document("a.py", "def on_disk():\n    return 1\n", 1)
    typed_in.put_document("a.py", "def pushed():\n    return 2\n", 2)
    typed_in.refresh_symbols()
    assert typed_in.graph.definitions_of("on_disk"), "it costs what a keystroke may cost"
    time.sleep(module.SETTLE_S)
    typed_in.refresh_symbols()
    assert typed_in.graph.definitions_of("pushed")
