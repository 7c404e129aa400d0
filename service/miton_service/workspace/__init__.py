"""Open workspaces: which files, ignore rules, watching, open buffers, symbol graph, background memorising."""

from miton_service.workspace.errors import WorkspaceError
from miton_service.workspace.registry import Workspaces
from miton_service.workspace.sources import chunk_source, chunk_sources
from miton_service.workspace.workspace import Workspace

__all__ = ["Workspace", "WorkspaceError", "Workspaces", "chunk_source", "chunk_sources"]
