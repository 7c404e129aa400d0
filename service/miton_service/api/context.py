"""POST /v1/context: what a completion or a question would have attached, and why, without generating."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from miton_service.api.recall import recall_at_cursor, recall_for_question
from miton_service.api.schemas import ContextRequest
from miton_service.errors import ApiError
from miton_service.service import Service


def router(service: Service) -> APIRouter:
    """The route."""
    routes = APIRouter()

    @routes.post("/v1/context")
    async def context(body: ContextRequest) -> dict[str, Any]:
        if body.question is None:
            recalled = await recall_at_cursor(service, body)
        elif body.workspace is None:
            raise ApiError(400, "`workspace` is missing; a question is about a workspace.", param="workspace")
        else:
            recalled = await recall_for_question(service, body.workspace, body.question, body.context_tokens)
        return {
            "workspace": recalled.workspace,
            "path": recalled.path,
            "context": [asdict(item) for item in recalled.items],
            "window": None if recalled.window is None else asdict(recalled.window),
            "tokens": sum(item.tokens for item in recalled.items),
            "timings": {"recall_ms": round(recalled.recall_ms, 1)},
        }

    return routes
