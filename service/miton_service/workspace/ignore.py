"""Which paths git would ignore: nested .gitignore files, negation, anchoring, .git/info/exclude, the global file.

Patterns are matched by `pathspec`; this module only decides which file's patterns speak first, as gitignore(5)
says: the deepest file wins, within one file the last pattern wins, an excluded directory hides all below it, and
what git tracks is never ignored. A nested repository starts anew, as it does for git.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

GIT_TIMEOUT_S = 20


@dataclass(frozen=True)
class IgnoreRules:
    """Rules in force in one directory, the deepest last. A spec's patterns are relative to the path beside it."""

    specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()
    tracked: frozenset[str] = frozenset()  # absolute paths of files in git's index, and of their directories
    excluded: bool = False  # the directory itself is ignored: only what is tracked remains

    @classmethod
    def for_root(cls, root: Path) -> IgnoreRules:
        """Rules that reach `root` from outside: git's global and per-repository files, .gitignore of parents.

        A root that is itself ignored was opened on purpose: rules from outside it do not apply.
        """
        repository = next((p for p in (root, *root.parents) if (p / ".git").exists()), None)
        if repository is None:
            return cls()
        rules = cls(tracked=_tracked(root))
        for file in (_global_excludes(root), _exclude_file(repository)):
            rules = rules._with_file(str(repository), file)
        for directory in reversed([p for p in root.parents if p.is_relative_to(repository)]):
            rules = rules._with_file(str(directory), directory / ".gitignore")
        between = [root, *(p for p in root.parents if p != repository and p.is_relative_to(repository))]
        if root != repository and any(rules._matches(str(p), True) for p in between):
            return cls(tracked=rules.tracked)
        return rules

    def inside(self, directory: str) -> IgnoreRules:
        """Rules for the entries of `directory`, its own .gitignore included; these must be its parent's rules."""
        if os.path.lexists(f"{directory}/.git"):
            return IgnoreRules.for_root(Path(directory)).with_own(directory)
        if self.excluded or self._matches(directory, True):
            return IgnoreRules(self.specs, self.tracked, excluded=True)
        return self.with_own(directory)

    def with_own(self, directory: str) -> IgnoreRules:
        """These rules and the directory's own .gitignore, which git reads only if it is no link."""
        file = f"{directory}/.gitignore"
        return self if os.path.islink(file) else self._with_file(directory, Path(file))

    def ignores(self, path: str, is_directory: bool) -> bool:
        """Whether git ignores the absolute `path`, an entry of the directory that these rules are for."""
        if path in self.tracked:
            return False
        return self.excluded or self._matches(path, is_directory)

    def _matches(self, path: str, is_directory: bool) -> bool:
        for base, spec in reversed(self.specs):
            relative = path[len(base) :].lstrip("/") + ("/" if is_directory else "")
            include = spec.check_file(relative).include
            if include is not None:
                return include
        return False

    def _with_file(self, base: str, file: Path | None) -> IgnoreRules:
        """A file that cannot be read adds nothing, as in git."""
        try:
            data = file.read_bytes() if file is not None else b""
        except OSError:
            return self
        text = os.fsdecode(data.removeprefix(b"\xef\xbb\xbf"))
        patterns = [line.removesuffix("\r") for line in text.split("\n")]
        if not any(patterns):
            return self
        return IgnoreRules((*self.specs, (base, _spec(patterns))), self.tracked, self.excluded)


def _spec(patterns: list[str]) -> GitIgnoreSpec:
    """A line that is no pattern matches nothing, as in git."""
    try:
        return GitIgnoreSpec.from_lines(patterns)
    except ValueError:
        return GitIgnoreSpec.from_lines(line for line in patterns if _is_pattern(line))


def _is_pattern(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _git(directory: Path, *arguments: str) -> bytes | None:
    """What git prints, None if it fails or is not there. A repository's own hooks and programs are not run."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_DIR")}
    for name in ("GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_PREFIX", "GIT_COMMON_DIR"):
        environment.pop(name, None)
    command = ["git", "-C", str(directory), "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=GIT_TIMEOUT_S, check=False, env=environment,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _tracked(root: Path) -> frozenset[str]:
    listed = _git(root, "ls-files", "-z", "--cached")
    tracked: set[str] = set()
    for name in (listed or b"").split(b"\0"):
        path = os.fsdecode(name)
        while path and f"{root}/{path}" not in tracked:
            tracked.add(f"{root}/{path}")
            path = path.rpartition("/")[0]
    return frozenset(tracked)


def _exclude_file(repository: Path) -> Path:
    named = _git(repository, "rev-parse", "--git-path", "info/exclude")  # elsewhere in a linked work tree
    return repository / (os.fsdecode(named.rstrip(b"\n")) if named else ".git/info/exclude")


def _global_excludes(root: Path) -> Path:
    named = _git(root, "config", "--path", "core.excludesFile")
    if named and named.strip():
        return root / os.fsdecode(named.rstrip(b"\n"))
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "git" / "ignore"
