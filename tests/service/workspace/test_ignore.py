"""Ignore rules against git itself: `git ls-files` and `git check-ignore` on the same tree."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miton_service.workspace.ignore import IgnoreRules
from miton_service.workspace.walk import Listing, walk

DIRECTORIES = ("", "a", "b", "a/b", "a/b/a", "build", "a/build")
NAMES = ("a", "b", "x.py", "y.txt", "build", "#x", "!x", "x y", "[x]", "é.py", "à", "X.py", ".hidden")


def git(root: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(root.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def listed_by_git(root: Path) -> set[str]:
    names = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return {name for name in names if name and (root / name).is_file() and not (root / name).is_symlink()}


def listed_by_us(root: Path) -> set[str]:
    return {found.path for found in walk(root)}


def plant(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The person's own git configuration must not decide."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = (tmp_path / "repository").resolve()
    root.mkdir()
    git(root, "init", "-q")
    return root


patterns = st.one_of(
    st.sampled_from(
        ["*.py", "!x.py", "/a", "a/", "!a/", "b/*", "!b/x.py", "**/b", "a/**", "a/**/x.py", "/*", "!/a", "build",
         "build/", "!build/x.py", "\\#x", "\\!x", "#x", "x\\ y", "x y ", "x\\ ", "[xy].*", "[!x].py", "[a-", "?.py",
         "**", "***", "a**b", "**/", "/**", "/", "!", "\\", "é.py", "x.p[y]", "\\[x\\]", ".*", "!.gitignore", "a/b/",
         "/a/b/*", "!/a/b/x.py", "X.py", "*", "!*/", "!*.py", "à", "à/", "?", "??", "[!x]*", "a\t", "x.py\t"]
    ),
    st.text(alphabet="ab/*!?[]x.py\\# ^-", max_size=8),
)  # fmt: skip
ignore_files = st.dictionaries(
    st.sampled_from(DIRECTORIES), st.lists(patterns, max_size=5).map("\n".join), max_size=3
)
trees = st.lists(
    st.tuples(st.sampled_from(DIRECTORIES), st.sampled_from(NAMES)), min_size=1, max_size=14, unique=True
)


@settings(max_examples=200, deadline=None)
@given(
    tree=trees,
    ignores=ignore_files,
    excludes=st.lists(patterns, max_size=2),
    ends=st.sampled_from(["\n", "\r\n"]),
)
def test_the_same_files_as_git(
    tree: list[tuple[str, str]], ignores: dict[str, str], excludes: list[str], ends: str
) -> None:
    compare_with_git(tree, ignores, excludes, ends)


def compare_with_git(
    tree: list[tuple[str, str]], ignores: dict[str, str], excludes: list[str], ends: str
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve() / "r"
        root.mkdir()
        git(root, "init", "-q")
        for folder, name in tree:
            path = root / folder / name
            if not path.is_dir() and all(not p.is_file() for p in path.parents):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("x\n")
        for folder, text in ignores.items():
            if (root / folder).is_dir():
                (root / folder / ".gitignore").write_bytes(text.replace("\n", ends).encode())
        (root / ".git/info").mkdir(exist_ok=True)
        (root / ".git/info/exclude").write_text("\n".join(excludes) + "\n")
        expected = listed_by_git(root)
        assert listed_by_us(root) == expected
        listing = Listing(root)
        everything = {
            p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file() and ".git" not in p.parts
        }
        assert {path for path in everything if listing.includes(path)} == expected


@pytest.mark.parametrize(
    "lines",
    [
        "a/b/\n!/a",
        "a/b\n!a",
        "*\n!a/",
        "b/**/",
        "a/**\n!a/b/",
        "**/b/\n!/a/",
        "*/\n!/a/",
        "a/*\n!a/b/x.py",
        "/**/x.py\n!a/",
    ],
)
def test_a_pattern_answers_for_an_entry_and_not_for_what_lies_below(repository: Path, lines: str) -> None:
    plant(repository, {f"{folder}/x.py".lstrip("/"): "x" for folder in DIRECTORIES} | {".gitignore": lines})
    assert listed_by_us(repository) == listed_by_git(repository)


def test_what_git_tracks_is_listed_though_a_pattern_names_it(repository: Path) -> None:
    plant(repository, {"out/kept.py": "x", "out/other.py": "x", "a.py": "x"})
    git(repository, "add", "out/kept.py")
    plant(repository, {".gitignore": "out/\n*.log\n", "b.log": "x"})
    assert listed_by_us(repository) == listed_by_git(repository) == {".gitignore", "a.py", "out/kept.py"}


def test_the_global_file_counts(repository: Path, tmp_path: Path) -> None:
    plant(tmp_path, {".config/git/ignore": "*.global\n"})
    plant(repository, {"a.global": "x", "a.py": "x"})
    assert listed_by_us(repository) == listed_by_git(repository) == {"a.py"}


@pytest.mark.parametrize("scope", ["--global", "--local"])
def test_a_configured_excludes_file_counts(repository: Path, tmp_path: Path, scope: str) -> None:
    plant(tmp_path, {"mine": "*.mine\n"})
    git(repository, "config", scope, "core.excludesFile", str(tmp_path / "mine"))
    plant(repository, {"a.mine": "x", "a.py": "x"})
    assert listed_by_us(repository) == listed_by_git(repository) == {"a.py"}


def test_a_linked_work_tree_uses_its_repository_s_exclude_file(repository: Path, tmp_path: Path) -> None:
    git(repository, "commit", "-q", "--allow-empty", "-m", "x")
    (repository / ".git/info").mkdir(exist_ok=True)
    (repository / ".git/info/exclude").write_text("*.private\n")
    tree = (tmp_path / "tree").resolve()
    git(repository, "worktree", "add", "-q", str(tree))
    plant(tree, {"a.private": "x", "a.py": "x"})
    assert listed_by_us(tree) == listed_by_git(tree) == {"a.py"}


def test_a_directory_of_a_repository_keeps_the_rules_from_above(repository: Path) -> None:
    plant(
        repository,
        {".gitignore": "*.log\n/sub/only.py\n", "sub/only.py": "x", "sub/a.log": "x", "sub/a.py": "x"},
    )
    assert listed_by_us(repository / "sub") == listed_by_git(repository / "sub") == {"a.py"}


def test_an_ignored_directory_opened_on_purpose_is_read(repository: Path) -> None:
    plant(repository, {".gitignore": "out/\n", "out/sub/a.py": "x", "out/b.py": "x"})
    assert listed_by_us(repository / "out/sub") == {"a.py"}
    assert listed_by_us(repository / "out") == {"b.py", "sub/a.py"}


def test_a_nested_repository_has_its_own_rules(repository: Path) -> None:
    plant(
        repository,
        {".gitignore": "*.log\n", "inner/a.log": "x", "inner/a.tmp": "x", "inner/.gitignore": "*.tmp\n"},
    )
    git(repository / "inner", "init", "-q")
    assert {f for f in listed_by_us(repository) if f.startswith("inner/")} == {
        f"inner/{name}" for name in listed_by_git(repository / "inner")
    }


def test_a_folder_without_git_still_honours_its_ignore_files(tmp_path: Path) -> None:
    root = (tmp_path / "plain").resolve()
    plant(
        root,
        {
            ".gitignore": "*.log\n!keep.log\n",
            "a.log": "x",
            "keep.log": "x",
            "s/.gitignore": "x.py",
            "s/x.py": "x",
        },
    )
    assert listed_by_us(root) == {".gitignore", "keep.log", "s/.gitignore"}


def test_without_git_installed_ignore_files_are_honoured(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(repository, {".gitignore": "*.log\n", "a.log": "x", "a.py": "x"})
    monkeypatch.setenv("PATH", "/nonexistent")
    assert listed_by_us(repository) == {".gitignore", "a.py"}


def test_a_linked_ignore_file_is_not_read_as_git_does_not(repository: Path, tmp_path: Path) -> None:
    plant(tmp_path, {"rules": "*.py\n"})
    (repository / ".gitignore").symlink_to(tmp_path / "rules")
    plant(repository, {"a.py": "x"})
    assert "a.py" in listed_by_us(repository)
    assert "a.py" in listed_by_git(repository)


def test_a_repository_s_monitor_program_is_not_run(repository: Path, tmp_path: Path) -> None:
    """core.fsmonitor names a program: opening a downloaded repository must not run it."""
    script = tmp_path / "monitor"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    script.chmod(0o755)
    plant(repository, {"a.py": "x"})
    git(repository, "add", "a.py")
    git(repository, "config", "core.fsmonitor", str(script))
    (tmp_path / "ran").unlink(missing_ok=True)
    IgnoreRules.for_root(repository)
    assert not (tmp_path / "ran").exists()
    git(repository, "ls-files", "--others")
    git(repository, "status")
    assert (tmp_path / "ran").exists()  # with git's own default it is
