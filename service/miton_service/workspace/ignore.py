"""Which paths git would ignore: nested .gitignore files, negation, anchoring, .git/info/exclude, the global file.

Patterns are matched by `pathspec`; this module only decides which file's patterns speak first, as gitignore(5)
says: the deepest file wins, within one file the last pattern wins, an excluded directory hides all below it.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec


@dataclass(frozen=True)
class IgnoreRules:
    """Rules in force in one directory, the deepest last. `base` is the directory a spec's patterns are relative to."""

    specs: tuple[tuple[Path, GitIgnoreSpec], ...] = ()

    @classmethod
    def for_root(cls, root: Path) -> IgnoreRules:
        """Rules that reach `root` from outside: git's global and per-repository files, .gitignore of parents."""
        rules = cls()
        repository = next((p for p in (root, *root.parents) if (p / ".git").exists()), None)
        if repository is None:
            return rules
        for file in (_global_excludes(), repository / ".git" / "info" / "exclude"):
            if file is not None:
                rules = rules.with_file(repository, file)
        between = [p for p in (root, *root.parents) if p != root and p.is_relative_to(repository)]
        for directory in reversed(between):
            rules = rules.entering(directory)
        return rules

    def entering(self, directory: Path) -> IgnoreRules:
        """Rules inside `directory`, its own .gitignore included."""
        return self.with_file(directory, directory / ".gitignore")

    def with_file(self, base: Path, file: Path) -> IgnoreRules:
        """These rules and those of one ignore file; a file that cannot be read adds nothing, as in git."""
        try:
            lines = file.read_bytes().decode("utf-8", "surrogateescape").removeprefix("\ufeff").split("\n")
        except OSError:
            return self
        spec = GitIgnoreSpec.from_lines(line.removesuffix("\r") for line in lines)
        return IgnoreRules((*self.specs, (base, spec)))

    def ignores(self, path: Path, is_directory: bool) -> bool:
        """Whether git ignores `path`, provided that its parent directory is not ignored."""
        for base, spec in reversed(self.specs):
            relative = path.relative_to(base).as_posix() + ("/" if is_directory else "")
            include = spec.check_file(relative).include
            if include is not None:
                return include
        return False


def _global_excludes() -> Path | None:
    try:
        named = subprocess.run(
            ["git", "config", "--path", "core.excludesFile"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return None
    if named:
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "git" / "ignore"
