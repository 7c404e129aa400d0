"""The languages with function-aligned chunks, as data: name -> LanguageSyntax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .syntax import PYTHON, LanguageSyntax

SYNTAX: Final[Mapping[str, LanguageSyntax]] = {"python": PYTHON}
