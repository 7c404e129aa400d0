"""Printing for people and for programs."""

from __future__ import annotations

import json
from typing import Any


def print_json(data: Any) -> None:
    """JSON on stdout, readable, UTF-8."""
    print(json.dumps(data, indent=2, ensure_ascii=False))
