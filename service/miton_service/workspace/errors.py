"""The workspace's exceptions; the API answers them with status 400."""

from __future__ import annotations

from miton_service.errors import ApiError


class WorkspaceError(ApiError):
    """A workspace, a document or a place in a file cannot be used; the message says why."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message, code="workspace")
