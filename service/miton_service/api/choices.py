"""/v1/choices: what is attached always (a pin) or never (an exclusion)."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import APIRouter

from miton_service.api.schemas import ChoiceReference, ChoiceRequest
from miton_service.service import Service
from miton_service.workspace import Workspace


def router(service: Service) -> APIRouter:
    """The routes."""
    routes = APIRouter()

    @routes.get("/v1/choices")
    async def choices(workspace: str) -> dict[str, Any]:
        return _told(service.workspace(workspace))

    @routes.put("/v1/choices")
    async def choose(body: ChoiceRequest) -> dict[str, Any]:
        workspace = service.workspace(body.workspace)
        await asyncio.to_thread(workspace.choose, Path(body.path).as_posix(), body.symbol, body.kind)
        return _told(workspace)

    @routes.delete("/v1/choices")
    async def take_back(body: ChoiceReference) -> dict[str, Any]:
        workspace = service.workspace(body.workspace)
        await asyncio.to_thread(workspace.choose, Path(body.path).as_posix(), body.symbol, None)
        return _told(workspace)

    return routes


def _told(workspace: Workspace) -> dict[str, Any]:
    return {
        "workspace": str(workspace.root),
        "choices": [asdict(choice) for choice in workspace.choices.all()],
    }
