"""Documents find their workspace folder, however an editor writes their address."""

from __future__ import annotations

from pathlib import Path

import pytest

from miton_lsp.roots import Roots, local_path


@pytest.mark.parametrize("name", ["a.py", "a;b.py", "a b.py", "a#b?c.py", "50%25.py", "日本.py", "c:d.py"])
def test_every_file_name_comes_back(name: str, tmp_path: Path) -> None:
    roots = Roots()
    roots.add(tmp_path.as_uri())
    place = roots.place((tmp_path / name).as_uri())
    assert place is not None
    assert (place.root, place.path) == (tmp_path, name)


@pytest.mark.parametrize(
    "uri", ["file:///a.py", "file://LOCALHOST/a.py", "file:////a.py", "file:/a.py", "FILE:///a.py"]
)
def test_ways_to_write_one_address(uri: str) -> None:
    assert local_path(uri) == Path("/a.py")


def test_a_folder_inside_another_that_is_opened_through_a_link_is_the_innermost(tmp_path: Path) -> None:
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "l").symlink_to(tmp_path / "outer" / "inner")
    roots = Roots()
    roots.add((tmp_path / "outer").as_uri())
    roots.add((tmp_path / "l").as_uri())
    place = roots.place((tmp_path / "outer" / "inner" / "a.py").as_uri())
    assert place is not None
    assert (place.root, place.path) == (tmp_path / "l", "a.py")


def test_letters_that_need_no_escape_may_stand_as_they_are() -> None:
    assert local_path("file:///src/a;b(1)+[x].py") == Path("/src/a;b(1)+[x].py")


@pytest.mark.parametrize(
    "uri",
    [
        "untitled:Untitled-1",
        "https://host/a.py",
        "file://elsewhere/a.py",
        "file:a.py",
        "",
        "file://[x/a.py",
        "file:///a%00b.py",
    ],
)
def test_what_is_not_on_this_machine_has_no_path(uri: str) -> None:
    assert local_path(uri) is None


def test_the_innermost_folder_counts(tmp_path: Path) -> None:
    inner = tmp_path / "packages" / "one"
    inner.mkdir(parents=True)
    roots = Roots()
    for folder in (tmp_path, inner):
        roots.add(folder.as_uri())
    place = roots.place((inner / "a.py").as_uri())
    assert place is not None
    assert (place.root, place.path) == (inner, "a.py")
    roots.remove(inner.as_uri())
    place = roots.place((inner / "a.py").as_uri())
    assert place is not None
    assert (place.root, place.path) == (tmp_path, "packages/one/a.py")
    assert list(roots) == [tmp_path]
    assert roots.place((tmp_path.parent / "other.py").as_uri()) is None


def test_a_folder_behind_a_link_is_found_by_either_name(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    roots = Roots()
    roots.add(link.as_uri())
    for base in (real, link):
        place = roots.place((base / "a.py").as_uri())
        assert place is not None
        assert (place.root, place.path) == (link, "a.py")


def test_a_folder_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert Roots().add((tmp_path / "gone").as_uri()) is None
