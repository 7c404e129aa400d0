"""What people and monitors ask: /health, /v1/models, /v1/status, /v1/requests, /metrics, the page at /."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse, JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from miton_service.errors import ApiError
from miton_service.request_log import KEPT
from miton_service.service import Service, version

DASHBOARD = Path(__file__).parent.parent / "dashboard"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def router(service: Service) -> APIRouter:
    """The routes."""
    routes = APIRouter()

    @routes.get("/health")
    async def health() -> Response:
        body: dict[str, Any] = {"status": "ok" if service.state == "ready" else service.state,
                                "service": "miton", "version": version()}  # fmt: skip
        if service.state == "loading":
            loading = service.loading
            body["loading"] = {"stage": loading.stage, "done": loading.done, "total": loading.total}
        if service.failure:
            body["message"] = service.failure
        return JSONResponse(body, 200 if service.state == "ready" else 503)

    @routes.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [_model(service)]}

    @routes.get("/v1/models/{model:path}")
    async def model(model: str) -> dict[str, Any]:
        served = _model(service)
        if model != served["id"]:
            raise ApiError(
                404, f"The model {model!r} is not loaded; this service serves {served['id']!r}. "
                f"Start another with `miton serve --model {model}`.", code="model_not_found", param="model",
            )  # fmt: skip
        return served

    @routes.get("/v1/status")
    async def status() -> dict[str, Any]:
        return await asyncio.to_thread(service.status)

    @routes.get("/v1/requests")
    async def requests(limit: int = Query(50, ge=1, le=KEPT)) -> dict[str, Any]:
        return {"object": "list", "data": [record.to_json() for record in service.requests.last(limit)]}

    @routes.get("/metrics")
    async def metrics() -> Response:
        text = await asyncio.to_thread(service.metrics.render)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    @routes.get("/", include_in_schema=False)
    async def page() -> Response:
        return _file("index.html")

    @routes.get("/dashboard/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        return _file(name)

    return routes


def _model(service: Service) -> dict[str, Any]:
    engine = service.engine
    return {
        "id": engine.model_name,
        "object": "model",
        "created": int(service.started),
        "owned_by": "miton",
        "context_length": engine.context_length,
        "fingerprint": engine.fingerprint,
    }


def _file(name: str) -> Response:
    path = DASHBOARD / name
    if path.parent != DASHBOARD or path.suffix not in TYPES or not path.is_file():
        raise ApiError(404, f"The status page has no file {name!r}.", code="not_found")
    headers = {"content-security-policy": PAGE_POLICY, "cache-control": "no-store"}
    return FileResponse(path, media_type=TYPES[path.suffix], headers=headers)
