"""The curl command that `miton serve` prints: it works when pasted, on a real file where there is one."""

from __future__ import annotations

import json
from typing import Any

from miton_service.service import Service


def curl_example(service: Service, url: str) -> str:
    """A command for a POSIX shell that asks this service for a completion."""
    body: dict[str, Any] = {
        "prompt": "def fibonacci(n):\n    ",
        "suffix": "\n\nprint(fibonacci(10))\n",
        "max_tokens": 64,
    }
    return f"curl {url}/v1/completions {_authorization(service)}-d {shell_quoted(json.dumps(body))}"


def _authorization(service: Service) -> str:
    if service.token is None:
        return ""
    if service.settings.token:
        return '-H "Authorization: Bearer $MITON_TOKEN" '
    return f'-H "Authorization: Bearer $(cat {shell_quoted(str(service.settings.token_file))})" '


def shell_quoted(text: str) -> str:
    """One argument for a POSIX shell, whatever it holds."""
    return "'" + text.replace("'", "'\\''") + "'"
