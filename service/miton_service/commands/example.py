"""The curl command that `miton serve` prints: it works when pasted, and asks for code of the first workspace."""

from __future__ import annotations

import json
import re
import shlex
import time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from miton_service.service import Service

if TYPE_CHECKING:
    from miton_lsp.chunking import Chunk
    from miton_service.workspace import Workspace

SCAN_S = 5.0  # how long to wait for the first look at the files; without it the example is a general one
SOURCE_ROOTS = ("src", "lib", "python")
PLAIN: dict[str, Any] = {
    "prompt": "def fibonacci(n):\n    ",
    "suffix": "\n\nprint(fibonacci(10))\n",
    "max_tokens": 64,
}


def curl_example(service: Service, url: str) -> str:
    """A command for a POSIX shell that asks this service for a completion."""
    body = next((found for w in service.workspaces.list() if (found := _call_of_a_function(w))), PLAIN)
    return f"curl {url}/v1/completions {_authorization(service)}-d {shlex.quote(json.dumps(body))}"


def _authorization(service: Service) -> str:
    if service.token is None:
        return ""
    if service.settings.token:
        return '-H "Authorization: Bearer $MITON_TOKEN" '
    return f'-H "Authorization: Bearer $(cat {shlex.quote(str(service.settings.token_file))})" '


def _call_of_a_function(workspace: Workspace) -> dict[str, Any] | None:
    """A new file that begins to call a function of the workspace: its arguments are known from the other file."""
    end = time.monotonic() + SCAN_S
    while not workspace.scanned and time.monotonic() < end:
        time.sleep(0.05)
    with workspace.lock:
        chunks = [chunk for state in workspace.files.values() for chunk in state.chunks]
    chosen = max((chunk for chunk in chunks if chunk.kind == "function"), key=_is_good_example, default=None)
    if chosen is None:
        return None
    call = f"{chosen.symbol}("
    if chosen.language == "python":
        buffer = f"from {_module(chosen.path)} import {chosen.symbol}\n\nresult = {call}"
    else:
        buffer = call
    path = PurePosixPath(chosen.path)
    lines = buffer.split("\n")
    return {
        "workspace": str(workspace.root),
        "path": str(path.with_name("example" + path.suffix)),
        "buffer": buffer,
        "cursor": {"line": len(lines) - 1, "character": len(lines[-1])},
        "max_tokens": 32,
    }


def _is_good_example(chunk: Chunk) -> tuple[bool, bool, int]:
    """Python code that is not a test, with a plain name and a handful of parameters."""
    parameters = re.search(re.escape(chunk.symbol) + r"\s*\(([^)]*)\)", chunk.text)
    count = len([name for name in parameters[1].split(",") if name.strip()]) if parameters else 0
    is_plain = chunk.symbol.isidentifier() and not chunk.symbol.startswith("_")
    return is_plain and "test" not in chunk.path, chunk.language == "python", min(count, 4)


def _module(path: str) -> str:
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts[0] in SOURCE_ROOTS and len(parts) > 1:
        parts = parts[1:]
    return ".".join(parts).removesuffix(".__init__")
