"""Symbols of files and of workspaces: definitions, imports, references, and what a name may mean."""

from __future__ import annotations

from .extraction import file_symbols
from .graph import SymbolGraph
from .model import Definition, FileSymbols, Import, Reference
from .ranking import Candidate

__all__ = ["Candidate", "Definition", "FileSymbols", "Import", "Reference", "SymbolGraph", "file_symbols"]
