"""Why a file is not read into memory: secrets, binaries, sizes, generated text. Each reason is a short sentence."""

from __future__ import annotations

import re
from fnmatch import translate

from miton_lsp.chunking import binary_reason, skip_reason

MAX_FILE_BYTES = 1_000_000
MAX_LINE_BYTES = 20_000  # longer lines are minified or data

SECRET_NAMES = (
    *(".env", ".env.*", "*.env", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx"),
    *("*.ppk", "*.asc", "*.gpg", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".npmrc", ".yarnrc", ".netrc"),
    *("_netrc", ".pypirc", ".pgpass", ".htpasswd", ".git-credentials", ".dockercfg", ".boto", ".s3cfg"),
    *("credentials", "secrets", "*.tfstate", "*.tfstate.*", "*.tfvars", "service-account*.json"),
)  # fmt: skip
SECRET_STEMS = ("credentials", "secrets", "secret")  # as data, not as code: credentials.py is a module
DATA_SUFFIXES = (
    *("json", "yaml", "yml", "toml", "ini", "cfg", "conf", "txt", "xml", "csv", "properties", "enc", "bak"),
)  # fmt: skip
HARMLESS_NAMES = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub")
SECRET_DIRECTORIES = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure"})
LOCK_FILES = ("*.lock", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "bun.lockb", "go.sum")


def _any_of(patterns: list[str] | tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(translate(pattern) for pattern in patterns), re.IGNORECASE)


_SECRET = _any_of([*SECRET_NAMES, *(f"{stem}.{suffix}" for stem in SECRET_STEMS for suffix in DATA_SUFFIXES)])
_HARMLESS = _any_of(HARMLESS_NAMES)
_LOCK_FILE = _any_of(LOCK_FILES)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


def reason_by_name(path: str) -> str | None:
    """Why a file of this name is never opened, or None."""
    *parents, name = path.split("/")
    if any(part.lower() in SECRET_DIRECTORIES for part in parents):
        return "secret file: nothing in this directory is ever read"
    if _SECRET.match(name) and not _HARMLESS.match(name):
        return "secret file: files of this name are never read"
    if _LOCK_FILE.match(name):
        return "lock file: written by a package manager"
    return None


def reason_by_size(size: int) -> str | None:
    """Why a file of `size` bytes is not read, or None."""
    if size > MAX_FILE_BYTES:
        return f"too large: {size:,} bytes, the limit is {MAX_FILE_BYTES:,}"
    return None


def reason_by_bytes(data: bytes) -> str | None:
    """Why bytes are no text to memorise, or None."""
    return reason_by_size(len(data)) or binary_reason(data)


def reason_by_text(path: str, text: str) -> str | None:
    """Why a text is not memorised, or None. Whatever is a secret here must not be kept either."""
    if is_secret_text(text):
        return "secret file: it holds a private key"
    if not text.strip():
        return "empty"
    if max(map(len, text.split("\n"))) > MAX_LINE_BYTES:
        return f"minified: a line is longer than {MAX_LINE_BYTES:,} characters"
    return skip_reason(path, text)


def is_secret_text(text: str) -> bool:
    """Whether the text holds the header of a private key."""
    return _PRIVATE_KEY.search(text) is not None
