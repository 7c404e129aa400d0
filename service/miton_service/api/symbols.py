"""POST /v1/symbols: what a name means at a file of a workspace, and where it is used."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fastapi import APIRouter

from miton_service.api.schemas import SymbolRequest
from miton_service.service import Service
from miton_service.workspace import Workspace

MAX_DEFINITIONS, MAX_USERS = 8, 50
SIGNATURE_LINES = 3


def router(service: Service) -> APIRouter:
    """The route."""
    routes = APIRouter()

    @routes.post("/v1/symbols")
    async def symbols(body: SymbolRequest) -> dict[str, Any]:
        workspace = service.workspace(body.workspace)
        return await asyncio.to_thread(_meaning, workspace, Path(body.path).as_posix(), body.name)

    return routes


def _meaning(workspace: Workspace, path: str, name: str) -> dict[str, Any]:
    with workspace.lock:
        candidates = workspace.graph.scored_candidates(path, {name: 1.0})[:MAX_DEFINITIONS]
        definitions = [
            {
                "path": candidate.path,
                "symbol": candidate.definition.symbol,
                "kind": candidate.definition.kind,
                "start_line": candidate.definition.start_line,
                "end_line": candidate.definition.end_line,
                "signature": _signature(workspace, candidate.path, candidate.definition.start_line),
                "reason": candidate.reason,
            }
            for candidate in candidates
        ]
        users = sorted(workspace.graph.users_of(name))
    return {"name": name, "definitions": definitions, "used_in": users[:MAX_USERS], "users": len(users)}


def _signature(workspace: Workspace, path: str, line: int) -> str:
    """The definition's first line, and what follows while brackets are open."""
    state = workspace.files.get(path)
    lines = state.text.split("\n")[line : line + SIGNATURE_LINES] if state is not None else []
    taken: list[str] = []
    for text in lines:
        taken.append(text)
        joined = "\n".join(taken)
        if joined.count("(") <= joined.count(")"):
            break
    return "\n".join(taken).strip()
