"""What the service can be told: command line, then MITON_* variables, then defaults. No heavy imports."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from miton_engine.models.registry import DEFAULT_MODEL
from miton_service.errors import SettingsError

DEFAULT_PORT = 8377
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def default_state_dir() -> Path:
    """Where the service keeps its own small files (the token): $XDG_STATE_HOME/miton."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "miton"


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of one service. Sizes are bytes; 0 threads means one per physical core."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    model: str = DEFAULT_MODEL
    workspaces: tuple[Path, ...] = ()
    cache_dir: Path = Path()
    state_dir: Path = Path()
    memory_bytes: int = 1 * GIB
    disk_bytes: int = 20 * GIB
    threads: int = 0
    token: str = ""
    require_token: bool = False
    max_body_bytes: int = 16 * MIB
    context_tokens: int = 2048
    log_level: str = "info"

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"port is {self.port}; it must be between 0 (any free port) and 65535.")
        if self.threads < 0:
            raise SettingsError(f"threads is {self.threads}; it must be 0 (one per core) or more.")
        if self.max_body_bytes < 64 * KIB:
            raise SettingsError(f"max_body_bytes is {self.max_body_bytes}; give at least 64KB.")
        if self.context_tokens < 0:
            raise SettingsError(
                f"context_tokens is {self.context_tokens}; it must be 0 (no context) or more."
            )
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise SettingsError(f"log_level is {self.log_level!r}; choose debug, info, warning or error.")

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK

    @property
    def needs_token(self) -> bool:
        """Beyond loopback a token is not optional."""
        return self.require_token or bool(self.token) or not self.is_loopback

    @property
    def state_directory(self) -> Path:
        return self.state_dir if self.state_dir != Path() else default_state_dir()

    @property
    def token_file(self) -> Path:
        return self.state_directory / "token"

    def url(self, port: int | None = None) -> str:
        """The address a client on this machine uses."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "") else "::1" if self.host == "::" else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{port or self.port}"

    def shown(self) -> dict[str, Any]:
        """The settings as JSON for people: the token never leaves the process."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["token"] = "set" if self.token else "not set"
        values["workspaces"] = [str(root) for root in self.workspaces]
        return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}


def load_settings(overrides: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> ServiceSettings:
    """Defaults, then MITON_* variables, then `overrides` that are not None. Raises `SettingsError`."""
    values: dict[str, Any] = {}
    for field in fields(ServiceSettings):
        variable = VARIABLES[field.name]
        if (text := environ.get(variable)) not in (None, ""):
            values[field.name] = _parse(field.name, str(text), variable)
    values.update({name: value for name, value in overrides.items() if value is not None})
    return replace(ServiceSettings(), **values)


VARIABLES = {
    "host": "MITON_HOST",
    "port": "MITON_PORT",
    "model": "MITON_MODEL",
    "workspaces": "MITON_WORKSPACES",
    "cache_dir": "MITON_CACHE",
    "state_dir": "MITON_STATE",
    "memory_bytes": "MITON_MEMORY",
    "disk_bytes": "MITON_DISK",
    "threads": "MITON_THREADS",
    "token": "MITON_TOKEN",
    "require_token": "MITON_REQUIRE_TOKEN",
    "max_body_bytes": "MITON_MAX_BODY",
    "context_tokens": "MITON_CONTEXT_TOKENS",
    "log_level": "MITON_LOG_LEVEL",
}


def parse_size(text: str) -> int:
    """Bytes from "512MB", "2 GiB", "1.5g" or a plain number; units are powers of 1024."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if match is None:
        raise ValueError('a size such as "512MB" or "2GB"')
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2] or " "))


def _parse(name: str, text: str, variable: str) -> Any:
    try:
        match name:
            case "port" | "threads" | "context_tokens":
                return int(text)
            case "memory_bytes" | "disk_bytes" | "max_body_bytes":
                return parse_size(text)
            case "require_token":
                return _boolean(text)
            case "workspaces":
                return tuple(Path(part).expanduser() for part in text.split(os.pathsep) if part)
            case "cache_dir" | "state_dir":
                return Path(text).expanduser()
            case "log_level":
                return text.lower()
            case _:
                return text
    except ValueError as error:
        expected = "a whole number" if "invalid literal" in str(error) else str(error)
        raise SettingsError(f"{variable} is {text!r}; give {expected}.") from None


def _boolean(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError("1 or 0")
