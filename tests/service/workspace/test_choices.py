"""Pins and exclusions: kept across restarts, never lost to a damaged file or a full disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from miton_lsp.chunking import ChunkOptions, chunk_text
from miton_service.workspace import Workspace, WorkspaceError
from miton_service.workspace.choices import Choice, Choices

ROOT = Path("/repository")
BODY = "".join(f"        value = step_{i}(value)\n" for i in range(40))
METHOD = f"    def {{}}(self, value):\n{BODY}\n"
A = "class A:\n" + "".join(METHOD.format(name) for name in ("zero", "one", "two"))
TEXT = A + "\nclass Ab:\n" + "".join(METHOD.format(name) for name in ("zero", "one"))


def kinds(choices: Choices) -> dict[str, str | None]:
    chunks = chunk_text(TEXT, "a.py", options=ChunkOptions())
    return {chunk.symbol: choices.kind_of(chunk) for chunk in chunks if chunk.symbol}


def test_the_closest_symbol_counts() -> None:
    choices = Choices(ROOT)
    assert set(kinds(choices).values()) == {None}
    choices.set("a.py", "", "exclude")
    choices.set("a.py", "A", "pin")
    choices.set("a.py", "A.two", "exclude")
    choices.set("b.py", "", "pin")
    found = kinds(choices)
    assert (found["A.one"], found["A.two"], found["Ab.one"]) == ("pin", "exclude", "exclude")
    choices.set("a.py", "A.two", None)
    choices.set("a.py", "A.two", None)
    assert kinds(choices)["A.two"] == "pin"


def test_choices_are_there_after_a_restart_and_each_workspace_has_its_own(tmp_path: Path) -> None:
    first = Choices(ROOT, tmp_path / "state")
    first.set("a.py", "A.one", "pin")
    first.set("süß\n.py", "", "exclude")
    expected = [Choice("a.py", "A.one", "pin"), Choice("süß\n.py", "", "exclude")]
    assert Choices(ROOT, tmp_path / "state").all() == first.all() == expected
    assert Choices(ROOT / "other", tmp_path / "state").all() == []


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"choices": 1}', '{"choices": [{}]}', '{"choices": [{"path": 1, "symbol": "", "kind": "pin"}]}',
     '{"choices": [{"path": "a", "symbol": "", "kind": "love"}]}', "\udcff"],
)  # fmt: skip
def test_a_damaged_file_is_set_aside_not_overwritten(tmp_path: Path, content: str) -> None:
    Choices(ROOT, tmp_path).set("a.py", "", "pin")
    (file,) = tmp_path.glob("*.json")
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    choices = Choices(ROOT, tmp_path)
    assert choices.all() == []
    choices.set("b.py", "", "pin")
    (damaged,) = tmp_path.glob("*.damaged")
    assert damaged.read_bytes() == content.encode("utf-8", "surrogateescape")
    assert [choice.path for choice in Choices(ROOT, tmp_path).all()] == ["b.py"]


def test_a_choice_that_cannot_be_written_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    choices = Choices(ROOT, tmp_path / "state")
    choices.set("a.py", "", "pin")
    before = {path: path.read_bytes() for path in (tmp_path / "state").iterdir()}
    (file,) = before
    file.with_suffix(".new").mkdir()  # as on a full disk: the new file cannot be opened
    with pytest.raises(WorkspaceError, match="cannot be written"):
        choices.set("b.py", "", "pin")
    assert [choice.path for choice in choices.all()] == ["a.py"]
    assert file.read_bytes() == before[file]


def test_what_is_not_there_cannot_be_chosen_but_a_choice_outlives_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TEXT)
    workspace = Workspace(tmp_path, ChunkOptions())
    workspace.read("a.py")
    for path, symbol in (("b.py", ""), ("a.py", "A.three"), ("../a.py", ""), (".env", "")):
        with pytest.raises(WorkspaceError):
            workspace.choose(path, symbol, "pin")
    workspace.choose("a.py", "A.one", "pin")
    (tmp_path / "a.py").unlink()
    workspace.read("a.py")
    assert workspace.choices.all() == [Choice("a.py", "A.one", "pin")]
    workspace.choose("a.py", "A.one", None)
    assert workspace.choices.all() == []
