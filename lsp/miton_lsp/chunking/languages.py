"""Which language a file is in: by name, then extension, then first line.

Names are those of the grammars (linguist's names in lower case); "text" where none is known.
"""

from __future__ import annotations

import re
from typing import Final

_EXTENSIONS: Final[dict[str, str]] = {
    extension: language
    for language, extensions in {
        "python": "py pyi pyw pyx",
        "javascript": "js mjs cjs jsx es6",
        "typescript": "ts mts cts",
        "tsx": "tsx",
        "go": "go",
        "rust": "rs",
        "java": "java",
        "kotlin": "kt kts",
        "c": "c h",
        "cpp": "cc cpp cxx c++ hh hpp hxx h++ ipp inl tcc cu cuh",
        "csharp": "cs",
        "ruby": "rb rake gemspec ru",
        "php": "php phtml",
        "swift": "swift",
        "scala": "scala sc sbt",
        "lua": "lua",
        "bash": "sh bash zsh ksh bats",
        "sql": "sql",
        "html": "html htm xhtml",
        "vue": "vue",
        "svelte": "svelte",
        "css": "css",
        "scss": "scss",
        "markdown": "md markdown mdx",
        "json": "json jsonc json5 webmanifest",
        "yaml": "yaml yml",
        "toml": "toml",
        "notebook": "ipynb",
    }.items()
    for extension in extensions.split()
}

_NAMES: Final[dict[str, str]] = {
    "Gemfile": "ruby",
    "Rakefile": "ruby",
    "Podfile": "ruby",
    "Vagrantfile": "ruby",
    "SConstruct": "python",
    "SConscript": "python",
    "PKGBUILD": "bash",
    ".bashrc": "bash",
    ".bash_profile": "bash",
    ".profile": "bash",
    ".zshrc": "bash",
    "Cargo.lock": "toml",
    "Pipfile": "toml",
    "poetry.lock": "toml",
    "uv.lock": "toml",
    "pdm.lock": "toml",
    ".babelrc": "json",
    ".eslintrc": "json",
    ".prettierrc": "json",
    "composer.lock": "json",
    ".clang-format": "yaml",
    ".clang-tidy": "yaml",
}

_INTERPRETERS: Final[dict[str, str]] = {
    "python": "python",
    "pypy": "python",
    "node": "javascript",
    "nodejs": "javascript",
    "deno": "typescript",
    "bun": "typescript",
    "ts-node": "typescript",
    "ruby": "ruby",
    "php": "php",
    "lua": "lua",
    "luajit": "lua",
    "sh": "bash",
    "bash": "bash",
    "zsh": "bash",
    "dash": "bash",
    "ksh": "bash",
    "scala": "scala",
    "kotlin": "kotlin",
    "swift": "swift",
}

_SHEBANG = re.compile(r"^#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+|\w+=\S*\s+)*)?(?:\S*/)?([A-Za-z-]+)")
_CPP_ONLY = re.compile(
    r"^\s*(?:class\s+\w+|namespace\s+\w+|template\s*<|using\s+(?:namespace\s+)?\w+|public:|private:|protected:)"
    r"|\bstd::|^\s*#\s*include\s*<(?:string|vector|map|memory|iostream|algorithm|utility|functional)>",
    re.MULTILINE,
)


def language_of(path: str, text: str = "") -> str:
    """Language of the file at `path`; `text` (a first part is enough) settles shebangs and C++ headers."""
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    if name in _NAMES:
        return _NAMES[name]
    stem, dot, extension = name.rpartition(".")
    if dot and stem:
        language = _EXTENSIONS.get(extension) or _EXTENSIONS.get(extension.lower())
        if extension in ("C", "H"):
            return "cpp"
        if language == "c" and extension == "h" and _CPP_ONLY.search(text[:65536]):
            return "cpp"
        if language is not None:
            if (
                language == "notebook"
            ):  # as stored it is JSON, as `text_hygiene.notebook_code` gives it Python
                return "json" if text.lstrip()[:1] == "{" else "python"
            return language
    if text.startswith("#!"):
        match = _SHEBANG.match(text[:256])
        if match:
            return _INTERPRETERS.get(match[1].lower(), "text")
    return "text"
