"""Which paths git would ignore: nested .gitignore files, negation, anchoring, .git/info/exclude, the global file.

Patterns are translated by `pathspec`. This module decides which of them speaks, as gitignore(5) says: the deepest
file wins, within one file the last pattern wins, an excluded directory hides all below it, and what git tracks is
never ignored. A nested repository starts anew. Like git, and unlike pathspec's own matching, a pattern is asked about
one entry and answers for that entry alone: `!/a` does not bring back what other patterns exclude below `a`. Names and
patterns are bytes to git (`?` is one byte, not one letter): here they are compared as one character for each byte.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

GIT_TIMEOUT_S = 20
_OTHER_SPACE_AT_END = re.compile(r"\\?([^\S ])\Z")


@dataclass(frozen=True)
class IgnoreRules:
    """Rules in force in one directory, the deepest last: patterns with the directory they are relative to."""

    patterns: tuple[tuple[str, tuple[Pattern, ...]], ...] = ()
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
            return IgnoreRules(self.patterns, self.tracked, excluded=True)
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
        for base, patterns in reversed(self.patterns):
            relative = os.fsencode(path[len(base) :].lstrip("/")).decode("latin-1")
            for pattern in reversed(patterns):
                if (is_directory or not pattern.directories_only) and pattern.regex.search(relative):
                    return pattern.ignores
        return False

    def _with_file(self, base: str, file: Path | None) -> IgnoreRules:
        """A file that cannot be read adds nothing, as in git."""
        try:
            data = file.read_bytes() if file is not None else b""
        except OSError:
            return self
        text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
        patterns = tuple(filter(None, (Pattern.of(line.removesuffix("\r")) for line in text.split("\n"))))
        if not patterns:
            return self
        return IgnoreRules((*self.patterns, (base, patterns)), self.tracked, self.excluded)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file: what it matches, and whether it ignores or brings back."""

    regex: re.Pattern[str]
    ignores: bool
    directories_only: bool

    @classmethod
    def of(cls, line: str) -> Pattern | None:
        """None for a comment, a blank, and what is no pattern: such lines match nothing, as in git."""
        kept = line if line.endswith("\\ ") else line.rstrip(" ")
        directories_only = kept.endswith("/") and kept.strip("!/") != ""
        body = kept[:-1] if directories_only else kept
        # Git cuts off blanks only; pathspec every white space, among them bytes that are the end of a letter.
        body = _OTHER_SPACE_AT_END.sub(r"[\1]", body)
        try:
            translated = GitIgnoreSpecPattern(body)
        except ValueError:
            return None
        if translated.regex is None or translated.include is None:
            return None
        source = str(translated.regex.pattern)
        if source != ".":  # "." is pathspec's "everything"
            # With its mark, the expression ends where the entry ends or goes on below it; without, it is a prefix
            # that only what lies below has.
            source = f"(?:{source})" + (r"\Z" if "?P<ps_d>" in source else r"[\s\S]")
        return cls(re.compile(source), translated.include, directories_only)


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
