"""/v1/workspaces: open, list, close. /v1/documents: buffers that editors push; they win over the disk."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Query

from miton_service.api.schemas import DocumentReference, DocumentRequest, WorkspaceRequest
from miton_service.errors import ApiError
from miton_service.security import confine
from miton_service.service import Service
from miton_service.workspace import Workspace


def router(service: Service) -> APIRouter:
    """The routes."""
    routes = APIRouter()

    def snapshot(workspace: Workspace) -> dict[str, Any]:
        told = workspace.snapshot()
        remaining = told["tokens"] - told["indexed_tokens"]
        seconds = service.workspaces.seconds_left(workspace, remaining) if remaining else 0.0
        return {**told, "seconds_left": seconds}

    @routes.get("/v1/workspaces")
    async def workspaces() -> dict[str, Any]:
        snapshots = await asyncio.to_thread(lambda: [snapshot(w) for w in service.workspaces.list()])
        return {"object": "list", "data": snapshots}

    @routes.post("/v1/workspaces")
    async def open_workspace(body: WorkspaceRequest) -> dict[str, Any]:
        root = _root(body.root)
        workspace = await asyncio.to_thread(service.workspaces.open, root)
        return await asyncio.to_thread(snapshot, workspace)

    @routes.delete("/v1/workspaces")
    async def close_workspace(
        body: WorkspaceRequest | None = None, root: str | None = Query(None)
    ) -> dict[str, Any]:
        named = body.root if body is not None else root
        if named is None:
            raise ApiError(400, '`root` is missing; send {"root": DIR} or ?root=DIR.', param="root")
        workspace = service.workspace(named)
        await asyncio.to_thread(service.workspaces.close, workspace.root)
        return {"root": str(workspace.root), "closed": True}

    @routes.put("/v1/documents")
    async def put_document(body: DocumentRequest) -> dict[str, Any]:
        workspace = service.workspace(body.workspace)
        path = Path(body.path).as_posix()
        await asyncio.to_thread(confine, workspace.root, path)
        await asyncio.to_thread(
            service.workspaces.put_document, workspace.root, path, body.text, body.version
        )
        return {"workspace": str(workspace.root), "path": path, "version": body.version}

    @routes.delete("/v1/documents")
    async def drop_document(
        body: DocumentReference | None = None,
        workspace: str | None = Query(None),
        path: str | None = Query(None),
    ) -> dict[str, Any]:
        named = (body.workspace, body.path) if body is not None else (workspace, path)
        if named[0] is None or named[1] is None:
            raise ApiError(
                400, "`workspace` and `path` are needed, as a JSON body or in the query.", param="path"
            )
        opened = service.workspace(named[0])
        await asyncio.to_thread(service.workspaces.drop_document, opened.root, Path(named[1]).as_posix())
        return {"workspace": str(opened.root), "path": named[1], "dropped": True}

    return routes


def _root(text: str) -> Path:
    root = Path(text).expanduser()
    if not root.is_absolute():
        raise ApiError(400, f"`root` is {text!r}; give an absolute path.", param="root")
    if not root.is_dir():
        what = "is a file" if root.is_file() else "does not exist"
        raise ApiError(400, f"{root} {what}; open a directory.", param="root", code="not_a_directory")
    return root
