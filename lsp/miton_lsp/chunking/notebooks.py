"""Jupyter notebooks (nbformat 4 and 3) as the code a person would read: cells in order, no outputs.

Cells are set apart by `# %%` lines as editors know them; prose cells and magics become comments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def notebook_code(text: str) -> str | None:
    """Code text of the notebook `text`; None if it is not one. Comments are written as in Python and R."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(notebook, dict):
        return None
    cells = notebook.get("cells")
    if cells is None:
        sheets = notebook.get("worksheets")
        first = sheets[0] if isinstance(sheets, list) and sheets else {}
        cells = first.get("cells") if isinstance(first, dict) else None
    if not isinstance(cells, list):
        return None
    return "\n".join(_cells(cells))


def _cells(cells: list[Any]) -> Iterator[str]:
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        source = cell.get("source", cell.get("input", ""))
        source = "".join(map(str, source)) if isinstance(source, list) else str(source)
        source = source.replace("\r\n", "\n").strip("\n")
        kind = cell.get("cell_type", "code")
        if not source:
            continue
        if kind == "code":
            yield "# %%\n" + "\n".join(map(_plain, source.split("\n"))) + "\n"
        else:
            yield f"# %% [{kind}]\n" + "\n".join(f"# {line}".rstrip() for line in source.split("\n")) + "\n"


def _plain(line: str) -> str:
    """Magics and shell lines are no Python: keep them as comments."""
    return f"# {line}" if line.lstrip().startswith(("%", "!")) else line
